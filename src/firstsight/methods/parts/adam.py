"""Adam on numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class Adam:
    """Changes the arrays that it is given in place, with the customary memory of 10 and of 1,000 steps."""

    def __init__(self, *weights: np.ndarray):
        self.weights, self.steps = weights, 0
        self.speeds, self.sizes = ([np.zeros_like(weight) for weight in weights] for _ in range(2))

    def step(self, slopes: Sequence[np.ndarray], rates: Sequence[float]) -> None:
        """One step down the slopes, of the rate that each array is given."""
        self.steps += 1
        for weight, slope, speed, size, rate in zip(self.weights, slopes, self.speeds, self.sizes, rates, strict=True):
            speed += 0.1 * (slope - speed)
            size += 0.001 * (slope**2 - size)
            weight -= rate * (speed / (1 - 0.9**self.steps)) / (np.sqrt(size / (1 - 0.999**self.steps)) + 1e-8)
