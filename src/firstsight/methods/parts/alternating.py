"""Algorithm 1's loop, with what a long fit owes to people: progress, a history and a checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from firstsight.data_parallel import team
from firstsight.devices import torch
from firstsight.disk_rows import DiskRows, blocks_of
from firstsight.methods.parts.checkpoint import Checkpoint, CheckpointHeader
from firstsight.methods.parts.rows import Rows
from firstsight.methods.parts.tensors import make_generator
from firstsight.methods.parts.two_branch import BLOCK, TwoBranch

if TYPE_CHECKING:
    from torch import Tensor


class AlternatingTraining:
    """Runs Algorithm 1 once (inductive) or once per round (transductive), each time from the present weights."""

    def __init__(
        self,
        settings: dict[str, Any],
        sizes: tuple[int, int, int],  # features, attributes, classes
        random_state,
        checkpoint: Checkpoint | None,
        show: Callable[[int, str], None],
        factor: float = 1.0,  # what rows are multiplied by before this sees them
        device: torch.device | str = "cpu",
        precision: str = "float32",
    ):
        self.settings, self.checkpoint, self.show, self.factor = settings, checkpoint, show, factor
        self.device, self.precision = device, precision
        self.generator = make_generator(random_state)
        team().same_chance(self.generator, device)
        self.round, self.iteration, self.done = 1, 0, 0
        self.history: list[dict[str, float]] = []
        self.kept: dict[str, Tensor] = {}  # what else the caller wants back after a kill
        interrupted = checkpoint.load() if checkpoint else None
        if interrupted is None:
            n_features, n_attributes, n_classes = sizes
            net = TwoBranch.draw(n_features, n_attributes, settings["embedding_dim"], n_classes, self.generator)
            self.net = self._placed(net.weights)
        else:
            self._resume(*interrupted)

    def run(self, rows: Rows, y: Tensor, A: Tensor, iterations: int) -> None:
        """One round: iterations of (a) the visual and (b) the semantic problem, from wherever this one stands.

        The first ends before, once the classifier knows its classes (`stop_below`). y is on the CPU, rows and A are on
        the device. Classes of A without a row are no class of the softmax.
        """
        settings, net = self.settings, self.net
        counts = torch.bincount(y, minlength=len(A))
        absent = (counts == 0).to(self.device) if (counts == 0).any() else None
        y = y.to(self.device)
        team().agree("number of rows", len(y), self.device)
        team().agree("number of iterations done", self.done, self.device)
        if self.iteration == 0:
            net.start(settings["penalty"])
        # A rate can only fade towards an end that is known; a first round that may stop early has none.
        fades = settings["schedule"] == "cosine" and (self.round > 1 or settings["stop_below"] == 0)
        while self.iteration < iterations and not self._has_learned():
            began = time.perf_counter()
            rate = settings["learning_rate"]
            if fades:
                rate *= 0.5 * (1 + math.cos(math.pi * self.iteration / iterations))
            net.set_learning_rates(rate, rate * settings["semantic_rate"])
            visual = net.visual_pass(rows, y, A, settings["separation"], settings["batch_size"], self.generator, absent)
            last = net.semantic_pass(rows, y, A, counts, settings["semantic_steps"])
            # The only numbers that an iteration asks of the device, and waits for.
            regression, classification, semantic = torch.cat([visual, last[None]]).tolist()
            self.iteration += 1
            self.done += 1
            self.history.append(
                {
                    "round": self.round,
                    "iteration": self.iteration,
                    "loss": regression + settings["separation"] * classification,
                    "regression": regression,
                    "classification": classification,
                    "semantic": semantic,
                    "seconds": time.perf_counter() - began,
                }
            )
            self.show(self.done, f"loss {self.history[-1]['loss']:.4g}")
            self.save()
        self.round, self.iteration = self.round + 1, 0

    def _has_learned(self) -> bool:
        """Whether the last pass of the first round met cross-entropies small enough to end it.

        Later rounds begin below the threshold, or nearly so; what they are for is to move classes to their new rows.
        Asked of the history, so that a fit that was killed after its last pass knows as well.
        """
        enough = self.settings["stop_below"]
        return self.round == 1 and self.iteration > 0 and self.history[-1]["classification"] < enough

    def net_of_rows(self) -> TwoBranch:
        """The network for rows as they are: the factor is a part of its first weights."""
        weights = {name: weight.detach() for name, weight in self.net.weights.items()}
        return TwoBranch({**weights, "visual.weight": self.factor * weights["visual.weight"]})

    def _placed(self, weights: dict[str, Tensor]) -> TwoBranch:
        return TwoBranch({name: weight.detach().to(self.device) for name, weight in weights.items()}, self.precision)

    def save(self, force: bool = False) -> None:
        if self.checkpoint and team().rank == 0 and (force or self.checkpoint.is_due()):
            kept = {f"kept/{name}": value for name, value in self.kept.items()}
            tensors = {**self.net.state(), **kept, "generator": self.generator.get_state()}
            names = ("round", "iteration", "done", "history")
            self.checkpoint.save(tensors, {name: getattr(self, name) for name in names})

    def _resume(self, tensors: dict[str, Tensor], header: CheckpointHeader) -> None:
        # Without copies, resumed fits differed in the last bits: probably because tensors of the file need not lie
        # where torch would put them, on which the rounding of matrix products depends.
        tensors = {name: value.clone() for name, value in tensors.items()}
        self.net = self._placed({k.removeprefix("weights/"): v for k, v in tensors.items() if k.startswith("weights/")})
        self.net.start(self.settings["penalty"])
        self.net.restore_optimizers(tensors)
        self.generator.set_state(tensors["generator"].to(torch.uint8))
        self.kept = {k.removeprefix("kept/"): v for k, v in tensors.items() if k.startswith("kept/")}
        self.round, self.iteration, self.done = header.round, header.iteration, header.done
        self.history = header.history


def factor_to_length(X: np.ndarray | DiskRows, length: float, scaled: Callable | None = None) -> float:
    """What rows are multiplied by so that the root of their mean squared length is `length`; 1 for 0, or for zeros.

    `scaled` is what happens to rows before, where it has not yet.
    """
    # In float64, block by block: squares of large or small float32 numbers have no place in float32.
    blocks = (scaled(rows) if scaled else rows for _, rows in blocks_of(X, BLOCK))
    squares = sum(float(np.square(rows, dtype=np.float64).sum()) for rows in blocks)
    return length / math.sqrt(squares / len(X)) if length and squares else 1.0
