"""The backbone of single letters: what it sees does not depend on where the letter is, how large, or in which ink."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageOps

from firstsight.encoders import ImageEncoder
from firstsight.encoders.backbone import LETTERS, LetterBackbone


@pytest.fixture
def cross() -> Image.Image:
    picture = Image.new("L", (100, 100), 255)
    ImageDraw.Draw(picture).line([(20, 50), (80, 50)], fill=0, width=8)
    ImageDraw.Draw(picture).line([(50, 10), (50, 90)], fill=0, width=8)
    return picture


def test_ink_is_centred_and_brought_to_one_size(cross):
    backbone = LetterBackbone()
    seen = backbone.prepare(cross)
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    assert (rows[0], rows[-1]) == (3, 28)  # 26 of 32, in the middle
    assert abs((columns[0] + columns[-1]) / 2 - 15.5) <= 0.5
    moved = Image.new("L", (300, 200), 255)
    moved.paste(cross, (150, 60))
    assert (backbone.prepare(moved) == seen).all()
    assert (backbone.prepare(ImageOps.invert(cross)) == seen).all()
    larger = backbone.prepare(cross.resize((400, 400)))
    assert np.abs(larger.astype(int) - seen).mean() < 8


def test_a_picture_without_ink_is_seen_as_nothing():
    for grey in (0, 127, 255):
        assert not LetterBackbone().prepare(Image.new("RGB", (40, 30), (grey, grey, grey))).any()


def test_it_is_a_backbone_like_any_other(cross, tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTSIGHT_CACHE", str(tmp_path / "cache"))
    cross.save(tmp_path / "cross.png")
    encoder = ImageEncoder(LETTERS)
    assert encoder.facts == {"name": LETTERS, "fingerprint": LetterBackbone().fingerprint, "dim": 512}
    first = encoder.encode([tmp_path / "cross.png", tmp_path / "none.png"])
    again = ImageEncoder(LETTERS).encode([tmp_path / "cross.png"])
    assert again.cached == 1
    assert (again.features == first.features).all()
    assert first.skipped[0][0].endswith("none.png")
    prepared = encoder.prepare((tmp_path / "cross.png").read_bytes(), "x")
    assert encoder.encode([prepared, prepared]).features == pytest.approx(np.repeat(first.features, 2, axis=0))
