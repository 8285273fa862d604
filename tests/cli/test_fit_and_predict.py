from __future__ import annotations

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest

from firstsight.evaluation import fit_on
from firstsight.methods import DeepEmbedding, all_methods
from firstsight.persistence.model_folder import load, load_saved, save

pytest.importorskip("torch")

import torch


@pytest.fixture(scope="module")
def model(small, tmp_path_factory):
    """A folder that `firstsight fit` wrote, made once; tests that change it copy it."""
    settings = {"embedding_dim": 16, "learning_rate": 0.01, "iterations": 8, "batch_size": 16, "random_state": 0}
    folder = tmp_path_factory.mktemp("models") / "model"
    save(fit_on(DeepEmbedding(**settings), small), folder)
    return folder


@pytest.fixture
def rows(small, tmp_path):
    np.save(tmp_path / "rows.npy", small.features[small.test_unseen])
    return tmp_path / "rows.npy"


def _answers(out: str) -> list[str]:
    header, *lines = csv.reader(io.StringIO(out))
    assert header[:2] == ["row", "class"]
    assert header[2:] in ([], ["in_training"])  # of a model that knows its training samples
    assert [int(line[0]) for line in lines] == list(range(len(lines)))
    return [line[1] for line in lines]


def _content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# fit ----------------------------------------------------------------------------------------------------------------


def test_a_fit_writes_the_model_that_the_library_would_make(cli, npz, small, quick, tmp_path):
    done = cli("fit", npz, "--out", tmp_path / "model", "--seed", 4, *quick)
    assert (done.code, done.out) == (0, "")
    assert "knows 24 classes (10 never seen)" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["model"]  # no checkpoint is left
    saved = load_saved(tmp_path / "model")
    loaded, made = saved.model, saved.provenance
    settings = {"embedding_dim": 16, "learning_rate": 0.01, "iterations": 8, "batch_size": 16, "semantic_steps": 10}
    expected = fit_on(DeepEmbedding(**settings, random_state=4), small)
    X = small.features[:9]
    np.testing.assert_array_equal(loaded.decision_function(X), expected.decision_function(X))
    assert loaded.checkpoint is None  # a path on this machine is no part of a model
    assert (made.dataset, made.split, made.seed) == ("small", small.split_hash, 4)
    assert made.parameters["iterations"] == 8
    assert loaded.attribute_names_in_.tolist() == list(small.attribute_names)


@pytest.mark.parametrize(("words", "rows"), [([], 162), (["--setting", "gzsl"], 162), (["--setting", "zsl"], 120)])
def test_a_transductive_method_gets_the_pool_of_the_setting(cli, npz, quick, tmp_path, words, rows):
    more = ["--method", "transductive-deep-embedding", "--set", "rounds=2", "--set", "round_iterations=1"]
    assert cli("fit", npz, "--out", tmp_path / "model", *more, *words, *quick).code == 0
    fitted = load(tmp_path / "model")
    assert fitted.setting == (words[1] if words else "gzsl")
    assert fitted.pool_predictions_.shape == (2, rows)


def test_every_method_can_be_fitted_and_asked(cli, npz, small, rows, tmp_path):
    for name, method in all_methods().items():
        if method.shared_space:  # the small data set has rows and descriptions of two spaces
            continue
        words = [word for key, value in method.quick.items() for word in ("--set", f"{key}={value}")]
        assert cli("fit", npz, "--method", name, *words, "--out", tmp_path / name).code == 0, name
        done = cli("predict", tmp_path / name, rows, "--classes", "unseen")
        found = np.array(_answers(done.out))
        known = {line["in_training"] for line in csv.DictReader(io.StringIO(done.out))}
        assert known == {"unlabelled" if method.transductive else "no"}, name
        assert set(found) <= set(small.unseen_classes), name
        assert len(set(found)) > 1, name


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without CUDA")
def test_a_device_that_is_not_there_is_one_sentence(cli, npz, quick, tmp_path):
    model = tmp_path / "model"
    cli("fit", npz, "--out", model, *quick, "--set", "device=cuda").is_refused_with(
        "There is no device 'cuda'", "'cpu'"
    )
    assert not model.exists()
    assert cli("fit", npz, "--out", model, *quick).code == 0
    cli("predict", model, npz, "--device", "cuda").is_refused_with("There is no device 'cuda'")


def test_one_model_has_one_setting(cli, npz, tmp_path):
    cli("fit", npz, "--out", tmp_path / "model", "--setting", "both").is_refused_with("--setting zsl or --setting gzsl")


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_is_no_model_is_not_overwritten(cli, npz, quick, tmp_path, kind):
    place = tmp_path / "thesis"
    if kind == "folder":
        place.mkdir()
        (place / "chapter.tex").write_text("years of work")
    else:
        place.write_text("years of work")
    cli("fit", npz, "--out", place, *quick).is_refused_with("is not a model folder")
    assert (place / "chapter.tex" if kind == "folder" else place).read_text() == "years of work"


