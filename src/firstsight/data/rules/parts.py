"""The part of the audit that looks at rows, labels and who is in which part."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from firstsight.data.raw import RawDataset
from firstsight.data.rules.checks import PARTS
from firstsight.data.rules.finding import Finding


def classes_of_parts(raw: RawDataset) -> dict[str, np.ndarray]:
    """Codes of the classes in each part, as far as rows and labels are in range; empty without labels."""
    if raw.labels is None:
        return {}
    return {
        part: np.unique(_in_range(raw.labels[_in_range(rows, len(raw.labels))], len(raw.class_names)))
        for part, rows in raw.parts.items()
    }


def part_findings(raw: RawDataset) -> Iterator[Finding]:
    """All findings about rows and labels."""
    classes = classes_of_parts(raw)
    yield from _row_findings(raw)
    yield from _label_findings(raw, classes)
    yield from _untrusted_findings(raw, classes)


def _row_findings(raw: RawDataset) -> Iterator[Finding]:
    """Rows out of range, repeated, shared between parts, or in no part."""
    first = raw.numbered_from
    n = None if raw.labels is None else len(raw.labels)
    for part, rows in raw.parts.items():
        outside = rows[(rows < 0) | (rows >= (np.iinfo(np.int64).max if n is None else n))]
        if outside.size:
            last = "the end" if n is None else n - 1 + first
            yield Finding(
                "error",
                f"`{part}` contains {outside.size} row numbers outside {first} to {last}, "
                f"{outside[0] + first} for one.",
            )
        repeated = rows.size - np.unique(rows).size
        if repeated:
            yield Finding("error", f"`{part}` repeats {repeated} row numbers.")
        if rows.size == 0:
            yield Finding("note" if part == "test_seen" else "error", f"`{part}` has no rows.")
    for one, other in combinations(PARTS, 2):
        both = np.intersect1d(raw.parts[one], raw.parts[other])
        if both.size:
            yield Finding("error", f"`{one}` and `{other}` share {both.size} rows, row {both[0] + first} for one.")
    if n is not None:
        unused = n - np.unique(_in_range(np.concatenate(list(raw.parts.values())), n)).size
        if unused:
            yield Finding("note", f"{unused} of {n} rows are in no part.")


def _label_findings(raw: RawDataset, classes: dict[str, np.ndarray]) -> Iterator[Finding]:
    """Labels out of range, and classes on the wrong side."""
    if raw.labels is None:
        return
    n, n_classes, first = len(raw.labels), len(raw.class_names), raw.numbered_from
    used = np.unique(_in_range(np.concatenate(list(raw.parts.values())), n))
    strange = (raw.labels < 0) | (raw.labels >= n_classes)
    if strange[used].any():
        example = raw.labels[used][strange[used]][0] + first
        yield Finding(
            "error",
            f"{strange[used].sum()} labels are outside {first} to {n_classes - 1 + first}, {example} for one.",
        )
    if strange.sum() > strange[used].sum():
        yield Finding("note", f"{strange.sum() - strange[used].sum()} rows in no part have no class of the table.")
    leaked = np.intersect1d(classes["train"], classes["test_unseen"])
    if leaked.size:
        yield Finding("error", f"{leaked.size} classes are in both `train` and `test_unseen`: {_named(raw, leaked)}.")
    untrained = np.setdiff1d(classes["test_seen"], classes["train"])
    if untrained.size:
        yield Finding(
            "error",
            f"{untrained.size} classes of `test_seen` have no training row: {_named(raw, untrained)}.",
        )
    rowless = np.setdiff1d(np.arange(n_classes), np.concatenate(list(classes.values())))
    if rowless.size:
        yield Finding("note", f"{rowless.size} classes have a description but no row: {_named(raw, rowless)}.")


def _untrusted_findings(raw: RawDataset, classes: dict[str, np.ndarray]) -> Iterator[Finding]:
    """`train_loc` and `val_loc` are never used here, but whoever uses them elsewhere should know."""
    for name, rows in raw.untrusted.items():
        for part in ("test_seen", "test_unseen"):
            reached = np.intersect1d(rows, raw.parts[part]).size
            if reached:
                yield Finding("warning", f"`{name}` contains {reached} rows of `{part}` (firstsight never uses it).")
        if raw.labels is not None:
            own = np.unique(raw.labels[_in_range(rows, len(raw.labels))])
            reached = np.intersect1d(own, classes["test_unseen"]).size
            if reached:
                yield Finding("warning", f"`{name}` contains {reached} unseen classes (firstsight never uses it).")


def _named(raw: RawDataset, codes: np.ndarray) -> str:
    """Up to three class names, and how many more."""
    names = ", ".join(repr(raw.class_names[code]) for code in codes[:3])
    return names + (f" and {len(codes) - 3} more" if len(codes) > 3 else "")


def _in_range(rows: np.ndarray, n: int) -> np.ndarray:
    return rows[(rows >= 0) & (rows < n)]
