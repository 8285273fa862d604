"""The small network of several methods: two linear layers with one activation between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from firstsight.devices import torch
from firstsight.methods.parts.tensors import linear as new_layer

if TYPE_CHECKING:
    from torch import Tensor


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
