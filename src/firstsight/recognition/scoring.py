"""How often answers are right, and what is taken for what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from firstsight.evaluation import mean_class_accuracy, per_class_accuracy
from firstsight.terminal import counted

CONFUSIONS_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Score:
    """Answers compared with what is true; prints as a short text."""

    truth: list[str]  # (n,)
    answers: list[str]  # (n,)

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
        lines = [
            f"{self.right} of {self.rows:,} right ({100 * self.accuracy:.1f} %; mean over "
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
        return "\n".join(lines)


def score_answers(truth: Sequence[str | None], answers: Sequence[Any], candidates: Sequence[Any]) -> Score | None:
    """The score over the rows whose true class was among the candidates; None if there is no such row."""
    known = {str(name) for name in candidates}
    kept = [(str(t), str(a)) for t, a in zip(truth, answers, strict=True) if t is not None and str(t) in known]
    return Score([t for t, _ in kept], [a for _, a in kept]) if kept else None
