"""One fit by several processes: each takes its part of every batch, and what they find is added up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from firstsight.devices import torch
from firstsight.errors import BadInput


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

    def same_chance(self, generator: torch.Generator, device: torch.device | str) -> None:
        """Let all draw what the first one draws."""
        if self.size > 1:
            state = generator.get_state().to(device)
            torch.distributed.broadcast(state, 0)
            generator.set_state(state.cpu())

    def agree(self, what: str, number: int, device: torch.device | str) -> None:
        """Refuse to go on if a number is not the same everywhere: the others would wait forever."""
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
