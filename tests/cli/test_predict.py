"""What `predict` adds to naming rows: confidence, pictures, reasons; the rest is in test_fit_and_predict."""

from __future__ import annotations

import csv
import io
import json
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import firstsight.encoders
from firstsight._io.identity import same_data
from firstsight.data.feature_files import FeatureFile, write_feature_file
from firstsight.errors import UnreadableFile
from firstsight.evaluation import fit_on
from firstsight.evaluation.calibration import calibrate
from firstsight.methods import ESZSL
from firstsight.persistence.model_folder import load, save
from firstsight.recognition import Recognizer

BACKBONE = {"name": "tiny", "fingerprint": "f00d" * 8, "dim": 16}


@pytest.fixture(scope="module")
def model(small, tmp_path_factory):
    """A calibrated model that was trained on features of the backbone `tiny`."""
    folder = tmp_path_factory.mktemp("models") / "model"
    fitted = fit_on(ESZSL(feature_penalty=0.02), small)
    fitted.calibration_ = calibrate(fitted, small)
    save(fitted, folder, {"backbone": BACKBONE})
    return folder


@pytest.fixture
def bare(model, tmp_path):
    """The same without a calibration."""
    fitted = load(model)
    del fitted.calibration_
    save(fitted, tmp_path / "bare")
    return tmp_path / "bare"


@pytest.fixture
def rows(small, tmp_path):
    np.save(tmp_path / "rows.npy", small.features[small.test_unseen])
    return tmp_path / "rows.npy"


