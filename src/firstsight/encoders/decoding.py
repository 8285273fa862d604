"""Decode images: detect the format, bound the memory, and make an upright RGB image."""

from __future__ import annotations

import io
import re
import struct
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

# How many parts a picture's heading has: Pillow looks at each, and a hostile file can hold a hundred million.

MOST_PARTS = 1_000_000  # parts: a second or two for Pillow, and far more than any picture has
_COMMENTS = 1_000  # in the text of a plain PNM file, whose reader copies what follows each
_PNM_HEADING = re.compile(rb"P[0-6fFy](?:\s|#[^\r\n]*[\r\n])*\d+(?:\s|#[^\r\n]*[\r\n])*\d+\s")
_LONGEST_HEADING = 1 << 16


def is_endless(content: bytes, kind: str | None) -> bool:
    """Whether the heading of a file, of a format as `sniff` names it, has more parts than any picture's."""
    if content[:1] == b"P":  # PNM, also where more blanks than `sniff` looks at come first
        plain = content[1:2] in b"123"
        return _PNM_HEADING.match(content[:_LONGEST_HEADING]) is None or (plain and content.count(b"#") > _COMMENTS)
    parts = _PARTS.get(kind or "")
    return parts is not None and next(islice(parts(content), MOST_PARTS, None), None) is not None


def _jpeg(content: bytes) -> Iterator[int]:
    """Markers, and single bytes between them, up to where the picture begins."""
    at = 0
    while at < len(content) and (marker := content[at : at + 2]) != b"\xff\xda":
        yield at
        if marker[:1] != b"\xff" or marker[1:] == b"\xff":
            at += 1
        elif marker[1:] in (b"", b"\x00", b"\x01") or b"\xd0" <= marker[1:] <= b"\xd8":
            at += 2
        else:
            at += 2 + int.from_bytes(content[at + 2 : at + 4], "big")


def _png(content: bytes) -> Iterator[int]:
    at = 8
    while at < len(content) and content[at + 4 : at + 8] != b"IEND":
        yield at
        at += 12 + int.from_bytes(content[at : at + 4], "big")


def _gif(content: bytes) -> Iterator[int]:
    """Blocks, and those of data within them, up to the first picture."""
    flags = content[10] if len(content) > 10 else 0
    at = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    while at < len(content) and content[at] not in b"\x2c\x3b":
        yield at
        if content[at] != 0x21:  # none that anybody knows
            at += 1
            continue
        at += 2
        while at < len(content) and content[at]:
            yield at
            at += 1 + content[at]
        at += 1


def _jp2(content: bytes) -> Iterator[int]:
    at = 0
    while at < len(content) and (length := int.from_bytes(content[at : at + 4], "big")):
        yield at
        at += max(int.from_bytes(content[at + 8 : at + 16], "big") if length == 1 else length, 8)


_PARTS: dict[str, Callable[[bytes], Iterator[int]]] = {"JPEG": _jpeg, "PNG": _png, "GIF": _gif, "JPEG2000": _jp2}


# Which files are pictures, by name and by content, and how much memory one takes before anything is unpacked.

# The only formats that Pillow is asked for: others (such as EPS) start programs or are read by slow, seldom used code.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "DIB", "TIFF", "PPM", "AVIF", "JPEG2000")
SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".avif"),
    *(".heic", ".heif", ".hif", ".jp2", ".j2k", ".jpx", ".jpf", ".j2c", ".jpc", ".pbm", ".pnm", ".apng", ".mpo"),
)
# Pictures to a person, but not to us: cameras' raw files, drawings, pages, films, and the working files of editors.
UNREAD_SUFFIXES = (
    *(".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dcr", ".dng", ".erf", ".fff", ".gpr", ".iiq", ".kdc", ".mef"),
    *(".mos", ".mrw", ".nef", ".nrw", ".orf", ".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw"),
    *(".x3f", ".svg", ".svgz", ".eps", ".psd", ".psb", ".xcf", ".kra", ".jxl", ".jxr", ".bpg", ".exr", ".hdr"),
    *(".tga", ".dds", ".ico", ".icns", ".pcx", ".fits", ".dcm", ".pict", ".qoi"),
    *(".pdf", ".ai", ".ps", ".djvu", ".emf", ".wmf", ".cdr", ".indd", ".cur", ".pcd", ".sgi", ".ras", ".xpm", ".xbm"),
    *(".mp4", ".mov", ".m4v", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".wmv", ".3gp"),
)
HEAD = 64  # bytes that `sniff` looks at

_MAGIC = {
    b"\xff\xd8\xff": "JPEG",
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"GIF87a": "GIF",
    b"GIF89a": "GIF",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"II+\0": "TIFF",
    b"MM\0+": "TIFF",
    b"\0\0\0\x0cjP  \r\n\x87\n": "JPEG2000",
    b"\xff\x4f\xff\x51": "JPEG2000",
}
_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")


class Undecodable(Exception):
    """Why a file is no picture that can be used: a few words for a person."""