def test_a_new_fit_replaces_an_old_model(cli, npz, quick, tmp_path):
    place = tmp_path / "model"
    for seed in (0, 1):
        assert cli("fit", npz, "--out", place, "--seed", seed, *quick).code == 0
        assert load(place).random_state == seed
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("method", ["deep-embedding", "eszsl"])
def test_an_unwritable_place_is_one_sentence(cli, npz, quick, tmp_path, method):
    (tmp_path / "file").write_text("old")
    words = quick if method == "deep-embedding" else []
    done = cli("fit", npz, "--method", method, "--out", tmp_path / "file" / "model", *words)
    done.is_refused_with("Could not write")
    assert (tmp_path / "file").read_text() == "old"


# What a file may hold at most, in bytes: the checkpoint of this fit is larger than the model.
@pytest.mark.parametrize(("method", "largest"), [("deep-embedding", 3000), ("eszsl", 1000)])
def test_a_full_disk_is_one_sentence_and_the_old_model_stays(processes, npz, quick, tmp_path, method, largest):
    words = ["fit", npz, "--method", method, *(quick if method == "deep-embedding" else []), "--out"]
    assert processes.run(*words, tmp_path / "model").code == 0
    before = _content(tmp_path / "model")
    done = processes.run(*words, tmp_path / "model", largest_file=largest)
    done.is_refused_with("Could not write", "File too large", "untouched")
    assert _content(tmp_path / "model") == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert processes.run(*words, tmp_path / "model").code == 0  # once there is room again


# predict ------------------------------------------------------------------------------------------------------------


def test_predictions_go_to_the_screen_as_csv(cli, model, rows, small):
    done = cli("predict", model, rows)
    assert (done.code, done.err) == (0, "")
    assert _answers(done.out) == load(model).predict(small.features[small.test_unseen]).tolist()


@pytest.mark.parametrize("classes", ["seen", "unseen", "names"])
def test_candidates_are_chosen_by_word_or_by_name(cli, model, rows, small, classes):
    groups = {"seen": small.seen_classes, "unseen": small.unseen_classes, "names": small.class_names[3:6]}
    allowed = list(groups[classes])
    words = "  , ".join(allowed) if classes == "names" else classes
    found = _answers(cli("predict", model, rows, "--classes", words).out)
    assert set(found) <= set(allowed)
    assert len(set(found)) > 1
    assert found == load(model).predict(small.features[small.test_unseen], classes=allowed).tolist()


def test_new_classes_come_from_a_table_without_retraining(cli, model, rows, small, tmp_path):
    # The unseen classes under names that the model has never heard of: it must answer with these.
    table = small.descriptions.loc[list(small.unseen_classes)].rename(index=lambda name: "new " + name)
    table.to_csv(tmp_path / "new.csv")
    found = _answers(cli("predict", model, rows, "--classes", tmp_path / "new.csv").out)
    known = _answers(cli("predict", model, rows, "--classes", "unseen").out)
    assert found == ["new " + name for name in known]


def test_features_come_from_every_format_alike(cli, model, rows, small, tmp_path, npz):
    X, y = small.part("test_unseen")
    expected = _answers(cli("predict", model, rows).out)
    np.savez(tmp_path / "rows.npz", features=X)
    table = pd.DataFrame(X, columns=[f"f{i}" for i in range(16)])
    table.to_csv(tmp_path / "bare.csv", index=False, float_format="%.9g")
    table.assign(**{"class": y, "split": "test_unseen"}).to_csv(tmp_path / "full.csv", index=False, float_format="%.9g")
    names = ["rows.npz", "bare.csv", "full.csv"]
    try:
        table.to_parquet(tmp_path / "rows.parquet")
        names.append("rows.parquet")
    except ImportError:
        pass  # Parquet is optional
    for name in names:
        assert _answers(cli("predict", model, tmp_path / name).out) == expected, name
    everything = _answers(cli("predict", model, npz).out)  # a whole data set is rows to predict, too
    assert np.array(everything)[small.test_unseen].tolist() == expected


def test_rows_that_have_names_keep_them(cli, model, small, tmp_path):
    table = pd.DataFrame(small.features[:3], columns=[f"f{i}" for i in range(16)])
    table.insert(2, "sample", ["007", "NA", 'a, "b"'])
    table.to_csv(tmp_path / "rows.csv", index=False, float_format="%.9g")
    _, *lines = csv.reader(io.StringIO(cli("predict", model, tmp_path / "rows.csv").out))
    assert [name for name, _ in lines] == ["007", "NA", 'a, "b"']
    assert [found for _, found in lines] == load(model).predict(small.features[:3]).tolist()


