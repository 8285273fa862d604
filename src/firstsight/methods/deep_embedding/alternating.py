"""Algorithm 1's training loop: progress, history, checkpoint, samples on disk."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field, ValidationError
from safetensors import SafetensorError, safe_open

from firstsight._io.disk_samples import DiskSamples, blocks_of
from firstsight._io.files import require_file, write_atomically
from firstsight._io.identity import same_data
from firstsight._io.schemas import Schema, reason
from firstsight._io.terminal import in_one_line
from firstsight.devices import team, torch
from firstsight.errors import BadInput, StaleCheckpoint
from firstsight.methods._gradient_training import TrainingSamples, make_generator
from firstsight.methods.deep_embedding.two_branch import BLOCK, TwoBranch

if TYPE_CHECKING:
    from torch import Tensor

# What the history has of every iteration.
HISTORY_KEYS = {"round", "iteration", "loss", "regression", "classification", "semantic", "seconds"}
CHUNKS = 64  # of neighbouring samples in a window on disk: few enough for long reads, enough to mix


class CheckpointHeader(Schema):
    """What a checkpoint holds in addition to its arrays."""

    owner: str = Field(description="fingerprint of the fit: its settings and its data")
    round: int = Field(ge=1, description="the round that the fit was in")
    iteration: int = Field(ge=0, description="iterations done in this round")
    done: int = Field(ge=1, description="iterations done in all")
    history: list[dict[str, int | float]] = Field(description="losses and seconds of every iteration")
    digest: str = Field(description="BLAKE2b of everything else here and of all arrays")

    def digest_with(self, tensors: dict[str, Tensor]) -> str:
        """What `digest` must be."""
        rest = {**self.model_dump(exclude={"digest"}), "arrays": sorted(tensors)}
        digest = hashlib.blake2b(json.dumps(rest, sort_keys=True, default=repr).encode(), digest_size=16)
        for name in sorted(tensors):
            array = np.ascontiguousarray(tensors[name].detach().numpy())
            digest.update(f"{array.shape}{array.dtype}".encode())
            digest.update(array.data)
        return digest.hexdigest()


class Checkpoint:
    """The state of a running fit in one safetensors file, replaced atomically at most every so many seconds.

    Their number is FIRSTSIGHT_CHECKPOINT_SECONDS of the environment, 10 by default.
    """

    def __init__(self, path: str | os.PathLike[str], owner: str):
        self.path, self.owner, self._saved = Path(path), owner, time.monotonic()
        text = os.environ.get("FIRSTSIGHT_CHECKPOINT_SECONDS", "10")
        try:
            self.seconds = float(text)
        except ValueError:
            self.seconds = math.nan
        if math.isnan(self.seconds) or self.seconds < 0:  # compared with NaN, no time is ever long enough
            raise BadInput(
                f"FIRSTSIGHT_CHECKPOINT_SECONDS must be a number of seconds, 0 or more, but is {text!r}; change or "
                "unset it."
            )

    def load(self) -> tuple[dict[str, Tensor], CheckpointHeader] | None:
        """Arrays and header of the interrupted fit, None if there is none."""
        if not self.path.exists():
            return None
        try:
            require_file(self.path)
            with safe_open(self.path, framework="pt") as file:
                header = CheckpointHeader.model_validate_json((file.metadata() or {}).get("header", "{}"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            if header.digest != header.digest_with(tensors):
                raise ValueError("its content does not match its digest: it is damaged")
        except Exception as error:  # safetensors and torch answer damage with many unrelated types
            why = reason(error) if isinstance(error, ValidationError) else " ".join(str(error).split())
            raise StaleCheckpoint(
                f"{self.path} is not a readable checkpoint ({why}); delete it to start this fit again.", self.path
            ) from error
        if not same_data(header.owner, self.owner):
            raise StaleCheckpoint(
                f"{self.path} is the checkpoint of a fit with other data or parameters; delete it to start again, "
                "or choose another path for this fit.",
                self.path,
            )
        return tensors, header

    def is_due(self) -> bool:
        """Whether enough seconds have passed since the last one was saved."""
        return time.monotonic() - self._saved >= self.seconds

    def save(self, tensors: dict[str, Tensor], position: dict[str, Any]) -> None:
        """`position` is the header without what follows from the fit and the arrays: owner and digest."""
        from safetensors.torch import save_file  # imports torch

        header = CheckpointHeader(owner=self.owner, digest="", **position)
        metadata = {"header": json.dumps({**header.model_dump(), "digest": header.digest_with(tensors)})}

        def write(path: Path) -> None:
            try:
                save_file(tensors, path, metadata=metadata)
            except SafetensorError as error:  # how safetensors reports a full disk
                raise OSError(str(error)) from error

        write_atomically(self.path, write)
        self._saved = time.monotonic()


class SamplesOnDisk:
    """Training samples of a file, for gradient steps in windows that are read ahead.

    A window is made of chunks of neighbouring samples from all over the file, drawn without repetition, and its samples
    are shuffled: two windows, the current one and the next, are what memory has to hold.
    """

    def __init__(
        self,
        samples: DiskSamples,
        transform: Callable[[np.ndarray], np.ndarray],  # of features that are read, such as scaling
        batch_size: int,
        device: torch.device | str = "cpu",
    ):
        self._samples, self._transform, self._device = samples, transform, device
        affordable = samples.memory // (4 * max(1, samples.shape[1]) * samples.itemsize)
        self.window = max(1, affordable // batch_size) * batch_size  # no batch lies in two windows

    def batches(self, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """A pass over all samples; `size` is the batch size that windows were made for."""
        windows = self._shuffled_windows(generator)
        with ThreadPoolExecutor(1, "read ahead") as reader:
            ahead = reader.submit(self._load, windows[0])
            for number, window in enumerate(windows):
                features = torch.from_numpy(ahead.result())
                if number + 1 < len(windows):
                    ahead = reader.submit(self._load, windows[number + 1])
                for batch, X in zip(torch.from_numpy(window).split(size), features.split(size), strict=True):
                    yield batch.to(self._device), X.to(self._device)

    def blocks(self, size: int) -> Iterator[tuple[slice, Tensor]]:
        """All samples in order."""
        for start in range(0, len(self._samples), size):
            part = slice(start, min(start + size, len(self._samples)))
            yield part, torch.from_numpy(self._transform(self._samples[part])).to(self._device)

    def _load(self, window: np.ndarray) -> np.ndarray:
        return self._transform(self._samples.read(window))

    def _shuffled_windows(self, generator: torch.Generator) -> list[np.ndarray]:
        n, chunk = len(self._samples), max(1, self.window // CHUNKS)
        starts = torch.randperm((n + chunk - 1) // chunk, generator=generator).numpy() * chunk
        order = np.concatenate([np.arange(start, min(start + chunk, n)) for start in starts])
        windows = [order[start : start + self.window] for start in range(0, n, self.window)]
        return [window[torch.randperm(len(window), generator=generator).numpy()] for window in windows]


class AlternatingTraining:
    """Runs Algorithm 1 once (inductive) or once per round (transductive), each time from the present weights."""

    def __init__(
        self,
        settings: dict[str, Any],
        sizes: tuple[int, int, int],  # features, attributes, classes
        random_state: Any,
        checkpoint: Checkpoint | None,
        on_iteration: Callable[[int, str], None],
        factor: float = 1.0,  # what features are multiplied by before this sees them
        device: torch.device | str = "cpu",
        precision: str = "float32",
        *,
        rounds: int = 1,
        n_unseen: int = 0,  # classes that later rounds add
        selection: dict[str, Tensor] | None = None,  # predictions and selected (rounds, m), filled by the caller
    ):
        self.settings, self.checkpoint, self.on_iteration = settings, checkpoint, on_iteration
        self.factor, self.device, self.precision = factor, device, precision
        self.generator = make_generator(random_state)
        team().sync_rng(self.generator, device)
        self.round, self.iteration, self.done = 1, 0, 0
        self.history: list[dict[str, float]] = []
        self.rounds, self.n_unseen, self.selection = rounds, n_unseen, selection or {}
        n_features, n_attributes, n_classes = sizes
        net = TwoBranch.draw(n_features, n_attributes, settings["embedding_dim"], n_classes, self.generator)
        self.net = self._on_device(net.weights)
        interrupted = checkpoint.load() if checkpoint else None
        if checkpoint and interrupted:
            mismatch = self._find_mismatch(*interrupted)
            if mismatch:
                raise StaleCheckpoint(
                    f"{checkpoint.path} holds no state that this fit can resume from ({mismatch}); delete it to start "
                    "this fit again.",
                    checkpoint.path,
                )
            self._resume(*interrupted)

    def run(self, samples: TrainingSamples, y: Tensor, A: Tensor, iterations: int) -> None:
        """One round: iterations of (a) the visual and (b) the semantic problem, or what is left of them.

        The first round ends early once the classifier separates its classes (`stop_below`). y is on the CPU, samples
        and A are on the device. Classes of A without a sample are no class of the softmax.
        """
        settings, net = self.settings, self.net
        counts = torch.bincount(y, minlength=len(A))
        absent = (counts == 0).to(self.device) if (counts == 0).any() else None
        y = y.to(self.device)
        team().agree("number of rows", len(y), self.device)
        team().agree("number of iterations done", self.done, self.device)
        if self.iteration == 0:
            net.new_optimizers(settings["penalty"])
        # A rate can only fade towards an end that is known; a first round that may stop early has none.
        fades = settings["schedule"] == "cosine" and (self.round > 1 or settings["stop_below"] == 0)
        while self.iteration < iterations and not self._has_learned():
            began = time.perf_counter()
            lr = settings["learning_rate"]
            if fades:
                lr *= 0.5 * (1 + math.cos(math.pi * self.iteration / iterations))
            net.set_learning_rates(lr, lr * settings["semantic_rate"])
            visual = net.visual_pass(
                samples, y, A, settings["separation"], settings["batch_size"], self.generator, absent
            )
            last = net.semantic_pass(samples, y, A, counts, settings["semantic_steps"])
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
            self.on_iteration(self.done, f"loss {self.history[-1]['loss']:.4g}")
            self.save()
        self.round, self.iteration = self.round + 1, 0

    def _has_learned(self) -> bool:
        """Whether the last pass of the first round had a mean cross-entropy small enough to end it.

        Later rounds begin below the threshold, or nearly so; their purpose is to move classes to their new samples.
        The history is consulted, so that a fit that was killed after its last pass knows as well.
        """
        return (
            self.round == 1 and self.iteration > 0 and self.history[-1]["classification"] < self.settings["stop_below"]
        )

    def unscaled_net(self) -> TwoBranch:
        """The network for features as they are: the factor becomes a part of its first weights."""
        weights = {name: weight.detach() for name, weight in self.net.weights.items()}
        return TwoBranch({**weights, "visual.weight": self.factor * weights["visual.weight"]})

    def save(self, force: bool = False) -> None:
        """Write the checkpoint if there is one and it is due."""
        if self.checkpoint and team().rank == 0 and (force or self.checkpoint.is_due()):
            selection = {f"selection/{name}": value for name, value in self.selection.items()}
            tensors = {**self.net.state(), **selection, "generator": self.generator.get_state()}
            position = {name: getattr(self, name) for name in ("round", "iteration", "done", "history")}
            self.checkpoint.save(tensors, position)

    def _find_mismatch(self, tensors: dict[str, Tensor], header: CheckpointHeader) -> str | None:
        """Why no fit like this one saves such a state, None if one does. A digest can be right, all the same."""
        finished = header.round > self.rounds
        if header.round > self.rounds + 1 or finished != (header.iteration == 0):
            return f"it is in round {header.round}, iteration {header.iteration}, of {self.rounds} rounds"
        if len(header.history) != header.done or header.iteration > header.done:
            return f"its history has {len(header.history)} iterations instead of {header.done}"
        if any(entry.keys() != HISTORY_KEYS for entry in header.history):
            return f"an iteration of its history has other keys than {', '.join(sorted(HISTORY_KEYS))}"
        n_classes = len(self.net.weights["classifier.bias"]) + self.n_unseen
        if self.rounds > 1 and header.round > 1:
            self.net.widen_classifier(n_classes, self.generator)  # as a later round does; `_resume` replaces both
        expected = {**self.net.expected_state(), "generator": self.generator.get_state()}
        expected |= {f"selection/{name}": tensor for name, tensor in self.selection.items()}
        for name in sorted(expected.keys() | tensors.keys()):
            found, wanted = (_shape_and_type(state.get(name)) for state in (tensors, expected))
            if found != wanted:
                return f"{in_one_line(name)}: {found} instead of {wanted}"
        if self.selection:
            codes = tensors["selection/predictions"][: header.round - 1]
            if ((codes < 0) | (codes >= n_classes)).any():
                return f"selection/predictions: codes of classes outside 0 to {n_classes - 1}"
        try:
            torch.Generator().set_state(tensors["generator"])
        except RuntimeError:
            return "generator: no state of a random number generator"
        return None

    def _resume(self, tensors: dict[str, Tensor], header: CheckpointHeader) -> None:
        # Without copies, resumed fits differed in the last bits: probably because tensors of the file need not lie
        # where torch would put them, on which the rounding of matrix products depends.
        tensors = {name: value.clone() for name, value in tensors.items()}
        self.net = self._on_device({name: tensors[f"weights/{name}"] for name in self.net.weights})
        self.net.new_optimizers(self.settings["penalty"])
        self.net.restore_optimizers(tensors)
        self.generator.set_state(tensors["generator"])
        self.selection = {name: tensors[f"selection/{name}"] for name in self.selection}
        self.round, self.iteration, self.done = header.round, header.iteration, header.done
        self.history = header.history

    def _on_device(self, weights: dict[str, Tensor]) -> TwoBranch:
        return TwoBranch({name: weight.detach().to(self.device) for name, weight in weights.items()}, self.precision)


def _shape_and_type(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def factor_to_length(X: np.ndarray | DiskSamples, length: float, scaled: Callable | None = None) -> float:
    """The factor that gives samples a root mean squared length of `length`; 1 for a `length` of 0, or for zeros.

    `scaled` is the scaling of samples that have not been scaled yet.
    """
    # In float64, block by block: squares of large or small float32 numbers are out of range.
    blocks = (scaled(rows) if scaled else rows for _, rows in blocks_of(X, BLOCK))
    squares = sum(float(np.square(rows, dtype=np.float64).sum()) for rows in blocks)
    return length / math.sqrt(squares / len(X)) if length and squares else 1.0
