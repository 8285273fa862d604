"""Holding out a share of every class's rows."""

from __future__ import annotations

import numpy as np

from firstsight.errors import BadInput


def check_share(share: float) -> None:
    """Refuse what is no share of rows; the argument is called `held_out` everywhere."""
    if not 0 <= share < 1:
        raise BadInput(f"`held_out` is a share from 0 up to (not including) 1, but is {share}; try 0.2.")


def held_out_of(count: int, share: float) -> int:
    """How many of `count` rows are held out: the nearest whole number, at least one, and at least one row stays."""
    return min(count - 1, max(1, round(share * count))) if share else 0


def hold_out(
    rows: np.ndarray, labels: np.ndarray, share: float, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """`rows` that stay and `rows` held out, both sorted; of every class in `labels[rows]` the same share is drawn."""
    held: list[np.ndarray] = [np.empty(0, dtype=np.int64)]
    for label in np.unique(labels[rows]):
        own = random.permutation(rows[labels[rows] == label])
        held.append(own[: held_out_of(own.size, share)])
    chosen = np.sort(np.concatenate(held))
    return np.setdiff1d(rows, chosen), chosen
