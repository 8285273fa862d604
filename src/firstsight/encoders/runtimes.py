"""Runtimes of a backbone: PyTorch, or ONNX Runtime with an exported file."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from firstsight._io.files import cache_folder, remove_all_stale, write_atomically
from firstsight.devices import PRECISIONS, find_device, lowered, torch
from firstsight.encoders.backbone import Backbone
from firstsight.encoders.letters import LetterBackbone
from firstsight.errors import BadInput, CannotWrite, UnknownName

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
    from PIL import Image

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
