from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from firstsight.encoders.images import THUMBNAIL_BYTES, THUMBNAIL_SIDE, thumbnail


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    """What compresses worst."""
    return np.random.default_rng(0).integers(0, 256, size=(900, 1500, 3), dtype=np.uint8)


def _opened(content: bytes) -> Image.Image:
    picture = Image.open(io.BytesIO(content))
    picture.load()
    return picture


def test_whatever_the_picture_its_thumbnail_is_small_in_pixels_and_in_bytes(noise, tmp_path):
    Image.fromarray(noise).save(tmp_path / "noise.png")
    for source in (noise, Image.fromarray(noise), tmp_path / "noise.png", str(tmp_path / "noise.png")):
        content = thumbnail(source)
        assert len(content) <= THUMBNAIL_BYTES
        assert max(_opened(content).size) <= THUMBNAIL_SIDE
    assert len(thumbnail(noise, most=1500)) <= 1500


def test_its_shape_and_colours_are_those_of_the_picture():
    picture = np.zeros((300, 600, 3), dtype=np.uint8)
    picture[:, :300] = (220, 20, 20)
    small = _opened(thumbnail(picture))
    assert small.size == (THUMBNAIL_SIDE, THUMBNAIL_SIDE // 2)
    pixels = np.asarray(small).astype(int)
    assert np.abs(pixels[50, 40] - (220, 20, 20)).max() < 25
    assert pixels[50, 200].max() < 25


def test_a_picture_that_was_handed_over_is_not_changed(noise):
    own = Image.fromarray(noise)
    thumbnail(own)
    assert own.size == (1500, 900)


def test_what_cannot_be_read_has_none(tmp_path):
    (tmp_path / "x.png").write_bytes(b"no picture")
    assert thumbnail(tmp_path / "x.png") is None
    assert thumbnail(tmp_path / "gone.png") is None
    assert thumbnail(tmp_path) is None
