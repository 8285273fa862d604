"""Where tensors are computed, and how exactly. Plain torch: one device and one kind of number need no engine."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal

from firstsight.errors import BadInput

if TYPE_CHECKING:
    import torch

Precision = Literal["float32", "bfloat16"]
PRECISIONS = ("float32", "bfloat16")


def find_device(name: str) -> torch.device:
    """The device of this name; "auto" is a GPU (of NVIDIA, AMD, Apple or Intel) if there is one, else the CPU."""
    import torch

    there = _accelerators()
    if name == "auto":
        return torch.device(there[0] if there else "cpu")
    try:
        device = torch.device(name)
        if device.type == "meta":
            raise ValueError("it holds no numbers")
        torch.empty(0, device=device)
        return device
    except Exception as error:  # torch has a type of its own for each way of not being there
        reason = str(error).splitlines()[0].partition(". ")[0].rstrip(".")
        known = " or ".join(repr(name) for name in ("cpu", *there, "auto"))
        raise BadInput(f"There is no device {name!r} on this machine ({reason}); use {known}.") from error


def lowered(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """While inside, matrix products are computed in `precision`; sums and weights stay float32."""
    import torch

    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=getattr(torch, precision))


def _accelerators() -> list[str]:
    import torch

    known = {"cuda": torch.cuda, "mps": torch.backends.mps, "xpu": torch.xpu}
    return [name for name, backend in known.items() if backend.is_available()]
