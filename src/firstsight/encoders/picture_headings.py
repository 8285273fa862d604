"""How many parts a picture's heading has: Pillow looks at each, and a hostile file can hold a hundred million."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice

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
