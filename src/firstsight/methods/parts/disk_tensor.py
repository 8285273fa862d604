"""Rows on the disk for gradient steps: read in shuffled windows, the next one while one is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from firstsight.devices import torch
from firstsight.disk_rows import DiskRows

if TYPE_CHECKING:
    from torch import Tensor

_CHUNKS = 64  # of neighbouring rows in a window: few enough for long reads, enough to mix


class DiskTensor:
    """Gives the rows of an index tensor, as a tensor in memory would; quickly in the order that `shuffled` has given.

    A pass is a sequence of windows. Each is made of chunks of neighbouring rows from all over the file, drawn without
    repetition, and its rows are shuffled: two windows, the one in use and the next, are what memory has to hold.
    """

    def __init__(
        self,
        rows: DiskRows,
        change: Callable[[np.ndarray], np.ndarray],  # what happens to rows that are read: scaling
        batch_size: int,
        device: torch.device | str = "cpu",
    ):
        self._rows, self._change, self._device = rows, change, device
        affordable = rows.memory // (4 * max(1, rows.shape[1]) * rows.itemsize)
        self.window = max(1, affordable // batch_size) * batch_size  # no batch lies in two windows
        self._place = np.zeros(len(rows), dtype=np.int32)  # of a row in its window
        self._reader = ThreadPoolExecutor(1, "read ahead")
        self._windows: list[np.ndarray] = []
        self._current, self._ahead = -1, -1
        self._now, self._next = np.empty((0, 0)), Future[np.ndarray]()

    def batches(self, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        order = self.shuffled(generator)
        for batch, numbers in zip(order.split(size), order.to(self._device).split(size), strict=True):
            yield numbers, self(batch).to(self._device)

    def blocks(self, size: int) -> Iterator[tuple[slice, Tensor]]:
        for block in torch.arange(len(self._rows)).split(size):
            yield slice(int(block[0]), int(block[-1]) + 1), self(block).to(self._device)

    def shuffled(self, generator: torch.Generator) -> Tensor:
        """The order of a pass over all rows."""
        n, chunk = len(self._rows), max(1, self.window // _CHUNKS)
        starts = torch.randperm((n + chunk - 1) // chunk, generator=generator).numpy() * chunk
        order = np.concatenate([np.arange(start, min(start + chunk, n)) for start in starts])
        self._windows = [order[start : start + self.window] for start in range(0, n, self.window)]
        for rows in self._windows:
            rows[:] = rows[torch.randperm(len(rows), generator=generator).numpy()]
            self._place[rows] = np.arange(len(rows))
        self._current = -1
        self._read_ahead(0)
        return torch.from_numpy(order)

    def __call__(self, batch: Tensor) -> Tensor:
        """Rows of the pass that is under way come from memory; any others, such as a block of neighbours, are read."""
        numbers = batch.numpy()
        if self._current < 0 or not self._holds(numbers):
            if self._ahead < 0 or not np.isin(numbers[[0, -1]], self._windows[self._ahead]).all():
                return torch.from_numpy(self._change(self._rows[numbers]))
            self._now, self._current = self._next.result(), self._ahead
            self._read_ahead(self._current + 1)
        return torch.from_numpy(self._now[self._place[numbers]])

    def _holds(self, numbers: np.ndarray) -> bool:
        """One look suffices: a batch lies in one window, and a block of neighbours hardly ever at the same places."""
        window = self._windows[self._current]
        return bool(np.array_equal(window[np.minimum(self._place[numbers], len(window) - 1)], numbers))

    def _read_ahead(self, number: int) -> None:
        self._ahead = number if number < len(self._windows) else -1
        if self._ahead >= 0:
            self._next = self._reader.submit(self._load, self._windows[number])

    def _load(self, numbers: np.ndarray) -> np.ndarray:
        return self._change(self._rows.read(numbers))
