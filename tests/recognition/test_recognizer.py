from __future__ import annotations

import hashlib
import json
import threading

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from safetensors.numpy import load_file, save_file

import firstsight
from firstsight.data.feature_files import FeatureFile
from firstsight.errors import BadInput
from firstsight.persistence.model_schema import BackboneUsed, Provenance, digest_of
from firstsight.recognition import PredictOptions, Recognizer, learn
from firstsight.recognition.answers import NONE_OF_THESE
from firstsight.recognition.shards import run_in_worker

REASONS = ["compared", "for", "against", "other_attributes", "other"]


@pytest.fixture(scope="module")
def colours(pictures, table, backbone, cache):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTSIGHT_CACHE", str(cache))
        return learn(pictures, table, backbone=backbone, unseen=["peach", "plum"], parameters={"search": False})


@pytest.fixture
def rows(calibrated):
    """A recognizer of features."""
    return Recognizer(calibrated)


# What it takes --------------------------------------------------------------------------------------------------------


def test_a_path_a_picture_an_array_and_a_folder_of_it_get_the_same_answer(colours, pictures, tmp_path):
    path = pictures / "plum" / "3.png"
    (tmp_path / "3.png").write_bytes(path.read_bytes())
    with Image.open(path) as opened:
        picture = opened.copy()
    forms = [path, str(path), picture, np.asarray(picture), tmp_path]
    alone = [colours.predict(form, top=3) for form in forms]
    together = colours.predict(forms, top=3)
    for row, found in enumerate(alone):
        assert found.classes.tolist() == alone[0].classes.tolist()
        np.testing.assert_allclose(found.scores, alone[0].scores, rtol=1e-4)
        assert together.classes[row].tolist() == found.classes[0].tolist()
    assert list(together.names)[:2] == [str(path), str(path)]
    assert list(together.to_frame().columns) == ["file", "class", "confidence", "rejected", "distance", "in_training"]


def test_sub_folders_named_like_classes_are_scored_and_confusions_counted(colours, pictures):
    answers = colours.predict(pictures, top=1)
    score = colours.score(pictures)
    truth = [path.split("/")[-2] for path in answers.names]
    right = [a == t for a, t in zip(answers.best, truth, strict=True)]
    assert (score.rows, score.right) == (64, sum(right))
    assert score.accuracy == pytest.approx(np.mean(right))
    assert score.confusions["count"].sum() == 64 - sum(right)
    counts = score.confusions["count"].tolist()
    assert counts == sorted(counts, reverse=True)
    unseen = colours.score(pictures, classes="unseen")  # rows of other classes have no right answer there
    assert unseen.rows == 16
    assert unseen.right == colours.provenance.evaluation["right_among_unseen"]
    assert str(unseen).startswith(
        f"On 16 images that training has not seen (by file content): {unseen.right} of 16 right ("
    )


def test_rows_of_features_need_no_backbone(rows, small):
    X, y = small.part("test_unseen")
    found = rows.predict(X, classes="unseen", reject_far=False)
    assert found.best == rows.model.predict(X, classes=list(small.unseen_classes)).tolist()
    assert list(found.names) == list(range(len(X)))
    assert rows.predict(X[0], classes="unseen").best == found.best[:1]
    assert rows.predict([X[0], X[1]]).scores.tolist() == rows.predict(X[:2]).scores.tolist()
    assert rows.score(X, y, classes="unseen").accuracy == pytest.approx(np.mean(np.array(found.best) == y))
    labelled = FeatureFile(X, [f"{row}.jpg" for row in range(len(X))], y.tolist())
    assert rows.score(labelled, classes="unseen").right == rows.score(X, y, classes="unseen").right


def test_candidates_may_be_a_word_names_a_table_or_its_file(rows, small, tmp_path):
    X, names = small.features[:9], list(small.unseen_classes)
    table = small.descriptions.loc[names]
    table[table.columns[::-1]].to_csv(tmp_path / "new.csv")
    expected = rows.model.predict(X, classes=names).tolist()
    for classes in (
        "unseen",
        names,
        table,
        table[table.columns[::-1]],
        tmp_path / "new.csv",
        str(tmp_path / "new.csv"),
    ):
        assert rows.predict(X, classes=classes).best == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "nothing to name"),
        (np.empty((0, 16), dtype=np.float32), "no rows to name"),
        (np.zeros((2, 15), dtype=np.float32), "15 features per row.*fitted with 16"),
        (np.zeros((2, 3, 4), dtype=np.float32), r"rows \(n, d\)"),
        ([np.zeros(16, dtype=np.float32), Image.new("RGB", (4, 4))], "cannot be named in one call"),
        (Image.new("RGB", (4, 4)), "source that it does not know"),
        ("nowhere.npy", "nowhere.npy"),
        ("nowhere.jpg", "nowhere.jpg"),
    ],
)
def test_what_cannot_be_named_is_one_sentence(rows, given, said):
    with pytest.raises(BadInput, match=said) as caught:
        rows.predict(given)
    assert "\n" not in str(caught.value)


