"""Which files of a folder a report wrote, so that the next one can remove those that it no longer has.

The list is the file `.firstsight-report` in the folder, with lines such as `sha256sum` writes. Only what it names, and
what still has the content that was written, is ever removed or replaced: a file that someone has changed or put there
stays.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from firstsight.errors import CannotWrite
from firstsight.files import read_regular, write_atomically

NAME = ".firstsight-report"
# Names are a report's own: a list that someone has tampered with leads to no other folder.
_LINE = re.compile(r"([0-9a-f]{64})  (index\.html|(?:tables|figures)/[^/\\]+)")
Written = set[tuple[str, str]]  # digest and name; of a name with two digests, a kill has left one or the other


@contextmanager
def replacing(folder: Path, contents: Mapping[str, str | bytes]) -> Iterator[None]:
    """While the body writes `contents` into `folder`: afterwards, files of an earlier report are gone.

    The list names old and new files until all are in place, so that after a kill the next report knows of both.
    """
    old, new = _read(folder), {(_digest(content), name) for name, content in contents.items()}
    for name in contents:
        _refuse_to_lose(folder, name, old | new)
    _write(folder, old | new)
    yield
    kept = {name.lower() for name in contents}  # some file systems do not tell A from a
    for digest, name in sorted(old):
        if name.lower() not in kept and _is_ours(folder, name, digest):
            _remove(folder / name)
    _write(folder, new)


def refuse_foreign_page(folder: Path) -> None:
    """Find out before the drawing begins that the folder holds somebody else's page."""
    _refuse_to_lose(folder, "index.html", _read(folder))


def _refuse_to_lose(folder: Path, name: str, written: Written) -> None:
    known = [digest for digest, other in written if other == name]
    if os.path.lexists(folder / name) and not any(_is_ours(folder, name, digest) for digest in known):
        raise CannotWrite(
            f"{folder / name} is not as a report wrote it, and would be lost; choose another --out, or move it away."
        )


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise CannotWrite(
            f"The report is complete, but {path} of an earlier one could not be removed ({error.strerror}); remove it."
        ) from None


def _is_ours(folder: Path, name: str, digest: str) -> bool:
    """Whether the file is still what was written, in the folder itself and not behind a link."""
    path = folder / name
    try:
        own = os.path.join(os.path.realpath(folder), name)
        return os.path.realpath(path) == own and _digest(read_regular(path)) == digest
    except OSError:
        return False


def _digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def _read(folder: Path) -> Written:
    try:
        lines = read_regular(folder / NAME).decode().splitlines()
    except (OSError, UnicodeDecodeError):  # no list, or none of ours: nothing is known to be a report's
        return set()
    return {(match[1], match[2]) for match in map(_LINE.fullmatch, lines) if match}


def _write(folder: Path, written: Written) -> None:
    lines = sorted(f"{digest}  {name}" for digest, name in written)
    write_atomically(folder / NAME, "\n".join(lines) + "\n")
