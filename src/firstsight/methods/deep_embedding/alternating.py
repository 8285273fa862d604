"""Algorithm 1's training loop with progress, history, checkpoints and samples on disk."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, ValidationError
from safetensors import SafetensorError, safe_open

from firstsight._io.disk_samples import DiskSamples, blocks_of
from firstsight._io.files import require_file, write_atomically
from firstsight._io.identity import same_data
from firstsight._io.schemas import Schema, reason
from firstsight.devices import team, torch
from firstsight.errors import BadInput, StaleCheckpoint
from firstsight.methods._gradient_training import Rows, make_generator
from firstsight.methods.deep_embedding.two_branch import BLOCK, TwoBranch

if TYPE_CHECKING:
    from torch import Tensor


# The state of a running fit on disk, so that a killed one goes on where it was.


class CheckpointHeader(Schema):
    """What stands beside the arrays of a checkpoint."""

    format: Literal[2] = Field(description="version of this list; 1 had no digest")
    owner: str = Field(description="fingerprint of the fit: its settings and its data")
    round: int = Field(ge=1, description="the round that the fit was in")
    iteration: int = Field(ge=0, description="iterations done in this round")
    done: int = Field(ge=0, description="iterations done in all")
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
    """One safetensors file, written at most every `every` seconds and always in one step.

    Left out, `every` is FIRSTSIGHT_CHECKPOINT_SECONDS of the environment, or else 10.
    """

    def __init__(self, path: str | os.PathLike[str], owner: str, every: float | None = None):
        self.path, self.owner = Path(path), owner
        self.every = _seconds() if every is None else every
        self._saved = time.monotonic()

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
                "or choose another place for this one.",
                self.path,
            )
        return tensors, header

    def is_due(self) -> bool:
        """Whether `every` seconds have passed."""
        return time.monotonic() - self._saved >= self.every

    def save(self, tensors: dict[str, Tensor], position: dict[str, Any]) -> None:
        """`position` is the header but for what is the same in every fit: format, owner and digest."""
        from safetensors.torch import save_file  # imports torch

        header = CheckpointHeader(format=2, owner=self.owner, digest="", **position)
        metadata = {"header": json.dumps({**header.model_dump(), "digest": header.digest_with(tensors)})}

        def write(path: Path) -> None:
            try:
                save_file(tensors, path, metadata=metadata)
            except SafetensorError as error:  # how safetensors tells of a full disk
                raise OSError(str(error)) from error

        write_atomically(self.path, write)
        self._saved = time.monotonic()


def _seconds() -> float:
    text = os.environ.get("FIRSTSIGHT_CHECKPOINT_SECONDS", "10")
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds) or seconds < 0:  # compared with NaN, no time is ever long enough
        raise BadInput(
            f"FIRSTSIGHT_CHECKPOINT_SECONDS must be a number of seconds, 0 or more, but is {text!r}; set it to one, or "
            "unset it."
        )
    return seconds


# Rows on the disk for gradient steps: read in shuffled windows, the next one while one is used.

_CHUNKS = 64  # of neighbouring rows in a window: few enough for long reads, enough to mix


class DiskTensor:
    """Gives the rows of an index tensor, as a tensor in memory would; quickly in the order that `shuffled` has given.

    A pass is a sequence of windows. Each is made of chunks of neighbouring rows from all over the file, drawn without
    repetition, and its rows are shuffled: two windows, the one in use and the next, are what memory has to hold.
    """

    def __init__(
        self,
        rows: DiskSamples,
        change: Callable[[np.ndarray], np.ndarray],  # what happens to rows that are read: scaling
        batch_size: int,
        device: torch.device | str = "cpu",
    ):
        self._rows, self._change, self._device = rows, change, device
        affordable = rows.memory // (4 * max(1, rows.shape[1]) * rows.itemsize)
        self.window = max(1, affordable // batch_size) * batch_size  # no batch lies in two windows
        self._place = np.zeros(len(rows), dtype=np.int32)  # of a row in its window
        self._reader = ThreadPoolExecutor(1, "read ahead")
        self._windows: list[np.ndarray] = []
        self._current, self._ahead = -1, -1
        self._now, self._next = np.empty((0, 0)), Future[np.ndarray]()

    def batches(self, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        order = self.shuffled(generator)
        for batch, numbers in zip(order.split(size), order.to(self._device).split(size), strict=True):
            yield numbers, self(batch).to(self._device)

    def blocks(self, size: int) -> Iterator[tuple[slice, Tensor]]:
        for block in torch.arange(len(self._rows)).split(size):
            yield slice(int(block[0]), int(block[-1]) + 1), self(block).to(self._device)

    def shuffled(self, generator: torch.Generator) -> Tensor:
        """The order of a pass over all rows."""
        n, chunk = len(self._rows), max(1, self.window // _CHUNKS)
        starts = torch.randperm((n + chunk - 1) // chunk, generator=generator).numpy() * chunk
        order = np.concatenate([np.arange(start, min(start + chunk, n)) for start in starts])
        self._windows = [order[start : start + self.window] for start in range(0, n, self.window)]
        for rows in self._windows:
            rows[:] = rows[torch.randperm(len(rows), generator=generator).numpy()]
            self._place[rows] = np.arange(len(rows))
        self._current = -1
        self._read_ahead(0)
        return torch.from_numpy(order)

    def __call__(self, batch: Tensor) -> Tensor:
        """Rows of the pass that is under way come from memory; any others, such as a block of neighbours, are read."""
        numbers = batch.numpy()
        if self._current < 0 or not self._holds(numbers):
            if self._ahead < 0 or not np.isin(numbers[[0, -1]], self._windows[self._ahead]).all():
                return torch.from_numpy(self._change(self._rows[numbers]))
            self._now, self._current = self._next.result(), self._ahead
            self._read_ahead(self._current + 1)
        return torch.from_numpy(self._now[self._place[numbers]])

    def _holds(self, numbers: np.ndarray) -> bool:
        """One look suffices: a batch lies in one window, and a block of neighbours hardly ever at the same places."""
        window = self._windows[self._current]
        return bool(np.array_equal(window[np.minimum(self._place[numbers], len(window) - 1)], numbers))

    def _read_ahead(self, number: int) -> None:
        self._ahead = number if number < len(self._windows) else -1
        if self._ahead >= 0:
            self._next = self._reader.submit(self._load, self._windows[number])

    def _load(self, numbers: np.ndarray) -> np.ndarray:
        return self._change(self._rows.read(numbers))


# Algorithm 1's loop, with what a long fit owes to people: progress, a history and a checkpoint.


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
        team().sync_rng(self.generator, device)
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


def factor_to_length(X: np.ndarray | DiskSamples, length: float, scaled: Callable | None = None) -> float:
    """What rows are multiplied by so that the root of their mean squared length is `length`; 1 for 0, or for zeros.

    `scaled` is what happens to rows before, where it has not yet.
    """
    # In float64, block by block: squares of large or small float32 numbers have no place in float32.
    blocks = (scaled(rows) if scaled else rows for _, rows in blocks_of(X, BLOCK))
    squares = sum(float(np.square(rows, dtype=np.float64).sum()) for rows in blocks)
    return length / math.sqrt(squares / len(X)) if length and squares else 1.0
