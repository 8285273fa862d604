"""Features that were computed once, found again by the content of the picture.

A shard is one .npy file of records (SHA-256 of the picture, its features); a run adds shards and changes none, so
runs may share a cache and one that is killed loses the last seconds only.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from pathlib import Path

import numpy as np

from firstsight.errors import CannotWrite
from firstsight.files import write_atomically

SHARD_ROWS = 256
SHARD_SECONDS = 3.0


class FeatureCache:
    """Features by the 32 bytes of a picture's SHA-256, in one folder per backbone."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.dim: int | None = None
        self._found: dict[bytes, np.ndarray] = {}
        self._unwritten: list[tuple[bytes, np.ndarray]] = []
        self._flushed = time.monotonic()
        for path in sorted(folder.glob("[!.]*.npy")):  # a hidden one is half written
            self._read(path)

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: bytes) -> np.ndarray | None:
        return self._found.get(key)

    def put(self, key: bytes, features: np.ndarray) -> None:
        self._found[key] = features
        self._unwritten.append((key, features))
        if len(self._unwritten) >= SHARD_ROWS or time.monotonic() - self._flushed > SHARD_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what came since the last time as one more shard."""
        self._flushed = time.monotonic()
        if not self._unwritten:
            return
        shard = np.empty(len(self._unwritten), dtype=_record(len(self._unwritten[0][1])))
        shard["key"] = [np.void(key) for key, _ in self._unwritten]
        shard["features"] = [row for _, row in self._unwritten]
        self._unwritten = []
        with contextlib.suppress(CannotWrite):  # the cache only saves time; a full disk is no reason to fail
            write_atomically(self.folder / f"{uuid.uuid4().hex}.npy", lambda path: np.save(path, shard))

    def _read(self, path: Path) -> None:
        try:
            shard = np.load(path, mmap_mode="r", allow_pickle=False)
            dim = shard.dtype["features"].shape[0]
            if shard.ndim != 1 or shard.dtype != _record(dim) or self.dim not in (None, dim):
                return
        except Exception:  # a damaged shard breaks in many ways; its pictures are simply encoded again
            return
        self.dim = dim
        self._found.update(zip((key.tobytes() for key in shard["key"]), np.asarray(shard["features"]), strict=True))


def _record(dim: int) -> np.dtype:
    return np.dtype([("key", "V32"), ("features", "<f4", (dim,))])
