from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from firstsight.errors import BadInput, CannotWrite
from firstsight.reporting.embedding_maps import embedding_map, sample_predictions
from firstsight.reporting.figure_style import COLOURS, RIGHT, WRONG, save_figure


@pytest.fixture
def panels():
    """Three classes that lie apart, in two spaces; the second has class embeddings."""
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 30)
    centres = 10 * random.normal(size=(3, 5))
    samples = centres[labels] + random.normal(size=(90, 5))
    return {"features": (samples, None), "learned": (samples, centres)}, labels


def _predictions():
    random = np.random.default_rng(1)
    images = random.integers(0, 256, size=(5, 8, 8), dtype=np.uint8)
    truth = ["é", "ñ", "ő", "é", "ñ"]
    return images, truth, {"ind": ["é", "é", "é", "é", "é"], "trans": truth}, "Letters"


def _pixels(path):
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        return np.asarray(picture.convert("RGB")).reshape(-1, 3) / 255


def _has(pixels, colour, tolerance=0.02):
    return (np.abs(pixels - to_rgb(colour)).max(axis=1) < tolerance).any()


def test_a_map_is_a_png_with_every_class_in_its_colour_and_always_the_same_file(panels, tmp_path):
    spaces, labels = panels
    for name in ("one.png", "other.png"):
        save_figure(embedding_map(spaces, labels, ["ox", "okapi", "yak"]), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "other.png").read_bytes()
    pixels = _pixels(tmp_path / "one.png")
    assert len(np.unique(pixels, axis=0)) > 20
    for colour in COLOURS[:3]:
        assert _has(pixels, colour)
    assert not _has(pixels, COLOURS[4])  # no fourth or fifth class


def test_a_map_draws_each_sample_once_and_each_description_as_a_square(panels):
    spaces, labels = panels
    figure = embedding_map(spaces, labels, ["ox", "okapi", "yak"])
    features, learned = figure.axes
    assert (features.get_title(), learned.get_title()) == ("features", "learned")
    assert [len(dots.get_offsets()) for dots in features.collections] == [30, 30, 30]
    assert [len(dots.get_offsets()) for dots in learned.collections] == [30, 1, 30, 1, 30, 1]
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["ox", "okapi", "yak"]


def test_samples_that_lie_together_are_drawn_together(panels):
    spaces, labels = panels
    figure = embedding_map(spaces, labels, ["ox", "okapi", "yak"])
    places = np.concatenate([dots.get_offsets() for dots in figure.axes[0].collections])
    distances = np.linalg.norm(places[:, None] - places, axis=2) + np.diag(np.full(90, np.inf))
    np.testing.assert_array_equal(labels[distances.argmin(axis=1)], labels)  # the nearest dot is of the same class


def test_as_many_classes_as_colours_are_drawn_and_one_more_is_refused(tmp_path):
    random = np.random.default_rng(0)
    names = [f"class {i}" for i in range(len(COLOURS) + 1)]
    labels = np.repeat(np.arange(len(names)), 3)
    samples = random.normal(size=(len(labels), 4))
    few = labels < len(COLOURS)
    figure = embedding_map({"all": (samples[few], None)}, labels[few], names[:-1])
    assert len(figure.axes[0].collections) == len(COLOURS)
    with pytest.raises(BadInput, match=f"colours for {len(COLOURS)} classes and was given {len(names)}"):
        embedding_map({"all": (samples, None)}, labels, names)


def test_colours_differ_also_from_those_of_text_and_paper():
    assert len({to_rgb(colour) for colour in (*COLOURS, "black", "white")}) == len(COLOURS) + 2


def test_predictions_show_each_picture_with_its_name_and_the_answers(tmp_path):
    images, truth, answers, title = _predictions()
    figure = sample_predictions(images, truth, answers, title, columns=3)
    shown = [axis for axis in figure.axes if axis.images]
    assert len(figure.axes) == 6  # two rows of three, the last one empty
    assert len(shown) == 5
    for number, axis in enumerate(shown):
        np.testing.assert_array_equal(axis.images[0].get_array(), images[number])
        assert axis.get_title() == truth[number]
        lines = {text.get_text(): text.get_color() for text in axis.texts}
        right = truth[number] == "é"
        assert lines == {
            f"ind: é {'✓' if right else '✗'}": RIGHT if right else WRONG,
            f"trans: {truth[number]} ✓": RIGHT,
        }
    save_figure(figure, tmp_path / "predictions.png")
    pixels = _pixels(tmp_path / "predictions.png")
    assert _has(pixels, RIGHT, 0.1)
    assert _has(pixels, WRONG, 0.1)


def test_the_same_predictions_are_the_same_file_without_a_date_or_version(tmp_path):
    for name in ("one.png", "other.png"):
        save_figure(sample_predictions(*_predictions()), tmp_path / name)
    one = (tmp_path / "one.png").read_bytes()
    assert one == (tmp_path / "other.png").read_bytes()
    with Image.open(tmp_path / "one.png") as picture:
        assert not set(picture.info) - {"dpi"}


def test_every_sign_has_a_shape_in_the_font(tmp_path, recwarn):
    save_figure(sample_predictions(*_predictions()), tmp_path / "a.png")
    assert not [w for w in recwarn if "Glyph" in str(w.message)]


def test_a_figure_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    (tmp_path / "a.png").write_text("old")
    figure = sample_predictions(*_predictions())

    def full(path, **_):
        path.write_bytes(b"half of")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", full)
    with pytest.raises(CannotWrite, match="No space left"):
        save_figure(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
