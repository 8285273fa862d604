"""The state of a running fit on disk, so that a killed one goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from firstsight.errors import BadInput, StaleCheckpoint
from firstsight.files import write_atomically


def fingerprint(settings: dict[str, Any], *arrays: np.ndarray) -> str:
    """Says which fit a checkpoint belongs to: the same settings and, byte for byte, the same data."""
    digest = hashlib.blake2b(json.dumps(settings, sort_keys=True, default=repr).encode(), digest_size=16)
    for array in arrays:
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


class Checkpoint:
    """One safetensors file, written at most every `every` seconds and always in one step.

    Left out, `every` is FIRSTSIGHT_CHECKPOINT_SECONDS of the environment, or else 10.
    """

    def __init__(self, path: str | os.PathLike[str], owner: str, every: float | None = None):
        self.path, self.owner = Path(path), owner
        self.every = _seconds() if every is None else every
        self._saved = time.monotonic()

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Tensors and facts of the interrupted fit, None if there is none."""
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="pt") as file:
                about = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            if about.get("digest") != _digest(tensors, about.get("facts", "")):
                raise ValueError("its content does not match its digest: it is damaged")
            facts = json.loads(about["facts"])
        except (SafetensorError, OSError, ValueError) as error:
            raise StaleCheckpoint(
                f"{self.path} is not a readable checkpoint ({error}); delete it to start this fit anew.", self.path
            ) from error
        if facts.get("owner") != self.owner:
            raise StaleCheckpoint(
                f"{self.path} is the checkpoint of a fit with other data or parameters; delete it to start anew, "
                "or choose another place for this one.",
                self.path,
            )
        return tensors, facts

    def save(self, tensors: dict[str, Tensor], facts: dict[str, Any], force: bool = False) -> None:
        if not force and time.monotonic() - self._saved < self.every:
            return
        text = json.dumps({**facts, "owner": self.owner})
        metadata = {"facts": text, "digest": _digest(tensors, text)}

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
        return float(text)
    except ValueError:
        raise BadInput(
            f"FIRSTSIGHT_CHECKPOINT_SECONDS must be a number of seconds, but is {text!r}; set it to one, or unset it."
        ) from None


def _digest(tensors: dict[str, Tensor], facts: str) -> str:
    """A single flipped bit would go on into the model and be noticed by nobody."""
    return fingerprint({"facts": facts, "names": sorted(tensors)}, *(tensors[name].numpy() for name in sorted(tensors)))
