"""Gradient training shared by methods: tensors, batches of samples, the training loop, a two-layer network."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from sklearn.utils import check_random_state

from firstsight._io.terminal import progress
from firstsight.devices import lowered, torch
from firstsight.methods._moments import class_sums

if TYPE_CHECKING:
    from torch import Tensor


# Arrays and tensors


def as_tensor(values: np.ndarray, device: torch.device | str = "cpu") -> torch.Tensor:
    """Convert an array to a tensor, on the CPU without a copy; arrays may be read-only (frozen data, a memory map)."""
    with warnings.catch_warnings():
        # Torch warns that writing to it would be undefined; features are only ever read.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(values).to(device)


def as_tensors(values: Mapping[str, np.ndarray], device: torch.device) -> dict[str, torch.Tensor]:
    """`as_tensor` of arrays by name."""
    return {name: as_tensor(array, device) for name, array in values.items()}


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Convert a tensor of any device to an array."""
    array: np.ndarray = tensor.detach().cpu().numpy()
    return array


def to_arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """`to_numpy` of tensors by name."""
    return {name: to_numpy(tensor) for name, tensor in tensors.items()}


def make_generator(random_state) -> torch.Generator:
    """Make a generator from scikit-learn's `random_state`; torch's global one is never touched.

    It draws on the CPU, so that a fit on any device begins with the same weights and takes rows in the same order.
    """
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return torch.Generator().manual_seed(int(seed))


def new_layer(outputs: int, inputs: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight (outputs, inputs) and bias (outputs,) of a linear layer, uniform in ±1/√inputs as torch.nn does."""
    bound = inputs**-0.5
    weight = torch.empty(outputs, inputs).uniform_(-bound, bound, generator=generator)
    bias = torch.empty(outputs).uniform_(-bound, bound, generator=generator)
    return weight, bias


# Samples in batches


class TrainingSamples(Protocol):
    """Training samples in batches, in memory or on the disk; indices and features come on the device of the fit.

    What is yielded is valid until the next batch is requested.
    """

    def batches(self, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Pass over all samples in a new order: the indices of a batch, and its features."""

    def blocks(self, size: int) -> Iterator[tuple[slice, Tensor]]:
        """Pass over all samples in order."""


class RowsInMemory:
    """Samples of a tensor, or the `chosen` ones of it, times `factor`; the tensor itself is never written to."""

    def __init__(self, X: Tensor, factor: float = 1.0, chosen: Tensor | None = None):
        self._X, self._factor, self._chosen = X, factor, chosen
        self._room = X.new_empty(0, X.shape[1])  # used again and again: asking the system for it takes longer

    def __len__(self) -> int:
        return len(self._X) if self._chosen is None else len(self._chosen)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self), generator=generator).to(self._X.device)
        for batch in order.split(size):
            yield batch, self._gather(batch if self._chosen is None else self._chosen[batch])

    def blocks(self, size: int) -> Iterator[tuple[slice, Tensor]]:
        for start in range(0, len(self), size):
            part = slice(start, min(start + size, len(self)))
            if self._chosen is not None:
                yield part, self._gather(self._chosen[part])
            elif self._factor == 1.0:
                yield part, self._X[part]
            else:
                yield part, torch.mul(self._X[part], self._factor, out=self._room_for(part.stop - part.start))

    def _gather(self, numbers: Tensor) -> Tensor:
        rows = torch.index_select(self._X, 0, numbers, out=self._room_for(len(numbers)))
        return rows if self._factor == 1.0 else rows.mul_(self._factor)

    def _room_for(self, rows: int) -> Tensor:
        if len(self._room) < rows:
            self._room = self._X.new_empty(rows, self._X.shape[1])
        return self._room[:rows]


# Training loop


