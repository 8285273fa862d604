"""Who asks how often, counted by all workers of a server together."""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
import time
from pathlib import Path

BURST = 4  # seconds' worth of requests that a client may make at once
_KEY = 16  # bytes before the buckets: where a client's bucket is, nobody outside can tell
_BUCKET = struct.Struct("dd")  # how full it was, and when
_BUCKETS = 1 << 16  # two clients share one now and then; memory stays a MiB, however many there are
_SIZE = _KEY + _BUCKETS * _BUCKET.size
REQUESTS, WRONG_TOKENS = "requests", "wrong-tokens"  # what is counted, and the name of the file that workers share


class Rates:
    """Each client fills a bucket that empties at `rate` per second.

    Workers share the buckets by a file in `folder`. Nobody waits for a lock: where two of them count the same client
    at the same instant, one request may go uncounted.
    """

    def __init__(self, rate: float, folder: str | None = None, what: str = REQUESTS, burst: float = BURST):
        self.rate, self.most = rate, max(burst * rate, 1.0)
        shared = None if folder is None else Path(folder) / what
        if shared is not None and shared.is_file():
            with open(shared, "r+b") as file:
                self._memory = mmap.mmap(file.fileno(), _SIZE)
        else:
            self._memory = mmap.mmap(-1, _SIZE)
            self._memory[:_KEY] = os.urandom(_KEY)

    def wait(self, client: str, count: bool = True) -> float:
        """Seconds until this client may ask; 0 if at once, which is then counted unless `count` is False."""
        if not self.rate:
            return 0.0
        digest = hashlib.blake2b(client.encode(), key=self._memory[:_KEY], digest_size=4).digest()
        place = _KEY + int.from_bytes(digest, "little") % _BUCKETS * _BUCKET.size
        now = time.monotonic()  # one clock for all processes of a machine
        full, then = _BUCKET.unpack_from(self._memory, place)
        full = max(0.0, full - max(0.0, now - then) * self.rate)
        allowed = full + 1 <= self.most
        _BUCKET.pack_into(self._memory, place, full + (allowed and count), now)
        return 0.0 if allowed else (full + 1 - self.most) / self.rate


def share_rates(folder: str) -> None:
    """Make the files that the workers share, before they start."""
    for what in (REQUESTS, WRONG_TOKENS):
        (Path(folder) / what).write_bytes(os.urandom(_KEY) + bytes(_SIZE - _KEY))
