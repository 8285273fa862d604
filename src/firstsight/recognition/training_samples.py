"""Which samples a model was trained on: fingerprints that are saved with it and compared when it answers.

A fingerprint is 8 bytes of a hash: of an image file's content or, for features from elsewhere, of a row's numbers as
they are stored in its file. Neither depends on the processor, and neither leads back to a path or an image. A sample is
recognised if it is identical: a copy of an image that was saved anew is another image.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import numpy as np

from firstsight.disk_rows import LARGEST_BLOCK, blocks_of

InTraining = Literal["no", "labelled", "unlabelled"]
# What tells training samples, as the end of "that training has not seen (by …)".
WAYS = {"content": "by file content", "features": "by feature values"}
_PARTS: tuple[InTraining, ...] = ("unlabelled", "labelled")  # who is in both was learned from with its label


def fingerprint_features(features: Any) -> np.ndarray:
    """One uint64 per row, of its numbers as float32."""
    found = np.empty(len(features), dtype=np.uint64)
    for part, block in blocks_of(features, LARGEST_BLOCK):
        rows = np.ascontiguousarray(block, dtype="<f4") + np.float32(0)  # −0 and 0 are the same number
        digests = b"".join(hashlib.blake2b(row.data, digest_size=8).digest() for row in rows)
        found[part] = np.frombuffer(digests, dtype="<u8")
    return found


def remember_samples(model: Any, **parts: tuple[Any, np.ndarray | None]) -> None:
    """Let a fitted model recognise the samples of its training.

    `labelled` and, for a transductive model, `unlabelled`: their features, and fingerprints of their files if known.
    """
    by = "features" if any(prints is None for _, prints in parts.values()) else "content"
    model.training_fingerprints_ = {
        f"{by}_{part}": np.unique(fingerprint_features(features) if by == "features" or prints is None else prints)
        for part, (features, prints) in parts.items()
    }


def recognised_by(model: Any) -> str | None:
    """What a model recognises its training samples by, "content" or "features"; None if it knows nothing of them."""
    known: dict[str, np.ndarray] = getattr(model, "training_fingerprints_", {})
    return next(iter(known)).partition("_")[0] if known else None


def in_training(model: Any, features: Any, fingerprints: np.ndarray | None) -> list[InTraining | None] | None:
    """Of every sample, whether training had it, with or without its label; None where that cannot be told.

    `fingerprints` are those of the image files, 0 where there was no file.
    """
    by = recognised_by(model)
    if by is None or (by == "content" and fingerprints is None):
        return None
    prints = fingerprint_features(features) if by == "features" else fingerprints
    assert prints is not None
    found: list[InTraining | None] = [None if by == "content" and one == 0 else "no" for one in prints.tolist()]
    for part in _PARTS:
        known = model.training_fingerprints_.get(f"{by}_{part}", np.empty(0, dtype=np.uint64))
        for place in np.flatnonzero(np.isin(prints, known)).tolist():
            found[place] = part
    return found if any(found) else None
