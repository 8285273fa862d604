"""What rows share with prototypes, entry by entry: weighted sums of minima, and their derivative."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# Rows compared with a prototype at once: their minima stay in the processor's cache.
BLOCK = 128


def shared_parts(X: Tensor, w: Tensor, V: Tensor) -> Tensor:
    """⟨w, min(x, v_k)⟩ (n, k), without ever holding the n × k × d minima."""
    out = X.new_empty(len(X), len(V))
    for start in range(0, len(X), BLOCK):
        block = X[start : start + BLOCK]
        for k, v in enumerate(V):
            out[start : start + BLOCK, k] = torch.minimum(block, v) @ w
    return out


class SharedParts(torch.autograd.Function):
    """`shared_parts` with its derivative, class by class as well."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, w: Tensor, V: Tensor) -> Tensor:
        ctx.save_for_backward(X, w, V)
        return shared_parts(X, w, V)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[None, Tensor, Tensor]:
        X, w, V = ctx.saved_tensors
        slope_w, slope_V = torch.zeros_like(w), torch.empty_like(V)
        for k, v in enumerate(V):
            slope_w += slope[:, k] @ torch.minimum(X, v)
            slope_V[k] = w * (slope[:, k] @ (v < X).to(X.dtype))
        return None, slope_w, slope_V
