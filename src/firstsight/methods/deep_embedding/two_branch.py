"""The paper's two-branch network, its losses, and the two steps of its alternating optimisation (Algorithm 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstsight.devices import lowered, team, torch
from firstsight.methods._gradient_training import TrainingSamples, new_layer, two_layers

if TYPE_CHECKING:
    from torch import Tensor

VISUAL = ("visual.weight", "visual.bias", "classifier.weight", "classifier.bias")
SEMANTIC = ("semantic.0.weight", "semantic.0.bias", "semantic.1.weight", "semantic.1.bias")
ADAM_STATE = ("exp_avg", "exp_avg_sq", "step")  # of each weight
# Samples embedded at once when class means are computed or a pool is predicted: enough for the matrix product, and so
# few that their memory is used again instead of being asked of the system for every block (a tenth of an iteration).
BLOCK = 1024


class TwoBranch:
    """φ(x) = relu(W_v x + b_v), ψ(a) = relu(W_2 relu(W_1 a + b_1) + b_2) and the auxiliary classifier W on φ.

    `weights` holds them by name (see VISUAL and SEMANTIC), on the device where all is computed; losses are tensors on
    it, too. `precision` is that of the matrix products of φ and W in a visual pass.
    """

    def __init__(self, weights: dict[str, Tensor], precision: str = "float32"):
        self.weights = {name: weight.requires_grad_(True) for name, weight in weights.items()}
        self.optimizers: dict[str, torch.optim.Adam] = {}
        self.precision = precision

    @property
    def device(self) -> torch.device:
        return self.weights["visual.bias"].device

    @classmethod
    def draw(
        cls, n_features: int, n_attributes: int, embedding_dim: int, n_classes: int, generator: torch.Generator
    ) -> TwoBranch:
        """A network with random weights."""
        hidden = (n_attributes + embedding_dim) // 2  # the paper's footnote 3
        layers = {
            "visual": (embedding_dim, n_features),
            "semantic.0": (hidden, n_attributes),
            "semantic.1": (embedding_dim, hidden),
            "classifier": (n_classes, embedding_dim),
        }
        weights = {}
        for name, (outputs, inputs) in layers.items():
            weights[f"{name}.weight"], weights[f"{name}.bias"] = new_layer(outputs, inputs, generator)
        return cls(weights)

    def widen_classifier(self, n_classes: int, generator: torch.Generator) -> None:
        """Add columns to W up to `n_classes`; existing ones stay as they are."""
        weight, bias = (self.weights[f"classifier.{part}"].detach() for part in ("weight", "bias"))
        extra = n_classes - len(weight)
        if extra > 0:
            new_weight, new_bias = (part.to(self.device) for part in new_layer(extra, weight.shape[1], generator))
            self.weights["classifier.weight"] = torch.cat([weight, new_weight]).requires_grad_(True)
            self.weights["classifier.bias"] = torch.cat([bias, new_bias]).requires_grad_(True)

    def new_optimizers(self, penalty: float) -> None:
        """Start Adam afresh for both branches; its (coupled) weight decay of 2η is the gradient of η‖θ‖²."""
        for branch, names in (("visual", VISUAL), ("semantic", SEMANTIC)):
            self.optimizers[branch] = torch.optim.Adam(
                [self.weights[n] for n in names], weight_decay=2 * penalty, fused=True
            )

    def set_learning_rates(self, visual: float, semantic: float) -> None:
        """Learning rates of both optimisers."""
        for branch, lr in (("visual", visual), ("semantic", semantic)):
            for group in self.optimizers[branch].param_groups:
                group["lr"] = lr

    def visual(self, X: Tensor) -> Tensor:
        """φ(x) (n, e)."""
        return torch.relu_(torch.nn.functional.linear(X, self.weights["visual.weight"], self.weights["visual.bias"]))

    def semantic(self, A: Tensor) -> Tensor:
        """ψ(a) (C, e)."""
        return torch.relu_(two_layers(self.weights, "semantic", A))

    def visual_gradient(
        self,
        X: Tensor,
        y: Tensor,
        targets: Tensor,
        separation: float,
        absent: Tensor | None = None,
        whole: int | None = None,
    ) -> Tensor:
        """Write the gradient of Eq. 4 to `.grad` of φ's and W's weights; return both losses (2,).

        They are, without λ and η, the mean squared distance to the class's ψ (summed over dimensions) and the
        cross-entropy, both over a batch of `whole` samples, of which these may be a part. `absent` marks classes
        without any training sample; they are masked out of the softmax.

        By hand but for the softmax: the gradient of φ's weights, the largest tensor of all, is written to the same
        memory every time, and elementwise operations are done in place.
        """
        with torch.no_grad():
            whole = whole or len(X)
            weight, bias, columns, offset = (self.weights[name] for name in VISUAL)
            with lowered(self.device, self.precision):
                embedded = self.visual(X).float()  # (b, e)
                logits = torch.nn.functional.linear(embedded, columns, offset).requires_grad_(True)  # (b, C)
            away = embedded - targets.index_select(0, y)
            regression = away.square().sum() / whole
            with torch.enable_grad():
                masked = logits if absent is None else logits.masked_fill(absent, -torch.inf)
                classification = torch.nn.functional.cross_entropy(masked, y, reduction="sum") / whole
                (grad,) = torch.autograd.grad(separation * classification, logits)
            with lowered(self.device, self.precision):
                columns.grad, back = (grad.T @ embedded).float(), (grad @ columns).float()
            offset.grad = grad.float().sum(0)
            back = torch.ops.aten.threshold_backward(back.add_(away.mul_(2 / whole)), embedded, 0)  # of relu
            bias.grad = back.sum(0)
            if weight.grad is None:
                weight.grad = torch.empty_like(weight)
            if self.precision == "float32":
                torch.mm(back.T, X, out=weight.grad)
            else:
                with lowered(self.device, self.precision):
                    weight.grad.copy_(back.T @ X)
            return torch.stack([regression, classification.detach()])

    def visual_pass(
        self,
        samples: TrainingSamples,
        y: Tensor,
        A: Tensor,
        separation: float,
        batch_size: int,
        generator: torch.Generator,
        absent: Tensor | None = None,
    ) -> Tensor:
        """Step (a): one pass of Adam over all samples for φ and W, ψ fixed. Returns both mean losses (2,)."""
        with torch.no_grad():
            targets = self.semantic(A)  # ψ is fixed, so its output is the same for the whole pass
        totals, processes = torch.zeros(2, device=self.device), team()
        for batch, X in samples.batches(batch_size, generator):
            part = processes.part(len(batch))
            losses = self.visual_gradient(X[part], y[batch[part]], targets, separation, absent, len(batch))
            processes.add_up(*(self.weights[name].grad for name in VISUAL))
            self.optimizers["visual"].step()
            totals += len(batch) * losses
        processes.add_up(totals)
        return totals / len(y)

    def class_means(self, samples: TrainingSamples, y: Tensor, counts: Tensor) -> Tensor:
        """μ (C, e), the class means of φ; `counts` (C,) are the class sizes."""
        with torch.no_grad():
            sums = torch.zeros(len(counts), len(self.weights["visual.bias"]), device=self.device)
            processes = team()
            for block, X in samples.blocks(BLOCK):
                part = processes.part(len(X))
                sums.index_add_(0, y[block][part], self.visual(X[part]))
            processes.add_up(sums)
            return sums / counts.clamp(min=1)[:, None].to(self.device)

    def semantic_loss(self, A: Tensor, means: Tensor, shares: Tensor) -> Tensor:
        """Eq. 5 without η, up to a constant: Σ_i‖φ(x_i) − ψ(a_{y_i})‖²/n = Σ_c (n_c/n)‖μ_c − ψ(a_c)‖² + const,

        because ψ depends on the class alone. So step (b) works on C class means instead of n samples.
        """
        return (shares[:, None] * (self.semantic(A) - means).square()).sum()

    def semantic_pass(self, samples: TrainingSamples, y: Tensor, A: Tensor, counts: Tensor, steps: int) -> Tensor:
        """Step (b): Adam steps for ψ on the class means, φ fixed. Returns the last loss.

        `counts (C,)`, on the CPU, are the class sizes; classes without samples are left out.
        """
        means, shares = self.class_means(samples, y, counts), (counts / len(y)).to(self.device)
        if not counts.all():
            present = counts.nonzero().squeeze(1).to(self.device)
            A, means, shares = A[present], means[present], shares[present]
        optimizer, loss = self.optimizers["semantic"], torch.zeros(())
        for _ in range(steps):
            loss = self.semantic_loss(A, means, shares)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach()

    def squared_distances(self, X: Tensor, embedded_classes: Tensor) -> Tensor:
        """‖φ(x) − ψ(a_c)‖² (n, k), as φ·φ − 2φ·ψ + ψ·ψ: one matrix product."""
        with torch.no_grad():
            embedded = self.visual(X)
            out = torch.addmm(embedded_classes.square().sum(1), embedded, embedded_classes.T, alpha=-2)
            return out.add_(embedded.square().sum(1, keepdim=True)).clamp_(min=0)

    def nearest(self, X: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
        """Eq. 2: the class whose ψ is nearest, and the squared distance to it (the visual–semantic gap)."""
        with torch.no_grad():
            embedded_classes = self.semantic(A)
            best = [self.squared_distances(block, embedded_classes).min(1) for block in X.split(BLOCK)]
            return torch.cat([b.indices for b in best]), torch.cat([b.values for b in best])

    def state(self) -> dict[str, Tensor]:
        """Weights and Adam's exp_avg, exp_avg_sq and step, on the CPU: a fit may resume on another device."""
        tensors = {f"weights/{name}": weight.detach().cpu() for name, weight in self.weights.items()}
        for branch, names in (("visual", VISUAL), ("semantic", SEMANTIC)):
            state = self.optimizers[branch].state
            for name in names:
                tensors |= {f"adam/{name}/{key}": state[self.weights[name]][key].cpu() for key in ADAM_STATE}
        return tensors

    def expected_state(self) -> dict[str, Tensor]:
        """Tensors with the names, shapes and types that `state` has for weights of these shapes."""
        tensors = {}
        for name, weight in self.weights.items():
            tensors[f"weights/{name}"] = weight
            tensors |= {f"adam/{name}/{key}": weight.new_empty(()) if key == "step" else weight for key in ADAM_STATE}
        return tensors

    def restore_optimizers(self, tensors: dict[str, Tensor]) -> None:
        """Restore Adam's state from that of `state`, after `new_optimizers`."""
        for branch, names in (("visual", VISUAL), ("semantic", SEMANTIC)):
            for name in names:
                state = {key: tensors[f"adam/{name}/{key}"].to(self.device) for key in ADAM_STATE}
                self.optimizers[branch].state[self.weights[name]] = state
