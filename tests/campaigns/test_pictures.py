"""Whatever bytes a picture file holds: a picture comes out, or one sentence, in bounded memory and time."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from campaigns.children import OK, REFUSED, Outcome, run_in_children, tell, worrying
from firstsight.encoders import decoding
from firstsight.encoders.decoding import Undecodable, decode_image, decoded, open_image, quiet_pillow

LONG = int(os.environ.get("FIRSTSIGHT_CAMPAIGN_MUTATIONS", "400"))  # of every seed
GIB = 2**30


def saved(picture: Image.Image, format: str = "PNG", **more) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format, **more)
    return buffer.getvalue()


def flat(mode: str, side: int, format: str = "PNG", **more) -> Callable[[], bytes]:
    return lambda: saved(Image.new(mode, (side, side)), format, **more)


def heic(side: int) -> bytes:
    heif = pytest.importorskip("pillow_heif")
    buffer = io.BytesIO()
    heif.from_pillow(Image.new("RGB", (side, side))).save(buffer)
    return buffer.getvalue()


def kinds(side: int) -> dict[str, Callable[[], bytes]]:
    """Files of one colour in every format and mode that matters: small, and large when they are unpacked."""
    deflated = {"compression": "tiff_adobe_deflate"}
    return {
        **{f"png {mode}": flat(mode, side) for mode in ("1", "L", "P", "RGB", "RGBA", "LA", "I;16")},
        "png with a transparent colour": flat("P", side, transparency=0),
        "gif": flat("P", side, "GIF"),
        "jpeg": flat("RGB", side, "JPEG"),
        "progressive jpeg": flat("CMYK", side, "JPEG", progressive=True),
        "webp": flat("RGB", side, "WEBP"),
        "lossless webp": flat("RGBA", side, "WEBP", lossless=True),
        **{
            f"tiff {mode} in {'one strip' if rows == side else 'strips'}": flat(
                mode, side, "TIFF", **deflated, tiffinfo={278: rows}, strip_size=8 * side * side
            )
            for mode in ("1", "P", "RGB", "RGBA", "I;16", "I", "F", "CMYK")
            for rows in (side, 64)
        },
        "lzw tiff": flat("RGB", side, "TIFF", compression="tiff_lzw"),
        "avif": flat("RGBA", side, "AVIF", speed=10, subsampling="4:4:4"),
        "jpeg 2000": flat("RGB", side, "JPEG2000"),
        "jpeg 2000 in tiles": flat("RGBA", side, "JPEG2000", tile_size=(256, 256)),
        "bmp": flat("RGB", side, "BMP"),
        "ppm": flat("RGB", side, "PPM"),
        "heic": lambda: heic(side),
    }


def made(make: Callable[[], bytes]) -> bytes | None:
    """A file, or None where Pillow was built without its format."""
    try:
        return make()
    except (KeyError, OSError, ValueError, pytest.skip.Exception):
        return None


def decode(content: bytes) -> None:
    """What an encoder does with a file's content; a limit of memory that a decoder met is not a sentence here."""
    with quiet_pillow:
        try:
            picture = decode_image(content)
        except Undecodable as error:
            if "this machine's memory" in str(error):
                raise MemoryError(str(error)) from error
            raise
    assert picture.mode == "RGB"
    assert min(picture.size) >= 16


