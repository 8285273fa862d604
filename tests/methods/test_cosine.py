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
