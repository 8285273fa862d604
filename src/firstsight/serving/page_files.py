"""Files that go out as they are: the page, and a report. Known by exact name: no path of a request reaches the disk."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from firstsight.serving.json_answers import Refusal

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".tex": "text/plain; charset=utf-8",
}
router = APIRouter(include_in_schema=False)


def find_files(folder: Traversable) -> dict[str, Traversable]:
    """Every file that may go out, by its path within the folder."""
    files: dict[str, Traversable] = {}
    if folder.is_dir():
        for entry in folder.iterdir():
            if entry.is_dir():
                files |= {f"{entry.name}/{name}": file for name, file in find_files(entry).items()}
            elif Path(entry.name).suffix in TYPES:
                files[entry.name] = entry
    return files


def file_answer(known: Mapping[str, Traversable], name: str) -> Response:
    """The file of that name, or the sentence that there is none."""
    if name not in known:
        raise Refusal(404, "There is no such page; /docs lists what there is.")
    return Response(known[name].read_bytes(), media_type=TYPES[Path(name).suffix])


@router.get("/")
def index() -> Any:
    return file_answer(page(), "index.html")


@router.get("/favicon.ico")
def icon() -> Any:
    """What browsers ask for on pages that name none, such as the report."""
    return file_answer(page(), "icon.svg")


@router.get("/page/{name:path}")
def page_file(name: str) -> Any:
    return file_answer(page(), name)


def page() -> dict[str, Traversable]:
    """The files of the page, those that it shares with reports under `parts/`.

    Looked for each time, so that whoever works on it need not start anew.
    """
    parts = find_files(files("firstsight.page_parts"))
    return find_files(files("firstsight.serving") / "page") | {f"parts/{name}": file for name, file in parts.items()}
