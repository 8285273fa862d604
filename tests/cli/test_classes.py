from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest

from firstsight.evaluation import fit_on
from firstsight.evaluation.calibration import calibrate
from firstsight.methods import ESZSL
from firstsight.persistence import model_folder
from firstsight.persistence.model_folder import load, load_saved, save


@pytest.fixture(scope="module")
def made(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    fitted = fit_on(ESZSL(feature_penalty=0.02), small)
    fitted.calibration_ = calibrate(fitted, small)
    save(fitted, folder, {"seed": 4})
    return folder


@pytest.fixture
def model(made, tmp_path):
    return shutil.copytree(made, tmp_path / "model")


def _content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_classes_are_listed_as_a_table_or_as_json(cli, model, small):
    done = cli("classes", "list", model)
    assert (done.code, done.err) == (0, "")
    header, *lines = done.out.splitlines()
    assert header == "class,seen"
    expected = [f"{name},{'yes' if name in small.seen_classes else 'no'}" for name in small.class_names]
    assert lines == expected
    found = json.loads(cli("classes", "list", model, "--json").out)
    assert found["attributes"] == list(small.attribute_names)
    assert [one["class"] for one in found["classes"]] == list(small.class_names)
    assert [one["seen"] for one in found["classes"]] == [name in small.seen_classes for name in small.class_names]
    np.testing.assert_array_equal([one["description"] for one in found["classes"]], small.description_matrix)


def test_a_class_is_removed_and_added_back_and_everything_is_as_before(cli, model, small, tmp_path):
    before, X = load_saved(model), small.features
    listed = cli("classes", "list", model).out
    names = [small.unseen_classes[2], small.seen_classes[0]]
    assert set(names) <= _names_in_card(model)
    done = cli("classes", "remove", model, *names)
    assert (done.code, done.out) == (0, "")
    assert "2 classes removed" in done.err
    assert "knows 22" in done.err
    assert not set(names) & set(load(model).predict(X))
    assert not set(names) & _names_in_card(model)
    table = small.descriptions.loc[names]
    table[table.columns[::-1]].to_csv(tmp_path / "back.csv")  # columns are found by their names
    assert cli("classes", "add", model, tmp_path / "back.csv").code == 0
    after = load_saved(model)
    assert after.model.decision_function(X).tobytes() == before.model.decision_function(X).tobytes()
    assert after.provenance == before.provenance
    assert after.model.calibration_.to_json() == before.model.calibration_.to_json()
    assert _names_in_card(model) == set(small.class_names)
    assert cli("classes", "list", model).out == listed


def _names_in_card(model) -> set[str]:
    """The classes that the model's README names."""
    return set(re.findall(r"kind \w", (model / "README.md").read_text().split("## How it was made")[0]))


def test_a_new_class_is_answered_and_a_known_one_changed(cli, model, small, tmp_path):
    (tmp_path / "new.csv").write_text("class," + ",".join(small.attribute_names) + "\nyak,1,0,1,0,1,0\n")
    assert cli("classes", "add", model, tmp_path / "new.csv").code == 0
    assert load(model).unseen_classes_.tolist()[-1] == "yak"
    (tmp_path / "new.csv").write_text(
        "class," + ",".join(small.attribute_names) + "\nyak,1,0,1,1,1,0\nzebu,0,0,1,1,1,0\n"
    )
    cli("classes", "add", model, tmp_path / "new.csv").is_refused_with("has class 'yak' already", "--replace")
    assert "zebu" not in load(model).classes_
    done = cli("classes", "add", model, tmp_path / "new.csv", "--replace")
    assert "1 class added, 1 changed" in done.err
    assert load(model).descriptions_[-2:].tolist() == [[1, 0, 1, 1, 1, 0], [0, 0, 1, 1, 1, 0]]


BAD = {
    "two rows for class 'yak'": "class,{names}\nyak,1,0,1,0,1,0\nyak,1,0,1,0,1,0\n",
    "lacks 'trait 5'": "class,trait 0,trait 1,trait 2,trait 3,trait 4\nyak,1,0,1,0,1\n",
    "has 'wings', which the model does not know": "class,{names},wings\nyak,1,0,1,0,1,0,1\n",
    "Class 'yak' has no value (NaN) for attribute 'trait 5'": "class,{names}\nyak,1,0,1,0,1,\n",
    "must hold numbers": "class,{names}\nyak,1,0,1,0,1,often\n",
    "could not be read": "",
}


@pytest.mark.parametrize("said", BAD)
def test_a_table_that_cannot_be_used_leaves_the_model_as_it_was(cli, model, small, tmp_path, said):
    before = _content(model)
    (tmp_path / "new.csv").write_text(BAD[said].format(names=",".join(small.attribute_names)))
    cli("classes", "add", model, tmp_path / "new.csv").is_refused_with(said)
    assert _content(model) == before


def test_other_mistakes_are_one_sentence_and_change_nothing(cli, model, tmp_path):
    before = _content(model)
    cli("classes", "remove", model, "kind qq").is_refused_with("Unknown class", "did you mean 'kind q'")
    cli("classes", "remove", model, *load(model).classes_).is_refused_with("leave at least one")
    cli("classes", "add", model, tmp_path / "none.csv").is_refused_with("does not exist")
    cli("classes", "list", tmp_path / "none").is_refused_with("is not a model folder")
    (model / "arrays.safetensors").write_bytes(before["arrays.safetensors"][:-30])
    cli("classes", "remove", model, "kind q").is_refused_with("truncated or changed")


def test_a_full_disk_leaves_the_model_as_it_was(cli, model, monkeypatch):
    before = _content(model)

    def full(*args, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_folder, "save_file", full)
    cli("classes", "remove", model, "kind q").is_refused_with("No space left", "untouched")
    assert _content(model) == before


def test_a_model_behind_a_link_is_changed_and_the_link_stays(cli, model, tmp_path):
    (tmp_path / "latest").symlink_to(model)
    assert cli("classes", "remove", tmp_path / "latest", "kind q").code == 0
    assert (tmp_path / "latest").is_symlink()
    assert "kind q" not in load(model).classes_


def test_the_folder_that_one_is_in_is_refused_in_a_sentence(cli, npz, model, monkeypatch):
    before = _content(model)
    monkeypatch.chdir(model)
    cli("classes", "remove", ".", "kind q").is_refused_with("the folder that you are in")
    cli("fit", npz, "--method", "eszsl", "--out", ".").is_refused_with("the folder that you are in")
    assert _content(model) == before


@pytest.mark.parametrize("made_by", ["fit", "tune"])
def test_names_travel_with_a_model_whatever_made_it(cli, npz, small, tmp_path, made_by, in_process):
    place, X = tmp_path / "model", small.features[small.test_unseen]
    words = ["--grid", "feature_penalty=1,10", "--objective", "zsl", "--processes", 1] if made_by == "tune" else []
    assert cli(made_by, npz, "--method", "eszsl", *words, "--out", place).code == 0
    np.save(tmp_path / "rows.npy", X)
    table = small.descriptions.loc[list(small.unseen_classes)].rename(index="new {}".format)
    table.to_csv(tmp_path / "straight.csv")
    table[table.columns[::-1]].to_csv(tmp_path / "turned.csv")
    said = [
        cli("predict", place, tmp_path / "rows.npy", "--classes", tmp_path / f"{name}.csv").out
        for name in ("straight", "turned")
    ]
    assert said[0] == said[1] != ""
    own = load(place)
    expected = own.predict(X, classes=list(small.unseen_classes))
    turned = own.predict(X, classes=table[table.columns[::-1]])
    assert turned.tolist() == [f"new {name}" for name in expected]
    assert cli("classes", "add", place, tmp_path / "turned.csv").code == 0
    added = load(place)
    np.testing.assert_array_equal(added.descriptions_[-10:], table.to_numpy())
    table.rename(columns={"trait 0": "trait zero"}).to_csv(tmp_path / "other.csv")
    for command in (["classes", "add", place, "--replace"], ["predict", place, tmp_path / "rows.npy", "--classes"]):
        cli(*command, tmp_path / "other.csv").is_refused_with("trait 0")
