"""Image formats: detection by name and content, and the memory that decoding needs."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from PIL import Image

# How many parts a picture's heading has: Pillow looks at each, and a hostile file can hold a hundred million.

MOST = 1_000_000  # parts: a second or two for Pillow, and far more than any picture has
_COMMENTS = 1_000  # in the text of a plain PNM file, whose reader copies what follows each
_PNM_HEADING = re.compile(rb"P[0-6fFy](?:\s|#[^\r\n]*[\r\n])*\d+(?:\s|#[^\r\n]*[\r\n])*\d+\s")
_LONGEST_HEADING = 1 << 16


def is_endless(content: bytes, kind: str | None) -> bool:
    """Whether the heading of a file, of a format as `sniff` names it, has more parts than any picture's."""
    if content[:1] == b"P":  # PNM, also where more blanks than `sniff` looks at come first
        plain = content[1:2] in b"123"
        return _PNM_HEADING.match(content[:_LONGEST_HEADING]) is None or (plain and content.count(b"#") > _COMMENTS)
    parts = _PARTS.get(kind or "")
    return parts is not None and next(islice(parts(content), MOST, None), None) is not None


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
