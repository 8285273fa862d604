from __future__ import annotations

import numpy as np
import pytest

from firstsight.evaluation import fit_on
from firstsight.methods import ESZSL, SAE, DeepEmbedding
from firstsight.recognition.explain import explain


def _pair(model, X):
    scores = model.decision_function(X, classes=list(model.classes_))
    first, second = np.argsort(-scores, axis=1)[:, :2].T
    rows = np.arange(len(X))
    return first, second, scores[rows, first] - scores[rows, second]


@pytest.mark.parametrize("scaling", [None, "unit", "standard"])
def test_contributions_to_a_bilinear_score_are_its_own_terms_and_add_up_to_the_lead(small, scaling):
    model = fit_on(ESZSL(feature_penalty=0.02, attribute_scaling=scaling), small)
    A = small.description_matrix.astype(np.float64)
    S = A[np.isin(small.class_names, small.seen_classes)]
    if scaling == "unit":
        A = A / np.linalg.norm(A, axis=1, keepdims=True)
    elif scaling == "standard":
        A = (A - S.mean(axis=0)) / S.std(axis=0)
    X = small.features[small.test_unseen][:5]
    for x, w, r, lead in zip(X, *_pair(model, X), strict=True):
        why = explain(model, x, model.descriptions_[w], model.descriptions_[r], lead)
        terms = (x @ model.weights_) * (A[w] - A[r])
        np.testing.assert_allclose(why.contributions, terms, atol=1e-5 * abs(terms).max() + 1e-6)
        assert abs(why.rest) < 1e-5 * abs(terms).max() + 1e-6


@pytest.mark.parametrize("method", ["deep", "sae"])
def test_contributions_to_other_scores_add_up_ever_better(small, method):
    model = (
        SAE() if method == "sae" else DeepEmbedding(embedding_dim=16, learning_rate=1e-2, iterations=8, random_state=0)
    )
    fit_on(model, small)
    X = small.features[small.test_unseen][:8]
    rests = {}
    for steps in (1, 4, 32):
        found = [
            explain(model, x, model.descriptions_[w], model.descriptions_[r], lead, steps)
            for x, w, r, lead in zip(X, *_pair(model, X), strict=True)
        ]
        rests[steps] = np.mean([abs(why.rest) / np.abs(why.contributions).sum() for why in found])
    assert rests[32] <= rests[1]
    assert rests[4] < 0.1
    assert rests[32] < 0.02


def test_an_attribute_that_both_classes_share_has_no_say_and_the_sides_are_told_by_name(small):
    model = fit_on(ESZSL(feature_penalty=0.02, attribute_scaling=None), small)
    x, winner, runner_up = small.features[0], np.array([1, 1, 1, 0, 0, 0]), np.array([1, 1, 0, 1, 0, 0])
    lead = float(x @ model.weights_ @ (winner - runner_up))
    why = explain(model, x, winner.astype(np.float32), runner_up.astype(np.float32), lead)
    assert why.contributions[[0, 1, 4, 5]].tolist() == [0, 0, 0, 0]
    told = why.speaking(list(small.attribute_names))
    terms = (x @ model.weights_)[[2, 3]] * [1, -1]
    sides = {f"trait {m}": "for" if term > 0 else "against" for m, term in zip((2, 3), terms, strict=True)}
    assert {one["attribute"]: side for side in told for one in told[side]} == sides
    assert {one["attribute"]: one["more"] for side in told for one in told[side]} == {"trait 2": True, "trait 3": False}
