"""The part of the audit that looks at feature values, a few megabytes at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from firstsight.data.raw import RawDataset
from firstsight.data.rules.checks import blocks
from firstsight.data.rules.finding import Finding


def feature_findings(raw: RawDataset) -> Iterator[Finding]:
    """NaN and infinite values, columns that never change, and equal rows in training and test."""
    features = raw.features
    if features is None:
        return
    if features.shape[1] == 0:
        yield Finding("error", "Features have no columns.")
        return
    low, high = np.full(features.shape[1], np.inf), np.full(features.shape[1], -np.inf)
    digests: dict[str, dict[int, bytes]] = {}
    for part, rows in raw.parts.items():
        rows = np.unique(rows[(rows >= 0) & (rows < len(features))])
        digests[part], broken = {}, []
        for block in blocks(rows, features.shape[1]):
            values = features[block]
            finite = np.isfinite(values).all(axis=1)
            broken += block[~finite].tolist()
            for number, row in zip(block.tolist(), values, strict=True):
                digests[part][number] = hashlib.blake2b(row.data, digest_size=16).digest()
            if part == "train" and finite.any():
                low = np.minimum(low, values[finite].min(axis=0))
                high = np.maximum(high, values[finite].max(axis=0))
        if broken:
            yield Finding(
                "error",
                f"{len(broken)} rows of `{part}` have NaN or infinite features, row "
                f"{broken[0] + raw.numbered_from} for one.",
            )
    constant = int((low == high).sum())
    if constant:
        yield Finding("note", f"{constant} of {features.shape[1]} feature columns never change in `train`.")
    yield from _twins(digests, raw.numbered_from)


def _twins(digests: dict[str, dict[int, bytes]], first: int) -> Iterator[Finding]:
    """Rows with exactly the same features: the same picture twice, most likely."""
    train = {digest: row for row, digest in digests["train"].items()}
    for part in ("test_seen", "test_unseen"):
        shared = [row for row, digest in digests[part].items() if digest in train]
        if shared:
            twin = train[digests[part][shared[0]]]
            yield Finding(
                "warning",
                f"{len(shared)} rows of `{part}` have exactly the features of a row of `train`, row "
                f"{shared[0] + first} those of row {twin + first} for one.",
            )
    for part, found in digests.items():
        repeated = len(found) - len(set(found.values()))
        if repeated:
            yield Finding("note", f"{repeated} rows of `{part}` repeat the features of another of its rows.")
