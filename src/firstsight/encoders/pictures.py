"""Pictures → features, with a cache by content."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from firstsight.encoders.backbone import DEFAULT, Backbone
from firstsight.encoders.cache import FeatureCache
from firstsight.encoders.decoding import Undecodable, decode_picture
from firstsight.encoders.runtimes import Run, check_runtime, open_runtime
from firstsight.errors import BadInput, FirstsightError
from firstsight.files import cache_folder

Progress = Callable[[int, int], None]  # pictures done, pictures in all


@dataclass(frozen=True)
class Encoded:
    """What encoding gave: a row per picture that could be read, in the order in which they were given.

    features (n, d) float32; files: the path of each row as it was given; rows: its place among the given ones;
    skipped: path and reason of every picture without a row; cached: how many rows needed no computing.
    """

    features: np.ndarray
    files: list[str]
    skipped: list[tuple[str, str]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    cached: int = 0


@dataclass
class _Picture:
    """One picture on its way: its features are known, or its pixels are, or the reason why neither is."""

    key: bytes = b""
    features: np.ndarray | None = None
    pixels: np.ndarray | None = None
    reason: str = ""


class PictureEncoder:
    """Encodes picture files with a vision model.

    Parameters
    ----------
    backbone : name or path
        A transformers vision model by name, or a local folder that holds one. ResNet gives its pooled features,
        ViT and DINOv2 their pooled or first token, CLIP and SigLIP the space that texts share.
    batch_size : int
    cache : bool
        Keep features by the content of the picture, so that no picture is encoded twice by the same backbone.
    runtime : {"auto", "torch", "onnx"}
        "auto" takes ONNX Runtime where it is faster: the backbone was exported before, or the pictures are many.
    """

    def __init__(
        self, backbone: str | Path = DEFAULT, *, batch_size: int = 32, cache: bool = True, runtime: str = "auto"
    ):
        if batch_size < 1:
            raise BadInput(f"`batch_size` must be at least 1, but is {batch_size}; 32 is customary.")
        self.batch_size, self.cache = batch_size, cache
        self.runtime = check_runtime(runtime)
        self._backbone = Backbone(backbone)
        self._run: Run | None = None
        self._running = ""  # the runtime that was taken
        self._stores: dict[str, FeatureCache] = {}  # by runtime: their features agree, but not to the last bit
        self._dim: int | None = None

    @property
    def backbone(self) -> str:
        """The backbone's name: a path's last part, so that it tells nothing about this machine."""
        return self._backbone.name

    @property
    def fingerprint(self) -> str:
        """What tells one backbone (weights, architecture, preprocessing) from another, wherever it lies."""
        return self._backbone.fingerprint

    @property
    def dim(self) -> int:
        """How many features a picture gets."""
        if self._dim is None:
            self._dim = next((store.dim for store in self._open_stores().values() if store.dim is not None), None)
        if self._dim is None:
            self._start(self._backbone.prepare(Image.new("RGB", (64, 64))), pictures=1)
        assert self._dim is not None
        return self._dim

    @property
    def facts(self) -> dict[str, str | int]:
        """What a model must remember of its backbone: name, fingerprint and dim."""
        return {"name": self.backbone, "fingerprint": self.fingerprint, "dim": self.dim}

    def encode(self, pictures: Sequence[str | Path], progress: Progress | None = None) -> Encoded:
        """Features of picture files; `progress(done, total)` is called after every picture.

        Files are read and decoded in threads while the model works. What cannot be read is left out and told
        in `skipped`. A run that is killed goes on where it was, because the cache is written on the way.
        """
        paths = [Path(picture) for picture in pictures]
        features: dict[int, np.ndarray] = {}
        skipped: list[tuple[str, str]] = []
        waiting: list[tuple[int, bytes, np.ndarray]] = []
        cached = done = 0
        stores = self._open_stores()

        def compute() -> None:
            if self._run is None:
                self._start(waiting[0][2], len(paths) - len(features))
            rows = self._encode_batch([pixels for _, _, pixels in waiting])
            for (place, key, _), row in zip(waiting, rows, strict=True):
                features[place] = row
                if self.cache:
                    stores[self._running].put(key, row)
            waiting.clear()

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # we have a limit of our own
                warnings.filterwarnings("ignore", module="PIL")  # it goes on about EXIF it cannot read
                for place, picture in self._read_ahead(paths):
                    if picture.reason:
                        skipped.append((str(paths[place]), picture.reason))
                    elif picture.features is not None:
                        features[place] = picture.features
                        cached += 1
                    elif picture.pixels is not None:
                        waiting.append((place, picture.key, picture.pixels))
                        if len(waiting) == self.batch_size:
                            compute()
                    done += 1
                    if progress is not None:
                        progress(done - len(waiting), len(paths))
                if waiting:
                    compute()
                    if progress is not None:
                        progress(done, len(paths))
        finally:
            for store in stores.values():
                store.flush()
        rows = sorted(features)
        matrix = np.stack([features[row] for row in rows]) if rows else np.empty((0, self.dim), dtype=np.float32)
        return Encoded(matrix.astype(np.float32, copy=False), [str(paths[row]) for row in rows], skipped, rows, cached)

    def _read_ahead(self, paths: list[Path]) -> Iterator[tuple[int, _Picture]]:
        """Pictures in order, read by threads that stay at most two batches ahead of the model."""
        threads = min(8, (os.cpu_count() or 1) + 1)
        ahead = 2 * self.batch_size
        with ThreadPoolExecutor(threads, thread_name_prefix="decode") as pool:
            under_way: deque[Future[_Picture]] = deque()
            try:
                for place in range(len(paths)):
                    while len(under_way) < ahead and place + len(under_way) < len(paths):
                        under_way.append(pool.submit(self._read, paths[place + len(under_way)]))
                    yield place, under_way.popleft().result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _read(self, path: Path) -> _Picture:
        try:
            content = path.read_bytes()
        except OSError as error:
            return _Picture(reason=f"cannot be opened ({error.strerror or error})")
        key = hashlib.sha256(content).digest()
        for store in self._stores.values():
            if (known := store.get(key)) is not None:
                return _Picture(key, features=known)
        try:
            return _Picture(key, pixels=self._backbone.prepare(decode_picture(content)))
        except Undecodable as error:
            return _Picture(reason=str(error))
        except FirstsightError:
            raise
        except Exception as error:  # one odd picture that a processor stumbles over must not end a long run
            return _Picture(reason=f"cannot be prepared ({type(error).__name__}: {error})")

    def _encode_batch(self, pixels: list[np.ndarray]) -> np.ndarray:
        """Features of prepared pictures; those of one shape go through the model together."""
        assert self._run is not None
        out = np.empty((len(pixels), self._dim or 0), dtype=np.float32)
        for shape in {array.shape for array in pixels}:
            places = [i for i, array in enumerate(pixels) if array.shape == shape]
            out[places] = self._run(np.stack([pixels[i] for i in places]))
        return out

    def _start(self, example: np.ndarray, pictures: int) -> None:
        self._running, run = open_runtime(self.runtime, self._backbone, example, pictures)
        self._dim = self._backbone.features_of_one(run, example).shape[1]
        self._run = run

    def _open_stores(self) -> dict[str, FeatureCache]:
        if self.cache and not self._stores:
            folder = cache_folder() / "features"
            for runtime in ("onnx", "torch") if self.runtime == "auto" else (self.runtime,):
                self._stores[runtime] = FeatureCache(folder / f"{self.fingerprint}-{runtime}")
        return self._stores
