from __future__ import annotations

import io
import struct
import zlib

import pytest
from PIL import Image

from firstsight.encoders import decoding
from firstsight.encoders.decoding import Undecodable, claimed_bytes, decode_image, is_endless, sniff


def picture(kind: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, kind)
    return file.getvalue()


def chunk(name: bytes) -> bytes:
    return struct.pack(">I", 0) + name + struct.pack(">I", zlib.crc32(name))


def after_colours(gif: bytes) -> int:
    return 13 + (3 << (gif[10] & 7) + 1)


# Where parts that mean nothing can be put in, and one of them.
PARTS = {
    "JPEG": (lambda content: 2, b"\xff\xe1\x00\x02"),
    "JPEG, fill bytes": (lambda content: 2, b"\xff"),
    "JPEG, comments": (lambda content: 2, b"\xff\xfe\x00\x03a"),
    "PNG": (lambda content: 33, chunk(b"abCd")),
    "GIF": (after_colours, b"\x21\xfe\x01a\x00"),
    "GIF, blocks as long as a picture's mark": (after_colours, b"\x21\xfe\x2c" + b"a" * 44 + b"\x01a" * 9 + b"\x00"),
    "JPEG2000": (lambda content: 12, b"\x00\x00\x00\x08free"),
    "PPM, blanks": (lambda content: 2, b" " * 1000),
    "PPM": (lambda content: 3, b"#" + b"a" * 70_000 + b"\n"),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_heading_of_more_parts_than_any_pictures_is_refused_before_pillow_sees_it(name, monkeypatch):
    monkeypatch.setattr(decoding, "MOST_PARTS", 1000)
    place, part = PARTS[name]
    content = picture(name.split(",")[0])
    at = place(content)
    assert not is_endless(content, sniff(content))
    endless = content[:at] + part * 1500 + content[at:]
    with pytest.raises(Undecodable, match="more parts than any picture's"):
        decode_image(endless)


def test_a_plain_picture_with_a_comment_per_number_is_refused():
    text = b"P3\n8 8\n255\n"
    assert decode_image(text + b"#a\n" + b"1 " * 192).getpixel((0, 0)) == (1, 1, 1)
    with pytest.raises(Undecodable, match="more parts than any picture's"):
        decode_image(text + b"#a\n" * 2000 + b"1 " * 192)


def test_a_million_marks_of_a_codestream_are_looked_at_once_each():
    """Each was looked for in a copy of all that follows: 3 MB took minutes."""
    content = picture("JPEG2000")
    assert claimed_bytes(content + b"\xff\x4f\xff\x51" * 50_000) >= claimed_bytes(content)
