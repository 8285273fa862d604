"""A vision model in transformers' format: its description, size check and features."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firstsight.devices import require_torch, torch, torch_is_installed
from firstsight.encoders.local_models import at_home, find_model, hash_files, read_json, weights_of
from firstsight.errors import BadInput, UnreadableFile

if TYPE_CHECKING:
    from PIL.Image import Image


# What a model's config.json claims, held against its weights before anything of that size is made.


def check_declared_size(folder: Path, transformers: Any) -> None:
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
            waiting += [(key, item) for item in value]
        elif isinstance(value, int) and ("layer" in key or "depth" in key):
            yield value


def _bytes_of(part: Path, transformers: Any) -> int:
    """What the model would take, found on torch's device without memory."""
    config = transformers.AutoConfig.from_pretrained(part, trust_remote_code=False, local_files_only=True)
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(config, trust_remote_code=False)
    return sum(4 * tensor.numel() for tensor in [*model.parameters(), *model.buffers()])  # read as float32


# A vision model of transformers' format: what it is (without loading it), and how its features are taken.

DEFAULT = "microsoft/resnet-101"
# Raise it with every change of decoding, preprocessing or pooling that moves features: old caches are left alone.
VERSION = 1


class Backbone:
    """A vision model on this disk. Making one is cheap: weights are read when they are needed first."""

    def __init__(self, name_or_path: str | Path = DEFAULT):
        self.folder = find_model(name_or_path, "a backbone", DEFAULT)
        self._loading = threading.Lock()
        # A folder's own name says which model it is, and nothing about where it lies on this machine.
        self.name = self.folder.resolve().name if at_home(name_or_path).is_dir() else str(name_or_path)

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that change with the weights, the architecture or the preprocessing, not the place."""
        texts = [self.folder / name for name in ("config.json", "preprocessor_config.json", "processor_config.json")]
        content = hash_files([*weights_of(self.folder), *(path for path in texts if path.is_file())])
        return hashlib.sha256(f"{VERSION} {content}".encode()).hexdigest()[:32]

    def prepare(self, picture: Image) -> np.ndarray:
        """A picture → the (3, h, w) float32 array that the model looks at."""
        with self._loading:  # threads come here together, and importing transformers takes seconds
            processor = self._processor
        return np.asarray(processor(picture, return_tensors="np")["pixel_values"][0], dtype=np.float32)

    @cached_property
    def _processor(self) -> Any:
        with transformers_quietly(self.folder, "a backbone") as transformers:
            return transformers.AutoImageProcessor.from_pretrained(
                self.folder, backend="pil", trust_remote_code=False, local_files_only=True
            )

    def load(self) -> Any:
        """A torch module: pictures (n, 3, h, w) → features (n, d)."""
        require_torch(f"Loading the backbone {self.name}")
        with transformers_quietly(self.folder, "a backbone") as transformers:
            check_declared_size(self.folder, transformers)
            model = transformers.AutoModel.from_pretrained(
                self.folder, use_safetensors=True, trust_remote_code=False, local_files_only=True, dtype=torch.float32
            )

        class Pooled(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
                if hasattr(self.model, "get_image_features"):  # CLIP, SigLIP: the space that texts share
                    features = self.model.get_image_features(pixel_values=pixel_values)
                    features = getattr(features, "pooler_output", features)
                else:
                    out = self.model(pixel_values=pixel_values)
                    features = getattr(out, "pooler_output", None)
                    if features is None:  # no pooling layer: a transformer's first token stands for the picture
                        features = out.last_hidden_state
                        features = features[:, 0] if features.ndim == 3 else features.mean(dim=(2, 3))
                flat: torch.Tensor = features.flatten(1)
                return flat

        return Pooled().eval()

    def features_of_one(self, run: Callable[[np.ndarray], np.ndarray], pixels: np.ndarray) -> np.ndarray:
        """Features of a first picture; a model that does not take pictures is told apart from a bug here."""
        try:
            return run(pixels[None])
        except (TypeError, AttributeError, ValueError, RuntimeError) as error:
            raise BadInput(
                f"{self.name} is a model that cannot encode pictures alone ({type(error).__name__}: "
                f"{str(error).splitlines()[0] if str(error) else ''}); give a vision model such as {DEFAULT}."
            ) from error


@contextmanager
def transformers_quietly(folder: Path, what: str) -> Iterator[Any]:
    """transformers without progress bars; whatever it cannot load becomes one sentence."""
    if not torch_is_installed():  # transformers would print that no model is available, but exported backbones are
        os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    try:
        import transformers
    except ImportError as error:
        raise BadInput(
            "Encoding pictures needs transformers, which is not installed; pip install 'firstsight[images]'."
        ) from error
    log: Any = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield transformers
    except BadInput:
        raise
    except Exception as error:  # configuration, weights and processors each fail in their own types
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UnreadableFile(
            f"{folder} could not be loaded as {what} ({reason}); restore it, or give another folder or name."
        ) from error
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
