"""Cache of features, keyed by the content of the image file.

A shard is one .npy file of records (SHA-256 of the picture, its features, a digest of both); a run adds shards and
changes none, so runs may share a cache and one that is killed loses the last seconds only. A record whose digest does
not fit is as good as none: its picture is encoded again.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
import uuid
from pathlib import Path

import numpy as np

from firstsight._io.files import open_regular, remove_all_stale, write_atomically
from firstsight.errors import CannotWrite

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
        remove_all_stale(folder)
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
            with contextlib.suppress(CannotWrite):
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


def _layout(dim: int) -> np.dtype:
    return np.dtype([("key", "V32"), ("features", "<f4", (dim,)), ("digest", f"V{_DIGEST}")])


def _digest(record: np.void) -> bytes:
    return hashlib.blake2b(record.tobytes()[:-_DIGEST], digest_size=_DIGEST).digest()


def _is_sound(record: np.void) -> bool:
    return bool(record["digest"].tobytes() == _digest(record))
