"""Training samples are recognised by identical content, and counted apart wherever answers are compared with labels."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from firstsight.data import make_dataset
from firstsight.data.feature_files import FeatureFile
from firstsight.encoders.backbone import LETTERS
from firstsight.encoders.embedding import embed
from firstsight.methods import ESZSL, TransductiveKernelPrototypes
from firstsight.recognition import Recognizer, fit, learn
from firstsight.recognition.scoring import fingerprint_features, in_training

NAMES = ["ring", "bar", "cross", "dot", "wedge", "frame"]
UNSEEN = ["wedge", "frame"]


@pytest.fixture(scope="module")
def images(draw_shapes):
    return draw_shapes(NAMES)


@pytest.fixture(scope="module")
def described():
    return pd.DataFrame(np.random.default_rng(1).random((6, 4)), index=NAMES, columns=list("abcd"))


@pytest.fixture(scope="module")
def model(images, described, cache, tmp_path_factory):
    """Learned from the images of four classes, saved and read again."""
    place = tmp_path_factory.mktemp("learned") / "model"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTSIGHT_CACHE", str(cache))
        learn(images, described, backbone=LETTERS, method="eszsl", unseen=UNSEEN, out=place)
    return Recognizer.load(place)


def status_by_class(answers):
    found = {}
    for name, status in zip(answers.names, answers.in_training, strict=True):
        found.setdefault(str(name).split("/")[-2], set()).add(status)
    return found


def expected_by_class():
    return {name: {"no" if name in UNSEEN else "labelled"} for name in NAMES}


def test_training_images_are_recognised_in_the_folder_that_holds_them(model, images):
    assert status_by_class(model.predict(images)) == expected_by_class()


def test_a_copy_by_another_name_is_recognised_and_one_that_was_saved_anew_is_another_image(model, images, tmp_path):
    shutil.copy(images / "ring" / "0.png", tmp_path / "a.png")
    with Image.open(images / "ring" / "0.png") as opened:
        opened.save(tmp_path / "b.png", compress_level=0)
    assert list(model.predict(tmp_path).in_training) == ["labelled", "no"]


def test_of_an_image_in_memory_nothing_is_claimed(model, images):
    with Image.open(images / "ring" / "0.png") as opened:
        picture = opened.convert("RGB")
    assert model.predict(picture).in_training is None
    assert list(model.predict([picture, images / "bar" / "0.png"]).in_training) == [None, "labelled"]
    assert "training" not in str(model.score([picture], ["ring"]))


def test_the_score_counts_training_images_apart(model, images):
    answers = model.predict(images, reject_far=False)
    right = [one == str(name).split("/")[-2] for one, name in zip(answers.best, answers.names, strict=True)]
    new = np.array(answers.in_training) == "no"
    score = answers.score()
    assert {part: (one.rows, one.right) for part, one in score.by_training.items()} == {
        "no": (8, int(np.sum(np.array(right)[new]))),
        "labelled": (16, int(np.sum(np.array(right)[~new]))),
    }
    text = str(score)
    assert f"On 8 images that training has not seen (by file content): {score.by_training['no'].right} of 8" in text
    assert f"On 16 training images (by file content): {score.by_training['labelled'].right} of 16" in text
    assert f"{score.right} of 24" not in text


def test_tables_json_and_page_tell_it_of_every_image(model, images, tmp_path):
    answers = model.predict([images / "ring", images / "frame"], top=2)
    expected = ["labelled"] * 4 + ["no"] * 4
    assert answers.to_frame()["in_training"].tolist() == expected
    assert answers.ranked()["in_training"].tolist() == [one for one in expected for _ in range(2)]
    assert [entry["in_training"] for entry in answers.as_json()] == expected
    answers.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count('"in_training": "labelled"') + page.count('"in_training":"labelled"') == 4


def test_features_of_the_same_files_are_recognised_by_the_fingerprints_that_embed_writes(
    model, images, described, tmp_path
):
    embed(images, backbone=LETTERS, out=tmp_path / "features.npz")
    assert [*model.predict(tmp_path / "features.npz").in_training].count("labelled") == 16
    again = learn(tmp_path / "features.npz", described, method="eszsl", unseen=UNSEEN)
    assert status_by_class(again.predict(tmp_path / "features.npz")) == expected_by_class()
    known, other = (one.model.training_fingerprints_["content_labelled"] for one in (model, again))
    assert known.tolist() == other.tolist()
    assert in_training(model.model, np.zeros((2, model.model.n_features_in_)), None) is None  # no file, no claim


def test_a_saved_model_holds_no_path_and_no_name_of_an_image(images, described, tmp_path):
    learn(images, described, backbone=LETTERS, method="eszsl", out=tmp_path / "model")
    content = b"".join(path.read_bytes() for path in (tmp_path / "model").iterdir())
    assert b".png" not in content
    assert str(images).encode() not in content


@pytest.fixture
def table(described):
    random = np.random.default_rng(2)
    labels = [name for name in NAMES for _ in range(5)]
    codes = np.repeat(np.arange(6), 5)
    return FeatureFile(
        (np.eye(6)[codes] + 0.1 * random.normal(size=(30, 6))).astype(np.float32), [str(n) for n in range(30)], labels
    )


def test_rows_of_a_feature_table_are_recognised_by_their_numbers(table, described):
    made = learn(table, described, method=ESZSL(), unseen=UNSEEN)
    expected = ["no" if name in UNSEEN else "labelled" for name in table.labels]
    assert list(made.predict(table).in_training) == expected
    assert (
        list(made.predict(table.features.astype(np.float64)).in_training) == expected
    )  # the same numbers in another type
    assert "training samples (by feature values)" in str(made.score(table))
    moved = np.nextafter(table.features, np.float32(9))
    assert set(made.predict(moved).in_training) == {"no"}  # identical, not similar


def test_fingerprints_of_numbers_do_not_know_the_sign_of_zero_nor_the_order_in_memory():
    rows = np.array([[0.0, 1.0], [2.0, -0.0]], dtype=np.float32)
    turned = np.asfortranarray(np.array([[-0.0, 1.0], [2.0, 0.0]]))
    assert fingerprint_features(rows).tolist() == fingerprint_features(turned).tolist()
    assert len(set(fingerprint_features(rows).tolist())) == 2


def test_the_pool_of_a_transductive_method_is_told_from_labelled_rows(table, described):
    data = make_dataset(table.features, table.labels, described, unseen=UNSEEN, name="shapes")
    made = fit(TransductiveKernelPrototypes(search=False), data)
    told = np.array(made.predict(data.features).in_training)
    assert set(told[data.train]) == {"labelled"}
    assert set(told[np.r_[data.test_seen, data.test_unseen]]) == {"unlabelled"}
    assert "without their labels" in str(made.score(data.features[data.test_unseen], data.part("test_unseen")[1]))


def test_another_fit_forgets_the_samples_of_the_one_before(table, described):
    made = learn(table, described, method=ESZSL(), unseen=UNSEEN).model
    made.fit(table.features, table.labels, described)
    assert Recognizer(made).predict(table).in_training is None


def test_held_out_images_that_training_had_under_another_class_are_no_test(images, described, tmp_path, caplog):
    folder = shutil.copytree(images, tmp_path / "images")
    shutil.copy(images / "ring" / "0.png", folder / "frame" / "0.png")
    made = learn(folder, described, backbone=LETTERS, method="eszsl", unseen=UNSEEN)
    assert made.provenance.evaluation["held_out_pictures"] == 7
    assert "frame/0.png" in caplog.text


def test_held_out_images_in_the_pool_are_counted(images, described):
    made = learn(
        images, described, backbone=LETTERS, unseen=UNSEEN, unlabeled=images / "frame", parameters={"search": False}
    )
    assert made.provenance.evaluation["unlabelled_in_training"] == 4


def test_one_image_in_two_class_folders_is_told_by_name(images, described, tmp_path, caplog):
    folder = shutil.copytree(images, tmp_path / "images")
    shutil.copy(images / "ring" / "0.png", folder / "bar" / "zero.png")
    learn(folder, described, backbone=LETTERS, method="eszsl")
    assert "'bar/zero.png' of 'bar' and 'ring/0.png' of 'ring'" in caplog.text
    caplog.clear()
    learn(images, described, backbone=LETTERS, method="eszsl")
    assert "another class" not in caplog.text


def test_answers_of_shards_tell_it_too(model, images, tmp_path):
    (place,) = model.predict_shards([images], tmp_path / "answers")
    assert pd.read_parquet(place)["in_training"].value_counts().to_dict() == {"labelled": 16, "no": 8}


def test_json_holds_it_as_text_or_null(model, images):
    with Image.open(images / "ring" / "0.png") as opened:
        entries = model.predict([opened.convert("RGB"), images / "bar"]).as_json()
    assert [entry["in_training"] for entry in json.loads(json.dumps(entries))] == [None] + ["labelled"] * 4
