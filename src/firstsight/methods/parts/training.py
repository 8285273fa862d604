"""The one training loop of the methods that learn by gradient steps on batches of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from firstsight.devices import lowered, torch
from firstsight.terminal import progress

if TYPE_CHECKING:
    from torch import Tensor


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
    momentum: float = 0.0,
    schedule: str = "constant",
    precision: str = "float32",
    description: str = "training",
    verbose: bool = False,
) -> list[float]:
    """Passes over shuffled rows in batches; `loss(batch)` is the mean loss of the rows with these numbers.

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
        steps = torch.optim.SGD(weights, lr=learning_rate, weight_decay=weight_decay, momentum=momentum, fused=True)
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
