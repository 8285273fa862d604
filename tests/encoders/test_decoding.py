"""Every kind of picture becomes an upright RGB one, and none of them too large."""

from __future__ import annotations

import io
import struct
import sys
import threading
import zlib

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from firstsight.encoders import decoding
from firstsight.encoders.decoding import Undecodable, decode_image


def saved(picture: Image.Image, format: str = "PNG", **more) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format, **more)
    return buffer.getvalue()


def colour(picture: Image.Image, at=(20, 20)) -> tuple:
    assert picture.mode == "RGB"
    return picture.getpixel(at)


def test_an_ordinary_picture_is_untouched():
    pixels = np.random.default_rng(0).integers(0, 256, size=(40, 50, 3), dtype=np.uint8)
    np.testing.assert_array_equal(np.asarray(decode_image(saved(Image.fromarray(pixels)))), pixels)


def test_cmyk_keeps_its_colours():
    red = Image.new("CMYK", (40, 40), (0, 255, 255, 0))
    r, g, b = colour(decode_image(saved(red, "JPEG", quality=95)))
    assert r > 200
    assert g < 60
    assert b < 60


def test_transparency_becomes_white_and_colour_stays():
    half = Image.new("RGBA", (40, 40), (0, 0, 255, 255))
    half.paste((255, 0, 0, 0), (0, 0, 40, 20))
    found = decode_image(saved(half))
    assert colour(found, (5, 5)) == (255, 255, 255)
    assert colour(found, (5, 35)) == (0, 0, 255)


def test_a_palette_with_a_transparent_colour():
    picture = Image.new("P", (40, 40), 1)
    picture.putpalette([255, 0, 0, 0, 255, 0] + [0] * 762)
    picture.paste(0, (0, 0, 40, 20))
    found = decode_image(saved(picture, transparency=0))
    assert colour(found, (5, 5)) == (255, 255, 255)
    assert colour(found, (5, 35)) == (0, 255, 0)


def test_sixteen_bits_are_scaled_and_not_cut_off():
    ramp = np.linspace(0, 65535, 40 * 40).reshape(40, 40).astype(np.uint16)
    found = np.asarray(decode_image(saved(Image.fromarray(ramp))))[..., 0]
    np.testing.assert_allclose(found, ramp / 257, atol=0.6)
    found = np.asarray(decode_image(saved(Image.fromarray(ramp), "TIFF")))[..., 1]
    np.testing.assert_allclose(found, ramp / 257, atol=0.6)


def test_bits_grey_and_floats():
    assert colour(decode_image(saved(Image.new("1", (40, 40), 1)))) == (255, 255, 255)
    assert colour(decode_image(saved(Image.new("L", (40, 40), 77)))) == (77, 77, 77)
    assert colour(decode_image(saved(Image.new("F", (40, 40), 0.5), "TIFF"))) == (128, 128, 128)


def test_a_picture_is_turned_as_its_exif_says():
    picture = Image.new("RGB", (60, 30), "black")
    picture.paste((255, 255, 255), (0, 0, 30, 30))  # the left half is white
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: what is left belongs on top
    found = decode_image(saved(picture, exif=exif.tobytes()))
    assert found.size == (30, 60)
    assert colour(found, (15, 5)) == (255, 255, 255)
    assert colour(found, (15, 55)) == (0, 0, 0)


@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_fifty_megapixels_are_read_within_bounds_and_turned(format):
    picture = Image.new("RGB", (10_000, 5_000), (10, 200, 30))
    exif = Image.Exif()
    exif[0x0112] = 6
    found = decode_image(saved(picture, format, exif=exif.tobytes()))
    assert found.height == 2 * found.width
    assert decoding.ENOUGH <= found.width <= 2 * decoding.ENOUGH
    np.testing.assert_allclose(colour(found), (10, 200, 30), atol=3)


def test_threads_share_the_memory_for_decoding(monkeypatch):
    needed = decoding._bytes_needed(Image.new("RGB", (300, 300)))
    monkeypatch.setattr(decoding, "_budget", decoding._Budget(2 * needed))
    inside, most = [], []
    original = decoding._upright_rgb

    def watched(picture):
        inside.append(1)
        most.append(len(inside))
        found = original(picture)
        inside.pop()
        return found

    monkeypatch.setattr(decoding, "_upright_rgb", watched)
    content = saved(Image.new("RGB", (300, 300)))
    threads = [threading.Thread(target=decode_image, args=(content,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 8
    assert max(most) <= 2


def test_a_bomb_is_refused_before_it_is_unpacked():
    claims = saved(Image.new("1", (40, 40)))
    bomb = claims[:16] + (30_000).to_bytes(4, "big") * 2 + claims[24:]  # a header of 900 megapixels
    bomb = bomb[:29] + zlib.crc32(bomb[12:29]).to_bytes(4, "big") + bomb[33:]
    with pytest.raises(Undecodable, match="megapixels"):
        decode_image(bomb)


def test_a_strip_is_cut_and_a_dot_is_enlarged():
    assert decode_image(saved(Image.new("RGB", (9_000, 20)))).size == (16 * 20, 20)
    assert min(decode_image(saved(Image.new("RGB", (3, 3)))).size) >= 16
    assert min(decode_image(saved(Image.new("RGB", (1, 5_000)))).size) >= 16


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"no picture at all", "not a picture"),
        (saved(Image.effect_noise((90, 90), 50), "JPEG")[:900], "damaged"),
        (saved(Image.effect_noise((90, 90), 50))[:900], "damaged"),
    ],
)
def test_what_is_no_picture_says_why(content, why):
    with pytest.raises(Undecodable, match=why):
        decode_image(content)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "1", "F", "I", "I;16", "CMYK"])
