"""Folders that several processes read and replace atomically.

A new folder is made beside the old one and takes its place in one step. Writers hold a lock on the folder itself, so
that nothing is left beside it; who waited finds another folder in its place and locks that one instead. What a killed
process left under a hidden name is removed by the next writer.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from glob import escape
from pathlib import Path

from safetensors import SafetensorError

from firstsight._io.files import lock, open_regular, remove_stale, temporary_beside
from firstsight.errors import CannotWrite

ATTEMPTS = 200  # to read a folder that is replaced again and again; each takes less than a millisecond


def resolve_place(folder: Path) -> Path:
    """The folder itself: what a link leads to is replaced, not the link."""
    try:
        return folder.resolve()
    except (OSError, RuntimeError) as error:  # a link that leads to itself
        raise CannotWrite(f"{folder} leads nowhere ({error}); choose another place.") from error


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Alone with a folder, among all who ask this way; a folder that does not exist yet needs no lock."""
    if not folder.exists():
        _bring_back(folder)
    handle: int | None = None
    try:
        while folder.is_dir():
            handle = _open_locked(folder)
            if handle is None or _is_at(handle, folder):
                break
            _close(handle)
        yield
    finally:
        _close(handle)


def read_together(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """The content of files that belong together; what is missing is left out.

    Both files are opened in the same folder, whatever takes its place meanwhile. A folder that vanished while its
    files were being opened has been replaced: then the new one is read.
    """
    names = list(names)
    if os.open not in os.supports_dir_fd:
        return {name: (folder / name).read_bytes() for name in names if (folder / name).is_file()}
    for attempt in range(ATTEMPTS):
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.001)  # where folders are exchanged in two steps, there is a moment without
            continue
        try:
            contents = _read_from(handle, names)
            if len(contents) == len(names) or _is_at(handle, folder):
                return contents
        finally:
            os.close(handle)
    raise OSError(f"{folder} is being replaced all the time")


def replace_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Make a folder by `fill(empty folder)` and put it in place; the old one stays until the new one is complete."""
    scratch = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        remove_stale(folder)
        name = temporary_beside(folder)
        name.mkdir()  # unlike tempfile's, with the rights that the umask gives
        scratch = name
        fill(scratch)
        _as_others_are(scratch)
        _take_place(scratch, folder)
        for left in folder.parent.glob(_old_name(escape(folder.name), "*")):
            shutil.rmtree(left, ignore_errors=True)  # of a process that was killed between two steps
    except (OSError, SafetensorError) as error:
        raise CannotWrite(
            f"Could not write the model to {folder} ({getattr(error, 'strerror', None) or error}); what was there "
            "before is untouched. Free some space or choose another place."
        ) from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)  # half a model, or the old one


def _read_from(handle: int, names: list[str]) -> dict[str, bytes]:
    with contextlib.ExitStack() as stack:
        files = {}
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                files[name] = stack.enter_context(os.fdopen(open_regular(name, handle), "rb"))
        return {name: file.read() for name, file in files.items()}


def _as_others_are(scratch: Path) -> None:
    """Bytes on the disk before the name points at them, and the rights of ordinary files (safetensors' are 0600)."""
    probe = os.open(scratch / ".probe", os.O_CREAT | os.O_WRONLY, 0o666)
    mode = os.fstat(probe).st_mode & 0o777
    os.close(probe)
    (scratch / ".probe").unlink()
    for file in scratch.iterdir():
        file.chmod(mode)
        with file.open("rb") as written:
            os.fsync(written.fileno())


def _take_place(scratch: Path, folder: Path) -> None:
    """Put the finished folder where the old one is; the old one is then in `scratch` or gone."""
    if not folder.exists():
        try:
            scratch.rename(folder)
            return
        except OSError:
            if not folder.exists():  # else somebody was faster, and is replaced
                raise
    if _exchange(scratch, folder):
        return
    # Two steps: a process killed between them leaves the old model under a hidden name beside `folder`.
    old = folder.with_name(_old_name(folder.name, secrets.token_hex(4)))
    old.mkdir()
    try:
        folder.rename(old / folder.name)
        scratch.rename(folder)
    except BaseException:  # Ctrl-C, too
        if not folder.exists():
            (old / folder.name).rename(folder)
        raise
    finally:
        if folder.exists():  # else the only model is in there
            shutil.rmtree(old, ignore_errors=True)


def _bring_back(folder: Path) -> None:
    """Put in place again what a process that ended between the two steps has left under a hidden name."""
    for left in folder.parent.glob(_old_name(escape(folder.name), "*")):
        handle = _open_locked(left / folder.name)  # waits for a writer who is still at it
        try:
            if handle is not None and not folder.exists():
                (left / folder.name).rename(folder)
        except OSError as error:
            raise CannotWrite(
                f"{folder} was being replaced when a process ended, and {left / folder.name} cannot be put back "
                f"({error.strerror}); move it there."
            ) from error
        finally:
            _close(handle)


def _old_name(name: str, end: str) -> str:
    return f".{name}.old.{end}"


def _exchange(first: Path, other: Path) -> bool:
    """Swap two folders in one step, so that no moment is without either; False where the system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2  # Linux; Python has no name for it
    except (AttributeError, OSError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(renameat2(here, os.fsencode(first), here, os.fsencode(other), exchange) == 0)


def _open_locked(folder: Path) -> int | None:
    """A handle that holds the folder's lock; None where folders have no locks or the folder is gone."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (OSError, AttributeError):  # Windows opens no folders
        return None
    lock(handle)
    return handle


def _is_at(handle: int, folder: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(folder))
    except OSError:
        return False


def _close(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)  # which lets go of the lock
