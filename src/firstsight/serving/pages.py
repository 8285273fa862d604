"""Static files of the web app, the API page and the report page."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from firstsight._io.terminal import logger, visible
from firstsight.errors import FirstsightError
from firstsight.serving.wire_schema import Refusal

# Files that are sent unchanged: the page, and a report. Found by exact name: no path of a request reaches the disk.
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
def index() -> Response:
    return file_answer(page(), "index.html")


@router.get("/favicon.ico")
def icon() -> Response:
    """What browsers ask for on pages that name none, such as the report."""
    return file_answer(page(), "icon.svg")


@router.get("/page/{name:path}")
def page_file(name: str) -> Response:
    return file_answer(page(), name)


def page() -> dict[str, Traversable]:
    """The files of the page, those that it shares with reports under `parts/`.

    Listed each time, so that an edited file is served without a restart.
    """
    parts = find_files(files("firstsight.web") / "parts")
    return find_files(files("firstsight.web") / "app") | {f"parts/{name}": file for name, file in parts.items()}


# The page of the API follows its OpenAPI document: nothing is loaded from another host, no script runs.
_DEPTH = 3  # of fields within fields


@router.get("/docs")
def docs(request: Request) -> Response:
    return HTMLResponse(api_html(request.app.openapi()))


def api_html(document: dict[str, Any]) -> str:
    """Every route with what it takes and gives, as one page."""
    info = document["info"]
    routes = [
        (path, method, route)
        for path, methods in document["paths"].items()
        for method, route in methods.items()
        if isinstance(route, dict) and "responses" in route
    ]
    contents = "".join(
        f'<li><a href="#{_anchor(path, method)}"><b>{method.upper()}</b> {escape(path)}</a></li>'
        for path, method, _ in routes
    )
    introduction = "".join(f"<p>{_sentence(part)}</p>" for part in info["description"].split("\n\n"))
    refusals = "".join(
        f"<dt>{code}</dt><dd>{escape(answer['description'])}</dd>"
        for code, answer in routes[0][2]["responses"].items()
        if not code.startswith("2")
    )
    sections = "".join(_section(document, path, method, route) for path, method, route in routes)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>The API of firstsight</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="/page/icon.svg"><link rel="stylesheet" href="/page/parts/tokens.css">'
        '<link rel="stylesheet" href="/page/api.css"></head><body><main>'
        f"<h1>The API of {escape(info['title'])} {escape(info['version'])}</h1>{introduction}"
        '<p>For programs: <a href="/openapi.json">/openapi.json</a>. For people: <a href="/">the page</a>.</p>'
        f'<nav aria-label="Routes"><ul>{contents}</ul></nav>'
        f"<section><h2>When it says no</h2><dl>{refusals}</dl></section>{sections}</main></body></html>"
    )


def _section(document: dict[str, Any], path: str, method: str, route: dict[str, Any]) -> str:
    takes = [
        (
            f"{field['name']} ({field['in']})",
            field["schema"],
            field.get("description", ""),
            field.get("required", False),
        )
        for field in route.get("parameters", [])
    ]
    content = route.get("requestBody", {}).get("content", {})
    for body in content.values():
        takes += _fields(document, body["schema"])
    kind = f"<p>Takes <code>{escape(next(iter(content)))}</code>.</p>" if content else ""
    example = escape(_example(document, path, method, route))
    return (
        f'<section id="{_anchor(path, method)}"><h2><b>{method.upper()}</b> {escape(path)}</h2>'
        f"<p>{_sentence(route.get('description', ''))}</p>{kind}{_table('It takes', takes)}"
        f"<pre><code>{example}</code></pre>{_answers(document, route)}</section>"
    )


def _answers(document: dict[str, Any], route: dict[str, Any]) -> str:
    answers: dict[str, dict[str, Any]] = route["responses"]
    status, good = next(item for item in answers.items() if item[0].startswith("2"))
    content = good.get("content", {})
    gives = [field for body in content.values() for field in _fields(document, body.get("schema", {}))]
    kinds = ", ".join(f"<code>{escape(kind)}</code>" for kind in content) or "nothing"
    return f"<p>Answers {status} with {kinds}.</p>{_table('It gives', gives)}"


def _fields(
    document: dict[str, Any], schema: dict[str, Any], before: str = "", depth: int = 0
) -> Iterator[tuple[str, dict[str, Any], str, bool]]:
    """Name, schema, meaning and need of every field, fields of inner objects as `outer.inner`."""
    schema = _resolved(document, schema)
    for name, field in schema.get("properties", {}).items():
        inner = _resolved(document, field)
        needed = name in schema.get("required", [])
        yield before + name, inner, field.get("description") or inner.get("description", ""), needed
        many = inner.get("type") == "array"
        if depth < _DEPTH:
            below = inner.get("items", {}) if many else inner
            yield from _fields(document, below, f"{before}{name}{'[]' if many else ''}.", depth + 1)


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """The schema that a reference leads to, or the one of several that is not null."""
    if "anyOf" in schema:
        schema = next((part for part in schema["anyOf"] if part.get("type") != "null"), schema)
    if "$ref" not in schema:
        return schema
    named: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    return named


def _table(title: str, fields: list[tuple[str, dict[str, Any], str, bool]]) -> str:
    if not fields:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(_kind(schema))}{' (needed)' if needed else ''}</td>"
        f"<td>{escape(meaning.splitlines()[0] if meaning else '')}</td></tr>"
        for name, schema, meaning, needed in fields
    )
    heading = "<tr><th>field</th><th>kind</th><th>meaning</th></tr>"
    return f'<div class="wide"><table><caption>{title}</caption>{heading}{rows}</table></div>'


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema or "const" in schema:
        return " | ".join(map(str, schema.get("enum", [schema.get("const")])))
    kind = "file" if schema.get("format") == "binary" or "contentMediaType" in schema else schema.get("type", "any")
    default = schema.get("default")
    return f"{kind}, else {str(default).lower()}" if default not in (None, "", [], {}) else str(kind)


def _example(document: dict[str, Any], path: str, method: str, route: dict[str, Any]) -> str:
    server = "http://127.0.0.1:8000"
    if method == "get":
        return f"curl {server}{path}"
    content = next(iter(route.get("requestBody", {}).get("content", {"": {}})))
    change = " -H 'X-Firstsight: 1'" if path.startswith(("/api/classes", "/api/confirm")) else ""
    if content.startswith("multipart"):
        names = [name for name, _, _, needed in _fields(document, route["requestBody"]["content"][content]["schema"])
                 if needed and "." not in name]  # fmt: skip
        forms = " ".join(f"-F {name}=@picture.png" if name.startswith("picture") else f"-F {name}=…" for name in names)
        return f"curl{change} {forms} {server}{path}"
    if content.startswith("image"):
        return f"curl --data-binary @picture.png {server}{path}"
    body = " --json '{…}'" if content else ""
    return f"curl -X POST{change}{body} {server}{path}"


def _sentence(text: str) -> str:
    """Text whose `words` are code."""
    parts = escape(" ".join(text.split())).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def _anchor(path: str, method: str) -> str:
    return escape(f"{method}{path}".replace("/", "-").replace("{", "").replace("}", "").replace(".", "-"))


class ReportPage:
    """The report of benchmark records, drawn by a thread after the first request, in a temporary folder."""

    def __init__(self, records: str):
        self.records = records
        self.trouble: str | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="firstsight-report-")
        self._thread: threading.Thread | None = None
        self._files: dict[str, Traversable] | None = None
        self._lock = threading.Lock()

    def state(self) -> Literal["making", "ready", "failed"]:
        """How far it is; the first call starts it."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._make, name="report", daemon=True)
                self._thread.start()
        return "failed" if self.trouble else "making" if self._files is None else "ready"

    def files(self) -> dict[str, Traversable]:
        """The files of the finished report, by name."""
        if self.state() != "ready" or self._files is None:
            raise Refusal(503, self.trouble or "The report is being drawn; come back in a minute.", Retry_After="10")
        return self._files

    def close(self) -> None:
        self._folder.cleanup()

    def _make(self) -> None:
        from firstsight.reporting import report  # matplotlib takes seconds to import

        try:
            page = report(self.records, Path(self._folder.name) / "report")
            self._files = find_files(page.parent)
        except FirstsightError as error:
            self.trouble = "The report cannot be made from these records; the log says why."
            logger.warning("%s", visible(str(error)))