def test_nothing_to_compare_with_is_told(rows, small):
    with pytest.raises(BadInput, match="nothing to compare with"):
        rows.score(small.features[:3])


# What it answers ------------------------------------------------------------------------------------------------------


def test_answers_as_a_table_as_ranks_and_as_json_agree(rows, small):
    found = rows.predict(small.features[:6], top=3, reject_share=0.3, why=True)
    table, ranked, entries = found.to_frame(), found.ranked(), found.as_json()
    assert list(table.columns) == ["row", "class", "confidence", "rejected", "distance", *REASONS]
    assert list(ranked.columns) == ["row", "rank", "class", "confidence", "score", "rejected"]
    assert len(ranked) == 18
    for row, entry in enumerate(entries):
        line, places = table.iloc[row], ranked[ranked["row"] == row]
        assert entry["class"] == line["class"] == found.best[row]
        assert [one["class"] for one in entry["top"]] == places["class"].tolist() == found.classes[row].tolist()
        assert [one["score"] for one in entry["top"]] == places["score"].tolist()
        assert entry["rejected"] == line["rejected"] == (line["class"] == NONE_OF_THESE)
        assert pd.isna(line["confidence"]) == entry["rejected"]
        assert line["for"] == "; ".join(one["text"] for one in entry["why"]["for"])


def test_several_threads_may_ask_while_classes_change(rows, small):
    X = small.features[small.test_unseen]
    expected, asked = rows.predict(X).best, []
    table = small.descriptions.iloc[[0]].rename(index={small.class_names[0]: "yak"})

    def ask() -> None:
        for _ in range(20):
            asked.append(rows.predict(X, classes=list(small.class_names)).best == expected)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        rows.add_classes(table)
        rows.remove_classes(["yak"])
    for thread in threads:
        thread.join()
    assert asked == [True] * 60  # a thread that fails appends less


def test_a_picture_of_nothing_is_none_of_these_and_every_picture_is_scored(colours, pictures):
    # A fine chequer: in a world of plain colours, even white is something like them.
    chequer = Image.fromarray((np.indices((40, 40)).sum(axis=0) % 2 * 255).astype(np.uint8)).convert("RGB")
    given = [*sorted((pictures / "rose").glob("*.png"))[:3], chequer]
    assert (np.array(colours.predict(given).best) == NONE_OF_THESE).tolist() == [False, False, False, True]
    accepted = colours.predict(given, reject_far=False)
    assert accepted.distance[-1] == 1
    assert accepted.best[-1] in set(colours.model.classes_)
    assert NONE_OF_THESE not in colours.score(pictures).answers


# What it is -----------------------------------------------------------------------------------------------------------


def test_classes_are_a_table_that_grows_and_shrinks(rows, small):
    before = rows.classes
    assert before["class"].tolist() == list(small.class_names)
    assert before.loc[before["seen"], "class"].tolist() == list(small.seen_classes)
    pd.testing.assert_frame_equal(rows.descriptions, small.descriptions, check_names=False)
    gone = rows.descriptions.loc[["kind q"]]
    assert "kind q" not in rows.remove_classes(["kind q"]).classes["class"].tolist()
    with pytest.raises(BadInput, match="trait 0"):
        rows.add_classes(gone.rename(columns={"trait 0": "trait zero"}))
    rows.add_classes(gone[gone.columns[::-1]])
    pd.testing.assert_frame_equal(rows.classes, before)
    pd.testing.assert_frame_equal(rows.descriptions, small.descriptions, check_names=False)


def test_it_comes_back_from_its_folder_with_its_calibration(rows, small, tmp_path):
    rows.save(tmp_path / "model")
    again = Recognizer.load(tmp_path / "model")
    pd.testing.assert_frame_equal(again.predict(small.features).to_frame(), rows.predict(small.features).to_frame())
    assert repr(again) == "Recognizer(ESZSL: 24 classes, 10 unseen classes)"