def test_files_are_written_instead_of_the_screen(cli, model, rows, small, tmp_path):
    shown = cli("predict", model, rows).out
    done = cli("predict", model, rows, "--csv", tmp_path / "a.csv", "--json", tmp_path / "a.json", "--top", 3)
    assert (done.code, done.out) == (0, "")
    assert (tmp_path / "a.csv").read_text() == shown
    ranked = json.loads((tmp_path / "a.json").read_text())
    assert [entry["class"] for entry in ranked] == _answers(shown)
    scores = load(model).decision_function(small.features[small.test_unseen])
    for entry, row in zip(ranked, scores, strict=True):
        assert [place["score"] for place in entry["top"]] == sorted(row.tolist(), reverse=True)[:3]
        assert entry["top"][0]["class"] == entry["class"]


def test_class_numbers_may_be_given_as_words(cli, small, tmp_path, rows):
    fitted = all_methods()["eszsl"]().fit(small.part("train")[0], small.labels[small.train], small.description_matrix)
    save(fitted, tmp_path / "numbers")
    found = _answers(cli("predict", tmp_path / "numbers", rows, "--classes", "3, 17").out)
    assert set(found) == {"3", "17"}


def _write(path, content):
    path.write_bytes(content) if isinstance(content, bytes) else np.save(path, content)
    return path


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("narrow.npy", np.zeros((4, 15), "f4"), ["15 features per row", "fitted with 16"]),
        ("vector.npy", np.zeros(16, "f4"), ["features"]),
        ("nan.npy", np.full((4, 16), np.nan, "f4"), ["NaN"]),
        ("text.npy", np.array([["a"] * 16]), ["features"]),
        ("pickled.npy", np.array([{}], dtype=object), ["pickled"]),
        ("garbage.npy", b"\x93NUMPY and no more", ["could not be read"]),
        ("garbage.npz", b"PK\x03\x04 and no more", ["could not be read"]),
        ("empty.csv", b"", ["could not be read"]),
        ("words.csv", b"a,b\nx,y\n", ["must hold numbers"]),
        ("narrow.csv", b"a,b\n1,2\n", ["2 features per row"]),
        ("rows.xlsx", b"", [".csv or a .parquet"]),
    ],
)
def test_features_that_cannot_be_used_are_one_sentence(cli, model, tmp_path, name, content, said):
    path = _write(tmp_path / name, content)
    cli("predict", model, path).is_refused_with(*said)


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ("kind q,kind ww", "did you mean 'kind w'"),
        ("kind q,kind q", "names a class twice"),
        ("", "no description of"),
        ("nowhere.csv", "does not exist"),
    ],
)
def test_candidates_that_cannot_be_used_are_one_sentence(cli, model, rows, classes, said):
    cli("predict", model, rows, "--classes", classes).is_refused_with(said)


def test_new_classes_described_by_other_attributes_are_refused(cli, model, rows, tmp_path):
    (tmp_path / "new.csv").write_text("class,a,b\nyak,0,1\nzebu,1,0\n")
    done = cli("predict", model, rows, "--classes", tmp_path / "new.csv")
    done.is_refused_with("2 columns", "6 attributes")


def test_a_missing_model_or_feature_file_is_one_sentence(cli, model, rows, tmp_path):
    cli("predict", tmp_path / "none", rows).is_refused_with("is not a model folder")
    cli("predict", model, tmp_path / "none.npy").is_refused_with("does not exist")


def test_predictions_that_cannot_be_written_leave_the_old_file(processes, model, rows, tmp_path):
    (tmp_path / "old.csv").write_text("old")
    done = processes.run("predict", model, rows, "--csv", tmp_path / "old.csv", largest_file=600)  # of 1,500 bytes
    done.is_refused_with("Could not write", "untouched")
    assert (tmp_path / "old.csv").read_text() == "old"


def test_many_files_are_answered_in_a_folder_and_only_once(cli, model, rows, tmp_path):
    pytest.importorskip("pyarrow")
    X = np.load(rows)
    for number in (1, 2):
        np.save(tmp_path / f"part-{number}.npy", X[:number])
    words = ["predict", model, tmp_path / "part-*.npy", "--out", tmp_path / "answers"]
    done = cli(*words)
    assert (done.code, done.out) == (0, "")
    assert done.err.splitlines()[-1] == f"2 files of answers in {tmp_path / 'answers'}, 2 of them new."
    assert [len(pd.read_parquet(tmp_path / "answers" / f"part-{number}.parquet")) for number in (1, 2)] == [1, 2]
    assert "0 of them new" in cli(*words).err
    cli("predict", model, tmp_path / "none-*.npy", "--out", tmp_path / "new").is_refused_with("Nothing matches")
    cli(*words, "--csv", tmp_path / "x.csv").is_refused_with("leave one of them out")
    assert not (tmp_path / "new").exists()
