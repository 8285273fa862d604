from __future__ import annotations

import numpy as np
import pytest

from firstsight.errors import BadInput
from firstsight.methods import Cosine


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
