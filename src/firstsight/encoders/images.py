"""Encode images as features, with a cache, and make thumbnails of them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from firstsight._io.files import cache_folder, open_regular, remove_all_stale, write_atomically
from firstsight.devices import find_device
from firstsight.encoders.backbone import (
    DEFAULT,
    LETTERS,
    Announce,
    Backbone,
    LetterBackbone,
    Run,
    check_runtime,
    open_runtime,
)
from firstsight.encoders.decoding import InMemory, Undecodable, check_in_memory, decoded, quiet_pillow
from firstsight.encoders.image_folders import name_as_text
from firstsight.errors import BadInput, CannotWrite, FirstsightError

FILE_LIMIT = 2**29  # bytes; what is larger is no picture


@dataclass(frozen=True)
class Encoded:
    """What encoding gave: a row per picture that could be read, in the order in which they were given.

    features (n, d) float32; files: the name of each row as text (`name_as_text`); rows: its place among the given
    ones; skipped: name and reason of every picture without a row; cached: how many rows needed no computing;
    fingerprints (n,) uint64: the first 8 bytes of the SHA-256 of each file's content, 0 for a picture in memory.
    """

    features: np.ndarray
    files: list[str]
    skipped: list[tuple[str, str]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    cached: int = 0
    fingerprints: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.uint64))


@dataclass
class _Picture:
    """One picture on its way: its features are known, or its pixels are, or the reason why neither is."""

    key: bytes = b""
    features: np.ndarray | None = None
    pixels: np.ndarray | None = None
    reason: str = ""


class ImageEncoder:
    """Encodes pictures with a vision model, which is loaded once and kept. Threads may share an encoder.

    Parameters
    ----------
    backbone : name or path
        A transformers vision model by name, or a local folder that holds one. ResNet gives its pooled features,
        ViT and DINOv2 their pooled or first token, CLIP and SigLIP the space that texts share. "firstsight-letters"
        looks at single letters and needs no weights.
    batch_size : int
    cache : bool
        Keep features by the content of the picture, so that no picture is encoded twice by the same backbone.
    runtime : {"auto", "torch", "onnx"}
        "auto" takes ONNX Runtime where it is faster: the backbone was exported before, or the pictures are many.
    device : str
        Where to compute: "cpu", "cuda", "mps", …, or "auto", which is a GPU if there is one. Others than the CPU are
        torch's.
    precision : {"float32", "bfloat16"}
        Of the matrix products; features are float32.
    remember : int
        How many of the pictures that `prepare` was given last keep their features in memory: they are not decoded and
        not encoded again.
    """

    def __init__(
        self,
        backbone: str | Path = DEFAULT,
        *,
        batch_size: int = 32,
        cache: bool = True,
        runtime: str = "auto",
        device: str = "cpu",
        precision: str = "float32",
        remember: int = 0,
    ):
        if batch_size < 1:
            raise BadInput(f"`batch_size` must be at least 1, but is {batch_size}; 32 is customary.")
        self.batch_size, self.cache = batch_size, cache
        # Torch is not asked for the CPU: importing it takes longer than finding features in the cache.
        self.device = device if device == "cpu" else str(find_device(device))
        self.precision = precision
        self.runtime = check_runtime(runtime, self.device, precision)
        self._backbone = LetterBackbone() if str(backbone) == LETTERS else Backbone(backbone)
        self._run: Run | None = None
        self._running = ""  # the runtime that was taken
        self._stores: dict[str, FeatureCache] = {}  # by runtime: their features agree, but not to the last bit
        self._dim: int | None = None
        self._lock = threading.RLock()
        self.remember = remember
        self._remembered: OrderedDict[bytes, np.ndarray] = OrderedDict()

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

    def encode(
        self,
        pictures: Sequence[Source],
        progress: Progress | None = None,
        *,
        root: str | Path | None = None,
        announce: Announce | None = None,
    ) -> Encoded:
        """Features of pictures: files by their path, PIL pictures, or arrays of uint8 (h, w), (h, w, 3) or (h, w, 4).

        Files are read and decoded in threads while the model works. What cannot be read is left out and told
        in `skipped`. A run that is killed goes on where it was, because the cache is written on the way.
        `progress(done, total)` is called after every picture, `announce(sentence)` before a step that takes long.
        Files are named by their path, or by its part below `root`; pictures in memory by their number.
        """
        sources = [_checked(index, picture) for index, picture in enumerate(pictures)]
        job = _Job(self, sources, progress, announce)
        with quiet_pillow:
            try:
                job.run()
            finally:
                for store in self._stores.values():
                    store.flush()
        names = [_name(index, source, root) for index, source in enumerate(sources)]
        rows = sorted(job.features)
        same: dict[bytes, np.ndarray] = {}
        for row in rows:  # two files of one content are one picture, although batches may round them differently
            if key := job.keys[row]:
                job.features[row] = same.setdefault(key, job.features[row])
        matrix = np.stack([job.features[row] for row in rows]) if rows else np.empty((0, self.dim), dtype=np.float32)
        return Encoded(
            matrix.astype(np.float32, copy=False),
            [names[row] for row in rows],
            [(names[index], reason) for index, reason in job.skipped],
            rows,
            job.cached,
            np.array([int.from_bytes(job.keys[row][:8], "little") for row in rows], dtype=np.uint64),
        )

    def prepare(self, content: bytes, filename: str = "") -> Prepared:
        """A file's content, decoded and made ready for `encode`; raises `Undecodable` with the reason.

        For whoever gathers pictures one by one: this part runs in many threads, and what it makes is small.
        """
        key = hashlib.sha256(content).digest()
        with self._lock:
            if (known := self._remembered.get(key)) is not None:
                self._remembered.move_to_end(key)
                return Prepared(None, filename, key, known)
        with quiet_pillow:
            return Prepared(self._pixels(content), filename, key)

    def encode_images(self, pictures: Sequence[Source]) -> np.ndarray:
        """Features (n, d) float32, a row for every picture; the first that cannot be read is refused.

        Takes what `encode` takes, and threads may call it together. A PIL picture gives the features of the file that
        it was opened from; only a JPEG file above 16 megapixels is reduced in another way than a picture in memory.
        """
        encoded = self.encode(pictures)
        for name, reason in encoded.skipped:
            raise BadInput(f"{name} cannot be encoded ({reason}); leave it out or replace it.")
        return encoded.features

    def _pixels(self, content: bytes | InMemory) -> np.ndarray:
        with decoded(content) as picture:
            try:
                return self._backbone.prepare(picture)
            except FirstsightError:
                raise
            except Exception as error:  # one odd picture that a processor stumbles over must not end a long run
                raise Undecodable(f"cannot be prepared ({type(error).__name__}: {error})") from error

    def _read_ahead(self, sources: list[Path | InMemory | Prepared]) -> Iterator[tuple[int, _Picture]]:
        """Pictures in order, read by threads that stay at most two batches ahead of the model."""
        if len(sources) == 1 or all(isinstance(source, Prepared) for source in sources):
            yield from enumerate(map(self._read, sources))  # threads would cost time and save none
            return
        threads = min(8, (os.cpu_count() or 1) + 1)
        ahead = 2 * self.batch_size
        with ThreadPoolExecutor(threads, thread_name_prefix="decode") as pool:
            under_way: deque[Future[_Picture]] = deque()
            try:
                for index in range(len(sources)):
                    while len(under_way) < ahead and index + len(under_way) < len(sources):
                        under_way.append(pool.submit(self._read, sources[index + len(under_way)]))
                    yield index, under_way.popleft().result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _read(self, source: Path | InMemory | Prepared) -> _Picture:
        content: bytes | InMemory
        key = b""
        if isinstance(source, Prepared):
            return _Picture(source.key, source.features, source.pixels)
        if isinstance(source, Path):
            try:
                content = read_content(source)
            except (OSError, ValueError) as error:
                return _Picture(reason=f"cannot be opened ({getattr(error, 'strerror', None) or error})")
            key = hashlib.sha256(content).digest()
            for store in self._stores.values():
                if (known := store.get(key)) is not None:
                    return _Picture(key, features=known)
        else:
            content = source
        try:
            return _Picture(key, pixels=self._pixels(content))
        except Undecodable as error:
            return _Picture(reason=str(error))

    def _encode_batch(self, pixels: list[np.ndarray]) -> np.ndarray:
        """Features of prepared pictures; those of one shape go through the model together."""
        assert self._run is not None
        out = np.empty((len(pixels), self._dim or 0), dtype=np.float32)
        for shape in {array.shape for array in pixels}:
            places = [i for i, array in enumerate(pixels) if array.shape == shape]
            out[places] = self._run(np.stack([pixels[i] for i in places]))
        return out

    def _start(self, example: np.ndarray, pictures: int, announce: Announce | None = None) -> None:
        """Load the model, if no thread has done so before."""
        with self._lock:
            if self._run is not None:
                return
            self._running, run = open_runtime(
                self.runtime, self._backbone, example, pictures, announce, self.device, self.precision
            )
            self._dim = self._backbone.features_of_one(run, example).shape[1]
            self._run = run

    def _keep(self, key: bytes, features: np.ndarray) -> None:
        with self._lock:
            self._remembered[key] = features
            while len(self._remembered) > self.remember:
                self._remembered.popitem(last=False)

    def _open_stores(self) -> dict[str, FeatureCache]:
        with self._lock:
            if self.cache and not self._stores:
                folder = cache_folder() / "features"
                runtimes = ("onnx", "torch") if self.runtime == "auto" else (self.runtime,)
                # Features of another device or precision agree even less, and are no other run's business.
                where = "" if self.device == "cpu" else f"-{self.device.partition(':')[0]}"
                how = "" if self.precision == "float32" else f"-{self.precision}"
                names = {r: f"{self.fingerprint}-{r}{where}{how}" for r in runtimes}
                self._stores = {r: FeatureCache(folder / name) for r, name in names.items()}
            return self._stores


class _Job:
    """One call of `encode` on its way: what is known, what waits for the model, what had to be left out."""

    def __init__(
        self,
        encoder: ImageEncoder,
        sources: list[Path | InMemory | Prepared],
        progress: Progress | None,
        announce: Announce | None,
    ):
        self.encoder, self.sources, self.progress, self.announce = encoder, sources, progress, announce
        self.features: dict[int, np.ndarray] = {}
        self.keys: dict[int, bytes] = {}
        self.skipped: list[tuple[int, str]] = []
        self.waiting: list[tuple[int, bytes, np.ndarray]] = []
        self.cached = 0

    def run(self) -> None:
        if any(isinstance(source, Path) for source in self.sources):
            self.encoder._open_stores()
        for index, picture in self.encoder._read_ahead(self.sources):
            self.keys[index] = picture.key
            if picture.reason:
                self.skipped.append((index, picture.reason))
            elif picture.features is not None:
                self.features[index] = picture.features
                self.cached += 1
            elif picture.pixels is not None:
                self.waiting.append((index, picture.key, picture.pixels))
                if len(self.waiting) == self.encoder.batch_size:
                    self.compute()
            self.show(index + 1 - len(self.waiting))
        if self.waiting:
            self.compute()
            self.show(len(self.sources))

    def show(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done, len(self.sources))

    def compute(self) -> None:
        encoder = self.encoder
        encoder._start(self.waiting[0][2], len(self.sources) - len(self.features), self.announce)
        rows = encoder._encode_batch([pixels for _, _, pixels in self.waiting])
        for (index, key, _), row in zip(self.waiting, rows, strict=True):
            self.features[index] = row
            if isinstance(self.sources[index], Path) and encoder.cache:  # an upload never gets to the disk
                encoder._stores[encoder._running].put(key, row)
            elif isinstance(self.sources[index], Prepared):
                encoder._keep(key, row)
        self.waiting.clear()


def _checked(index: int, picture: Source) -> Path | InMemory | Prepared:
    """A path, or a picture in memory that could be one."""
    if isinstance(picture, Prepared):
        return picture
    if isinstance(picture, str | os.PathLike):
        return Path(picture)
    if isinstance(picture, Image.Image | np.ndarray):
        if wrong := check_in_memory(picture):
            raise BadInput(f"Picture {index} {wrong}.")
        return picture
    raise BadInput(
        f"Picture {index} is of type {type(picture).__name__}; give a path, a PIL picture or an array of uint8."
    )


def _name(index: int, source: Path | InMemory | Prepared, root: str | Path | None) -> str:
    if not isinstance(source, Path):
        return f"picture {index}"
    return name_as_text(source if root is None else source.relative_to(root).as_posix())


def read_content(path: Path) -> bytes:
    """A file as it is; OSError or ValueError where it is no regular file, or larger than any picture."""
    with open(open_regular(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > FILE_LIMIT:
            raise ValueError(f"{size / 2**30:.1f} GiB large; the limit is {FILE_LIMIT / 2**30:g} GiB")
        return file.read(FILE_LIMIT)


# Cache of features, keyed by the content of the image file.

SHARD_ROWS = 256
SHARD_SECONDS = 3.0
_DIGEST = 16  # bytes


class FeatureCache:
    """Features by the 32 bytes of a picture's SHA-256, in one folder per backbone. Threads may share one.

    A shard is one .npy file of records (SHA-256 of the picture, its features, a digest of both); a run adds shards and
    changes none, so runs may share a cache and one that is killed loses the last seconds only. A record whose digest
    does not fit is ignored: its picture is encoded again.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.dim: int | None = None
        self._found: dict[bytes, np.void] = {}  # records, judged when they are asked for
        self._unwritten: list[np.void] = []
        self._flushed = time.monotonic()
        self._lock = threading.RLock()
        remove_all_stale(folder)
        for path in sorted(folder.glob("[!.]*.npy")):  # a hidden one is half written
            self._read(path)

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: bytes) -> np.ndarray | None:
        record = self._found.get(key)
        return record["features"] if record is not None and _is_sound(record) else None

    def put(self, key: bytes, features: np.ndarray) -> None:
        record = np.zeros(1, dtype=_layout(len(features)))[0]
        record["key"], record["features"] = np.void(key), features
        record["digest"] = np.void(_digest(record))
        with self._lock:
            self._found[key] = record
            self._unwritten.append(record)
            if len(self._unwritten) >= SHARD_ROWS or time.monotonic() - self._flushed > SHARD_SECONDS:
                self.flush()

    def flush(self) -> None:
        """Write what came since the last time as one more shard."""
        with self._lock:
            self._flushed = time.monotonic()
            if not self._unwritten:
                return
            shard = np.array(self._unwritten, dtype=self._unwritten[0].dtype)
            self._unwritten = []
            # The cache only saves time; a full disk is no reason to fail.
            with contextlib.suppress(CannotWrite):
                write_atomically(self.folder / f"{uuid.uuid4().hex}.npy", lambda path: np.save(path, shard))

    def _read(self, path: Path) -> None:
        try:
            with open(open_regular(path), "rb") as file:
                np.lib.format.read_magic(file)
                shape, _, kind = np.lib.format.read_array_header_1_0(file)
                begin = file.tell()
            dim = kind["features"].shape[0]
            if len(shape) != 1 or kind != _layout(dim) or self.dim not in (None, dim):
                return
            shard = np.memmap(path, kind, "r", begin, shape)  # np.load would die of a header that claims 0 bytes a row
        except Exception:  # a damaged shard breaks in many ways; its pictures are simply encoded again
            return
        records = shard.view(np.ndarray)
        if self.dim is None and not any(map(_is_sound, records)):
            return
        self.dim = dim
        for record in records:
            key = record["key"].tobytes()
            if key not in self._found or not _is_sound(self._found[key]):  # the same picture twice: one may be damaged
                self._found[key] = record