@pytest.mark.parametrize("spoil", [lambda weights: weights.T, lambda weights: weights[None], lambda weights: None])
def test_arrays_that_do_not_belong_together_are_one_sentence(rows, tmp_path, spoil):
    rows.save(tmp_path / "model")
    arrays = load_file(tmp_path / "model" / "arrays.safetensors")
    weights = spoil(arrays.pop("weights_"))
    save_file(
        arrays if weights is None else {**arrays, "weights_": np.ascontiguousarray(weights)},
        tmp_path / "model" / "arrays.safetensors",
    )
    about = json.loads((tmp_path / "model" / "model.json").read_text())
    about["arrays_sha256"] = hashlib.sha256((tmp_path / "model" / "arrays.safetensors").read_bytes()).hexdigest()
    (tmp_path / "model" / "model.json").write_text(json.dumps({**about, "digest": digest_of(about)}))
    with pytest.raises(BadInput, match=r"ESZSL arrays that do not belong together .*fit the model again"):
        Recognizer.load(tmp_path / "model")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda calibration: calibration.update(scales={}),
        lambda calibration: calibration.update(spread=float("nan")),
        lambda calibration: [scale.update(temperature=0.0) for scale in calibration["scales"].values()],
        lambda calibration: [scale.update(margins=[0.0]) for scale in calibration["scales"].values()],
        lambda calibration: calibration["novelty"].update(distances=[]),
    ],
    ids=["no scales", "no spread", "no temperature", "few quantiles", "no distances"],
)
def test_a_calibration_that_gives_no_confidence_is_one_sentence(rows, tmp_path, spoil):
    rows.save(tmp_path / "model")
    about = json.loads((tmp_path / "model" / "model.json").read_text())
    spoil(about["calibration"])
    (tmp_path / "model" / "model.json").write_text(json.dumps({**about, "digest": digest_of(about)}))
    for read in (Recognizer.load, lambda folder: Recognizer.changing(folder).__enter__()):
        with pytest.raises(BadInput, match=r"do not belong together .*fit the model again"):
            read(tmp_path / "model")


def test_a_model_in_its_folder_is_changed_as_a_whole_or_not_at_all(rows, tmp_path):
    rows.save(tmp_path / "model")
    with Recognizer.changing(tmp_path / "model") as changed:
        changed.remove_classes(["kind q"])
    assert len(Recognizer.load(tmp_path / "model").classes) == 23
    with pytest.raises(BadInput), Recognizer.changing(tmp_path / "model") as changed:
        changed.remove_classes(["kind w", "kind q"])
    assert len(Recognizer.load(tmp_path / "model").classes) == 23


def test_another_backbone_is_refused_when_the_first_picture_comes(colours, pictures, backbone, tmp_path):
    known = colours.provenance.backbone
    other = colours.provenance.model_copy(update={"backbone": known.model_copy(update={"fingerprint": "dead" * 8})})
    wrong = Recognizer(colours.model, other, backbone)
    with pytest.raises(
        BadInput, match=r"backbone tiny \(.{8}\), but the model was fitted with features of tiny \(dead"
    ):
        wrong.predict(pictures / "plum")
    lost = Provenance(backbone=BackboneUsed(name="nobody/nothing", fingerprint="f" * 32))
    with pytest.raises(BadInput, match=r"needs its backbone 'nobody/nothing': say where it is"):
        Recognizer(colours.model, lost).predict(pictures / "plum")
    features = colours.backbone([pictures / "plum" / "0.png"])[0]
    assert wrong.predict(features).best  # features need none


def test_a_worker_elsewhere_calls_pictures_what_they_are_called_here(colours, pictures, tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    colours.save(tmp_path / "model")
    monkeypatch.chdir(pictures.parent)
    (here,) = colours.predict_shards(["pictures/plum"], tmp_path)
    monkeypatch.chdir(tmp_path)
    there = tmp_path / "there.parquet"
    about = [firstsight.__version__, str(tmp_path / "model"), None, str(pictures.parent)]
    run_in_worker(json.dumps([*about, "pictures/plum", str(there), {}]), dict(PredictOptions(top=1)))
    assert parquet.read_table(there).to_pydict() == parquet.read_table(here).to_pydict()
    assert parquet.read_table(there)["file"][0].as_py().startswith("pictures")