def _table(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_the_json_file_has_confidence_score_and_ranks(cli, model, rows, small, tmp_path):
    asked = ("--classes", "unseen", "--top", 5, "--no-reject-far")
    done = cli("predict", model, rows, *asked, "--json", tmp_path / "a.json")
    assert (done.code, done.out, done.err) == (0, "", "")
    entries = json.loads((tmp_path / "a.json").read_text())
    X, y = small.part("test_unseen")
    assert [entry["file"] for entry in entries] == [str(row) for row in range(len(X))]
    assert [entry["row"] for entry in entries] == list(range(len(X)))
    assert [e["class"] for e in entries] == load(model).predict(X, classes=list(small.unseen_classes)).tolist()
    for entry in entries:
        assert set(entry) == {"row", "file", "class", "seen", "confidence", "top", "distance"}
        assert entry["confidence"] == entry["top"][0]["confidence"]
        assert len({one["class"] for one in entry["top"]}) == 5
        sure = [one["confidence"] for one in entry["top"]]
        assert sure == sorted(sure, reverse=True)
    right = np.array([entry["class"] for entry in entries]) == y
    assert abs(np.mean([entry["confidence"] for entry in entries]) - right.mean()) < 0.12


def test_the_screen_shows_confidence_where_it_is_known(cli, model, bare, rows):
    shown = _table(cli("predict", model, rows, "--no-reject-far").out)
    assert list(shown[0]) == ["row", "class", "confidence"]
    assert all(0 < float(line["confidence"]) < 1 for line in shown)
    assert list(_table(cli("predict", bare, rows).out)[0]) == ["row", "class"]


def test_without_a_calibration_the_way_to_one_is_told_once(cli, bare, rows, tmp_path):
    done = cli("predict", bare, rows, "--json", tmp_path / "a.json")
    assert done.code == 0
    (note,) = done.err.splitlines()
    assert "--confidence" in note
    assert {entry["confidence"] for entry in json.loads((tmp_path / "a.json").read_text())} == {None}
    cli("predict", bare, rows, "--reject-share", 0.05).is_refused_with("none of these", "--confidence")
    cli("predict", bare, rows, "--shift-seen").is_refused_with("--confidence")


def test_none_of_these_is_an_answer_when_asked_for(cli, model, rows):
    few, many = (
        [line["class"] for line in _table(cli("predict", model, rows, "--reject-share", share).out)]
        for share in (0.02, 0.6)
    )
    assert few.count("none of these") < 20 < many.count("none of these") < 120
    assert "none of these" not in cli("predict", model, rows, "--no-reject-far").out


@pytest.mark.parametrize(("n", "said"), [(1, "1 of 4 rows looks like"), (2, "2 of 5 rows look like")])
def test_rows_like_nothing_that_training_saw_are_none_of_these_unless_all_are_accepted(
    cli, model, small, tmp_path, n, said
):
    noise = np.random.default_rng(0).normal(size=(n, 16)).astype(np.float32) * 1e-3
    np.save(tmp_path / "mixed.npy", np.concatenate([small.features[small.train[:3]], noise]))
    done = cli("predict", model, tmp_path / "mixed.npy")
    assert [line["class"] == "none of these" for line in _table(done.out)] == [False] * 3 + [True] * n
    assert [line["confidence"] for line in _table(done.out)][3:] == [""] * n
    (line,) = done.err.splitlines()
    assert line.startswith(said)
    assert "--no-reject-far" in line
    accepted = cli("predict", model, tmp_path / "mixed.npy", "--no-reject-far")
    assert "none of these" not in accepted.out
    assert accepted.err == ""


def test_reasons_are_told_in_both_kinds_of_file(cli, model, rows, small, tmp_path):
    done = cli("predict", model, rows, "--why", "--csv", tmp_path / "a.csv", "--json", tmp_path / "a.json")
    assert (done.code, done.out) == (0, "")
    entries = json.loads((tmp_path / "a.json").read_text())
    for line, entry in zip(_table((tmp_path / "a.csv").read_text()), entries, strict=True):
        why = entry["why"]
        assert line["for"] == "; ".join(one["text"] for one in why["for"])
        assert line["against"] == "; ".join(one["text"] for one in why["against"])
        assert line["other_attributes"] == why["other_attributes"]["text"]
        assert line["other"] == why["other"]["text"]
        assert line["compared"].startswith(f"{why['class']} instead of {why['instead_of']} (+")
        table = small.descriptions
        for one in why["for"] + why["against"]:  # what the class has less of than the runner-up is called less
            name = one["attribute"]
            less = table.loc[why["class"], name] < table.loc[why["instead_of"], name]
            sign = "+" if one in why["for"] else "-"
            assert one["text"].startswith(f"{'less' if less else 'more'} of {name} ({sign}")


def test_columns_of_a_table_of_new_classes_may_stand_in_any_order(cli, model, rows, small, tmp_path):
    table = small.descriptions.loc[list(small.unseen_classes)]
    table.to_csv(tmp_path / "new.csv")
    table[table.columns[::-1]].to_csv(tmp_path / "turned.csv")
    answers = [cli("predict", model, rows, "--classes", tmp_path / f"{name}.csv").out for name in ("new", "turned")]
    assert answers[0] == answers[1] != ""
    table.rename(columns={"trait 0": "wings"}).to_csv(tmp_path / "other.csv")
    done = cli("predict", model, rows, "--classes", tmp_path / "other.csv")
    done.is_refused_with("lacks 'trait 0' and has 'wings'")


# pictures -------------------------------------------------------------------------------------------------------------


class FakeEncoder:
    """Knows the features of a picture by the grey value of its first pixel."""

    features: np.ndarray

    def __init__(self, backbone, **more):
        if str(backbone).endswith("nowhere"):
            raise UnreadableFile("There is no model 'nowhere'; give a local folder.")
        self.backbone = str(backbone).rpartition("/")[2]
        self.fingerprint = BACKBONE["fingerprint"] if self.backbone in ("tiny", "moved") else "dead" * 8

    def encode(self, paths, progress=None, **more):
        files, rows, places, skipped = [], [], [], []
        for place, path in enumerate(paths):
            try:
                with Image.open(path) as picture:
                    rows.append(self.features[picture.getpixel((0, 0))])
                files.append(str(path))
                places.append(place)
            except OSError:
                skipped.append((str(path), "not a picture"))
        encoded = SimpleNamespace(features=np.array(rows), files=files, skipped=skipped, rows=places, cached=0)
        encoded.fingerprints = np.array([zlib.crc32(Path(one).read_bytes()) for one in files], dtype=np.uint64)
        return encoded


@pytest.fixture
def pictures(small, tmp_path, monkeypatch):
    monkeypatch.setattr(firstsight.encoders, "ImageEncoder", FakeEncoder)
    FakeEncoder.features = small.features[small.test_unseen]
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(4):
        Image.new("L", (2, 2), number).save(folder / f"{number}.png")
    return folder


def test_pictures_are_named_by_their_files(cli, model, pictures, small, tmp_path):
    done = cli("predict", model, pictures, "--top", 2, "--json", tmp_path / "a.json", "--csv", tmp_path / "a.csv")
    assert (done.code, done.err) == (0, "")
    entries = json.loads((tmp_path / "a.json").read_text())
    expected = load(model).predict(small.features[small.test_unseen][:4]).tolist()
    assert [entry["class"] for entry in entries] == expected
    assert [entry["file"] for entry in entries] == [str(pictures / f"{n}.png") for n in range(4)]
    assert set(entries[0]) == {"file", "class", "seen", "confidence", "top", "rejected", "distance"}
    assert [line["file"] for line in _table((tmp_path / "a.csv").read_text())] == [e["file"] for e in entries]
    one = _table(cli("predict", model, pictures / "2.png", pictures / "0.png").out)
    assert [line["class"] for line in one] == [expected[2], expected[0]]


def test_a_page_to_look_at_is_the_call_and_nothing_goes_to_the_screen(cli, model, pictures, tmp_path):
    done = cli("predict", model, pictures, "--html", tmp_path / "a.html")
    assert (done.code, done.out, done.err) == (0, "", "")
    Recognizer.load(model).predict(pictures, why=True).to_html(tmp_path / "b.html", "Answers of model")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    done = cli("predict", model, pictures, "--html", tmp_path / "a.html", "--json", tmp_path / "a.json", "--top", 2)
    assert {len(entry["top"]) for entry in json.loads((tmp_path / "a.json").read_text())} == {2}


def test_a_picture_that_cannot_be_read_is_told_and_the_others_are_named(cli, model, pictures):
    (pictures / "1.png").write_bytes(b"no picture")
    done = cli("predict", model, pictures)
    assert done.code == 0
    assert [line["file"] for line in _table(done.out)] == [str(pictures / f"{n}.png") for n in (0, 2, 3)]
    assert "skipped" in done.err
    assert "1.png: not a picture" in done.err
    assert "1 of 4" in done.err
    for number in (0, 2, 3):
        (pictures / f"{number}.png").write_bytes(b"")
    done = cli("predict", model, pictures)
    assert done.code == 2
    assert "0 of 4 pictures could be read" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--backbone", "somewhere/other"], ["backbone other (deaddead)", "tiny (f00df00d)", "use the same"]),
        (["--backbone", "nowhere"], ["There is no model 'nowhere'"]),
        (["--backbone", "somewhere/moved"], []),
    ],
)
def test_a_backbone_that_moved_is_found_and_another_one_is_refused(cli, model, pictures, words, said):
    done = cli("predict", model, pictures, *words)
    if said:
        done.is_refused_with(*said)
    else:
        assert len(_table(done.out)) == 4