def _layout(dim: int) -> np.dtype:
    return np.dtype([("key", "V32"), ("features", "<f4", (dim,)), ("digest", f"V{_DIGEST}")])


def _digest(record: np.void) -> bytes:
    return hashlib.blake2b(record.tobytes()[:-_DIGEST], digest_size=_DIGEST).digest()


def _is_sound(record: np.void) -> bool:
    return bool(record["digest"].tobytes() == _digest(record))


@dataclass(frozen=True, eq=False)
class Prepared:
    """A picture as its backbone looks at it; `ImageEncoder.prepare` makes it, `encode` takes it."""

    pixels: np.ndarray | None  # None where the features are known
    filename: str = ""
    key: bytes = b""  # SHA-256 of the file's content
    features: np.ndarray | None = None


Source = str | os.PathLike[str] | Image.Image | np.ndarray | Prepared
Progress = Callable[[int, int], object]  # pictures done, pictures in all
# Thumbnails for pages, bounded in pixels and bytes.

THUMBNAIL_SIDE = 224  # pixels: twice what a card shows at the least, for fine screens
THUMBNAIL_BYTES = 12_000  # a thousand of them make a page of sixteen megabytes
_QUALITIES = (82, 65, 45, 25)


def thumbnail(
    source: str | os.PathLike[str] | bytes | InMemory, side: int = THUMBNAIL_SIDE, most: int = THUMBNAIL_BYTES
) -> bytes | None:
    """A JPEG file of at most `side` pixels and `most` bytes; None if the picture cannot be read (any more)."""
    try:
        content = read_content(Path(source)) if isinstance(source, str | os.PathLike) else source
        with quiet_pillow, decoded(content) as picture:
            small = picture.copy() if isinstance(source, Image.Image) else picture
            small.thumbnail((side, side))
    except (OSError, ValueError, Undecodable):
        return None
    while True:
        for quality in _QUALITIES:
            file = io.BytesIO()
            small.save(file, "JPEG", quality=quality, optimize=True)
            if len(file.getvalue()) <= most or max(small.size) <= 16:
                return file.getvalue()
        small = small.resize((max(1, small.width * 2 // 3), max(1, small.height * 2 // 3)))
