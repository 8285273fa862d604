"""Every kind of picture becomes an upright RGB one, and none of them too large."""

from __future__ import annotations

import io
import threading

import numpy as np
import pytest
from PIL import Image

from firstsight.encoders import decoding
from firstsight.encoders.decoding import Undecodable, decode_picture


def saved(picture: Image.Image, format: str = "PNG", **more) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format, **more)
    return buffer.getvalue()


def colour(picture: Image.Image, at=(20, 20)) -> tuple:
    assert picture.mode == "RGB"
    return picture.getpixel(at)


def test_an_ordinary_picture_is_untouched():
    pixels = np.random.default_rng(0).integers(0, 256, size=(40, 50, 3), dtype=np.uint8)
    np.testing.assert_array_equal(np.asarray(decode_picture(saved(Image.fromarray(pixels)))), pixels)


def test_cmyk_keeps_its_colours():
    red = Image.new("CMYK", (40, 40), (0, 255, 255, 0))
    r, g, b = colour(decode_picture(saved(red, "JPEG", quality=95)))
    assert r > 200
    assert g < 60
    assert b < 60


def test_transparency_becomes_white_and_colour_stays():
    half = Image.new("RGBA", (40, 40), (0, 0, 255, 255))
    half.paste((255, 0, 0, 0), (0, 0, 40, 20))
    found = decode_picture(saved(half))
    assert colour(found, (5, 5)) == (255, 255, 255)
    assert colour(found, (5, 35)) == (0, 0, 255)


def test_a_palette_with_a_transparent_colour():
    picture = Image.new("P", (40, 40), 1)
    picture.putpalette([255, 0, 0, 0, 255, 0] + [0] * 762)
    picture.paste(0, (0, 0, 40, 20))
    found = decode_picture(saved(picture, transparency=0))
    assert colour(found, (5, 5)) == (255, 255, 255)
    assert colour(found, (5, 35)) == (0, 255, 0)


def test_sixteen_bits_are_scaled_and_not_cut_off():
    ramp = np.linspace(0, 65535, 40 * 40).reshape(40, 40).astype(np.uint16)
    found = np.asarray(decode_picture(saved(Image.fromarray(ramp))))[..., 0]
    np.testing.assert_allclose(found, ramp / 257, atol=0.6)
    found = np.asarray(decode_picture(saved(Image.fromarray(ramp), "TIFF")))[..., 1]
    np.testing.assert_allclose(found, ramp / 257, atol=0.6)


def test_bits_grey_and_floats():
    assert colour(decode_picture(saved(Image.new("1", (40, 40), 1)))) == (255, 255, 255)
    assert colour(decode_picture(saved(Image.new("L", (40, 40), 77)))) == (77, 77, 77)
    assert colour(decode_picture(saved(Image.new("F", (40, 40), 0.5), "TIFF"))) == (128, 128, 128)


def test_a_picture_is_turned_as_its_exif_says():
    picture = Image.new("RGB", (60, 30), "black")
    picture.paste((255, 255, 255), (0, 0, 30, 30))  # the left half is white
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: what is left belongs on top
    found = decode_picture(saved(picture, exif=exif.tobytes()))
    assert found.size == (30, 60)
    assert colour(found, (15, 5)) == (255, 255, 255)
    assert colour(found, (15, 55)) == (0, 0, 0)


@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_fifty_megapixels_are_read_within_bounds_and_turned(format):
    picture = Image.new("RGB", (10_000, 5_000), (10, 200, 30))
    exif = Image.Exif()
    exif[0x0112] = 6
    found = decode_picture(saved(picture, format, exif=exif.tobytes()))
    assert found.height == 2 * found.width
    assert decoding.ENOUGH <= found.width <= 2 * decoding.ENOUGH
    np.testing.assert_allclose(colour(found), (10, 200, 30), atol=3)


def test_large_pictures_are_decoded_one_at_a_time(monkeypatch):
    monkeypatch.setattr(decoding, "LARGE", 100)
    inside, most = [], []
    original = decoding._reduced

    def watched(picture):
        inside.append(1)
        most.append(len(inside))
        found = original(picture)
        inside.pop()
        return found

    monkeypatch.setattr(decoding, "_reduced", watched)
    content = saved(Image.new("RGB", (300, 300)))
    threads = [threading.Thread(target=decode_picture, args=(content,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 8
    assert max(most) == 1


def test_a_bomb_is_refused_before_it_is_unpacked():
    claims = saved(Image.new("1", (40, 40)))
    bomb = claims[:16] + (30_000).to_bytes(4, "big") * 2 + claims[24:]  # a header of 900 megapixels
    import zlib

    bomb = bomb[:29] + zlib.crc32(bomb[12:29]).to_bytes(4, "big") + bomb[33:]
    with pytest.raises(Undecodable, match="megapixels"):
        decode_picture(bomb)


def test_a_strip_is_cut_and_a_dot_is_enlarged():
    assert decode_picture(saved(Image.new("RGB", (9_000, 20)))).size == (16 * 20, 20)
    assert min(decode_picture(saved(Image.new("RGB", (3, 3)))).size) >= 16
    assert min(decode_picture(saved(Image.new("RGB", (1, 5_000)))).size) >= 16


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
        decode_picture(content)
