"""PyTorch, imported at first use; where tensors are computed, and how exactly.

Plain torch: one device and one kind of number need no engine.
"""

from __future__ import annotations

import importlib.util
from contextlib import AbstractContextManager, nullcontext
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
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=getattr(torch, precision))


def _accelerators() -> list[str]:
    known = {"cuda": torch.cuda, "mps": torch.backends.mps, "xpu": torch.xpu}
    return [name for name, backend in known.items() if backend.is_available()]
