"""Arrays as tensors, without a copy on the CPU, and back; tensors drawn from a generator of their own."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
from sklearn.utils import check_random_state

from firstsight.devices import torch


def as_tensor(values: np.ndarray, device: torch.device | str = "cpu") -> torch.Tensor:
    """On the CPU, the same memory as a tensor; read-only arrays (a frozen data set, a memory map) are welcome."""
    with warnings.catch_warnings():
        # Torch warns that writing to it would be undefined; features are only ever read.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(values).to(device)


def as_tensors(values: Mapping[str, np.ndarray], device: torch.device) -> dict[str, torch.Tensor]:
    """`as_tensor` of arrays by name."""
    return {name: as_tensor(array, device) for name, array in values.items()}


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A result: the one way back from a device."""
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array


def to_arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """`to_numpy` of tensors by name."""
    return {name: to_numpy(tensor) for name, tensor in tensors.items()}


def make_generator(random_state) -> torch.Generator:
    """A generator from scikit-learn's `random_state`; torch's global one is never touched.

    It draws on the CPU, so that a fit on any device begins with the same weights and takes rows in the same order.
    """
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return torch.Generator().manual_seed(int(seed))


def linear(outputs: int, inputs: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight (outputs, inputs) and bias (outputs,) of a linear layer, uniform in ±1/√inputs as torch.nn does."""
    bound = inputs**-0.5
    weight = torch.empty(outputs, inputs).uniform_(-bound, bound, generator=generator)
    bias = torch.empty(outputs).uniform_(-bound, bound, generator=generator)
    return weight, bias
