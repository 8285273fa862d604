from __future__ import annotations

import json
from dataclasses import replace

import pytest
import scipy.io
import typer.main

from firstsight.cli.main import app
from firstsight.cli.options import read_assignments
from firstsight.data import write_npz
from firstsight.evaluation import evaluate
from firstsight.methods import DEFAULT_METHOD, make_estimator
from firstsight.methods.deep_embedding import PRESETS

KEYS = ["method", "dataset", "t1", "ts", "tr", "h", "seconds", "parameters", "seed", "split", "extra_supervision"]


@pytest.fixture
def record(tmp_path):
    return lambda: json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("method", ["deep-embedding", "transductive-deep-embedding"])
def test_the_record_has_the_documented_keys_and_the_figures_of_the_library(
    cli, npz, small, quick, tmp_path, record, method
):
    pytest.importorskip("torch")
    rounds = ["--set", "rounds=2", "--set", "round_iterations=2"] if method.startswith("trans") else []
    words = ["--method", method, *quick, *rounds]
    done = cli("evaluate", npz, *words, "--seed", 3, "--json", tmp_path / "record.json")
    assert (done.code, done.err) == (0, "")
    found = record()
    assert list(found) == KEYS
    assert (found["method"], found["dataset"], found["seed"]) == (method, "small", 3)
    assert found["split"] == small.split_hash
    assert found["extra_supervision"] == ""
    assert found["seconds"] > 0
    assert {k: v for k, v in found["parameters"].items() if k in ("iterations", "batch_size", "learning_rate")} == {
        "iterations": 8,
        "batch_size": 16,
        "learning_rate": 0.01,
    }
    parameters = read_assignments([*quick[1::2], *rounds[1::2]])
    result = evaluate(make_estimator(method, parameters, random_state=3), small)
    for name in ("t1", "ts", "tr", "h"):
        assert found[name] == pytest.approx(100 * getattr(result, name), abs=0.00501)
        assert 0 < found[name] <= 100
    for title, name in (("T1", "t1"), ("ts", "ts"), ("tr", "tr"), ("H", "h")):
        assert f"{title} {found[name]:.1f}" in done.out


def test_the_same_seed_gives_the_same_figures_and_another_seed_others(cli, npz, quick, tmp_path, record):
    found = []
    for seed in (0, 0, 1):
        assert cli("evaluate", npz, *quick, "--seed", seed, "--json", tmp_path / "record.json").code == 0
        found.append([record()[name] for name in ("t1", "ts", "tr", "h")])
    assert found[0] == found[1]
    assert found[0] != found[2]


@pytest.mark.parametrize(("setting", "absent"), [("zsl", ["ts", "tr", "h"]), ("gzsl", ["t1"])])
def test_one_setting_leaves_the_others_figures_null(cli, npz, quick, tmp_path, record, setting, absent):
    assert cli("evaluate", npz, *quick, "--setting", setting, "--json", tmp_path / "record.json").code == 0
    assert [name for name in ("t1", "ts", "tr", "h") if record()[name] is None] == absent


def test_a_preset_is_recorded_with_the_values_it_stands_for(cli, npz, tmp_path, record):
    pytest.importorskip("torch")
    # Overridden, so that it takes a moment: what is given beats the preset, and both are told.
    words = ["--preset", "paper", "--set", "iterations=1", "--set", "rounds=1", "--set", "separation=1000"]
    method = "transductive-deep-embedding"
    with pytest.warns(UserWarning, match="collapsed"):
        done = cli("evaluate", npz, "--method", method, *words, "--setting", "zsl", "--json", tmp_path / "record.json")
    assert done.code == 0
    parameters = record()["parameters"]
    assert parameters["preset"] == "paper"
    paper = {"embedding_dim": 1024, "selection": 40, "learning_rate": 1e-4}  # the paper's own values
    assert {name: parameters[name] for name in paper} == paper
    assert parameters["round_iterations"] == PRESETS["paper"]["round_iterations"]
    assert (parameters["iterations"], parameters["rounds"], parameters["separation"]) == (1, 1, 1000)