def train(
    weights: Iterable[Tensor],
    loss: Callable[[Tensor], Tensor],
    n_rows: int,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    generator: torch.Generator,
    weight_decay: float = 0.0,
    optimizer: str = "adam",
    schedule: str = "constant",
    precision: str = "float32",
    description: str = "training",
    verbose: bool = False,
) -> list[float]:
    """Minimise a loss over shuffled batches; `loss(batch)` is the mean loss of the samples with these indices.

    All happens on the device of the weights; an epoch waits for it once.

    The schedule "cosine" lets the learning rate fade towards zero over the epochs. Returns the mean loss of every
    epoch. Fused optimisers: a step is one pass over the weights in memory.
    """
    weights = [weight.requires_grad_(True) for weight in weights]
    device = weights[0].device
    if optimizer == "adam":
        steps: torch.optim.Optimizer = torch.optim.Adam(
            weights, lr=learning_rate, weight_decay=weight_decay, fused=True
        )
    else:
        steps = torch.optim.SGD(weights, lr=learning_rate, weight_decay=weight_decay, fused=True)
    history = []
    with progress(description, epochs, verbose) as show:
        for epoch in range(epochs):
            if schedule == "cosine":
                for group in steps.param_groups:
                    group["lr"] = learning_rate * 0.5 * (1 + math.cos(math.pi * epoch / epochs))
            batches = torch.randperm(n_rows, generator=generator).to(device).split(batch_size)
            values = []
            for batch in batches:
                with lowered(device, precision):
                    value = loss(batch)
                steps.zero_grad()
                value.backward()
                steps.step()
                values.append(value.detach())
            means = torch.stack(values).tolist()
            total = 0.0
            for mean, batch in zip(means, batches, strict=True):
                total += mean * len(batch)
            history.append(total / n_rows)
            show(epoch + 1, f"loss {history[-1]:.4g}")
    return history


def train_model(
    model: Any,
    weights: Iterable[Tensor],
    loss: Callable[[Tensor], Tensor],
    n_rows: int,
    generator: torch.Generator,
    **changes: Any,
) -> list[float]:
    """`train` with the parameters that the model has for it, under the model's name; `changes` take precedence."""
    of_model = {n: getattr(model, n) for n in ("epochs", "batch_size", "learning_rate", "precision", "verbose")}
    return train(
        weights, loss, n_rows, generator=generator, **{"description": type(model).__name__, **of_model, **changes}
    )


# Two-layer network


def draw_two_layers(
    name: str, inputs: int, hidden: int, outputs: int, generator: torch.Generator, device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    """Weights by name: `name.0.weight (hidden, inputs)`, `name.0.bias`, `name.1.weight (outputs, hidden)`, …"""
    first, second = new_layer(hidden, inputs, generator), new_layer(outputs, hidden, generator)
    return {
        f"{name}.{layer}.{part}": values.to(device)
        for layer, pair in enumerate((first, second))
        for part, values in zip(("weight", "bias"), pair, strict=True)
    }


def two_layers(
    weights: Mapping[str, Tensor], name: str, values: Tensor, activation: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """W₂ activation(W₁ v + b₁) + b₂ for each row v; the activation is relu unless another is given."""
    linear = torch.nn.functional.linear
    hidden = (activation or torch.relu)(linear(values, weights[f"{name}.0.weight"], weights[f"{name}.0.bias"]))
    return linear(hidden, weights[f"{name}.1.weight"], weights[f"{name}.1.bias"])


# Regression onto samples by a network that sees the class only: exactly a problem on the class means.


def class_means(X: np.ndarray, y: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """μ (k, d) and the share of rows n_c/n (k,) of each class; every class has rows."""
    counts = np.bincount(y, minlength=n_classes)
    means = class_sums(X, y, n_classes) / counts[:, None]
    return means.astype(X.dtype), (counts / len(y)).astype(X.dtype)


def class_mean_loss(predicted: Tensor, means: Tensor, shares: Tensor, n_classes: int) -> Tensor:
    """Σ_c (n_c/n) ‖μ_c − f_c‖², from all classes or, without bias, from a batch drawn of `n_classes`.

    It is mean_i ‖x_i − f(a_{y_i})‖² up to a constant, because f depends on the class alone.
    """
    return n_classes * (shares * (predicted - means).square().sum(1)).mean()
