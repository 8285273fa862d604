"""Rules about rows, labels and who is in which part."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from firstsight.data.rules.arrays import PARTS, in_range
from firstsight.data.rules.finding import Finding

if TYPE_CHECKING:
    from firstsight.data.unchecked import UncheckedDataset


def classes_of_parts(data: UncheckedDataset) -> dict[str, np.ndarray]:
    """Codes of the classes in each part, as far as rows and labels are in range; empty without labels."""
    if data.labels is None:
        return {}
    return {
        part: np.unique(in_range(data.labels[in_range(rows, len(data.labels))], len(data.class_names)))
        for part, rows in data.parts.items()
    }


def rows(data: UncheckedDataset) -> Iterator[Finding]:
    """Every row number exists, and is in one part at most, once."""
    first = data.numbered_from
    n = np.iinfo(np.int64).max if data.labels is None else len(data.labels)
    for part, numbers in data.parts.items():
        outside = numbers[(numbers < 0) | (numbers >= n)]
        if outside.size:
            span = f"{first} to {n - 1 + first}" if data.labels is not None else f"from {first} on"
            yield _wrong(f"`{part}` contains {outside[0] + first}, but rows are numbered {span}", outside, "correct it")
        if numbers.size == 0:
            needed = part in data.needed
            yield Finding(
                "error" if needed else "note",
                f"`{part}` has no rows" + ("; a zero-shot data set needs at least one." if needed else "."),
            )
        values, counts = np.unique(numbers, return_counts=True)
        twice = values[counts > 1]
        if twice.size:
            yield _wrong(f"`{part}` contains row {twice[0] + first} more than once", twice, "list every row once")
    for one, other in combinations(PARTS, 2):
        both = np.intersect1d(data.parts[one], data.parts[other])
        if both.size:
            message = f"Row {both[0] + first} is in both `{one}` and `{other}`"
            yield _wrong(message, both, "every row belongs to one part at most")
    if data.labels is not None:
        unused = n - _used(data).size
        if unused:
            yield Finding("note", f"{unused} of {n} rows are in no part.")


def classes(data: UncheckedDataset) -> Iterator[Finding]:
    """Labels name classes of the table; unseen classes have no training row, and classes of `test_seen` have some."""
    if data.labels is None:
        return
    n_classes, first, of = len(data.class_names), data.numbered_from, classes_of_parts(data)
    strange = (data.labels < 0) | (data.labels >= n_classes)
    used = strange[(known := _used(data))]
    if used.any():
        wrong = data.labels[known][used]
        message = f"`labels` contains {wrong[0] + first}, but classes are numbered {first} to {n_classes - 1 + first}"
        yield _wrong(message, wrong, "correct it")
    if strange.sum() > used.sum():
        yield Finding("note", f"{strange.sum() - used.sum()} rows in no part have no class of the table.")
    leaked = np.intersect1d(of["train"], of["test_unseen"])
    if leaked.size:
        message = f"Class {data.class_names[leaked[0]]!r} is in both `train` and `test_unseen`"
        yield _wrong(message, leaked, "an unseen class must have no training row", "classes")
    untrained = np.setdiff1d(of["test_seen"], of["train"])
    if untrained.size:
        message = f"Class {data.class_names[untrained[0]]!r} is in `test_seen`, but has no row in `train`"
        yield _wrong(message, untrained, "move its rows to `test_unseen` or train on some", "classes")
    rowless = np.setdiff1d(np.arange(n_classes), np.concatenate(list(of.values())))
    if rowless.size:
        names = ", ".join(repr(data.class_names[code]) for code in rowless[:3])
        more = f" and {rowless.size - 3} more" if rowless.size > 3 else ""
        yield Finding("note", f"{rowless.size} classes have a description but no row: {names}{more}.")


def untrusted(data: UncheckedDataset) -> Iterator[Finding]:
    """`train_loc` and `val_loc` are never used here, but whoever uses them elsewhere should know."""
    of = classes_of_parts(data)
    for name, numbers in data.untrusted.items():
        for part in ("test_seen", "test_unseen"):
            reached = np.intersect1d(numbers, data.parts[part]).size
            if reached:
                yield Finding("warning", f"`{name}` contains {reached} rows of `{part}` (firstsight never uses it).")
        if data.labels is not None:
            own = np.unique(data.labels[in_range(numbers, len(data.labels))])
            reached = np.intersect1d(own, of["test_unseen"]).size
            if reached:
                yield Finding("warning", f"`{name}` contains {reached} unseen classes (firstsight never uses it).")


def _used(data: UncheckedDataset) -> np.ndarray:
    """Rows of any part, as far as they exist."""
    assert data.labels is not None
    return np.unique(in_range(np.concatenate(list(data.parts.values())), len(data.labels)))


def _wrong(message: str, cases: np.ndarray, advice: str, what: str = "rows") -> Finding:
    return Finding("error", f"{message} ({cases.size} such {what}); {advice}.")
