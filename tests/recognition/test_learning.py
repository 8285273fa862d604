from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from firstsight.data.dataset import make_training_set
from firstsight.encoders.embedding import embed
from firstsight.errors import BadInput, UnknownName
from firstsight.methods import (
    DEFAULT_METHOD,
    DEFAULT_TRANSDUCTIVE_METHOD,
    ESZSL,
    Blend,
    DeepEmbedding,
    KernelPrototypes,
    TransductiveKernelPrototypes,
    ZLaP,
)
from firstsight.persistence.model_schema import PictureCounts
from firstsight.recognition import Recognizer, fit, learn, learning

UNSEEN = ["peach", "plum"]
QUICK = {"search": False}  # a search for each of eleven fits takes a quarter of a minute


@pytest.fixture(scope="module")
def colours(pictures, table, backbone, cache):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTSIGHT_CACHE", str(cache))
        return learn(pictures, table, backbone=backbone, unseen=UNSEEN, parameters=QUICK)


def test_pictures_of_unseen_classes_are_held_out_and_tell_how_often_it_is_right(colours, pictures):
    assert sorted(colours.model.seen_classes_) == ["ice", "leaf", "lilac", "rose", "sea", "sun"]
    assert sorted(colours.model.unseen_classes_) == UNSEEN
    made = colours.provenance
    assert made.pictures == PictureCounts(labelled=48, unlabelled=0, held_out=16, skipped=0)
    for candidates, told in (("unseen", "right_among_unseen"), ("all", "right_among_all")):
        answers = colours.predict([pictures / name for name in UNSEEN], classes=candidates)
        expected = sum(a == name for a, name in zip(answers.best, np.repeat(UNSEEN, 8), strict=True))
        assert made.evaluation[told] == expected
    assert made.evaluation["held_out_pictures"] == 16
    assert made.evaluation["right_among_unseen"] > 12


def test_a_table_of_classes_and_split_says_the_same(colours, pictures, table, backbone, tmp_path):
    split = pd.DataFrame({"split": ["unseen" if name in UNSEEN else "seen" for name in table.index]}, index=table.index)
    split.rename_axis("class").to_csv(tmp_path / "split.csv")
    table.rename_axis("class").to_csv(tmp_path / "classes.csv")
    again = learn(pictures, tmp_path / "classes.csv", backbone=backbone, split=tmp_path / "split.csv", parameters=QUICK)
    X = np.random.default_rng(0).random((5, 24), dtype=np.float32)
    assert again.model.decision_function(X).tobytes() == colours.model.decision_function(X).tobytes()
    assert again.provenance.evaluation == colours.provenance.evaluation


def test_held_out_pictures_have_no_part_in_the_model(colours, pictures, table, backbone):
    made = embed(pictures, backbone=backbone)
    X, y = made.features, np.array(made.labels)
    seen = ~np.isin(y, UNSEEN)
    alone = KernelPrototypes(**QUICK).fit(X[seen], y[seen], table)
    assert alone.decision_function(X).tobytes() == colours.model.decision_function(X).tobytes()


def test_without_a_method_a_pool_decides_and_a_preset_asks_for_the_deep_embedding(
    colours, pictures, table, backbone, monkeypatch
):
    monkeypatch.setattr(learning, "_estimate", lambda *_: None)  # ten more fits, about which nothing is asked here
    assert type(colours.model) is KernelPrototypes
    with_pool = learn(pictures, table, backbone=backbone, unseen=UNSEEN, unlabeled=pictures / "plum", parameters=QUICK)
    assert type(with_pool.model) is TransductiveKernelPrototypes
    small = {"preset": "fast", "embedding_dim": 8, "iterations": 40, "learning_rate": 0.01}
    assert type(learn(pictures, table, backbone=backbone, parameters=small).model) is DeepEmbedding