def test_a_backbone_that_is_not_at_hand_is_one_sentence(cli, model, pictures, tmp_path):
    save(load(model), tmp_path / "lost", {"backbone": {**BACKBONE, "name": "nowhere"}})
    cli("predict", tmp_path / "lost", pictures).is_refused_with("needs its backbone 'nowhere'", "--backbone FOLDER")


def test_a_backbone_is_looked_for_where_the_model_says_it_was(cli, model, pictures, tmp_path):
    (tmp_path / "moved").mkdir()
    facts = {"backbone": {**BACKBONE, "name": "nowhere", "path": str(tmp_path / "moved")}}
    save(load(model), tmp_path / "told", facts)
    assert len(_table(cli("predict", tmp_path / "told", pictures).out)) == 4
    (tmp_path / "moved").rmdir()
    cli("predict", tmp_path / "told", pictures).is_refused_with("needs its backbone 'nowhere'", "--backbone FOLDER")


def test_pictures_for_a_model_of_features_are_refused(cli, bare, pictures, tmp_path):
    cli("predict", bare, pictures).is_refused_with("source that it does not know", "features")
    (tmp_path / "empty").mkdir()
    cli("predict", bare, tmp_path / "empty").is_refused_with("holds no pictures")
    cli("predict", bare, tmp_path / "missing.jpg").is_refused_with("There is no folder or picture")


def test_features_of_another_backbone_are_refused(cli, model, rows, small, tmp_path):
    X = small.features[small.test_unseen]
    for name, fingerprint in (("same", BACKBONE["fingerprint"]), ("other", "dead" * 8)):
        made_by = {**BACKBONE, "name": name, "fingerprint": fingerprint}
        write_feature_file(tmp_path / f"{name}.npz", FeatureFile(X, [str(i) for i in range(len(X))], backbone=made_by))
    assert cli("predict", model, tmp_path / "same.npz").code == 0
    cli("predict", model, tmp_path / "other.npz").is_refused_with("backbone other (deaddead)", "tiny (f00df00d)")
    cli("predict", model, rows, "--backbone", "tiny").is_refused_with("--backbone is for pictures")


