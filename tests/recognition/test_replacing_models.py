"""A model is learned again: what was taught to it since is kept, or refused to be lost where it cannot be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from firstsight.data.dataset import make_training_set
from firstsight.data.feature_files import FeatureFile
from firstsight.errors import BadInput
from firstsight.recognition import Recognizer, fit, learn

NAMES = ["ox", "yak", "zebra"]
NEW = pd.DataFrame([[0.5, 0.25]], index=["bongo"], columns=["stripes", "horns"])


@pytest.fixture
def samples():
    codes = np.repeat([0, 1], 4)
    features = np.eye(3)[codes] + 0.01 * np.arange(24).reshape(8, 3)
    return FeatureFile(features, [str(row) for row in range(8)], [NAMES[code] for code in codes])


@pytest.fixture
def table():
    return pd.DataFrame([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0]], index=NAMES, columns=["stripes", "horns"])


@pytest.fixture
def place(samples, table, tmp_path):
    learn(samples, table, method="eszsl", out=tmp_path / "model")
    return tmp_path / "model"


def change(place, **changes):
    with Recognizer.changing(place) as own:
        for name, given in changes.items():
            getattr(own, name)(*given)


def again(samples, table, place, **more):
    return learn(samples, table, method="eszsl", out=place, **more)


def test_a_model_whose_classes_nobody_changed_is_replaced(samples, table, place):
    again(samples, table.drop(index="zebra"), place)
    assert Recognizer.load(place).classes["class"].tolist() == ["ox", "yak"]


CHANGES = pytest.mark.parametrize(
    ("changes", "said", "expected"),
    [
        ({"add_classes": (NEW,)}, "'bongo' was added", {"ox": [0, 1], "zebra": [1, 0], "bongo": [0.5, 0.25]}),
        ({"add_classes": (NEW.set_axis(["zebra"]), True)}, "'zebra' was described again", {"zebra": [0.5, 0.25]}),
        ({"remove_classes": (["zebra"],)}, "'zebra' was removed", {"ox": [0, 1], "zebra": None}),
    ],
    ids=["added", "described again", "removed"],
)


@CHANGES
def test_changes_of_classes_are_kept_again_and_again_unless_overwritten(
    samples, table, place, changes, said, expected, caplog
):
    change(place, **changes)
    for _ in range(2):
        caplog.clear()
        again(samples, table[["horns", "stripes"]], place)  # in any order of attributes
        assert f"kept from the former model: {said}. To forget this, learn with --overwrite" in caplog.text
        found = Recognizer.load(place).descriptions
        for name, numbers in expected.items():
            assert (name in found.index) is (numbers is not None)
            assert numbers is None or found.loc[name, ["stripes", "horns"]].tolist() == numbers
    caplog.clear()
    again(samples, table, place, overwrite=True)
    assert Recognizer.load(place).classes["class"].tolist() == NAMES
    assert "kept" not in caplog.text


@CHANGES
def test_a_fit_on_a_data_set_refuses_to_lose_changes(samples, table, place, changes, said, expected):
    data = make_training_set("t", samples.features, samples.labels, table)
    change(place, **changes)
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    with pytest.raises(BadInput, match=f"{said}.*--overwrite"):
        fit("eszsl", data, out=place)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before


def test_images_of_a_class_that_was_only_taught_are_learned_from(samples, table, place):
    change(place, add_classes=(NEW,))
    more = replace(samples, labels=["bongo" if label == "yak" else label for label in samples.labels])
    again(more, table, place)
    assert sorted(Recognizer.load(place).model.seen_classes_) == ["bongo", "ox"]


def test_classes_with_other_attributes_are_not_lost(samples, table, place):
    change(place, add_classes=(NEW,))
    with pytest.raises(BadInput, match=r"such as 'bongo', have 2 attributes \(stripes, …\).*--overwrite"):
        again(samples, table.rename(columns={"horns": "hooves"}), place)


def added_to(place, **given):
    """Two labelled samples, of which the second is corrected; then a third in a call of its own."""
    with Recognizer.changing(place) as model:
        model.add_images(np.array([[0, 0, 1.0], [0, 0.1, 0.9]], np.float32), ["zebra", "ox"])
        model.correct(np.array([0, 0.1, 0.9], np.float32), "zebra")
        model.add_images(np.array([[0, 0.2, 0.8]], np.float32), ["zebra"])


def test_labelled_images_that_were_added_are_kept_and_can_still_be_taken_back(samples, table, tmp_path, caplog):
    def relearn(labelled=samples, **more):
        return learn(labelled, table, parameters={"search": False}, out=tmp_path / "model", **more)

    X = np.random.default_rng(0).random((6, 3), dtype=np.float32)
    relearn()
    added_to(tmp_path / "model")
    expected = Recognizer.load(tmp_path / "model").model.decision_function(X)
    caplog.clear()
    relearn()
    assert "kept from the former model: 3 labelled samples added. To forget" in caplog.text
    kept = Recognizer.load(tmp_path / "model")
    np.testing.assert_allclose(kept.model.decision_function(X), expected, atol=1e-6)
    assert "zebra" in kept.model.seen_classes_
    assert sum(kept.remove_images().removed.values()) == 1  # the last call alone
    with_one = FeatureFile(
        np.r_[samples.features, [[0, 0, 1.0]]], [*samples.names, "new"], [*samples.labels, "zebra"]
    )  # the first of them is in the training folder now
    relearn(with_one)
    assert "2 labelled samples added; 1 added sample now among the training images. To forget" in caplog.text
    with pytest.raises(BadInput, match=r"2 labelled samples were added to it, and ESZSL cannot learn.*--overwrite"):
        learn(samples, table, method="eszsl", out=tmp_path / "model")
    relearn(overwrite=True)
    assert not hasattr(Recognizer.load(tmp_path / "model").model, "added_samples_")


def test_labelled_images_of_a_class_that_was_removed_since_are_kept(samples, table, tmp_path):
    def relearn():
        return learn(samples, table, parameters={"search": False}, out=tmp_path / "model")

    relearn()
    added_to(tmp_path / "model")
    change(tmp_path / "model", remove_classes=(["zebra"],))
    relearn()
    kept = Recognizer.load(tmp_path / "model")
    assert kept.classes["class"].tolist() == ["ox", "yak"]
    assert "zebra" in kept.add_classes(table.loc[["zebra"]]).model.seen_classes_


def test_labelled_images_of_a_taught_class_that_was_removed_again_are_no_loss(samples, table, tmp_path):
    def relearn():
        return learn(samples, table, parameters={"search": False}, out=tmp_path / "model")

    relearn()
    change(tmp_path / "model", add_classes=(NEW,), add_images=(np.eye(3, dtype=np.float32)[1:], ["bongo", "zebra"]))
    change(tmp_path / "model", remove_classes=(["bongo"],))
    relearn()
    kept = Recognizer.load(tmp_path / "model")
    assert kept.classes["class"].tolist() == NAMES
    assert kept.remove_images().removed == {"zebra": 1}


def test_labelled_images_of_another_backbone_are_not_lost(samples, table, tmp_path):
    def learn_with(fingerprint, descriptions=table):
        facts = {"name": "tiny", "fingerprint": fingerprint, "dim": 3}
        made = replace(samples, backbone=facts)
        return learn(made, descriptions, parameters={"search": False}, out=tmp_path / "model")

    learn_with("0" * 32)
    added_to(tmp_path / "model")
    with pytest.raises(BadInput, match=r"3 labelled samples were added to it with tiny.*other features.*--overwrite"):
        learn_with("1" * 32)
    with pytest.raises(BadInput, match=r"of the class 'zebra', which the table of classes does not describe"):
        learn_with("0" * 32, table.drop(index="zebra"))
    learn_with("0" * 32)


def test_a_table_that_has_the_changes_may_replace_the_model(samples, table, place):
    change(place, add_classes=(NEW,), remove_classes=(["zebra"],))
    own = Recognizer.load(place).descriptions
    again(samples, own[["horns", "stripes"]], place)  # in any order of attributes
    assert sorted(Recognizer.load(place).classes["class"]) == ["bongo", "ox", "yak"]


def test_a_taught_class_that_was_removed_again_is_no_loss(samples, table, place):
    change(place, add_classes=(NEW,))
    change(place, remove_classes=(["bongo"],))
    again(samples, table, place)


def test_a_class_that_is_taught_while_the_new_model_is_fitted_is_not_lost(samples, table, place, monkeypatch):
    from firstsight.recognition import learning

    fit = learning._fit

    def fit_while_somebody_teaches(*given):
        change(place, add_classes=(NEW,))
        fit(*given)

    monkeypatch.setattr(learning, "_fit", fit_while_somebody_teaches)
    again(samples, table, place)
    assert "bongo" in Recognizer.load(place).classes["class"].tolist()


def test_a_class_that_is_removed_while_the_new_model_is_fitted_stays_removed(samples, table, place, monkeypatch):
    from firstsight.recognition import learning

    change(place, add_classes=(NEW,))
    fit = learning._fit

    def fit_while_somebody_removes(*given):
        change(place, remove_classes=(["bongo"],))
        return fit(*given)

    monkeypatch.setattr(learning, "_fit", fit_while_somebody_removes)
    assert again(samples, table, place).classes["class"].tolist() == NAMES


def test_a_model_that_cannot_be_read_is_replaced_only_when_asked(samples, table, place):
    (place / "arrays.safetensors").write_bytes(b"damaged")
    with pytest.raises(BadInput, match=r"cannot be read.*--overwrite"):
        again(samples, table, place)
    again(samples, table, place, overwrite=True)
    assert len(Recognizer.load(place).classes) == 3