@pytest.fixture
def clip_like():
    """Features around unit texts of 12 classes, two of them without samples, and a pool of the latter."""
    rng = np.random.default_rng(0)
    texts = pd.DataFrame(rng.normal(size=(12, 16)), index=[f"class {c}" for c in range(12)])
    labels = np.repeat(texts.index, 6)
    X = (texts.loc[labels].to_numpy() + 0.7 * rng.normal(size=(72, 16))).astype(np.float32)
    return make_training_set("clip", X[:60], labels[:60].tolist(), texts, X[60:])


def test_features_and_texts_of_one_model_are_blended_and_the_log_says_why(clip_like, caplog):
    with caplog.at_level("INFO", logger="firstsight"):
        model = learning._make_estimator(None, {}, without_pool(clip_like), 0, None, False)
    assert type(model) is Blend
    assert "one vision-language model: the method is blend, which starts from their cosine" in caplog.text
    assert type(learning._make_estimator(None, {}, clip_like, 0, None, False)) is ZLaP
    # What is asked for goes before what would be chosen.
    assert type(learning._make_estimator(None, QUICK, without_pool(clip_like), 0, None, False)) is KernelPrototypes
    narrower = clip_like.descriptions.iloc[:, :15]
    attributes = make_training_set("a", clip_like.features[:60], clip_like.y[:60].tolist(), narrower)
    assert type(learning._make_estimator(None, {}, attributes, 0, None, False)) is KernelPrototypes


def without_pool(training):
    X, y = training.part("train")
    return make_training_set("clip", X, list(y), training.descriptions)


def test_descriptions_of_two_kinds_are_blended(clip_like, caplog):
    mixed = clip_like.descriptions.rename(columns="trait {}".format)
    mixed = mixed.join(pd.DataFrame(0.5, mixed.index, [f"words:{number}" for number in range(32)]))
    X, y = clip_like.part("train")
    with caplog.at_level("INFO", logger="firstsight"):
        model = learning._make_estimator(None, {}, make_training_set("m", X, list(y), mixed), 0, None, False)
    assert type(model) is Blend
    assert "several kinds (columns: 16 of attributes and 32 of words): the method is blend" in caplog.text


def test_a_method_left_out_of_fit_is_chosen_by_the_data(clip_like):
    model = fit(None, without_pool(clip_like)).model
    assert type(model) is Blend
    assert list(model.parts_) == ["cosine", "kernel-prototypes"]


@pytest.mark.parametrize(
    ("chosen", "rivals"),
    [
        (
            (DEFAULT_METHOD, {}),
            {"kernel-prototypes search=false", "gfzsl feature_scaling=unit", "eszsl", "deep-embedding preset=fast"},
        ),
        (
            (DEFAULT_TRANSDUCTIVE_METHOD, learning.POOL_PARAMETERS),
            {"transductive-kernel-prototypes", "transductive-deep-embedding preset=fast"},
        ),
    ],
    ids=["no pool", "pool"],
)
def test_the_method_taken_is_the_one_that_the_records_speak_for(chosen, rivals):
    """No rival is ahead of it beyond the noise on all tasks that both have run, in T1 or in H."""
    word, parameters = chosen
    told = " ".join([word, *(f"{name}={value}".lower() for name, value in parameters.items())])
    found = pd.read_csv(Path(__file__).parents[2] / "results" / "few_pictures.csv")
    table = found.pivot_table(["T1", "H"], ["data", "seen", "rows", "draw"], "method")
    for rival in rivals:
        for figure in ("T1", "H"):
            apart = (table[figure][told] - table[figure][rival]).dropna()
            assert len(apart) >= 5
            assert apart.mean() > -apart.std() / len(apart) ** 0.5, (rival, figure)
    assert (table["T1"][told] + table["H"][told]).mean() > 100  # far above guessing