# fit --confidence -----------------------------------------------------------------------------------------------------


def test_a_fit_can_end_with_what_to_expect(cli, npz, small, tmp_path):
    place = tmp_path / "model"
    done = cli("fit", npz, "--method", "eszsl", "--set", "feature_penalty=10", "--confidence", "--out", place)
    assert done.code == 0
    about = json.loads((place / "model.json").read_text())
    assert f"Expect {100 * about['calibration']['estimate']['t1']:.1f} %" in done.err
    assert same_data(about["provenance"]["features"], small.features_fingerprint)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_calibrated_fit_leaves_no_checkpoint_behind(cli, npz, quick, tmp_path):
    assert cli("fit", npz, "--confidence", *quick, "--out", tmp_path / "model").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


# What is shown --------------------------------------------------------------------------------------------------------


def test_ranks_are_shown_without_a_json_file(cli, model, rows, small):
    shown = _table(cli("predict", model, rows, "--top", 3).out)
    assert list(shown[0]) == ["row", "rank", "class", "confidence", "score", "rejected"]
    scores = load(model).decision_function(small.features[small.test_unseen])
    best = np.argsort(-scores, axis=1, kind="stable")[:, :3]
    assert [line["class"] for line in shown] == load(model).classes_[best].ravel().tolist()
    assert [line["rank"] for line in shown] == ["1", "2", "3"] * len(scores)


def test_a_mistyped_folder_of_pictures_is_said_to_be_missing(cli, model, tmp_path):
    cli("predict", model, tmp_path / "pictuers").is_refused_with("There is no folder or picture", "check the path")


def test_pictures_in_sub_folders_named_like_classes_are_counted_right_or_wrong(cli, model, pictures, small, tmp_path):
    expected = load(model).predict(small.features[small.test_unseen][:4]).tolist()
    for number, name in enumerate([expected[0], expected[1], small.class_names[0], "no class"]):
        folder = tmp_path / "sorted" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.png").write_bytes((pictures / f"{number}.png").read_bytes())
    done = cli("predict", model, tmp_path / "sorted")
    right = 2 + (expected[2] == small.class_names[0])
    assert len(_table(done.out)) == 4
    assert f"{right} of 3 right" in done.err
    assert "\\n" not in done.err  # two lines, not one with a backslash in it
    assert f"{small.class_names[0]} taken for {expected[2]} (1)" in done.err or right == 3
    assert cli("--quiet", "predict", model, tmp_path / "sorted").err == ""


def test_no_rows_are_one_sentence(cli, model, tmp_path):
    np.save(tmp_path / "none.npy", np.empty((0, 16), dtype=np.float32))
    done = cli("predict", model, tmp_path / "none.npy")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1


def test_a_name_is_no_formula_in_a_table(cli, small, rows, tmp_path):
    table = small.descriptions.rename(index={name: f"=cmd|{name}" for name in small.class_names})
    X, y = small.part("train")
    save(ESZSL().fit(X, [f"=cmd|{name}" for name in y], table), tmp_path / "evil")
    assert {line["class"][:6] for line in _table(cli("predict", tmp_path / "evil", rows).out)} == {"'=cmd|"}


def test_many_files_are_answered_in_a_folder_here_or_on_a_cluster(cli, model, small, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    distributed = pytest.importorskip("distributed")
    from firstsight.experiments import executors

    for name, rows in (("a", small.features[:5]), ("b", small.features[5:7])):
        np.save(tmp_path / f"{name}.npy", rows)
    words = ["predict", model, tmp_path / "*.npy"]
    refused = cli(*words, "--engine", "dask")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "add --out FOLDER" in refused.err
    monkeypatch.setattr(executors, "ANSWER_SECONDS", 0.3)
    alone = cli(*words, "--out", tmp_path / "out", "--engine", "dask", "--scheduler", "tcp://127.0.0.1:1")
    assert alone.code != 0
    assert "No Dask scheduler answered at tcp://127.0.0.1:1" in alone.err
    about = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**about, host="127.0.0.1", protocol="tcp") as workers:
        where = ["--engine", "dask", "--scheduler", workers.scheduler_address]
        done = cli(*words, "--out", tmp_path / "out", *where)
        again = cli(*words, "--out", tmp_path / "out", *where)
    assert "2 files of answers" in done.err
    assert "2 of them new" in done.err
    assert "0 of them new" in again.err
    assert "0 of them new" in cli(*words, "--out", tmp_path / "out").err  # the answers of this machine
