"""A model is not replaced if classes that were taught to it, or removed from it, would be lost."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from firstsight.data.feature_files import FeatureFile
from firstsight.errors import BadInput
from firstsight.recognition import Recognizer, learn

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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"add_classes": (NEW,)}, "'bongo' was added"),
        ({"add_classes": (NEW.set_axis(["zebra"]), True)}, "'zebra' was described anew"),
        ({"remove_classes": (["zebra"],)}, "'zebra' was removed"),
    ],
    ids=["added", "described anew", "removed"],
)
def test_changes_of_classes_are_not_lost_without_being_asked_for(samples, table, place, changes, said):
    change(place, **changes)
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    with pytest.raises(BadInput, match=said) as refused:
        again(samples, table, place)
    assert "--overwrite" in str(refused.value)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    again(samples, table, place, overwrite=True)
    assert Recognizer.load(place).classes["class"].tolist() == NAMES


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
    with pytest.raises(BadInput, match="'bongo' was added"):
        again(samples, table, place)
    assert "bongo" in Recognizer.load(place).classes["class"].tolist()


def test_a_model_that_cannot_be_read_is_replaced_only_when_asked(samples, table, place):
    (place / "arrays.safetensors").write_bytes(b"damaged")
    with pytest.raises(BadInput, match=r"cannot be read.*--overwrite"):
        again(samples, table, place)
    again(samples, table, place, overwrite=True)
    assert len(Recognizer.load(place).classes) == 3
