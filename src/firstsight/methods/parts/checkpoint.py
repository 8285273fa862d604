"""The state of a running fit on disk, so that a killed one goes on where it was."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, ValidationError
from safetensors import SafetensorError, safe_open

from firstsight.errors import BadInput, StaleCheckpoint
from firstsight.files import require_file, write_atomically
from firstsight.identity import same_data
from firstsight.schemas import Schema, reason

if TYPE_CHECKING:
    from torch import Tensor


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
