"""What the ranking methods share: the bilinear score, hinge losses over wrong classes, and their training."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from firstsight.methods.base import ZeroShotClassifier
from firstsight.methods.parts.tensors import as_tensor, make_generator
from firstsight.methods.parts.training import train


def violations(scores: Tensor, y: Tensor, margin: float) -> Tensor:
    """[m + F(x,c) − F(x,y)]₊ of every wrong class (b, C); zero in the column of the row's own class."""
    own = y[:, None]
    return (margin + scores - scores.gather(1, own)).relu().scatter(1, own, 0.0)


def summed_hinge(scores: Tensor, y: Tensor, margin: float) -> Tensor:
    """Mean over rows of Σ_{c≠y} [m + F(x,c) − F(x,y)]₊."""
    return violations(scores, y, margin).sum(1).mean()


def hardest_hinge(scores: Tensor, y: Tensor, margin: float) -> Tensor:
    """Mean over rows of max_{c≠y} [m + F(x,c) − F(x,y)]₊."""
    return violations(scores, y, margin).amax(1).mean()


def ranked_hinge(scores: Tensor, y: Tensor, margin: float) -> Tensor:
    """Mean over rows of (ℓ_r / r) Σ_{c≠y} [m + F(x,c) − F(x,y)]₊; r counts the positive terms (WARP)."""
    hinges = violations(scores, y, margin)
    rank = (hinges > 0).sum(1)
    harmonic = torch.arange(1, scores.shape[1] + 1).reciprocal().cumsum(0)  # ℓ_1 … ℓ_C
    r = rank.clamp(min=1)  # a row without violations has a sum of zero: any finite weight will do
    return (harmonic[r - 1] / r * hinges.sum(1)).mean()
