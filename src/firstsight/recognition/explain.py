"""Why this class and not the next: what each attribute adds to the lead of the winner over the runner-up.

The description of the runner-up is turned into the winner's along the straight line between them. On every step each
attribute is moved alone, half a step back and forth around the middle, and what that does to the score is the
attribute's contribution; the contributions of all steps add up::

    c_m = Σ_j  s(x, z_j + e_m δ_m / 2) − s(x, z_j − e_m δ_m / 2)        δ = (a_w − a_r) / J,   z_j the middle of step j

Nothing of a method is needed but its scores of descriptions that no class has. Where the score is linear in the
description (every bilinear method) or quadratic in it, c_m is exact whatever J: Σ_m c_m = s(x, w) − s(x, r), and a
linear score's c_m is the attribute's own term. Elsewhere Σ_m c_m tends to the lead as J grows; `rest` is what is
missing.
Descriptions are compared as the method sees them, after its `attribute_scaling`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import pandas as pd

from firstsight.methods import ZeroShotClassifier
from firstsight.methods.parts.scaling import scale

STEPS = 4


@dataclass(frozen=True, eq=False)
class Why:
    """Contributions (a,) of the attributes to `lead`, the winner's score less the runner-up's."""

    contributions: np.ndarray
    lead: float
    more: np.ndarray  # (a,) whether the winner has more of the attribute than the runner-up

    @property
    def rest(self) -> float:
        """What of the lead the attributes do not account for."""
        return self.lead - float(self.contributions.sum())

    def speaking(self, names: list[str], count: int = 3) -> dict[str, list[dict[str, str | float | bool]]]:
        """The `count` attributes that speak most for the winner, and most against it; what it lacks may speak, too."""
        order = np.argsort(-self.contributions, kind="stable")
        ends = {"for": order[:count], "against": order[::-1][:count]}
        sign = {"for": 1, "against": -1}
        return {
            end: [
                {"attribute": names[m], "contribution": float(self.contributions[m]), "more": bool(self.more[m])}
                for m in places
                if sign[end] * self.contributions[m] > 0
            ]
            for end, places in ends.items()
        }


def explain(
    model: ZeroShotClassifier, x: np.ndarray, winner: np.ndarray, runner_up: np.ndarray, lead: float, steps: int = STEPS
) -> Why:
    """Why row `x (d,)` is called a class described by `winner (a,)` and not one described by `runner_up (a,)`.

    Takes the scores of 2·steps·(attributes in which the two differ) descriptions: milliseconds for 85 attributes.
    """
    plain = copy.copy(model)
    plain.attribute_scaling = None  # descriptions come scaled, so that a step is a step in the method's own space
    pair = scale(model.attribute_scaling, model.attribute_scaler_, np.stack([winner, runner_up]))
    a_w, a_r = pair.astype(np.float64)
    delta = (a_w - a_r) / steps
    differ = np.flatnonzero(delta)
    contributions = np.zeros(len(a_w))
    if len(differ):
        middles = a_r + (np.arange(steps) + 0.5)[:, None] * delta  # (J, a)
        tried = np.repeat(middles[:, None, None, :], 2, axis=1).repeat(len(differ), axis=2)  # (J, 2, differ, a)
        here = np.arange(len(differ))
        tried[:, 0, here, differ] += delta[differ] / 2
        tried[:, 1, here, differ] -= delta[differ] / 2
        table = pd.DataFrame(tried.reshape(-1, len(a_w)))
        table.index = [f"\0step {number}" for number in range(len(table))]  # no class of the model
        scores = plain.decision_function(x[None], classes=table)[0].astype(np.float64)
        scores = scores.reshape(steps, 2, len(differ))
        contributions[differ] = (scores[:, 0] - scores[:, 1]).sum(axis=0)
    return Why(contributions, float(lead), delta > 0)
