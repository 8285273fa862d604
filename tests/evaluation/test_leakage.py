from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firstsight.evaluation import fit_on
from firstsight.evaluation.leakage import watch
from firstsight.methods import ESZSL, QFSL, DeepEmbedding, TransductiveDeepEmbedding


def _touched(model, dataset, fit=fit_on):
    with watch(model) as watched:
        fit(model, dataset)
    return watched.touched(dataset)


def test_an_inductive_fit_touches_training_rows_and_seen_descriptions_alone(small):
    assert _touched(ESZSL(), small) == {
        "labelled_rows": len(small.train),
        "labelled_classes": 14,
        "unlabelled_rows": 0,
        "test_rows_labelled": 0,
        "unseen_classes_labelled": 0,
        "unseen_descriptions_in_fit": False,
        "note": "",
    }


@pytest.mark.parametrize(
    ("model", "rows", "note"),
    [
        (TransductiveDeepEmbedding(setting="zsl"), 120, "120 test rows of unseen classes, 0 of seen classes"),
        (TransductiveDeepEmbedding(setting="gzsl"), 162, "120 test rows of unseen classes, 42 of seen classes"),
        (QFSL(), 120, "120 test rows of unseen classes, 0 of seen classes"),
    ],
)
def test_a_transductive_fit_touches_the_pool_without_labels(small, model, rows, note):
    found = _touched(model.set_params(**{**type(model).quick, "random_state": 0}), small)
    assert found["unlabelled_rows"] == rows
    assert note in found["note"]
    assert found["unseen_descriptions_in_fit"] is True
    assert (found["test_rows_labelled"], found["unseen_classes_labelled"]) == (0, 0)


def test_a_fit_on_test_rows_is_found(small):
    def cheat(model, data):
        rows = np.concatenate([data.train, data.test_unseen[:5], data.test_seen[:3]])
        model.fit(data.features[rows], data.names_of(rows), data.descriptions)

    found = _touched(ESZSL(), small, cheat)
    assert found["test_rows_labelled"] == 8
    classes = set(small.names_of(small.test_unseen[:5]))
    assert found["unseen_classes_labelled"] == len(classes)
    assert found["labelled_rows"] == len(small.train) + 8


class Peeking(ESZSL):
    """Its checks hand over more descriptions than the labelled classes have."""

    def _prepare(self, X, y, descriptions):
        X, codes, S, U = super()._prepare(X, y, descriptions)
        return X, codes, np.concatenate([S, U]), U


class Asking(ESZSL):
    """Gets the unseen descriptions as one more argument of `_fit`."""

    def fit(self, X, y, descriptions=None):
        X, codes, S, U = self._prepare(X, y, descriptions)
        self._fit(X, codes, S, U)
        return self

    def _fit(self, X, y, S, U):
        super()._fit(X, y, S)


class Foreign:
    """A method of somebody else's, without firstsight's base class: it is handed the whole table."""

    def fit(self, X, y, descriptions):
        return self


@pytest.mark.parametrize("method", [Peeking, Asking, Foreign])
def test_unseen_descriptions_that_reach_the_method_are_found(small, method):
    assert _touched(method(), small)["unseen_descriptions_in_fit"] is True


def test_a_picture_that_is_in_training_and_test_is_noted_and_no_leak(small):
    features = small.features.copy()
    features[small.test_seen[0]] = features[small.train[0]]
    found = _touched(ESZSL(), replace(small, features=features))
    assert found["test_rows_labelled"] == 0
    assert "1 training rows are identical to a test row" in found["note"]


def test_watching_changes_neither_the_result_nor_the_estimator(small):
    watched, alone = (DeepEmbedding(**DeepEmbedding.quick, random_state=0) for _ in range(2))
    _touched(watched, small)
    fit_on(alone, small)
    np.testing.assert_array_equal(watched.weights_["visual.weight"], alone.weights_["visual.weight"])
    assert set(vars(watched)) == set(vars(alone))


def test_a_fit_that_fails_leaves_no_watch_behind(small):
    model = ESZSL(feature_penalty=-1)
    with pytest.raises(ValueError, match="feature_penalty"):
        _touched(model, small)
    assert not {"fit", "_fit", "_prepare"} & set(vars(model))