@pytest.mark.filterwarnings("ignore:The embedding has collapsed")  # a fit of a moment
def test_without_a_method_the_default_is_taken_and_a_preset_asks_for_the_papers(cli, npz):
    done = cli("evaluate", npz, "--set", "search=false")
    assert done.out.startswith(f"small  {DEFAULT_METHOD}  seed 0  T1 ")
    done = cli("evaluate", npz, "--preset", "fast", "--set", "iterations=1", "--set", "embedding_dim=8")
    assert done.out.startswith("small  deep-embedding  seed 0  T1 ")


@pytest.mark.parametrize("command", ["evaluate", "fit", "tune", "learn"])
def test_the_help_of_a_command_names_the_default_method(command):
    # Written out there, because importing the methods would make every --help wait for scikit-learn.
    (option,) = (o for o in typer.main.get_command(app).commands[command].params if o.name == "method")
    assert f"Left out: {DEFAULT_METHOD}" in option.help


def test_without_json_only_the_line_is_printed(cli, npz, quick, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cli("evaluate", npz, *quick)
    assert done.out.startswith("small  deep-embedding  seed 0  T1 ")
    assert len(done.out.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_extra_supervision_is_said_and_recorded(cli, npz, quick, tmp_path, record, monkeypatch):
    monkeypatch.setattr("firstsight.methods.deep_embedding.DeepEmbedding.extra_supervision", "told [a lot]")
    done = cli("evaluate", npz, *quick, "--json", tmp_path / "record.json")
    assert "told [a lot]" in done.out
    assert record()["extra_supervision"] == "told [a lot]"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "deep-embeding"], "did you mean 'deep-embedding'?"),
        (["--set", "shrinkige=1"], "did you mean 'shrinkage'?"),
        (["--set", "shrinkage=-1"], "shrinkage"),
        (["--preset", "papers"], "preset"),
        (["--features", "res101"], "leave it out"),
    ],
)
def test_a_mistake_is_one_sentence(cli, npz, words, said):
    cli("evaluate", npz, *words).is_refused_with(said)


def test_a_mistake_is_told_before_the_data_is_read(cli, monkeypatch):
    monkeypatch.setattr("firstsight.data.load_dataset", lambda *_: pytest.fail("read the data first"))
    cli("evaluate", "anything", "--method", "nothing-of-the-kind").is_refused_with("Unknown method")


def test_an_unwritable_place_for_the_record_is_one_sentence(cli, npz, quick, tmp_path):
    (tmp_path / "file").write_text("old")
    done = cli("evaluate", npz, *quick, "--json", tmp_path / "file" / "record.json")
    assert done.code == 2
    assert "Could not write" in done.err
    assert "Traceback" not in done.err
    assert "T1" in done.out  # the work is not lost: it stands on the screen
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.parametrize("file", ["att_splits.mat", "res101.mat"])
def test_a_truncated_mat_file_is_one_sentence(cli, small, tmp_path, file):
    splits = {
        "allclasses_names": [[name] for name in small.class_names],
        "att": small.description_matrix.T.astype(float),
        **{f"{key}_loc": getattr(small, part)[:, None] + 1.0 for key, part in
           (("trainval", "train"), ("test_seen", "test_seen"), ("test_unseen", "test_unseen"))},
    }  # fmt: skip
    scipy.io.savemat(tmp_path / "att_splits.mat", splits)
    features = {"features": small.features.T, "labels": small.labels[:, None] + 1.0}
    scipy.io.savemat(tmp_path / "res101.mat", features)
    path = tmp_path / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    cli("evaluate", tmp_path).is_refused_with(file)


def test_test_samples_that_are_copies_of_training_samples_are_said(cli, small, tmp_path):
    features = small.features.copy()
    features[small.test_seen[:3]] = features[small.train[:3]]
    path = write_npz(replace(small, features=features), tmp_path / "copies.npz")
    done = cli("evaluate", path, "--method", "eszsl")
    assert done.code == 0
    assert "3 rows of `test_seen` have exactly the features of a row of `train`" in done.err
