from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from firstsight.errors import BadInput
from firstsight.methods import ESZSL, Cosine, TransCLIP
from firstsight.persistence.class_table import add_classes, remove_classes
from firstsight.persistence.model_folder import load, save


@pytest.fixture
def descriptions():
    return np.random.default_rng(0).normal(size=(5, 4))


def test_the_score_is_the_cosine_of_row_and_description(descriptions):
    X = np.random.default_rng(1).normal(size=(7, 4))
    scores = Cosine().fit(X, [0, 1, 2, 0, 1, 2, 0], descriptions).decision_function(X)
    expected = [[x @ a / np.linalg.norm(x) / np.linalg.norm(a) for a in descriptions] for x in X]
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


def test_labels_and_rows_of_training_do_not_matter(descriptions):
    X = np.random.default_rng(1).normal(size=(7, 4))
    one = Cosine().fit(X, [0, 1, 2, 0, 1, 2, 0], descriptions).decision_function(X)
    other = Cosine().fit(X[::-1] + 1, [4, 3, 2, 1, 0, 0, 0], descriptions).decision_function(X)
    np.testing.assert_array_equal(one, other)


def test_a_row_of_zeros_is_as_near_to_every_class(descriptions):
    model = Cosine().fit(descriptions, np.arange(5), descriptions)
    assert (model.decision_function(np.zeros((1, 4))) == 0).all()


@pytest.mark.parametrize("descriptions_given", [True, False])
def test_rows_and_descriptions_of_different_spaces_are_refused_with_a_sentence(descriptions, descriptions_given):
    X = np.ones((3, 7))
    with pytest.raises(BadInput, match=r"rows of 7 numbers.*one vision-language model"):
        Cosine().fit(X, [0, 1, 1], descriptions if descriptions_given else None)


def test_it_is_fitted_without_a_sample_and_scores_as_with_some(descriptions, tmp_path):
    table = pd.DataFrame(descriptions, index=list("abcde"))
    X = np.random.default_rng(1).normal(size=(7, 4))
    bare = Cosine().fit(np.empty((0, 4)), [], table)
    assert bare.seen_classes_.tolist() == []
    assert bare.unseen_classes_.tolist() == list("abcde")
    expected = Cosine().fit(X, list("abcabca"), table).decision_function(X)
    np.testing.assert_array_equal(bare.decision_function(X), expected)
    save(bare, tmp_path / "model")
    again = add_classes(remove_classes(load(tmp_path / "model"), ["a"]), table[:1] + 1)
    assert again.classes_.tolist() == list("abcde")
    np.testing.assert_array_equal(again.decision_function(X)[:, 1:], expected[:, 1:])


@pytest.mark.parametrize(
    ("model", "table", "said"),
    [
        (ESZSL(), np.eye(4), "ESZSL learns from labelled samples, but X has 0 samples.*add some"),
        (TransCLIP(), np.eye(4), "TransCLIP learns from labelled samples"),
        (Cosine(), None, "no descriptions either"),
        (Cosine(), np.eye(4)[:1], "1 class; expected at least 2 classes"),
        (Cosine(), np.eye(5), "rows of 4 numbers and descriptions of 5"),
        (
            Cosine(feature_scaling="standard"),
            np.eye(4),
            "feature_scaling='standard'.*0 samples; expected None or 'unit'",
        ),
    ],
)
def test_a_fit_without_samples_that_makes_no_sense_is_rejected(model, table, said):
    with pytest.raises(BadInput, match=said):
        model.fit(np.empty((0, 4)), [], table)


def test_added_samples_raise_their_class_by_their_mean_nearness(descriptions):
    rng = np.random.default_rng(1)
    X, added = rng.normal(size=(7, 4)), rng.normal(size=(5, 4))
    y = np.array([3, 4, 3, 0, 3])
    model = Cosine().fit(X, [0, 1, 2, 0, 1, 2, 0], descriptions)
    plain = model.decision_function(X)
    scores = model.add_samples(added, y).decision_function(X)
    rows, samples = (V / np.linalg.norm(V, axis=1, keepdims=True) for V in (X, added))
    pairs = np.exp(5.5 * (samples @ samples.T - 1))[y[:, None] != y]
    for i, x in enumerate(rows):
        for c in range(5):
            near = [np.exp(5.5 * (x @ f - 1)) for f, label in zip(samples, y, strict=True) if label == c]
            n = len(near)
            gain = 0.05 * n / (n + 1.5) * (np.mean(near) - np.mean(pairs)) if n else 0.0
            assert scores[i, c] - plain[i, c] == pytest.approx(gain, abs=1e-12)
    assert np.array_equal(model.remove_samples().decision_function(X), plain)


def test_names_alone_learn_from_a_correction_and_keep_it(descriptions, tmp_path):
    table = pd.DataFrame(descriptions, index=list("abcde"))
    model = Cosine().fit(np.empty((0, 4)), [], table)
    x = (descriptions[0] + 1.02 * descriptions[1])[None]
    x /= np.linalg.norm(x)
    right, wrong = ("a", "b") if model.predict(x, classes=["a", "b"])[0] == "b" else ("b", "a")
    margin = np.ptp(model.decision_function(x, classes=["a", "b"]))
    changed = model.add_samples(x, [right])
    gap = np.diff(changed.decision_function(x, classes=[wrong, right]))[0, 0]
    assert gap == pytest.approx(0.05 / 2.5 - margin)
    save(changed, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(loaded.decision_function(x), changed.decision_function(x))
    assert "a" in loaded.remove_samples().classes_
    assert not len(loaded.seen_classes_)
