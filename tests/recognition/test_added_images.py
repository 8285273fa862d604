"""`Recognizer.add_images`, `correct` and `remove_images` on images, folders and rows of features."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from firstsight.encoders.backbone import LETTERS
from firstsight.encoders.embedding import embed
from firstsight.errors import BadInput
from firstsight.methods import Cosine
from firstsight.recognition import Recognizer, learn
from firstsight.recognition.answers import NONE_OF_THESE

NAMES = ["ring", "bar", "cross", "dot", "wedge", "frame"]
UNSEEN = ["wedge", "frame"]


@pytest.fixture(scope="module")
def images(draw_shapes):
    return draw_shapes(NAMES)


@pytest.fixture(scope="module")
def learned(images, cache):
    """Descriptions say nothing, so unseen classes are guessed until there are images of them."""
    table = pd.DataFrame(np.random.default_rng(1).random((6, 4)), index=NAMES, columns=list("abcd"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTSIGHT_CACHE", str(cache))
        return learn(images, table, backbone=LETTERS, unseen=UNSEEN, parameters={"search": False})


@pytest.fixture
def model(learned):
    return Recognizer(learned.model, learned.provenance)


@pytest.fixture
def new(images, tmp_path):
    """The images of the unseen classes alone, in sub-folders."""
    for name in UNSEEN:
        shutil.copytree(images / name, tmp_path / "new" / name)
    return tmp_path / "new"


def named(model, folder):
    return model.predict(folder, reject_far=False).best


def test_a_folder_is_added_and_taken_back(model, learned, new):
    before = named(model, new)
    added = model.add_images(new)
    assert added.added == {"frame": 4, "wedge": 4}
    assert named(model, new) == ["frame"] * 4 + ["wedge"] * 4 != before
    assert set(model.predict(new).in_training) == {"labelled"}
    assert set(model.model.seen_classes_) == set(NAMES)
    assert model.remove_images().removed == {"frame": 4, "wedge": 4}
    assert named(model, new) == before
    assert set(model.predict(new).in_training) == {"no"}
    assert vars(model.model).keys() == vars(learned.model).keys()


def test_images_rows_and_labels_come_in_any_form(model, new):
    paths = sorted((new / "wedge").iterdir())
    with Image.open(paths[1]) as opened:
        picture = opened.convert("RGB")
    assert model.add_images([paths[0], picture], ["wedge", "wedge"]).added == {"wedge": 2}
    made = embed(new, backbone=LETTERS)
    assert model.add_images(made).added == {"frame": 4, "wedge": 3}  # one of them is known by its file
    rows = made.features + np.float32(0.5)
    assert model.add_images(rows, made.labels).added == {"frame": 4, "wedge": 4}
    assert model.add_images(rows, made.labels).repeated == 8
    assert set(model.predict(rows).in_training) == {"labelled"}


def test_labels_are_those_of_numpy_too():
    X = np.eye(4, dtype=np.float32)
    model = Recognizer(Cosine().fit(X[:2], [0, 1], X))
    assert model.correct(X[2], np.arange(4)[2]).added == {2: 1}
    assert model.add_images(X[2:], (label for label in np.arange(4)[2:])).repeated == 1


def test_an_image_that_was_added_is_recognised_under_another_name(model, new, tmp_path):
    model.add_images(new)
    shutil.copy(new / "wedge" / "0.png", tmp_path / "copy.png")
    assert model.predict(tmp_path / "copy.png").in_training == ["labelled"]
    assert model.score(new).by_training.keys() == {"labelled"}


def test_a_correction_changes_the_next_answer_and_is_replaced_by_another_one(model, new):
    image = new / "frame" / "0.png"
    first = model.correct(image, "wedge")
    assert named(model, image) == ["wedge"]
    assert model.correct(image, "wedge").repeated == 1
    second = model.correct(image, "frame")
    assert (second.added, second.removed) == ({"frame": 1}, {"wedge": 1})
    assert named(model, image) == ["frame"]
    model.remove_images(first.change)
    assert named(model, image) == ["frame"]
    model.remove_images(second.change)
    with pytest.raises(BadInput, match="nothing to undo"):
        model.remove_images()


def test_an_image_that_was_far_from_everything_is_named_once_it_was_added(model):
    far = np.random.default_rng(0).random((2, model.model.n_features_in_), dtype=np.float32) * 1000
    far[0, ::2] = far[1, 1::2] = 0  # and far from each other
    assert model.predict(far).best == [NONE_OF_THESE] * 2
    model.correct(far[:1], "wedge")
    answers = model.predict(far)
    assert answers.best == ["wedge", NONE_OF_THESE]
    assert answers.distance[0] == 0
    model.remove_images()
    assert model.predict(far).best == [NONE_OF_THESE] * 2


def test_images_of_the_training_do_not_count_again(model, images):
    added = model.add_images(images)
    assert added.trained == 16
    assert added.added == {"frame": 4, "wedge": 4}
    with pytest.raises(BadInput, match=r"trained on this very image.*learn` again"):
        model.correct(images / "ring" / "0.png", "bar")
    both = model.correct([images / "ring" / "0.png", images / "wedge" / "0.png"], "frame")
    assert (both.trained, both.added, both.removed) == (1, {"frame": 1}, {"wedge": 1})  # no error after a change


def test_what_cannot_be_added_is_a_clear_error_before_anything_is_encoded(model, new, images, monkeypatch):
    def never(*_):
        raise AssertionError("encoded although the labels are wrong")

    before = model.model
    monkeypatch.setattr(type(model.backbone), "__call__", never)
    (new / "wedge").rename(new / "wegde")
    with pytest.raises(BadInput, match=r"no description of the class 'wegde'; did you mean 'wedge'\?.*add_classes"):
        model.add_images(new)
    with pytest.raises(BadInput, match=r"have no classes.*sub-folders.*labels"):
        model.add_images(images / "ring")
    with pytest.raises(BadInput, match="each of the 4 images, but has 3"):
        model.add_images(images / "ring", ["ring"] * 3)
    assert model.model is before


def test_one_image_with_two_labels_is_named_and_nothing_is_added(model, new):
    shutil.copy(new / "wedge" / "0.png", new / "frame" / "zero.png")
    before = model.model
    with pytest.raises(BadInput, match=r"The same image has two labels: '.*zero.png' is of 'frame' and '.*0.png' of"):
        model.add_images(new)
    assert model.model is before


def test_an_image_that_cannot_be_read_is_told_and_the_others_keep_their_labels(model, new):
    paths = sorted((new / "wedge").iterdir())
    paths[1].write_text("no image")
    added = model.add_images(paths, ["wedge", "frame", "wedge", "wedge"])
    assert [str(paths[1])] == [name for name, _ in added.skipped]
    assert added.added == {"wedge": 3}


def test_a_method_that_cannot_says_which_can(images, learned):
    table = learned.descriptions
    other = learn(images, table, backbone=LETTERS, method="eszsl", unseen=UNSEEN)
    with pytest.raises(BadInput, match=r"ESZSL cannot learn from more samples.*learn` again.*kernel-prototypes"):
        other.add_images(images)
    with pytest.raises(BadInput, match="ESZSL cannot learn from more samples"):
        other.suggest(images)


def test_suggested_images_are_new_ones_and_no_two_are_copies(model, images, new):
    shutil.copy(new / "wedge" / "0.png", new / "wedge" / "copy.png")
    chosen = model.suggest([images, new], 100)
    assert {name.rsplit("/", 2)[1] for name in chosen} == set(UNSEEN)  # the model was trained on the other classes
    assert len(chosen) == 8
    two = model.suggest(new, 2)
    assert {name.rsplit("/", 2)[1] for name in two} == set(UNSEEN)
    model.add_images(two, [name.rsplit("/", 2)[1] for name in two])
    assert not set(two) & set(model.suggest(new, 100))
    model.add_images(new)
    with pytest.raises(BadInput, match="knows the label of each of these 9 images"):
        model.suggest(new)


def test_rows_are_suggested_by_their_numbers(model, new):
    made = embed(new, backbone=LETTERS)
    assert sorted(model.suggest(made.features, 8)) == list(range(8))
