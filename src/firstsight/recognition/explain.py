"""Explanations: the contribution of each attribute to the lead of the answer over the runner-up.

The description of the runner-up is turned into the answer's along the straight line between them, in J equal steps. On
each step attributes are changed one after the other, once from the first to the last and once from the last to the
first. What the score of the description changes by when an attribute is changed, averaged over both orders and added
up over the steps, is its contribution::

    c_m = ½ Σ_j Σ_order  s(x, a with m changed) − s(x, a before that)

Each order leads from one end of its step to the other, so the contributions add up to s(x, a_answer) −
s(x, a_runner-up), whatever J and whatever the score. For a linear score c_m is the attribute's own term, for a
quadratic one its Shapley value; for any smooth score it tends to the integrated gradient (Sundararajan et al., ICML
2017) as J grows. Attributes that both classes have alike contribute nothing.

A lead may have other reasons than descriptions, and they are shown as "other": a constant taken off the scores of seen
classes (calibrated stacking), and what training samples of the two classes change in what follows from their
descriptions. With these, the lead is complete::

    lead = Σ_m c_m + stacking + training samples
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from firstsight._io.schemas import ApiSchema
from firstsight.methods import ZeroShotClassifier

# On CUB's 312 attributes, contributions are off their limit by at most 2 % of the largest; with 4 steps, by 7 %.
STEPS = 8
SHOWN = 3  # attributes for the answer, and as many against it
_ROWS, _BLOCK_BYTES = 256, 32 * 2**20  # scored at once: rows, and descriptions
_ROUNDING = 1e-5  # a share of the scores: a difference below it says nothing


# Called `class` in JSON, which Python has other uses for.
ClassLabel = Annotated[str, Field(validation_alias="class", serialization_alias="class")]


class AttributeContribution(ApiSchema):
    """An attribute, and what it adds to the lead of the answer over the runner-up."""

    attribute: str
    contribution: float
    more: bool = Field(description="whether the answer has more of it than the runner-up, or less")
    text: str = Field(description="the same in words")


class OtherAttributes(ApiSchema):
    """All attributes that are not listed, together."""

    count: int
    contribution: float
    text: str


class OtherReasons(ApiSchema):
    """What of the lead does not follow from attributes."""

    contribution: float
    stacking: float = Field(description="of calibrated stacking: the constants taken off seen classes")
    training_samples: float = Field(description="of training samples of the two classes")
    text: str


class Reasons(ApiSchema):
    """Why this class and not the next: contributions that add up to the lead."""

    label: ClassLabel = Field(description="the best class, also where the answer is none of these")
    instead_of: str = Field(description="the runner-up")
    lead: float = Field(description="the score of the class less that of the runner-up")
    text: str
    supporting: list[AttributeContribution] = Field(validation_alias="for", serialization_alias="for")
    against: list[AttributeContribution]
    other_attributes: OtherAttributes
    other: OtherReasons

    def columns(self) -> dict[str, str]:
        """The texts as columns of a table."""
        sides = {"for": self.supporting, "against": self.against}
        return {
            "compared": self.text,
            **{side: "; ".join(part.text for part in parts) for side, parts in sides.items()},
            "other_attributes": self.other_attributes.text,
            "other": self.other.text,
        }


@dataclass(frozen=True, eq=False)
class Explanation:
    """What the lead of an answer over the runner-up is made of.

    Attributes
    ----------
    scores : tuple of float
        Of the answer and of the runner-up; the lead is their difference.
    contributions : array (a,)
        What each attribute adds to the lead.
    more : array (a,)
        Whether the answer has more of the attribute than the runner-up, by their descriptions.
    stacking : float
        What calibrated stacking adds to the lead: the constants taken off seen classes.
    """

    scores: tuple[float, float]
    contributions: np.ndarray
    more: np.ndarray
    stacking: float

    @property
    def lead(self) -> float:
        """The score of the answer less that of the runner-up."""
        return self.scores[0] - self.scores[1]

    @property
    def other(self) -> float:
        """What of the lead does not follow from the attributes: calibrated stacking, and training samples."""
        return self.lead - float(self.contributions.sum())

    @property
    def training_samples(self) -> float:
        """What training samples of both classes add to what follows from the descriptions; else only rounding."""
        return self.other - self.stacking

    def reasons(self, answer: Any, runner_up: Any, names: Sequence[str], shown: int = SHOWN) -> Reasons:
        """Write the strongest attributes, all others together, and "other"; their contributions add up to the lead."""
        order, c = np.argsort(-self.contributions, kind="stable"), self.contributions
        supporting = [m for m in order[:shown] if c[m] > 0]
        against = [m for m in order[::-1][:shown] if c[m] < 0]
        unlisted = np.delete(c, [*supporting, *against])
        count, together = int(np.count_nonzero(unlisted)), float(unlisted.sum())
        # As many digits for all as the largest part needs for four, so that a reader can add them up.
        largest = max(map(abs, (self.lead, together, self.stacking, self.training_samples, c.max(), c.min())))
        digits = int(np.clip(3 - np.floor(np.log10(largest)), 0, 12)) if largest > 0 else 0

        def signed(text: str, value: float) -> str:
            return f"{text} ({round(value, digits) + 0.0:+.{digits}f})"

        def of_attribute(m: int) -> AttributeContribution:
            value, more = float(c[m]), bool(self.more[m])
            text = signed(f"{'more' if more else 'less'} of {names[m]}", value)
            return AttributeContribution(attribute=names[m], contribution=value, more=more, text=text)

        others = "1 other attribute" if count == 1 else f"{count} other attributes"
        return Reasons(
            label=str(answer),
            instead_of=str(runner_up),
            lead=self.lead,
            text=signed(f"{answer} instead of {runner_up}", self.lead),
            supporting=[of_attribute(m) for m in supporting],
            against=[of_attribute(m) for m in against],
            other_attributes=OtherAttributes(count=count, contribution=together, text=signed(others, together)),
            other=OtherReasons(
                contribution=self.other,
                stacking=self.stacking,
                training_samples=self.training_samples,
                text="; ".join(signed(*part) for part in self._other_parts()) or "nothing else",
            ),
        )

    def _other_parts(self) -> list[tuple[str, float]]:
        parts = [
            ("calibrated stacking, which holds back seen classes", self.stacking),
            ("training samples of the classes", self.training_samples),
        ]
        least = _ROUNDING * max(map(abs, self.scores))
        return [(name, value) for name, value in parts if abs(value) > least]


def explain(
    model: ZeroShotClassifier,
    X: np.ndarray,
    pairs: np.ndarray,
    scores: np.ndarray,
    descriptions: np.ndarray,
    seen: np.ndarray,
    *,
    shift: float = 0.0,
    steps: int = STEPS,
    progress: Callable[[int, int], None] | None = None,
) -> list[Explanation]:
    """Explain why each sample of `X (n, d)` is given the first class of its pair and not the second.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted.
    X : array (n, d)
        Features, as the model has checked them.
    pairs : array (n, 2)
        The index of the answer and of the runner-up of each sample.
    scores : array (n, 2)
        Their scores.
    descriptions : array (k, a)
        Of the classes that `pairs` refers to.
    seen : array (k,)
        Their codes among the training classes, −1 for a class that training has not seen.
    shift : float
        What was taken off the scores of seen classes besides what the model itself takes off.
    steps : int
        J. For each pair of classes, 2·J·(attributes in which they differ) descriptions are scored.
    progress : callable, optional
        Called with the number of samples that are explained and of all samples.

    Returns
    -------
    list of Explanation
        One per sample.
    """
    found: list[Any] = [None] * len(X)
    kinds, kind_of = np.unique(pairs, axis=0, return_inverse=True)
    done = 0
    for kind, (answer, runner_up) in enumerate(kinds):  # the path depends on the pair alone, not on the sample
        samples = np.flatnonzero(kind_of.ravel() == kind)
        more = descriptions[answer] > descriptions[runner_up]
        constants = model.seen_penalties(descriptions[[answer, runner_up]], seen[[answer, runner_up]])
        constants += shift * (seen[[answer, runner_up]] >= 0)
        stacking = float(constants[1] - constants[0])
        for start in range(0, len(samples), _ROWS):
            some = samples[start : start + _ROWS]
            along = _contributions(model, X[some], descriptions[answer], descriptions[runner_up], steps)
            for i, c in zip(some, along, strict=True):
                found[i] = Explanation((float(scores[i, 0]), float(scores[i, 1])), c, more, stacking)
            done += len(some)
            if progress is not None:
                progress(done, len(X))
    return found


def _contributions(
    model: ZeroShotClassifier, X: np.ndarray, answer: np.ndarray, runner_up: np.ndarray, steps: int
) -> np.ndarray:
    """c (n, a), adding up to the difference of the scores that follow from the two descriptions."""
    contributions = np.zeros((len(X), len(answer)))
    differ = np.flatnonzero(answer != runner_up)
    ends = runner_up + np.linspace(0, 1, steps + 1)[:, None] * (answer.astype(np.float64) - runner_up)
    ends[-1] = answer  # exactly, so that the sum is exact as well
    width = max(1, _BLOCK_BYTES // (8 * len(answer)))
    for before, after in pairwise(ends):
        for order in (differ, differ[::-1]):
            turn = np.full(len(answer), len(order))
            turn[order] = np.arange(len(order))
            for first in range(0, len(order), width):
                changed = np.arange(first, min(first + width, len(order)) + 1)  # how many attributes, in this order
                points = np.where(turn < changed[:, None], after, before)
                scores = model.description_scores(X, points).astype(np.float64)
                contributions[:, order[changed[:-1]]] += np.diff(scores, axis=1) / 2
    return contributions
