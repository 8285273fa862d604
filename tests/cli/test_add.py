"""`firstsight add`: labelled samples for a saved model, and --undo."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from firstsight.data.feature_files import FeatureFile, write_feature_file
from firstsight.encoders.backbone import LETTERS
from firstsight.evaluation import fit_on
from firstsight.methods import ESZSL, KernelPrototypes
from firstsight.persistence.model_folder import load, save


@pytest.fixture
def model(small, tmp_path):
    save(fit_on(KernelPrototypes(search=False, refinement=0, hidden=0), small), tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def features(small, tmp_path):
    """Three samples of each of two unseen classes in a feature file."""
    X, y = small.part("test_unseen")
    rows = np.concatenate([np.flatnonzero(y == name)[:3] for name in small.unseen_classes[:2]])
    write_feature_file(tmp_path / "more.npz", FeatureFile(X[rows], [f"r{row}" for row in rows], y[rows].tolist()))
    return tmp_path / "more.npz"


def _content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_samples_are_added_and_taken_back(cli, model, features, small):
    before, names = load(model), small.unseen_classes
    done = cli("add", model, features)
    assert (done.code, done.out) == (0, "")
    assert f"{names[0]}: +3; {names[1]}: +3" in done.err
    assert f"has learned 6 samples. To undo: firstsight add {model} --undo" in done.err
    assert set(names[:2]) <= set(load(model).seen_classes_)
    assert "- labelled samples added after training: 6\n" in (model / "README.md").read_text(encoding="utf-8")
    again = cli("add", model, features)
    assert again.err == "Nothing was added; 6 added before with the same label, left out.\n"
    assert "To undo" not in again.err
    undone = cli("add", model, "--undo")
    assert f"Undone; samples per class: {names[0]}: -3; {names[1]}: -3." in undone.err
    X = small.features
    assert load(model).decision_function(X).tobytes() == before.decision_function(X).tobytes()
    cli("add", model, "--undo").is_refused_with("nothing to undo")


def test_the_command_that_undoes_can_be_pasted(cli, model, features):
    spaced = model.rename(model.with_name("a model"))
    assert cli("add", spaced, features).err.endswith(f"To undo: firstsight add '{spaced}' --undo\n")


def test_a_folder_of_images_is_added(cli, tmp_path):
    learned, more = tmp_path / "learned", tmp_path / "more"
    random = np.random.default_rng(0)
    for number, name in enumerate(["ring", "bar", "cross", "dot"]):
        for copy in range(4):
            folder = (more if name == "dot" else learned) / name
            folder.mkdir(parents=True, exist_ok=True)
            pixels = np.full((32, 32), 255, dtype=np.uint8)
            pixels[4 + 5 * number : 9 + 5 * number, 4 : 20 - copy] = random.integers(0, 60)
            Image.fromarray(pixels).save(folder / f"{copy}.png")
    (tmp_path / "classes.csv").write_text("class,a,b\nring,0,1\nbar,1,0\ncross,1,1\ndot,0,0\n")
    words = ["--classes", tmp_path / "classes.csv", "--backbone", LETTERS, "--set", "search=false"]
    assert cli("learn", learned, *words, "--out", tmp_path / "model").code == 0
    done = cli("add", tmp_path / "model", more)
    assert "Samples per class: dot: +4." in done.err
    assert cli("predict", tmp_path / "model", more).out.count(",labelled\n") == 4
    again = cli("learn", learned, *words, "--out", tmp_path / "model")
    assert "3 from 12 pictures, 1 from samples that were added to the former model, 0 from" in again.err
    (more / "dot").rename(more / "dott")
    cli("add", tmp_path / "model", more).is_refused_with("no description of the class 'dott'; did you mean 'dot'?")
    (learned / "dot").mkdir()
    (more / "dott" / "0.png").rename(learned / "dot" / "0.png")
    done = cli("add", tmp_path / "model", learned)
    assert "1 added before with the same label, left out; 12 trained on before (their labels stay)" in done.err


def test_mistakes_are_one_sentence_and_change_nothing(cli, model, features, small, tmp_path):
    before = _content(model)
    X, y = small.part("test_unseen")
    write_feature_file(tmp_path / "two.npz", FeatureFile(X[[0, 0]], ["a", "b"], list(small.class_names[:2])))
    write_feature_file(tmp_path / "other.npz", FeatureFile(X[:1], ["a"], ["yak"]))
    write_feature_file(tmp_path / "none.npz", FeatureFile(X[:1], ["a"]))
    write_feature_file(tmp_path / "wide.npz", FeatureFile(X[:1, 1:], ["a"], [y[0]]))
    cli("add", model, tmp_path / "two.npz").is_refused_with("The same image has two labels", "'a'", "'b'")
    cli("add", model, tmp_path / "other.npz").is_refused_with("no description of the class 'yak'", "classes add")
    cli("add", model, tmp_path / "none.npz").is_refused_with("have no classes")
    cli("add", model, tmp_path / "wide.npz").is_refused_with("15 features")
    cli("add", model).is_refused_with("--undo")
    cli("add", model, features, "--undo").is_refused_with("--undo")
    cli("add", tmp_path / "nothing", features).is_refused_with("is not a model folder")
    assert _content(model) == before
    save(fit_on(ESZSL(), small), model)
    cli("add", model, features).is_refused_with("ESZSL cannot learn from more samples", "kernel-prototypes")
