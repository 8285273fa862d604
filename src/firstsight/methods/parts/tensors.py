"""Arrays as tensors without a copy, and tensors drawn from a generator of their own."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from sklearn.utils import check_random_state


def as_tensor(values: np.ndarray) -> torch.Tensor:
    """The same memory as a tensor; read-only arrays (a frozen data set, a memory map) are welcome."""
    with warnings.catch_warnings():
        # Torch warns that writing to it would be undefined; features are only ever read.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(values)


def make_generator(random_state) -> torch.Generator:
    """A generator from scikit-learn's `random_state`; torch's global one is never touched."""
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return torch.Generator().manual_seed(int(seed))


def linear(outputs: int, inputs: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight (outputs, inputs) and bias (outputs,) of a linear layer, uniform in ±1/√inputs as torch.nn does."""
    bound = inputs**-0.5
    weight = torch.empty(outputs, inputs).uniform_(-bound, bound, generator=generator)
    bias = torch.empty(outputs).uniform_(-bound, bound, generator=generator)
    return weight, bias
