"""Rules about feature values, looked at a few megabytes at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from firstsight.data.rules.arrays import blocks, in_range
from firstsight.data.rules.finding import Finding

if TYPE_CHECKING:
    from firstsight.data.unchecked import UncheckedDataset

_NO_FEATURES = ("id", "index", "label", "labels", "target", "y")


def finite(data: UncheckedDataset) -> Iterator[Finding]:
    """Rows that are used hold finite numbers; a row in no part is nobody's business."""
    if data.features is None:
        return
    for part, rows in data.parts.items():
        broken: list[int] = []
        for block in blocks(in_range(rows, len(data.features)), data.features.shape[1]):
            good = np.isfinite(data.features[block]).all(axis=1)
            if not good.all():
                broken += block[~good].tolist()
        if broken:
            yield Finding(
                "error",
                f"`features` contains NaN or infinite values in row {broken[0] + data.numbered_from} (counted from "
                f"{data.numbered_from}; {len(broken)} such rows of `{part}`); numbers beyond 3.4e38 do not fit "
                "float32 and count as infinite: replace them or leave the rows out of every part.",
            )


def named(data: UncheckedDataset) -> Iterator[Finding]:
    """Features whose names say that they number the samples or repeat their labels: models learn these by heart."""
    for name in data.feature_names or ():
        if name.lower() in _NO_FEATURES or name.lower().endswith("_id"):
            yield Finding(
                "warning",
                f"Column {name!r} counts as a feature; if it numbers samples or classes, remove it (names of samples "
                "go into a column `sample`, their classes into a column `class`).",
            )


def odd_values(data: UncheckedDataset) -> Iterator[Finding]:
    """Columns that never change, and rows with the same features: the same picture twice, most likely."""
    features = data.features
    if features is None or features.shape[1] == 0:
        return
    low, high = np.full(features.shape[1], np.inf), np.full(features.shape[1], -np.inf)
    digests: dict[str, dict[int, bytes]] = {}
    for part, rows in data.parts.items():
        digests[part] = {}
        for block in blocks(np.unique(in_range(rows, len(features))), features.shape[1]):
            values = features[block]
            for number, row in zip(block.tolist(), values, strict=True):
                digests[part][number] = hashlib.blake2b(row.data, digest_size=16).digest()
            values = values[np.isfinite(values).all(axis=1)]
            if part == "train" and len(values):
                low, high = np.minimum(low, values.min(axis=0)), np.maximum(high, values.max(axis=0))
    constant = int((low == high).sum())
    if constant:
        yield Finding("note", f"{constant} of {features.shape[1]} feature columns never change in `train`.")
    yield from _twins(digests, data.numbered_from)
    if data.labels is not None and len(data.labels) == len(features):  # what else is wrong has its own finding
        yield from _contradictions(digests, data)


def _contradictions(digests: dict[str, dict[int, bytes]], data: UncheckedDataset) -> Iterator[Finding]:
    """The same features under two classes: most likely one image in two class folders, and one label is wrong."""
    labels, names = data.labels, data.sample_names or ()
    assert labels is not None

    def called(row: int) -> str:
        name = repr(names[row]) if row < len(names) else f"row {row + data.numbered_from}"
        label = int(labels[row])
        return f"{name} of {data.class_names[label]!r}" if 0 <= label < len(data.class_names) else name

    for part, digest_rows in digests.items():
        first: dict[bytes, int] = {}
        pairs = [(first.setdefault(digest, row), row) for row, digest in digest_rows.items()]
        wrong = [(one, row) for one, row in pairs if labels[one] != labels[row]]
        if wrong:
            one, other = wrong[0]
            rows = "1 row of `{part}` has" if len(wrong) == 1 else f"{len(wrong)} rows of `{part}` have"
            yield Finding(
                "warning",
                f"{rows.format(part=part)} exactly the features of a row of another class: {called(one)} and "
                f"{called(other)}; keep each sample in one class.",
            )


def _twins(digests: dict[str, dict[int, bytes]], first: int) -> Iterator[Finding]:
    train = {digest: row for row, digest in digests["train"].items()}
    for part in ("test_seen", "test_unseen"):
        shared = [row for row, digest in digests[part].items() if digest in train]
        if shared:
            twin = train[digests[part][shared[0]]]
            yield Finding(
                "warning",
                f"{len(shared)} rows of `{part}` have exactly the features of a row of `train`; row "
                f"{shared[0] + first}, for example, has those of row {twin + first}.",
            )
    for part, digest_rows in digests.items():
        repeated = len(digest_rows) - len(set(digest_rows.values()))
        if repeated:
            yield Finding("note", f"{repeated} rows of `{part}` repeat the features of another of its rows.")
