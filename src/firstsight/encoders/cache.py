"""Features that were computed once, found again by the content of the picture.

A shard is one .npy file of records (SHA-256 of the picture, its features, a digest of both); a run adds shards and
changes none, so runs may share a cache and one that is killed loses the last seconds only. A record whose digest does
not fit is as good as none: its picture is encoded again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from firstsight._io.files import open_regular, write_atomically
from firstsight.errors import CannotWrite

try:
    import fcntl
except ImportError:  # Windows: what killed writers leave stays there
    fcntl = None  # type: ignore[assignment]

SHARD_ROWS = 256
SHARD_SECONDS = 3.0
_DIGEST = 16  # bytes


class FeatureCache:
    """Features by the 32 bytes of a picture's SHA-256, in one folder per backbone. Threads may share one."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.dim: int | None = None
        self._found: dict[bytes, np.void] = {}  # records, judged when they are asked for
        self._unwritten: list[np.void] = []
        self._flushed = time.monotonic()
        self._lock = threading.RLock()
        remove_leftovers(folder)
        for path in sorted(folder.glob("[!.]*.npy")):  # a hidden one is half written
            self._read(path)

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: bytes) -> np.ndarray | None:
        record = self._found.get(key)
        return record["features"] if record is not None and _is_sound(record) else None

    def put(self, key: bytes, features: np.ndarray) -> None:
        record = np.zeros(1, dtype=_layout(len(features)))[0]
        record["key"], record["features"] = np.void(key), features
        record["digest"] = np.void(_digest(record))
        with self._lock:
            self._found[key] = record
            self._unwritten.append(record)
            if len(self._unwritten) >= SHARD_ROWS or time.monotonic() - self._flushed > SHARD_SECONDS:
                self.flush()

    def flush(self) -> None:
        """Write what came since the last time as one more shard."""
        with self._lock:
            self._flushed = time.monotonic()
            if not self._unwritten:
                return
            shard = np.array(self._unwritten, dtype=self._unwritten[0].dtype)
            self._unwritten = []
            # The cache only saves time; a full disk is no reason to fail.
            with contextlib.suppress(CannotWrite), writing_to(self.folder):
                write_atomically(self.folder / f"{uuid.uuid4().hex}.npy", lambda path: np.save(path, shard))

    def _read(self, path: Path) -> None:
        try:
            with open(open_regular(path), "rb") as file:
                np.lib.format.read_magic(file)
                shape, _, kind = np.lib.format.read_array_header_1_0(file)
                begin = file.tell()
            dim = kind["features"].shape[0]
            if len(shape) != 1 or kind != _layout(dim) or self.dim not in (None, dim):
                return
            shard = np.memmap(path, kind, "r", begin, shape)  # np.load would die of a header that claims 0 bytes a row
        except Exception:  # a damaged shard breaks in many ways; its pictures are simply encoded again
            return
        records = shard.view(np.ndarray)
        if self.dim is None and not any(map(_is_sound, records)):
            return
        self.dim = dim
        for record in records:
            key = record["key"].tobytes()
            if key not in self._found or not _is_sound(self._found[key]):  # the same picture twice: one may be damaged
                self._found[key] = record


@contextlib.contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """While inside, nobody takes this process's half-written file for one that a killed process has left."""
    handle = None
    with contextlib.suppress(OSError):  # whoever cannot have the folder will hear so from the writing itself
        folder.mkdir(parents=True, exist_ok=True)
        handle = _locked(folder, exclusive=False)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Remove the half-written files of killed processes, unless somebody is writing here right now."""
    try:
        handle = _locked(folder, exclusive=True)
    except OSError:
        return
    if handle is None:
        return
    try:
        for left in (path for path in folder.glob(".*") if path.suffix in (".npy", ".onnx")):
            with contextlib.suppress(OSError):
                left.unlink()
    finally:
        os.close(handle)


def _locked(folder: Path, exclusive: bool) -> int | None:
    """The folder's lock, which a process loses with its life; OSError where it cannot be had, None on Windows."""
    if fcntl is None:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB if exclusive else fcntl.LOCK_SH)
    except OSError:
        os.close(handle)
        raise
    return handle


def _layout(dim: int) -> np.dtype:
    return np.dtype([("key", "V32"), ("features", "<f4", (dim,)), ("digest", f"V{_DIGEST}")])


def _digest(record: np.void) -> bytes:
    return hashlib.blake2b(record.tobytes()[:-_DIGEST], digest_size=_DIGEST).digest()


def _is_sound(record: np.void) -> bool:
    return bool(record["digest"].tobytes() == _digest(record))
