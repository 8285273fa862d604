"""Rows for gradient steps: a pass in batches, and all in order; in memory here, on the disk in `disk_tensor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from firstsight.devices import torch

if TYPE_CHECKING:
    from torch import Tensor


class Rows(Protocol):
    """What Algorithm 1 asks of its rows, wherever they lie. Numbers and features come on the device of the fit.

    What is yielded is good until the next is asked for.
    """

    def batches(self, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """A pass over all rows in a new order: the numbers of some, and their features."""

    def blocks(self, size: int) -> Iterator[tuple[slice, Tensor]]:
        """All rows in order."""


class RowsInMemory:
    """Rows of a tensor, or the `chosen` ones of it, times `factor`; the tensor itself is never written to."""

    def __init__(self, X: Tensor, factor: float = 1.0, chosen: Tensor | None = None):
        self._X, self._factor, self._chosen = X, factor, chosen
        self._room = X.new_empty(0, X.shape[1])  # used again and again: asking the system for it takes longer

    def __len__(self) -> int:
        return len(self._X) if self._chosen is None else len(self._chosen)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self), generator=generator).to(self._X.device)
        for batch in order.split(size):
            yield batch, self._gather(batch if self._chosen is None else self._chosen[batch])

    def blocks(self, size: int) -> Iterator[tuple[slice, Tensor]]:
        for start in range(0, len(self), size):
            part = slice(start, min(start + size, len(self)))
            if self._chosen is not None:
                yield part, self._gather(self._chosen[part])
            elif self._factor == 1.0:
                yield part, self._X[part]
            else:
                yield part, torch.mul(self._X[part], self._factor, out=self._room_for(part.stop - part.start))

    def _gather(self, numbers: Tensor) -> Tensor:
        rows = torch.index_select(self._X, 0, numbers, out=self._room_for(len(numbers)))
        return rows if self._factor == 1.0 else rows.mul_(self._factor)

    def _room_for(self, rows: int) -> Tensor:
        if len(self._room) < rows:
            self._room = self._X.new_empty(rows, self._X.shape[1])
        return self._room[:rows]