def test_strips_give_what_the_whole_gives(mode, monkeypatch):
    noise = np.random.default_rng(0).integers(0, 256, size=(301, 203, 4), dtype=np.uint8)
    picture = Image.fromarray(noise, "RGBA")
    if mode in ("F", "I", "I;16"):
        picture = Image.fromarray((noise[..., 0].astype("u2") * 200).astype({"F": "f4", "I": "i4", "I;16": "u2"}[mode]))
    else:
        picture = picture.convert(mode) if mode != "CMYK" else picture.convert("RGB").convert("CMYK")
    whole = np.asarray(decode_image(picture))
    monkeypatch.setattr(decoding, "_STRIP", 203 * 7)
    np.testing.assert_array_equal(np.asarray(decode_image(picture)), whole)
    monkeypatch.setattr(decoding, "LARGE", 100)
    monkeypatch.setattr(decoding, "ENOUGH", 50)
    small = np.asarray(decode_image(picture))
    monkeypatch.setattr(decoding, "_STRIP", 10**6)
    np.testing.assert_array_equal(np.asarray(decode_image(picture)), small)
    assert small.shape[0] == (301 if mode in ("P", "1") else 76)


def j2k_that_claims(width: int, height: int) -> bytes:
    """A small JPEG 2000 file whose outer size is small and whose inner one is not."""
    content = saved(Image.new("RGB", (64, 64)), "JPEG2000")
    at = content.index(b"\xff\x4f\xff\x51") + 8
    sizes = b"".join(n.to_bytes(4, "big") for n in (width, height, 0, 0, width, height))
    return content[:at] + sizes + content[at + 24 :]


def test_a_jpeg_2000_file_is_judged_by_the_size_inside():
    with pytest.raises(Undecodable, match="GiB to decode; the limit against harmful files is 1 GiB"):
        decode_image(j2k_that_claims(60_000, 60_000))


def test_a_webp_file_is_judged_before_its_canvas_is_made():
    content = bytearray(saved(Image.new("RGBA", (20, 20)), "WEBP", lossless=True, exif=b"Exif\0\0" + bytes(10)))
    assert content[12:16] == b"VP8X"
    content[24:30] = (11_999).to_bytes(3, "little") * 2
    with pytest.raises(Undecodable, match="GiB"):
        decode_image(bytes(content))


def test_a_tile_larger_than_the_picture_is_refused():
    tags = {256: 64, 257: 64, 258: 8, 259: 8, 262: 1, 277: 1, 322: 40_000, 323: 40_000, 324: 200, 325: 20}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    content = b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4)
    packed = zlib.compress(bytes(1000))
    with pytest.raises(Undecodable, match="GiB"):
        decode_image(content.ljust(200, b"\0") + packed)


def test_a_postscript_file_is_not_a_picture_whatever_its_name():
    with pytest.raises(Undecodable, match="not a picture format"):
        decode_image(saved(Image.new("RGB", (40, 40)), "EPS"))


@pytest.mark.parametrize("format", ["JPEG2000", "WEBP", "AVIF", "TIFF", "GIF", "BMP", "PPM"])
def test_formats_of_phones_and_scanners_are_read(format):
    if format not in Image.registered_extensions().values():
        pytest.skip("Pillow was built without it")
    found = decode_image(saved(Image.new("RGB", (40, 40), (200, 100, 50)), format))
    np.testing.assert_allclose(colour(found), (200, 100, 50), atol=6)


def test_heic_is_read_with_its_extra_and_named_without(monkeypatch):
    heif = pytest.importorskip("pillow_heif")
    buffer = io.BytesIO()
    heif.from_pillow(Image.new("RGB", (64, 48), (200, 100, 50))).save(buffer)
    np.testing.assert_allclose(colour(decode_image(buffer.getvalue())), (200, 100, 50), atol=6)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(Undecodable, match=r"firstsight\[heic\]"):
        decode_image(buffer.getvalue())


def test_text_and_profiles_that_unpack_to_much_are_refused():
    text = PngInfo()
    text.add_text("comment", "x" * 50_000_000, zip=True)
    for more in ({"pnginfo": text}, {"icc_profile": bytes(50_000_000)}):
        content = saved(Image.new("RGB", (40, 40)), **more)
        assert len(content) < 100_000
        with pytest.raises(Undecodable, match=r"(?i)too large"):
            decode_image(content)


def test_the_picture_that_was_given_stays_as_it_was():
    picture = Image.new("RGBA", (60, 30), (1, 2, 3, 4))
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.info["exif"] = exif.tobytes()
    before = (picture.tobytes(), picture.size, dict(picture.info))
    assert decode_image(picture).size == (30, 60)
    assert (picture.tobytes(), picture.size, dict(picture.info)) == before
