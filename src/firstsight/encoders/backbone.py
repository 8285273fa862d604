"""Backbones: find, load and run vision models in transformers' format (PyTorch, ONNX Runtime); the one of `glyphs`."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import json
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pydantic_core import from_json

from firstsight._io.files import cache_folder, open_regular, read_regular, remove_all_stale, write_atomically
from firstsight.data.glyphs import CELL, ORIENTATIONS, SIDE, oriented_gradients
from firstsight.devices import PRECISIONS, find_device, lowered, require_torch, torch, torch_is_installed
from firstsight.errors import BadInput, CannotWrite, UnknownName, UnreadableFile

# Find a pretrained model by name or folder, in the local cache or on the Hub.

# Weights as safetensors only: the other formats can run code while they are read.
_WANTED = ["*.json", "*.txt", "*.model", "*.safetensors"]
_UNWANTED = ["onnx/*", "openvino/*"]
_WAIT = 5.0  # seconds for the hub to answer


def find_model(name: str | Path, what: str, example: str) -> Path:
    """The folder of a model: given as one, in the Hugging Face cache, or downloaded into it.

    `what` ("a backbone") and `example` are for the sentence that says what to do when there is none.
    """
    folder = at_home(name)
    if folder.is_dir():
        return _checked(folder, what)
    text = str(name)
    if folder.is_absolute() or text.startswith((".", "~")) or text.count("/") > 1 or folder.is_file():
        raise UnreadableFile(f"There is no folder {text}; {what} is a name such as {example} or a folder on this disk.")
    return _checked(_from_hub(text, what, example), what)


def at_home(name: str | Path) -> Path:
    """A path whose `~` is the user's home, where there is such a user; pathlib's own way ends in an error."""
    return Path(os.path.expanduser(name))


def hash_files(paths: list[Path]) -> str:
    """SHA-256 of files by name and content; JSON counts by its values, without where it came from."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + _content_hash(path) + b"\0")
    return digest.hexdigest()


def weights_of(folder: Path) -> list[Path]:
    """The files that hold a model's weights, in its own folder."""
    return sorted(folder.glob("*.safetensors"))


def read_json(path: Path) -> Any:
    """What a file of a model's folder says; damage, and nesting that no reader can follow, is one sentence."""
    try:
        return from_json(read_regular(path))  # rejects deep nesting, at the same depth on every version of Python
    except (OSError, ValueError) as error:
        raise UnreadableFile(f"{path} could not be read as JSON ({error}); restore the model's folder.") from error


def has_text_tower(folder: Path) -> bool:
    """Whether a model has a text and an image tower that share one space, as CLIP and SigLIP have."""
    path = folder / "config.json"
    config = read_json(path) if path.exists() else {}
    if not isinstance(config, dict):
        raise UnreadableFile(f"{path} must hold a JSON object; restore the model's folder.")
    return "vision_config" in config and "text_config" in config


