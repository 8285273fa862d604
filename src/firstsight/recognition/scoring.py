"""Accuracy of answers, and which samples the model was trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from firstsight._io.disk_samples import LARGEST_BLOCK, blocks_of
from firstsight._io.terminal import counted
from firstsight.evaluation import mean_class_accuracy, per_class_accuracy
from firstsight.evaluation.scores import count_confusions
from firstsight.persistence.added_samples import added_fingerprints

# A fingerprint is 8 bytes of a hash: of an image file's content or, for features from elsewhere, of a row's numbers as
# they are stored in its file. Neither depends on the processor, and neither leads back to a path or an image. A sample
# is recognised if it is identical: a copy of an image that was saved anew is another image.

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


def sample_fingerprints(features: Any, fingerprints: np.ndarray | None) -> np.ndarray:
    """One uint64 per sample: that of its image file or, for a sample without a file, that of its features."""
    prints = np.zeros(len(features), dtype=np.uint64) if fingerprints is None else fingerprints.astype(np.uint64)
    if len(without := np.flatnonzero(prints == 0)):
        prints[without] = fingerprint_features(features if len(without) == len(prints) else features[without])
    return prints


def remember_samples(model: Any, **parts: tuple[Any, np.ndarray | None]) -> None:
    """Let a fitted model recognise the samples of its training.

    `labelled` and, for a transductive model, `unlabelled`: their features, and fingerprints of their files if known.
    """
    by = "features" if any(prints is None for _, prints in parts.values()) else "content"
    model.training_fingerprints_ = {
        f"{by}_{part}": np.unique(fingerprint_features(features) if by == "features" or prints is None else prints)
        for part, (features, prints) in parts.items()
    }


def recognised_by(model: Any) -> Literal["content", "features"] | None:
    """What a model recognises its training samples by, "content" or "features"; None if it knows nothing of them."""
    known: dict[str, np.ndarray] = getattr(model, "training_fingerprints_", {})
    if not known:
        return None
    return "features" if next(iter(known)).startswith("features") else "content"


def in_training(model: Any, features: Any, fingerprints: np.ndarray | None) -> list[InTraining | None] | None:
    """Of every sample, whether training had it, with or without its label; None where that cannot be told.

    `fingerprints` are those of the image files, 0 where there was no file. Samples that were added after training count
    as labelled ones.
    """
    status = in_fit(model, features, fingerprints)
    if not len(added := added_fingerprints(model)):
        return status
    known = np.isin(sample_fingerprints(features, fingerprints), added).tolist()
    both = zip(known, status or [None] * len(features), strict=True)
    found: list[InTraining | None] = ["labelled" if is_added else before for is_added, before in both]
    return found if any(found) else None


def in_fit(model: Any, features: Any, fingerprints: np.ndarray | None) -> list[InTraining | None] | None:
    """As `in_training`, without the samples that were added after the fit."""
    by = recognised_by(model)
    if by is None or (by == "content" and fingerprints is None):
        return None
    prints = fingerprint_features(features) if by == "features" else fingerprints
    assert prints is not None
    status: list[InTraining | None] = [None if by == "content" and p == 0 else "no" for p in prints.tolist()]
    for part in _PARTS:
        known = model.training_fingerprints_.get(f"{by}_{part}", np.empty(0, dtype=np.uint64))
        for row in np.flatnonzero(np.isin(prints, known)).tolist():
            status[row] = part
    return status if any(status) else None


CONFUSIONS_SHOWN = 5
# What samples are called, before and after their noun, by whether training had them.
_SAMPLES: dict[InTraining | None, tuple[str, str]] = {
    "no": ("", " that training has not seen"),
    "labelled": ("training ", ""),
    "unlabelled": ("", " that training had without their labels"),
    None: ("", " of which it is unknown whether training had them"),
}


@dataclass(frozen=True, eq=False)
class Score:
    """Answers compared with what is true; prints as a short text, in which training samples are counted apart.

    `rows`, `right`, `accuracy` and the others are over all samples; `by_training` separates them.
    """

    truth: list[str]  # (n,)
    answers: list[str]  # (n,)
    in_training: list[InTraining | None] | None = None  # (n,) whether training had the sample; None: unknown
    recognised_by: str | None = None  # what tells that: "content" of image files, or "features"
    noun: str = "sample"

    @property
    def by_training(self) -> dict[InTraining | None, Score]:
        """The scores of samples by whether training had them: "no", "labelled", "unlabelled", None where unknown."""
        status = self.in_training or [None] * self.rows
        scores: dict[InTraining | None, Score] = {}
        for part in _SAMPLES:
            rows = [row for row, of_row in enumerate(status) if of_row == part]
            if rows:
                scores[part] = Score([self.truth[r] for r in rows], [self.answers[r] for r in rows], noun=self.noun)
        return scores

    @property
    def rows(self) -> int:
        """How many rows were named."""
        return len(self.truth)

    @property
    def right(self) -> int:
        """How many of them were named right."""
        return sum(true == answer for true, answer in zip(self.truth, self.answers, strict=True))

    @property
    def accuracy(self) -> float:
        """Share of rows that are right."""
        return self.right / self.rows

    @property
    def per_class(self) -> dict[str, float]:
        """Share of right answers of each class that there are rows of."""
        return per_class_accuracy(self.truth, self.answers)

    @property
    def mean_class_accuracy(self) -> float:
        """Mean over classes of the share that is right: no class counts more because it has more rows."""
        return mean_class_accuracy(self.truth, self.answers)

    @property
    def confusions(self) -> pd.DataFrame:
        """Columns class, taken_for, count; the most frequent first."""
        return pd.DataFrame(count_confusions(self.truth, self.answers), columns=["class", "taken_for", "count"])

    def __str__(self) -> str:
        if self.in_training is None:
            return "\n".join(self._lines())
        by = "" if self.recognised_by is None else f" ({WAYS[self.recognised_by]})"
        return "\n".join(
            line
            for part, score in self.by_training.items()
            for line in score._lines(
                f"On {counted(score.rows, f'{_SAMPLES[part][0]}{self.noun}')}{_SAMPLES[part][1]}{by}: "
            )
        )

    def _lines(self, on: str = "") -> list[str]:
        lines = [
            f"{on}{self.right:,} of {self.rows:,} right ({100 * self.accuracy:.1f} %; mean over "
            f"{counted(len(self.per_class), 'class')}: {100 * self.mean_class_accuracy:.1f} %)."
        ]
        pairs = self.confusions
        if len(pairs):
            shown = [
                f"{true} taken for {answer} ({n})"
                for true, answer, n in pairs.head(CONFUSIONS_SHOWN).to_numpy().tolist()
            ]
            more = f" and {len(pairs) - CONFUSIONS_SHOWN} other pairs" if len(pairs) > CONFUSIONS_SHOWN else ""
            lines.append("Most often: " + ", ".join(shown) + more + ".")
        return lines


def score_answers(
    truth: Sequence[str | None],
    answers: Sequence[Any],
    candidates: Sequence[Any],
    *,
    in_training: Sequence[InTraining | None] | None = None,
    recognised_by: str | None = None,
    noun: str = "sample",
) -> Score | None:
    """The score over the rows whose true class was among the candidates; None if there is no such row."""
    known = {str(name) for name in candidates}
    kept = [row for row, name in enumerate(truth) if name is not None and str(name) in known]
    if not kept:
        return None
    status = None if in_training is None else [in_training[row] for row in kept]
    return Score([str(truth[row]) for row in kept], [str(answers[row]) for row in kept], status, recognised_by, noun)