def in_children(contents: list[bytes]) -> list[Outcome]:
    return run_in_children(decode, contents, memory=GIB + GIB // 2, cpu_seconds=20, refused=(Undecodable,))


def mutate(content: bytes, random: np.random.Generator) -> bytes:
    """A few changes where they hurt: the header more often than the rest, sizes more often than single bits."""
    data = bytearray(content)
    for _ in range(random.integers(1, 5)):
        reach = min(len(data), 400) if random.random() < 0.6 else len(data)
        at = int(random.integers(0, max(reach, 1)))
        match random.integers(0, 6):
            case 0:
                data[at : at + 1] = bytes([int(random.integers(0, 256))])
            case 1 if at < len(data):
                data[at] ^= 1 << int(random.integers(0, 8))
            case 2:
                value = int(random.choice([0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 60_000, 0x7FFFFFFF, 0xFFFFFFFF]))
                layout = str(random.choice(["<H", ">H", "<I", ">I"]))
                data[at : at + struct.calcsize(layout)] = struct.pack(
                    layout, value & (256 ** struct.calcsize(layout) - 1)
                )
            case 3:
                del data[at : at + int(random.integers(1, 40))]
            case 4:
                data[at:at] = data[at : at + int(random.integers(1, 40))]
            case 5 if random.random() < 0.3:
                del data[at:]
    return _with_right_checksums(bytes(data)) if random.random() < 0.7 else bytes(data)


def _with_right_checksums(content: bytes) -> bytes:
    """A PNG file whose chunks are believed; anything else as it is."""
    if content[:8] != b"\x89PNG\r\n\x1a\n":
        return content
    out, at = content[:8], 8
    while at + 12 <= len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        chunk = content[at + 4 : at + 8 + length]
        out += content[at : at + 4] + chunk + zlib.crc32(chunk).to_bytes(4, "big")
        at += 12 + length
    return out


def mutants(each: int) -> list[bytes]:
    noise = Image.effect_noise((48, 40), 60)
    seeds = [content for make in kinds(40).values() if (content := made(make))]
    seeds += [saved(noise.convert("RGB"), f) for f in ("PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP", "PPM", "JPEG2000")]
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "x" * 50
    seeds += [saved(noise.convert("RGB"), f, exif=exif.tobytes()) for f in ("PNG", "JPEG", "WEBP", "TIFF")]
    random = np.random.default_rng(0)
    return [mutate(seed, random) for _ in range(each) for seed in seeds]


def hunt(each: int) -> None:
    outcomes = in_children(mutants(each))
    line = tell("mutated pictures", outcomes)
    assert not worrying(outcomes), "\n".join([line, *(f"{o.place} {o.kind}: {o.detail}" for o in worrying(outcomes))])
    found = {outcome.kind for outcome in outcomes}
    assert found == {OK, REFUSED}  # a hunt that only ever meets one of them is none


def test_mutated_pictures_give_a_picture_or_a_sentence():
    hunt(each=10)


@pytest.mark.campaign
def test_thousands_of_mutated_pictures_give_a_picture_or_a_sentence():
    hunt(each=LONG)


def measure(side: int) -> None:
    contents = {name: content for name, make in kinds(side).items() if (content := made(make))}

    def look(content: bytes) -> None:
        with quiet_pillow, decoded(content) as picture:  # with an array and a copy, as a processor makes them
            Image.fromarray(np.array(picture))

    outcomes = run_in_children(look, list(contents.values()), refused=(Undecodable,))
    tell(f"pictures of {side} × {side}", outcomes)
    for (name, content), outcome in zip(contents.items(), outcomes, strict=True):
        assert outcome.kind == OK, f"{name}: {outcome.kind} {outcome.detail}"
        needed = decoding._bytes_needed(open_image(content))
        assert outcome.grown <= needed + 2**25, f"{name}: {outcome.grown / 2**20:.0f} MiB, not {needed / 2**20:.0f}"


def test_decoding_takes_no_more_memory_than_was_foreseen():
    measure(1_000)


@pytest.mark.campaign
def test_decoding_large_pictures_takes_no_more_memory_than_was_foreseen():
    measure(4_200)  # above 16 megapixels: reduced while it is read


@pytest.mark.campaign
@pytest.mark.parametrize("name", [name for name in kinds(0) if name not in ("avif", "heic")])  # minutes to write one
def test_a_picture_at_the_limit_of_pixels_is_read_within_bounds_or_refused(name):
    limit = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None
    try:
        content = made(kinds(13_300)[name])
    finally:
        Image.MAX_IMAGE_PIXELS = limit
    if content is None:
        pytest.skip("cannot be written here")
    (outcome,) = run_in_children(decode, [content], memory=3 * GIB, cpu_seconds=60, refused=(Undecodable,))
    tell(f"{name} of 177 megapixels, {len(content) // 1024} KiB", [outcome])
    assert outcome.kind in (OK, REFUSED), outcome
    assert outcome.grown < 1.1 * GIB + len(content)
    assert outcome.kind == OK or "limit" in outcome.detail
