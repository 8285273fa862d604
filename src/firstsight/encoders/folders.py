"""Which files of a folder are pictures, and of which class."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from firstsight.errors import BadInput, UnreadableFile

SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".avif")


def find_pictures(folder: str | Path) -> tuple[list[Path], list[str] | None]:
    """The pictures of a folder, sorted by path, and the class of each: the name of its sub-folder.

    Classes are None for a folder that holds its pictures directly. Pictures deeper down belong to the sub-folder
    at the top; links are followed, hidden files left out. A single picture is a folder of one.
    """
    folder = Path(folder)
    if folder.is_file():
        if folder.suffix.lower() not in SUFFIXES:
            raise BadInput(
                f"{folder} is neither a folder nor a picture ({', '.join(SUFFIXES[:5])}, …); check the path."
            )
        return [folder], None
    if not folder.is_dir():
        raise UnreadableFile(f"There is no folder {folder}; check the path.")
    paths = sorted(path for path in _files(folder) if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise BadInput(
            f"{folder} holds no pictures ({', '.join(SUFFIXES[:5])}, …), neither directly nor in sub-folders; give "
            "a folder of pictures, or one with a sub-folder per class."
        )
    tops = [path.relative_to(folder).parts[0] if path.parent != folder else None for path in paths]
    if not any(tops):
        return paths, None
    if None in tops:
        stray = paths[tops.index(None)]
        raise BadInput(
            f"{folder} holds pictures both directly ({stray.name}, for one) and in sub-folders, so their classes are "
            "unclear; put every picture into the sub-folder of its class, or all of them directly into one folder."
        )
    return paths, [str(top) for top in tops]


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder, followlinks=True):
        here = Path(root).resolve()
        # A link to a folder that it lies in would lead in circles.
        folders[:] = [f for f in folders if not f.startswith(".") and (here / f).resolve() not in (here, *here.parents)]
        yield from (Path(root, name) for name in files if not name.startswith("."))
