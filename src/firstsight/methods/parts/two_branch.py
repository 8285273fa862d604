"""The paper's two-branch network and the two halves of its alternating optimisation (Algorithm 1)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear, relu_

from firstsight.methods.parts.disk_tensor import shuffled
from firstsight.methods.parts.tensors import linear as new_layer

VISUAL = ("visual.weight", "visual.bias", "classifier.weight", "classifier.bias")
SEMANTIC = ("semantic.0.weight", "semantic.0.bias", "semantic.1.weight", "semantic.1.bias")
# Rows embedded at once when class means are taken or a pool is predicted: enough for the matrix product, and so few
# that their memory is used again instead of being asked of the system for every block (a tenth of an iteration).
BLOCK = 1024


class TwoBranch:
    """φ(x) = relu(W_v x + b_v), ψ(a) = relu(W_2 relu(W_1 a + b_1) + b_2) and the auxiliary classifier W on φ.

    `weights` holds them by name (see VISUAL and SEMANTIC). Nothing here knows about rounds or pools: `rows` is any
    function that gives the features of an index tensor.
    """

    def __init__(self, weights: dict[str, Tensor]):
        self.weights = {name: weight.requires_grad_(True) for name, weight in weights.items()}
        self.optimizers: dict[str, torch.optim.Adam] = {}

    @classmethod
    def draw(cls, n_features: int, n_attributes: int, embedding_dim: int, n_classes: int, generator) -> TwoBranch:
        hidden = (n_attributes + embedding_dim) // 2  # the paper's footnote 3
        layers = {
            "visual": new_layer(embedding_dim, n_features, generator),
            "semantic.0": new_layer(hidden, n_attributes, generator),
            "semantic.1": new_layer(embedding_dim, hidden, generator),
            "classifier": new_layer(n_classes, embedding_dim, generator),
        }
        return cls(
            {
                f"{name}.{part}": t
                for name, pair in layers.items()
                for part, t in zip(("weight", "bias"), pair, strict=True)
            }
        )

    def widen_classifier(self, n_classes: int, generator) -> None:
        """Give W columns for classes that it has none for yet; the ones it has stay as they are."""
        weight, bias = (self.weights[f"classifier.{part}"].detach() for part in ("weight", "bias"))
        extra = n_classes - len(weight)
        if extra > 0:
            new_weight, new_bias = new_layer(extra, weight.shape[1], generator)
            self.weights["classifier.weight"] = torch.cat([weight, new_weight]).requires_grad_(True)
            self.weights["classifier.bias"] = torch.cat([bias, new_bias]).requires_grad_(True)

    def start(self, penalty: float) -> None:
        """New optimisers. η‖θ‖² has the gradient 2ηθ, which is Adam's (coupled) weight decay of 2η."""
        for branch, names in (("visual", VISUAL), ("semantic", SEMANTIC)):
            self.optimizers[branch] = torch.optim.Adam(
                [self.weights[n] for n in names], weight_decay=2 * penalty, fused=True
            )

    def set_learning_rates(self, visual: float, semantic: float) -> None:
        for branch, rate in (("visual", visual), ("semantic", semantic)):
            for group in self.optimizers[branch].param_groups:
                group["lr"] = rate

    def visual(self, X: Tensor) -> Tensor:
        return relu_(linear(X, self.weights["visual.weight"], self.weights["visual.bias"]))

    def semantic(self, A: Tensor) -> Tensor:
        hidden = relu_(linear(A, self.weights["semantic.0.weight"], self.weights["semantic.0.bias"]))
        return relu_(linear(hidden, self.weights["semantic.1.weight"], self.weights["semantic.1.bias"]))

    def visual_loss(self, X: Tensor, y: Tensor, targets: Tensor, absent: Tensor | None) -> tuple[Tensor, Tensor]:
        """Eq. 4 without λ and η: mean squared distance to the class's ψ (summed over dimensions), cross-entropy.

        `absent` marks classes without any training row; they are masked out of the softmax.
        """
        embedded = self.visual(X)  # (b, e)
        logits = linear(embedded, self.weights["classifier.weight"], self.weights["classifier.bias"])
        if absent is not None:
            logits = logits.masked_fill(absent, -torch.inf)
        regression = (embedded - targets[y]).square().sum() / len(X)
        return regression, cross_entropy(logits, y)

    def visual_pass(self, rows, y, A, separation, batch_size, generator, absent=None) -> tuple[float, float]:
        """Step (a): one pass of Adam over all rows for φ and W, ψ fixed. Returns both mean losses."""
        with torch.no_grad():
            targets = self.semantic(A)  # ψ is fixed, so its output is the same for the whole pass
        optimizer, totals = self.optimizers["visual"], torch.zeros(2)
        for batch in shuffled(rows, len(y), generator).split(batch_size):
            regression, classification = self.visual_loss(rows(batch), y[batch], targets, absent)
            optimizer.zero_grad()
            (regression + separation * classification).backward()
            optimizer.step()
            totals += len(batch) * torch.stack([regression.detach(), classification.detach()])
        mean = totals / len(y)
        return mean[0].item(), mean[1].item()

    @torch.no_grad()
    def class_means(self, rows, y, n_classes: int) -> tuple[Tensor, Tensor]:
        """μ (C, e) and the share of rows n_c/n (C,) of each class."""
        sums = torch.zeros(n_classes, len(self.weights["visual.bias"]))
        for block in torch.arange(len(y)).split(BLOCK):
            sums.index_add_(0, y[block], self.visual(rows(block)))
        counts = torch.bincount(y, minlength=n_classes)
        return sums / counts.clamp(min=1)[:, None], counts / len(y)

    def semantic_loss(self, A: Tensor, means: Tensor, shares: Tensor) -> Tensor:
        """Eq. 5 without η, up to a constant: Σ_i‖φ(x_i) − ψ(a_{y_i})‖²/n = Σ_c (n_c/n)‖μ_c − ψ(a_c)‖² + const,

        because ψ depends on the class alone. So step (b) works on C rows instead of n.
        """
        return (shares[:, None] * (self.semantic(A) - means).square()).sum()

    def semantic_pass(self, rows, y, A, steps: int) -> float:
        """Step (b): Adam steps for ψ on the class means, φ fixed. Returns the last loss."""
        means, shares = self.class_means(rows, y, len(A))
        present = shares > 0
        if not present.all():
            A, means, shares = A[present], means[present], shares[present]
        optimizer, loss = self.optimizers["semantic"], torch.zeros(())
        for _ in range(steps):
            loss = self.semantic_loss(A, means, shares)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    @torch.no_grad()
    def squared_distances(self, X: Tensor, embedded_classes: Tensor) -> Tensor:
        """‖φ(x) − ψ(a_c)‖² (n, k), as φ·φ − 2φ·ψ + ψ·ψ: one matrix product."""
        embedded = self.visual(X)
        out = torch.addmm(embedded_classes.square().sum(1), embedded, embedded_classes.T, alpha=-2)
        return out.add_(embedded.square().sum(1, keepdim=True)).clamp_(min=0)

    @torch.no_grad()
    def nearest(self, X: Tensor, A: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Eq. 2: the class whose ψ is nearest, and the squared distance to it (the visual–semantic gap)."""
        embedded_classes = self.semantic(A)
        best = [self.squared_distances(block, embedded_classes).min(1) for block in X.split(BLOCK)]
        return torch.cat([b.indices for b in best]).numpy(), torch.cat([b.values for b in best]).numpy()

    # A checkpoint needs everything that the next step depends on ----------------------------------------------

    def state(self) -> dict[str, Tensor]:
        tensors = {f"weights/{name}": weight.detach() for name, weight in self.weights.items()}
        for branch, names in (("visual", VISUAL), ("semantic", SEMANTIC)):
            moments = self.optimizers[branch].state
            for name in names:
                tensors |= {f"adam/{name}/{key}": value for key, value in moments[self.weights[name]].items()}
        return tensors

    def restore_optimizers(self, tensors: dict[str, Tensor]) -> None:
        """Put Adam's moments back; `start` must have made the optimisers for the same weights."""
        for branch, names in (("visual", VISUAL), ("semantic", SEMANTIC)):
            for name in names:
                prefix = f"adam/{name}/"
                moments = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
                if moments:
                    self.optimizers[branch].state[self.weights[name]] = moments
