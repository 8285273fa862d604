"""What a model's config.json claims, held against its weights before anything of that size is made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from firstsight.devices import torch
from firstsight.encoders.local_models import read_json, weights_of
from firstsight.errors import UnreadableFile


def refuse_claims(folder: Path, transformers: Any) -> None:
    """Refuse a model that claims more than its weights can fill; a sentence model has its parts in folders within.

    Weights that are missing would be made up, whatever their size; so would layers, one by one.
    """
    from safetensors import safe_open

    for part in [folder, *sorted(path for path in folder.iterdir() if path.is_dir())]:
        path, weights = part / "config.json", weights_of(part)
        config = read_json(path) if path.is_file() and weights else {}
        if not isinstance(config, dict) or "model_type" not in config:
            continue
        tensors = 0
        for file in weights:
            with safe_open(file, "np") as content:
                tensors += len(content.keys())
        layers = max(_layers(config), default=0)
        if layers > tensors:
            _refuse(path, f"{layers:,} layers", f"{tensors:,} tensors")
        claimed, size = _bytes_of(part, transformers), sum(file.stat().st_size for file in weights)
        if claimed > 100 * size + (64 << 20):  # as `files.Allowance` has it
            _refuse(path, f"{claimed:,} bytes", f"{size:,}")


def _refuse(path: Path, claimed: str, held: str) -> None:
    raise UnreadableFile(
        f"{path} claims {claimed}, but the weights hold {held}; it is damaged or harmful: restore the model's folder, "
        "or give another model."
    )


def _layers(config: dict[str, Any]) -> Iterator[int]:
    """Every number that says how often something is repeated, wherever it stands."""
    waiting: list[tuple[str, Any]] = [("", config)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(key, one) for one in value]
        elif isinstance(value, int) and ("layer" in key or "depth" in key):
            yield value


def _bytes_of(part: Path, transformers: Any) -> int:
    """What the model would take, found on torch's device without memory."""
    config = transformers.AutoConfig.from_pretrained(part, trust_remote_code=False, local_files_only=True)
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(config, trust_remote_code=False)
    return sum(4 * tensor.numel() for tensor in [*model.parameters(), *model.buffers()])  # read as float32
