"""How often answers are right, and what is taken for what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from firstsight.evaluation import mean_class_accuracy, per_class_accuracy
from firstsight.recognition.training_samples import WAYS, InTraining
from firstsight.terminal import counted

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
        told = self.in_training or [None] * self.rows
        made: dict[InTraining | None, Score] = {}
        for part in _SAMPLES:
            pairs = [
                pair for pair, own in zip(zip(self.truth, self.answers, strict=True), told, strict=True) if own == part
            ]
            if pairs:
                made[part] = Score([t for t, _ in pairs], [a for _, a in pairs], noun=self.noun)
        return made

    @property
    def rows(self) -> int:
        """How many rows were named."""
        return len(self.truth)

    @property
    def right(self) -> int:
        """How many of them were named right."""
        return sum(one == other for one, other in zip(self.truth, self.answers, strict=True))

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
        pairs = zip(self.truth, self.answers, strict=True)
        counts = Counter(pair for pair in pairs if pair[0] != pair[1])
        rows = [(true, answer, count) for (true, answer), count in counts.most_common()]
        return pd.DataFrame(rows, columns=["class", "taken_for", "count"])

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
    told = None if in_training is None else [in_training[row] for row in kept]
    return Score([str(truth[row]) for row in kept], [str(answers[row]) for row in kept], told, recognised_by, noun)