def sniff(head: bytes) -> str | None:
    """The format that the first bytes of a file speak of, None if they are not a picture's."""
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WEBP"
    if head[:2] == b"BM" and head[14:18] in {struct.pack("<I", size) for size in (12, 40, 52, 56, 64, 108, 124)}:
        return "BMP"
    if re.match(rb"P[1-6]\s+(#|\d)", head):
        return "PPM"
    if head[4:8] == b"ftyp":
        length = min(int.from_bytes(head[:4], "big"), HEAD)
        brands = [head[8:12], *(head[at : at + 4] for at in range(16, length, 4))]
        if b"avif" in brands or b"avis" in brands:
            return "AVIF"
        if brands[0] in _HEIF_BRANDS:
            return "HEIF"
    return None


def open_image(content: bytes) -> Image.Image:
    """The picture in a file's bytes, not yet unpacked."""
    kind = sniff(content[:HEAD])
    if is_endless(content, kind):
        raise Undecodable("damaged, or made to be read for ever: its heading has more parts than any picture's")
    if kind == "HEIF":
        try:
            from pillow_heif import HeifImageFile  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise Undecodable("HEIC pictures need pillow-heif: pip install 'firstsight[heic]'") from None
        return HeifImageFile(io.BytesIO(content))  # type: ignore[no-untyped-call,unused-ignore]
    Image.init()  # Pillow may have been built without some of them
    return Image.open(io.BytesIO(content), formats=[name for name in FORMATS if name in Image.OPEN])


def claimed_bytes(content: bytes) -> int:
    """What a decoder takes by the size that a file claims, where it would take it before Pillow knows the size.

    WebP's canvas is made on opening; a JPEG 2000 file has a second size inside, and the decoder believes that one.
    """
    kind = sniff(content[:HEAD])
    if kind == "WEBP":
        width, height = _webp_size(content[:30])
        return width * height * 16
    if kind == "JPEG2000":
        return max(
            (_codestream_bytes(content[at.end() : at.end() + 36]) for at in _CODESTREAM.finditer(content)), default=0
        )
    return 0


_CODESTREAM = re.compile(rb"\xff\x4f\xff\x51")


def _codestream_bytes(siz: bytes) -> int:
    if len(siz) < 38 - 2:
        return 0
    right, bottom, left, top, tile_width, tile_height = struct.unpack_from(">6I", siz, 4)
    bands: int = struct.unpack_from(">H", siz + b"\0\0", 36)[0] if len(siz) > 37 else 4
    picture: int = max(right - left, 0) * max(bottom - top, 0)
    tile: int = min(tile_width, right) * min(tile_height, bottom)
    return 8 * min(max(bands, 1), 4) * max(picture, tile)


def _webp_size(head: bytes) -> tuple[int, int]:
    chunk, data = head[12:16], head[20:30].ljust(10, b"\0")
    if chunk == b"VP8X":
        return 1 + int.from_bytes(data[4:7], "little"), 1 + int.from_bytes(data[7:10], "little")
    if chunk == b"VP8L":
        bits = int.from_bytes(data[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return int.from_bytes(data[6:8], "little") & 0x3FFF, int.from_bytes(data[8:10], "little") & 0x3FFF


def stored_bytes(mode: str) -> int:
    """Bytes that Pillow takes for one pixel of an unpacked picture."""
    return 1 if mode in ("1", "L", "P") else 2 if mode.startswith("I;16") else 4


def decoder_bytes(picture: Image.Image) -> int:
    """What the decoder of a picture's format takes besides the picture itself, over all of it."""
    pixels, bands = picture.width * picture.height, len(picture.getbands())
    if picture.format in ("JPEG", "MPO"):
        return 2 * bands * pixels  # progressive ones: the coefficients of the whole picture
    if picture.format == "TIFF":
        return _tiff_piece(getattr(picture, "tag_v2", {}), picture)
    if picture.format == "JPEG2000":
        return 8 * bands * pixels
    besides = {"WEBP": 12, "AVIF": 20, "HEIF": 20, "GIF": 1, "BMP": 2, "DIB": 2, "PPM": 4}
    return besides.get(picture.format or "", 0) * pixels


def _tiff_piece(tags: Any, picture: Image.Image) -> int:
    """A strip or a tile, which is unpacked as a whole and may be larger than the picture."""

    def number(tag: int, otherwise: int) -> int:
        value = tags.get(tag, otherwise)
        return max(int(value[0] if isinstance(value, tuple) else value), 0)

    depths = tags.get(258, 1)
    bits: int = max(map(int, depths), default=1) if isinstance(depths, tuple) else int(depths)
    per_pixel = max(-(-bits * max(number(277, 1), 1) // 8), 4)  # libtiff may hand out RGBA whatever is inside
    if 322 in tags or 323 in tags:
        return number(322, picture.width) * number(323, picture.height) * per_pixel
    return picture.width * min(number(278, picture.height), picture.height) * per_pixel


__all__ = ["Undecodable", "check_in_memory", "decode_image", "decoded", "quiet_pillow"]

# Decoding: what it may take, and the upright RGB image of bounded size.

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
