"""Files: atomic writes, locks, bounded reads of regular files, cache folders."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from firstsight.errors import CannotWrite, UnreadableFile

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # the beginning of a cell that a spreadsheet runs; or of one marked as text


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path`; on success it takes its place in one step, on failure it vanishes.

    A link is written through, not replaced. What killed writers to the same path left behind is removed.
    """
    path = Path(path)
    temporary = None
    try:
        if path.is_symlink():
            path = Path(os.path.realpath(path))
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise OSError(0, "it is a folder, a device or a link to itself, not a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_stale(path)
        name = temporary_beside(path)
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        temporary = name
        mode = stat.S_IMODE(temporary.stat().st_mode)  # what the umask leaves of 0666
        yield temporary
        temporary.chmod(mode)  # some writers put a private file of their own in its place
        _sync(temporary)  # the bytes must be on the disk before the name points at them
        temporary.replace(path)
        with suppress(OSError):  # not every file system can; the file itself is complete in any case
            _sync(path.parent)
    except CannotWrite:  # of another file, which the caller writes meanwhile
        raise
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


def temporary_beside(path: str | Path) -> Path:
    """A free hidden name beside `path`, for a file or a folder, that tells which process it belongs to."""
    path = Path(path)
    return path.parent / f"{_mark(path)}{os.getpid()}-{secrets.token_hex(4)}{path.suffix[:20]}"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A private folder among the system's temporary ones; what killed processes left of such is removed.

    Not before a day has passed: containers may share that place, and none knows of another's processes.
    """
    path = Path(tempfile.gettempdir()) / "firstsight"
    remove_stale(path, seconds=86_400)
    with tempfile.TemporaryDirectory(prefix=f"{_mark(path)}{os.getpid()}-") as folder:
        yield Path(folder)


def remove_stale(path: str | Path, seconds: float = 0.0) -> None:
    """Remove temporary files and folders of `path` whose process, of this machine, has ended.

    Those that were changed within so many `seconds` stay.
    """
    _remove_stale(Path(path).parent, _mark(Path(path)), seconds)


def remove_all_stale(folder: Path) -> None:
    """Remove the temporary files of all paths in a folder whose process, of this machine, has ended."""
    _remove_stale(folder, ".", 0.0)


def _remove_stale(folder: Path, mark: str, seconds: float) -> None:
    with suppress(OSError):  # cleaning up is a courtesy; where it cannot be done, the work continues
        for left in folder.iterdir():
            owner = _OWNER.match(left.name)
            if not left.name.startswith(mark) or not owner or owner[1] != _machine() or _lives(int(owner[2])):
                continue
            with suppress(OSError):
                # A clock that was put back makes files of the future; without a limit of age, that does not matter.
                if not seconds or time.time() - left.lstat().st_mtime >= seconds:
                    shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


def lock(handle: int, wait: bool = True) -> bool | None:
    """Lock an open file or folder until it is closed or its process ends, however it ends.

    True: locked. False: another process has the lock, and `wait` is off. None: this system or disk has no such locks,
    and the caller continues as if alone.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def require_file(path: str | Path) -> Path:
    """`path`, if it is a regular file: opening a pipe waits for ever, and a device never ends."""
    path = Path(path)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UnreadableFile(f"{path} does not exist; check the path.") from error
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL character
        reason = getattr(error, "strerror", None) or error
        raise UnreadableFile(f"{path} cannot be opened ({reason}); check the path and its permissions.") from error
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise UnreadableFile(f"{path} must be a regular file, but is {what}; give a file.")
    return path


def open_regular(path: str | Path, dir_fd: int | None = None) -> int:
    """A descriptor to read from; OSError for anything but a regular file, and no waiting for a pipe's other end."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags, dir_fd=dir_fd)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return handle


def read_regular(path: str | Path) -> bytes:
    """The content of a regular file; OSError for anything else."""
    with open(open_regular(path), "rb") as file:
        content: bytes | None = file.read()
    if content is None:  # some files of the system have nothing to say yet, and are not waited for
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), os.fspath(path))
    return content


class Allowance:
    """How many bytes one file may unpack to: 100 times its size, and 64 MiB whatever its size.

    Compressed features of doubles unpack to two to four times the file, ones and zeros kept as doubles to fifty times;
    a thousand times, which deflate reaches on one repeated byte, is an attack or a mistake. Everything is asked for
    before it is read, and what was granted is never given back.
    """

    def __init__(self, path: str | Path):
        self._path = Path(path)
        self._size = self._path.stat().st_size
        self._left = 100 * self._size + (64 << 20)

    def take(self, count: int, what: str) -> None:
        """Ask for `count` bytes for `what`."""
        self._left -= count
        if count < 0 or self._left < 0:
            raise UnreadableFile(
                f"{what} in {self._path} claims {count:,} bytes, too much for a file of {self._size:,}; it is damaged "
                "or not what it seems: get it again."
            )


def text_of_name(name: str) -> str:
    """A file's name as text that can be written anywhere: bytes that are not UTF-8 become \\x..."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def name_problem(name: str) -> str | None:
    """Why a name cannot be kept as it is, by NumPy or in a file; None if it can."""
    if name.endswith("\0"):
        return "ends in the character NUL, which NumPy cuts off"
    if any("\ud800" <= character <= "\udfff" for character in name):
        return "contains half a character (a lone surrogate), which no file can hold"
    return None


def csv_text(cell: str) -> str:
    """A cell of a CSV file: spreadsheets run what begins with = + - @, so an apostrophe precedes it.

    Numbers stay as they are. `csv_name` takes the apostrophe off again.
    """
    if not _FORMULA.match(cell):
        return cell
    with suppress(ValueError):
        float(cell)
        return cell
    return "'" + cell


def csv_name(cell: str) -> str:
    """What `csv_text` was given."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def csv_of(table: pd.DataFrame, index: bool = False) -> str:
    """A table as CSV, with its index if so wished: every text, in the heading as well, is written by `csv_text`."""
    safe = table.reset_index() if index else table.copy(deep=False)
    for position, dtype in enumerate(safe.dtypes):
        if dtype.kind not in "fiub":
            cells = [csv_text(cell) if isinstance(cell, str) else cell for cell in safe.iloc[:, position]]
            safe.isetitem(position, cells)
    return safe.set_axis([csv_text(str(name)) for name in safe.columns], axis=1).to_csv(
        index=False, lineterminator="\n"
    )


def cache_folder() -> Path:
    """`$FIRSTSIGHT_CACHE`, else the user's cache folder."""
    if chosen := os.environ.get("FIRSTSIGHT_CACHE"):
        return Path(chosen)
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # containers run users without a home
        home = Path(tempfile.gettempdir())
    return home / "firstsight"


_OWNER = re.compile(r"\..*\.([0-9a-f]{6})-(\d+)-\w{8}")  # of a temporary name: machine and process


def _mark(path: Path) -> str:
    """How temporary names beside `path` begin; another machine's process numbers mean nothing on this one."""
    name = path.name.encode(errors="surrogateescape")[:150].decode(errors="ignore")  # names end at 255 bytes
    return f".{name}.{_machine()}-"


def _machine() -> str:
    return hashlib.sha256(platform.node().encode()).hexdigest()[:6]


def _lives(process: int) -> bool:
    if os.name == "nt":
        return True  # there, signal 0 is no question but Ctrl-C
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