def _content_hash(path: Path) -> bytes:
    if path.suffix == ".json":
        values = read_json(path)
        if isinstance(values, dict):
            for key in ("_name_or_path", "transformers_version"):
                values.pop(key, None)
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).digest()
    try:
        with open(open_regular(path), "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise UnreadableFile(f"{path} could not be read ({error.strerror}); check it.") from error


def _checked(folder: Path, what: str) -> Path:
    if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
        raise BadInput(f"{folder} has no config.json, so it is not {what}; give a folder in transformers' format.")
    if not weights_of(folder) and not list(folder.glob("*/*.safetensors")):
        raise BadInput(
            f"{folder} has no weights as .safetensors, and other formats are not read because they can run code; "
            "save the model with save_pretrained(…, safe_serialization=True)."
        )
    return folder


def _from_hub(name: str, what: str, example: str) -> Path:
    try:
        from huggingface_hub import HfApi, snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError
    except ImportError as error:
        raise BadInput(
            "Encoding needs transformers, which is not installed; pip install 'firstsight[images,text]'."
        ) from error
    snapshot = partial(snapshot_download, name, allow_patterns=_WANTED, ignore_patterns=_UNWANTED)
    try:
        folder = Path(snapshot(local_files_only=True))
        if weights_of(folder) or list(folder.glob("*/*.safetensors")):
            return folder
    except LocalEntryNotFoundError:
        pass
    except HFValidationError as error:
        raise BadInput(
            f"There is no folder {name!r}, and no model has this name; {what} is a name such as {example} or a "
            "folder on this disk."
        ) from error
    try:
        HfApi().model_info(name, timeout=_WAIT)  # a connection that swallows everything would be waited for in vain
        return Path(snapshot(etag_timeout=_WAIT))
    except RepositoryNotFoundError as error:
        raise BadInput(
            f"The Hugging Face hub has no model {name!r}; check the name, or give a local folder."
        ) from error
    except Exception as error:  # network errors come in as many types as there are layers
        reason = (str(error) or type(error).__name__).splitlines()[0].removeprefix("Got: ")
        raise BadInput(
            f"There is no folder {name!r}, and the model of that name could not be downloaded ({reason}); without a "
            "connection, give the path of a local folder that holds the model."
        ) from error


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

    @property
    def has_text_tower(self) -> bool:
        """Whether it encodes texts in the same space, as CLIP and SigLIP do."""
        return has_text_tower(self.folder)

    def prepare(self, picture: Image.Image) -> np.ndarray:
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


# The backbone of `glyphs`: features of a drawn letter.

LETTERS = "firstsight-letters"
# Raise it with every change that moves a feature of a letter: models and caches of former ones then differ.
LETTERS_VERSION = 2
_INK_SIDE = 26  # of 32: what a letter in the middle leaves free for the gradients at its edge
_INK = 0.45  # of the strongest ink: twice what the noise of the embedded pictures reaches
_BLANK = 24  # of 255: no stroke is fainter


class LetterBackbone:
    """Pictures of one letter → 512 features, with the methods of `Backbone`; it needs no weights.

    A letter may be dark on light or light on dark, of any size, anywhere in the picture: its ink is cut out, brought to
    one size and centred.
    """

    name = LETTERS
    dim = (SIDE // CELL) ** 2 * ORIENTATIONS

    @property
    def fingerprint(self) -> str:
        """As a vision model's: 32 hexadecimal digits that change with what is computed."""
        return hashlib.sha256(f"{LETTERS} {LETTERS_VERSION}".encode()).hexdigest()[:32]

    def prepare(self, picture: Image.Image) -> np.ndarray:
        """A picture → the centred ink (32, 32), white on black; all black where there is none."""
        grey = np.asarray(picture.convert("L"), dtype=np.float32)
        edge = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
        ink = np.abs(grey - np.median(edge))
        strongest = float(ink.max())
        centred = np.zeros((SIDE, SIDE), dtype=np.uint8)
        if strongest < _BLANK:
            return centred
        rows, columns = (np.flatnonzero((ink > _INK * strongest).any(axis=axis)) for axis in (1, 0))
        cut = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] * (255 / strongest)
        height, width = cut.shape
        scale = _INK_SIDE / max(height, width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        drawn = np.asarray(Image.fromarray(cut.astype(np.uint8)).resize(size, Image.Resampling.BILINEAR))
        top, left = (SIDE - size[1]) // 2, (SIDE - size[0]) // 2
        centred[top : top + size[1], left : left + size[0]] = drawn
        return centred

    def run(self, pixels: np.ndarray) -> np.ndarray:
        """Prepared pictures (n, 32, 32) → features (n, 512)."""
        return oriented_gradients(pixels)

    def features_of_one(self, run: Callable[[np.ndarray], np.ndarray], pixels: np.ndarray) -> np.ndarray:
        """Features of a first picture, which tell how many there are."""
        return run(pixels[None])


# Runtimes of a backbone: PyTorch, or ONNX Runtime with an exported file.

RUNTIMES = ("auto", "torch", "onnx")
# Exporting a ResNet-50 takes as long as it saves on this many pictures.
PAYS_FROM = 200
Run = Callable[[np.ndarray], np.ndarray]  # pictures (n, 3, h, w) → features (n, d)
Announce = Callable[[str], object]  # is told, in a sentence, what takes long now


def check_runtime(runtime: str, device: str = "cpu", precision: str = "float32") -> str:
    """The runtime to take, if there is such a one here; torch alone knows other devices and precisions."""
    if runtime not in RUNTIMES:
        raise UnknownName("runtime", runtime, RUNTIMES)
    if precision not in PRECISIONS:
        raise UnknownName("precision", precision, PRECISIONS)
    if (device, precision) != ("cpu", "float32"):
        if runtime == "onnx":
            raise BadInput(
                f"The runtime onnx computes on the CPU in float32, but device={device!r} and precision={precision!r} "
                "were asked for; use the runtime torch."
            )
        return "torch"
    if runtime == "onnx" and not _onnx_is_installed():
        raise BadInput("The runtime onnx is not installed; pip install 'firstsight[onnx]', or use the runtime torch.")
    return runtime


def open_runtime(
    runtime: str,
    backbone: Backbone | LetterBackbone,
    example: np.ndarray,
    pictures: int,
    announce: Announce | None = None,
    device: str = "cpu",
    precision: str = "float32",
) -> tuple[str, Run]:
    """Load the backbone; `example` (3, h, w) is one prepared picture. Returns the runtime taken, and what runs.

    "auto" takes ONNX Runtime, which needs under two thirds of PyTorch's time (`benchmarks/embed_speed.py` measures it),
    where the exported backbone is in the cache, or where there are `pictures` enough to repay exporting it.
    """
    if isinstance(backbone, LetterBackbone):  # NumPy, whatever was asked for: its features are the same
        return "torch" if runtime == "auto" else runtime, backbone.run
    if runtime == "auto":
        pays = _exported(backbone, example).is_file() or pictures >= PAYS_FROM
        if pays and _onnx_is_installed():
            with contextlib.suppress(BadInput, CannotWrite):  # not every architecture can be exported
                return "onnx", _onnx(backbone, example, announce)
        return "torch", _torch(backbone, device, precision)
    return runtime, _onnx(backbone, example, announce) if runtime == "onnx" else _torch(backbone, device, precision)


def _onnx_is_installed() -> bool:
    return all(importlib.util.find_spec(name) for name in ("onnxruntime", "onnx", "onnxscript"))


def _exported(backbone: Backbone, example: np.ndarray) -> Path:
    return cache_folder() / "backbones" / f"{backbone.fingerprint}-{'x'.join(map(str, example.shape))}.onnx"


def _torch(backbone: Backbone, device: str, precision: str) -> Run:
    torch_device = find_device(device)
    # Convolutions on a CPU are a fifth faster with the colours of a pixel side by side.
    model = backbone.load().to(torch_device, memory_format=torch.channels_last)

    def run(pixels: np.ndarray) -> np.ndarray:
        with torch.inference_mode(), lowered(torch_device, precision):
            output = model(torch.from_numpy(pixels).to(torch_device, memory_format=torch.channels_last))
            features: np.ndarray = output.float().cpu().numpy()
            return features

    return run


def _onnx(backbone: Backbone, example: np.ndarray, announce: Announce | None) -> Run:
    import onnxruntime  # type: ignore[import-untyped]

    path = _exported(backbone, example)

    def export() -> None:
        if announce is not None:
            announce(f"preparing the backbone {backbone.name} for ONNX Runtime; this takes up to a minute, once.")
        remove_all_stale(path.parent)
        _export(backbone, example, path)

    if not path.is_file():
        export()
    options = onnxruntime.SessionOptions()
    if threads := os.environ.get("OMP_NUM_THREADS"):  # ONNX Runtime would take every core all the same
        options.intra_op_num_threads = int(threads[:9]) if threads.isdecimal() else 0
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception:  # a damaged file in the cache: make it anew
        export()
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(pixels: np.ndarray) -> np.ndarray:
        features: np.ndarray = session.run(None, {"pixel_values": pixels})[0]
        return features

    return run


def _export(backbone: Backbone, example: np.ndarray, path: Path) -> None:
    model = backbone.load()
    two = torch.from_numpy(np.stack([example, example]))

    def write(temporary: Path) -> None:
        torch.onnx.export(
            model,
            (two,),
            str(temporary),
            input_names=["pixel_values"],
            output_names=["features"],
            dynamic_shapes={"pixel_values": {0: torch.export.Dim("pictures", min=1)}},
            dynamo=True,
            external_data=False,
            verbose=False,
        )

    with _silence():
        try:
            write_atomically(path, write)
        except CannotWrite:
            raise
        except Exception as error:  # the exporter fails in types of its own
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise BadInput(
                f"{backbone.name} could not be exported for ONNX Runtime ({reason}); use the runtime torch."
            ) from error


def export_backbone(backbone: Backbone) -> Path:
    """The backbone as an .onnx file in the cache (`pixel_values` → `features`), made if it is not there yet."""
    if not _onnx_is_installed():
        raise BadInput("Exporting a backbone needs onnx; install it with pip install 'firstsight[onnx]'.")
    example = backbone.prepare(Image.new("RGB", (64, 64)))
    path = _exported(backbone, example)
    if not path.is_file():
        _export(backbone, example, path)
    return path


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """The exporter talks about operators of libraries that nobody asked for."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
