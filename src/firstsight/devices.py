"""Devices, numerical precision, and the processes that share one fit. PyTorch is imported at first use."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from firstsight.errors import BadInput, MissingPackage

if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch:
        """PyTorch as a module that is imported at first use: it is an optional extra, and importing it takes seconds.

        Modules that compute with it import this one: `from firstsight.devices import torch`.
        """

        def __getattr__(self, name):
            if name.startswith("__"):  # asked by doctest and inspect, which only want to know what this is
                raise AttributeError(name)
            return getattr(_import_torch(), name)

    torch = _Torch()

Precision = Literal["float32", "bfloat16"]
PRECISIONS = ("float32", "bfloat16")


def torch_is_installed() -> bool:
    """Whether PyTorch can be imported, without importing it."""
    return importlib.util.find_spec("torch") is not None


def require_torch(what: str) -> None:
    """Raise an error with the command that installs PyTorch if it is not there for `what`, which needs it."""
    if not torch_is_installed():
        raise MissingPackage(f"{what} needs PyTorch, which is not installed; run pip install 'firstsight[torch]'.")


@cache  # training asks for the module at every step
def _import_torch() -> Any:
    require_torch("This")
    import torch

    return torch


def find_device(name: str) -> torch.device:
    """The device of this name; "auto" is a GPU (of NVIDIA, AMD, Apple or Intel) if there is one, else the CPU."""
    accelerators = _accelerators()
    if name == "auto":
        return torch.device(accelerators[0] if accelerators else "cpu")
    try:
        device = torch.device(name)
        if device.type == "meta":
            raise ValueError("it holds no numbers")
        torch.empty(0, device=device)
        return device
    except Exception as error:  # torch raises many unrelated types
        reason = str(error).splitlines()[0].partition(". ")[0].rstrip(".")
        known = " or ".join(repr(name) for name in ("cpu", *accelerators, "auto"))
        raise BadInput(f"There is no device {name!r} on this machine ({reason}); use {known}.") from error


def lowered(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """While inside, matrix products are computed in `precision`; sums and weights stay float32."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=getattr(torch, precision))


def _accelerators() -> list[str]:
    known = {"cuda": torch.cuda, "mps": torch.backends.mps, "xpu": torch.xpu}
    return [name for name, backend in known.items() if backend.is_available()]


# Data-parallel fits: each process takes its part of every batch, and gradients are added up.


@dataclass(frozen=True)
class Team:
    """The processes that fit together, and which of them this one is. A team of one adds nothing up."""

    rank: int = 0
    size: int = 1

    def part(self, n: int) -> slice:
        """This process's part of n rows."""
        return slice(n * self.rank // self.size, n * (self.rank + 1) // self.size)

    def add_up(self, *tensors: torch.Tensor | None) -> None:
        """Make each the sum over all processes, in place; every process gets the same bits."""
        for tensor in tensors if self.size > 1 else ():
            torch.distributed.all_reduce(tensor)

    def sync_rng(self, generator: torch.Generator, device: torch.device | str) -> None:
        """Give the generators of all processes the state of the first one's."""
        if self.size > 1:
            state = generator.get_state().to(device)
            torch.distributed.broadcast(state, 0)
            generator.set_state(state.cpu())

    def agree(self, what: str, number: int, device: torch.device | str) -> None:
        """Raise if a number is not the same in all processes: they would wait for each other forever."""
        if self.size > 1:
            bounds = torch.tensor([number, -number], device=device)
            torch.distributed.all_reduce(bounds, torch.distributed.ReduceOp.MIN)
            low, high = int(bounds[0]), -int(bounds[1])
            if low != high:
                raise BadInput(
                    f"The processes of a data-parallel fit must have the same {what}, but have from {low} to {high}; "
                    "give all of them the same data, parameters and checkpoint."
                )


_ALONE = Team()
_team = _ALONE


def team() -> Team:
    """The processes that fit together right now."""
    return _team


@contextmanager
def data_parallel() -> Iterator[int]:
    """Let all processes that `torchrun` started do the fits within this `with` block together, as one.

    Every process runs the same code on the same data. Of each batch it takes its part, gradients and class means are
    added up, and all end with the same model; the first one writes the checkpoint. So do `DeepEmbedding` and
    `TransductiveDeepEmbedding`; other methods are fitted by each process for itself.

    Yields
    ------
    int
        The rank of this process: let the one with rank 0 save and print.
    """
    import os

    global _team
    begun = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not begun:
        if "RANK" not in os.environ:
            raise BadInput(
                "A data-parallel fit needs processes that know each other, and this one was started alone; start the "
                "script with `torchrun --nproc-per-node 2 script.py`."
            )
        torch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    before, _team = _team, Team(torch.distributed.get_rank(), torch.distributed.get_world_size())
    try:
        yield _team.rank
    finally:
        _team = before
        if not begun:
            torch.distributed.destroy_process_group()
