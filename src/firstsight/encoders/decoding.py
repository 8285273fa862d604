"""Decode an image from a file or from memory into an upright RGB image of bounded size."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from firstsight.encoders.image_formats import Undecodable, claimed_bytes, decoder_bytes, open_image, stored_bytes

__all__ = ["Undecodable", "check_in_memory", "decode_image", "decoded", "quiet_pillow"]

# Pillow's own limit against files that unpack to more memory than a machine has.
PIXEL_LIMIT = 178_956_970
# What decoding may take at once, over all threads: a small file may claim to be a large picture.
BYTE_LIMIT = 2**30
# Below this a picture is decoded as it is, so that features are those of everybody else's pipeline.
LARGE = 16_000_000
# A large picture is first made smaller, but no side below this: several times what any backbone looks at.
ENOUGH = 1024
# A picture longer than this many times its width would be blown up by resizing its short side.
LONGEST = 16
_TINY = 16  # processors mistake the side of a picture three pixels high for its colours
_STRIP = 2**21  # pixels that are worked on at once
_STRIP_BYTES = 24  # for each of them: deep grey is scaled in double precision
_PREPARING = 12  # bytes per pixel of an RGB picture, of its array, and of a processor's copy

InMemory = Image.Image | np.ndarray


class _Budget:
    """Bytes that threads share: whoever wants more than is left waits until others have finished."""

    def __init__(self, total: int):
        self._left = total
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, amount: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._left >= amount)
            self._left -= amount
        try:
            yield
        finally:
            with self._changed:
                self._left += amount
                self._changed.notify_all()


_budget = _Budget(BYTE_LIMIT)


def decode_image(source: bytes | InMemory) -> Image.Image:
    """The first frame, turned as its EXIF says, on white where it is transparent, as 8-bit RGB.

    `source` is a file's content, a PIL picture or an array of uint8. Pictures above 16 megapixels are reduced while
    or right after they are read; those that would take more memory than the limit are refused before anything is
    unpacked.
    """
    with decoded(source) as picture:
        return picture


@contextmanager
def decoded(source: bytes | InMemory) -> Iterator[Image.Image]:
    """`decode_image`, with its share of the memory that all threads have together kept until the end of the block."""
    with _translate_errors():
        picture, ours = _opened(source)
        needed = _bytes_needed(picture)
        _refuse_above_limit(needed)
    with _budget.hold(needed):
        with _translate_errors():
            if picture.width * picture.height > LARGE:
                picture = _reduced(picture, ours)
            rgb = _upright_rgb(picture)
            del picture
        yield rgb


def check_in_memory(picture: InMemory) -> str:
    """What is wrong with a picture that was given in memory, as words to follow its name; empty if nothing is."""
    if isinstance(picture, Image.Image):
        return "" if min(picture.size) > 0 else "has no pixels"
    shape = " × ".join(map(str, picture.shape))
    if picture.dtype != np.uint8:
        return f"is an array of {picture.dtype}, but pictures are arrays of uint8, from 0 to 255; convert it"
    if not (picture.ndim == 2 or (picture.ndim == 3 and picture.shape[2] in (3, 4))):
        return f"is an array of {shape or 'no'} values, but must be height × width, with 3 or 4 colours behind if any"
    return "" if picture.size else f"is an array of {shape} values, which has no pixels"


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except Undecodable:
        raise
    except Image.DecompressionBombError:
        raise Undecodable(f"more than {PIXEL_LIMIT // 10**6} megapixels, the limit against harmful files") from None
    except UnidentifiedImageError:
        raise Undecodable("not a picture format that can be read") from None
    except MemoryError:
        raise Undecodable("too large for this machine's memory") from None
    except Exception as error:  # decoders answer damage with a dozen unrelated types
        raise Undecodable(f"damaged: {str(error).strip() or type(error).__name__}") from None


def _opened(source: bytes | InMemory) -> tuple[Image.Image, bool]:
    """The picture, not yet unpacked, and whether it is ours to change."""
    if isinstance(source, Image.Image):
        return source, False
    if isinstance(source, np.ndarray):
        return Image.fromarray(source), False
    if not source:
        raise Undecodable("the file is empty")
    _refuse_above_limit(claimed_bytes(source))
    picture = open_image(source)
    if picture.width * picture.height > PIXEL_LIMIT:
        raise Image.DecompressionBombError
    return picture, True


def _refuse_above_limit(needed: int) -> None:
    if needed > BYTE_LIMIT:
        raise Undecodable(
            f"it would take {needed / 2**30:.1f} GiB to decode; the limit against harmful files is "
            f"{BYTE_LIMIT / 2**30:g} GiB"
        )


def _bytes_needed(picture: Image.Image) -> int:
    """The most that decoding and preparing hold at once, known from the header alone."""
    pixels = picture.width * picture.height
    kept = pixels
    if pixels > LARGE and _can_be_reduced(picture):
        kept //= max(1, min(picture.size) // ENOUGH) ** 2
    drafted = pixels > LARGE and picture.format in ("JPEG", "MPO")
    stored = stored_bytes(picture.mode) * (kept * 4 if drafted else pixels)
    return decoder_bytes(picture) + stored + _PREPARING * kept + _STRIP_BYTES * min(pixels, _STRIP)


def _can_be_reduced(picture: Image.Image) -> bool:
    return picture.mode not in ("P", "1")  # colour numbers and bits cannot be averaged


def _reduced(picture: Image.Image, ours: bool) -> Image.Image:
    if ours and picture.format in ("JPEG", "MPO"):  # decoded at a fraction of its size, never below this one
        picture.draft(None, (ENOUGH, ENOUGH))
    factor = min(picture.size) // ENOUGH
    if factor < 2 or not _can_be_reduced(picture):
        return picture
    orientation, facts = picture.getexif(), dict(picture.info)
    if picture.mode.startswith("I;16"):
        picture = _eight_bits(picture)  # Pillow cannot average these
        facts.pop("transparency", None)  # a value that no pixel has any more
    small = _by_strips(picture, lambda strip: strip.reduce(factor), factor)
    small.info = facts
    if orientation:
        small.info["exif"] = orientation.tobytes()
    return small


def _upright_rgb(picture: Image.Image) -> Image.Image:
    picture.load()
    if picture.getexif().get(0x0112, 1) != 1:
        picture = ImageOps.exif_transpose(picture)
    picture = _eight_bits(picture)
    rgb = picture
    if picture.mode != "RGB" or picture.has_transparency_data:
        rgb = _by_strips(picture, _without_alpha)
    width, height = rgb.size
    if max(width, height) > LONGEST * min(width, height):
        reach = LONGEST * min(width, height)
        rgb = ImageOps.fit(rgb, (min(width, reach), min(height, reach)))
    if min(rgb.size) < _TINY:
        rgb = rgb.resize((max(rgb.width, _TINY), max(rgb.height, _TINY)))
    return rgb


def _strips(picture: Image.Image, factor: int = 1) -> Iterator[tuple[int, Image.Image]]:
    """Some rows after the others, each with the number of its first row; all but the last a multiple of `factor`."""
    rows = max(1, _STRIP // (picture.width * factor)) * factor
    if rows >= picture.height:
        yield 0, picture
        return
    for top in range(0, picture.height, rows):
        yield top, picture.crop((0, top, picture.width, min(top + rows, picture.height)))


def _by_strips(picture: Image.Image, work: Callable[[Image.Image], Image.Image], factor: int = 1) -> Image.Image:
    """`work`, which makes a picture smaller by `factor`: its answer for the whole, without its memory for the whole."""
    whole: Image.Image | None = None
    for top, strip in _strips(picture, factor):
        done = work(strip)
        if strip is picture:
            return done
        if whole is None:
            whole = Image.new(done.mode, (done.width, -(-picture.height // factor)))
        whole.paste(done, (0, top // factor))
    assert whole is not None
    return whole


def _eight_bits(picture: Image.Image) -> Image.Image:
    """Deep grey pictures as 8-bit ones; Pillow itself would cut off everything above 255."""
    if picture.mode == "F":
        scale = 255.0 if _largest(picture) <= 1 else 1.0
    elif picture.mode == "I" or picture.mode.startswith("I;16"):
        scale = 1.0 if picture.mode == "I" and _largest(picture) <= 255 else 255 / 65535
    else:
        return picture

    def scaled(strip: Image.Image) -> Image.Image:
        values = np.clip(_values(strip) * np.float32(scale) + np.float32(0.5), 0, 255)
        return Image.fromarray(values.astype(np.uint8))

    return _by_strips(picture, scaled)


def _values(picture: Image.Image) -> np.ndarray:
    return np.nan_to_num(np.asarray(picture)) if picture.mode == "F" else np.asarray(picture)


def _largest(picture: Image.Image) -> float:
    return max(float(_values(strip).max(initial=0)) for _, strip in _strips(picture))


def _without_alpha(picture: Image.Image) -> Image.Image:
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    picture = picture.convert("RGBA")
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture).convert("RGB")


class _Quiet:
    """Pillow's warnings off while anybody is inside: Python's own way of doing it is not made for threads."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._caught: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._caught = warnings.catch_warnings()
                self._caught.__enter__()
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # we have a limit of our own
                warnings.filterwarnings("ignore", module="PIL")  # it goes on about EXIF it cannot read

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._caught.__exit__(None, None, None)


quiet_pillow = _Quiet()
