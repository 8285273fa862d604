"""Counts what a process does to the files of a folder and, at the n-th time, kills it or fails as a disk does.

    disturb(folder, at=7)                     # dies at the seventh operation: half of a write is on the disk
    disturb(folder, at=7, error=errno.EIO)    # the seventh fails, and nothing else
    disturb(folder, at=7, error=errno.ENOSPC) # the seventh fails, and whatever is written afterwards: a full disk

Python's audit events tell of opening, renaming, making and removing, whoever does it; writes are counted where their
bytes leave Python. There is no way back, so this is for a forked child that ends soon.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import safetensors.numpy
import safetensors.torch
from safetensors import SafetensorError

from firstsight._io import folders as folder_exchange

# Removing is what a program does about an error: a disk that is full lets go of files.
_REMOVALS = ("os.remove", "os.rmdir", "shutil.rmtree")
_EVENTS = ("os.rename", "os.mkdir", "os.chmod", "os.link", "os.symlink", "os.truncate", *_REMOVALS)
_NEED_SPACE = ("open", "write", "os.mkdir", "fsync")  # a full disk lets rename
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_open = io.open


class Disturbance:
    """The count so far (`seen`, by kind of operation), and what happens at number `at` (0: nothing ever)."""

    def __init__(self, folder: Path, at: int, error: int | None):
        self.folder, self.at, self.error = os.path.realpath(folder), at, error
        self.seen: Counter[str] = Counter()
        self._inside = False

    def concerns(self, path: Any, handle: Any = -1) -> bool:
        """Whether a path, as an audit event tells it, is one of the folder's."""
        if isinstance(path, int):
            return False
        if isinstance(handle, int) and handle >= 0:
            path = os.path.join(os.readlink(f"/proc/self/fd/{handle}"), os.fsdecode(path))
        path = os.path.abspath(os.fsdecode(path))
        return path == self.folder or path.startswith(self.folder + os.sep)

    def happens(self, kind: str, half: Any = lambda: None) -> None:
        """One more operation. `half` does half of it, for one that can be cut in the middle."""
        if self.error is not None and kind in _REMOVALS:
            return
        self.seen[kind] += 1
        count = self.seen.total()
        full = self.error == errno.ENOSPC and 0 < self.at < count and kind in _NEED_SPACE
        if count != self.at and not full:
            return
        if count == self.at:
            half()
        if self.error is None:
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            raise OSError(self.error, os.strerror(self.error))

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        """An audit event; an exception here is what the operation raises."""
        if self._inside or (event != "open" and event not in _EVENTS):
            return
        self._inside = True
        try:
            if event == "open":
                ours = bool((args[2] or 0) & _WRITING) and self.concerns(args[0])
            elif event in ("os.rename", "os.link"):
                ours = self.concerns(args[1], args[3])
            elif event == "os.chmod":
                ours = self.concerns(args[0], args[2])
            else:
                ours = self.concerns(args[0], args[-1] if event in ("os.remove", "os.rmdir", "os.mkdir") else -1)
            if ours:
                self.happens(event)
        finally:
            self._inside = False


def disturb(folder: Path, at: int = 0, error: int | None = None) -> Disturbance:
    """From now on, for the rest of this process."""
    found = Disturbance(folder, at, error)
    sys.addaudithook(found.hear)
    builtins.open = io.open = _opening(found)  # type: ignore[assignment]
    for module in (safetensors.numpy, safetensors.torch):
        module.serialize_file = _serializing(found, module.serialize_file)
    _count_calls(found)
    return found


def _opening(found: Disturbance) -> Any:
    class Raw(io.FileIO):
        def write(self, data: Any) -> int:
            data = bytes(data)
            found.happens("write", lambda: io.FileIO.write(self, data[: len(data) // 2]))
            return io.FileIO.write(self, data)

    class File:
        """Not a subclass of io's classes: numpy would write past it into the bare descriptor."""

        def __init__(self, inner: Any):
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def __enter__(self) -> File:
            return self

        def __exit__(self, *_: Any) -> None:
            self._inner.close()

        def __iter__(self) -> Any:
            return iter(self._inner)

    def opened(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
        if isinstance(file, int) or not set(mode) & set("wax+") or not found.concerns(file):
            return _open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = Raw(file, mode.replace("b", "").replace("t", ""), closefd, opener)
        if buffering == 0:
            return raw
        buffer = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return File(buffer if "b" in mode else io.TextIOWrapper(buffer, encoding, errors, newline))

    return opened


def _serializing(found: Disturbance, write: Any) -> Any:
    """safetensors writes by itself, and tells of errors in its own way."""

    def serialize_file(tensors: Any, filename: Any, metadata: Any = None) -> None:
        def half() -> None:
            write(tensors, filename, metadata=metadata)
            os.truncate(filename, Path(filename).stat().st_size // 2)

        try:
            found._inside = True  # what `half` does to files is no operation of its own
            found.happens("write", half)
        except OSError as error:
            raise SafetensorError(f"I/O error: {error.strerror} (os error {error.errno})") from error
        finally:
            found._inside = False
        write(tensors, filename, metadata=metadata)

    return serialize_file


def _count_calls(found: Disturbance) -> None:
    """Calls of the system that raise no audit event."""
    sync, exchange = os.fsync, folder_exchange._exchange

    def fsync(handle: int) -> None:
        if found.concerns(os.readlink(f"/proc/self/fd/{handle if isinstance(handle, int) else handle.fileno()}")):
            found.happens("fsync")
        sync(handle)

    def exchanging(one: Path, other: Path) -> bool:
        try:
            found.happens("exchange")
        except OSError:
            return False  # as on a file system that cannot
        done = exchange(one, other)
        if found.error is None:
            found.happens("exchanged")
        return done

    os.fsync, folder_exchange._exchange = fsync, exchanging
