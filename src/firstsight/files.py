"""Writing files so that a full disk or a killed process never leaves half of one, and where caches live."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from firstsight.errors import CannotWrite


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path`; on success it takes its place in one step, on failure it vanishes."""
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb") as written:  # the bytes must be on the disk before the name points at them
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        reason = error.strerror or error
        raise CannotWrite(
            f"Could not write {path} ({reason}); what was there before is untouched. "
            "Free some space or choose another place."
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_atomically(path: str | Path, content: str | bytes | Callable[[Path], object]) -> None:
    """Write text, bytes, or whatever a function writes to the path it is given."""
    with atomic_path(path) as temporary:
        if callable(content):
            content(temporary)
        elif isinstance(content, str):
            temporary.write_text(content, encoding="utf-8", newline="\n")  # the same bytes on every system
        else:
            temporary.write_bytes(content)


def leftovers(folder: str | Path, of: str | None = None) -> list[Path]:
    """Files that writes which were killed have left in a folder (those of the file `of` alone, if it is given).

    Only what has the very form of `atomic_path`'s names: an editor's swap file is somebody else's.
    """
    form = re.compile(rf"\.({'.+' if of is None else re.escape(of)})\.[a-z0-9_]{{8}}(\.[^.]*)?")
    found = [(path, form.fullmatch(path.name)) for path in sorted(Path(folder).glob(".*"))]
    return [path for path, name in found if name and (name[2] or "") == Path(name[1]).suffix and path.is_file()]


def cache_folder() -> Path:
    """`$FIRSTSIGHT_CACHE`, else the user's cache folder."""
    if chosen := os.environ.get("FIRSTSIGHT_CACHE"):
        return Path(chosen)
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # containers run users without a home
        home = Path(tempfile.gettempdir())
    return home / "firstsight"


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