def test_features_serve_as_well_as_pictures(colours, pictures, table, backbone, tmp_path):
    made = embed(pictures, backbone=backbone, out=tmp_path / "f.npz")
    for given in (made, tmp_path / "f.npz"):
        again = learn(given, table, unseen=UNSEEN, parameters=QUICK)
        X = made.features
        assert again.model.decision_function(X).tobytes() == colours.model.decision_function(X).tobytes()
        assert again.provenance.backbone.fingerprint == colours.provenance.backbone.fingerprint


@pytest.mark.parametrize("method", ["eszsl", ESZSL, ESZSL(feature_penalty=3.0)], ids=["word", "class", "estimator"])
def test_a_method_may_be_a_word_a_class_or_an_estimator(pictures, table, backbone, method):
    given = {} if isinstance(method, ESZSL) else {"parameters": {"feature_penalty": 3.0}}
    made = learn(pictures, table, backbone=backbone, method=method, **given)
    assert isinstance(made.model, ESZSL)
    assert made.model.feature_penalty == 3.0
    assert made.model is not method  # what was given stays unfitted
    assert made.provenance.parameters["feature_penalty"] == 3.0


def test_out_saves_the_model_and_leaves_nothing_beside_it(pictures, table, backbone, tmp_path):
    made = learn(pictures, table, backbone=backbone, unseen=UNSEEN, out=tmp_path / "model", parameters=QUICK)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    again = Recognizer.load(tmp_path / "model")
    assert again.predict(pictures / "plum").best == made.predict(pictures / "plum").best
    assert again.provenance == made.provenance


def test_learning_from_a_ready_table_needs_no_text_model(pictures, table, backbone, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # as if not installed
    assert learn(pictures, table, backbone=backbone, method="eszsl").model.classes_.shape == (8,)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"unseen": ["peech"]}, UnknownName, "'peech'; did you mean 'peach'"),
        ({"split": {"plumm": "unseen"}}, UnknownName, "did you mean 'plum'"),
        ({"split": {"plum": "maybe"}}, BadInput, "seen or unseen, but says 'maybe'"),
        ({"split": {"plum": "unseen"}, "unseen": ["plum"]}, BadInput, "one of the two"),
        ({"split": pd.DataFrame({"a": [1]}, index=["plum"])}, BadInput, "columns class and split"),
        ({"unseen": ["rose", "leaf", "sea", "sun", "lilac", "ice", "plum"]}, BadInput, "at least 2 classes"),
        ({"method": "eszl"}, UnknownName, "did you mean 'eszsl'"),
        ({"method": "eszsl", "parameters": {"penalti": 1}}, UnknownName, "parameter of eszsl"),
        ({"method": ESZSL(), "parameters": {"feature_penalty": 1}}, BadInput, "set those of an estimator on it"),
    ],
)
def test_mistakes_are_one_sentence(pictures, table, backbone, given, error, said):
    with pytest.raises(error, match=said) as caught:
        learn(pictures, table, backbone=backbone, **given)
    assert "\n" not in str(caught.value)


def test_several_folders_are_learned_together(pictures, table, backbone, tmp_path):
    for number, folder in enumerate(("even", "odd")):
        for path in sorted(pictures.glob("*/*.png"))[number::2]:
            (tmp_path / folder / path.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, tmp_path / folder / path.parent.name)
    one = learn(pictures, table, backbone=backbone, method="eszsl", unseen=UNSEEN)
    two = learn([tmp_path / "odd", tmp_path / "even"], table, backbone=backbone, method="eszsl", unseen=UNSEEN)
    assert two.provenance.pictures == one.provenance.pictures
    X = np.random.default_rng(0).random((5, 24), dtype=np.float32)
    np.testing.assert_allclose(two.model.decision_function(X), one.model.decision_function(X), rtol=1e-4, atol=1e-5)
    with pytest.raises(BadInput, match=r"folders only, but has .*f\.npz"):
        learn([tmp_path / "odd", tmp_path / "f.npz"], table, backbone=backbone)
