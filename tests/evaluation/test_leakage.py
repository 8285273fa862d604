from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from firstsight.evaluation import fit_on
from firstsight.evaluation.leakage import Watched, observers
from firstsight.methods import ESZSL, QFSL, DeepEmbedding, TransductiveDeepEmbedding


def _touched(model, dataset, fit=fit_on):
    watched = Watched(model)
    fit(watched, dataset)
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


def test_a_fit_that_fails_leaves_no_observer_behind(small):
    with pytest.raises(ValueError, match="feature_penalty"):
        _touched(ESZSL(feature_penalty=-1), small)
    assert observers() == ()


class OwnFit(ESZSL):
    """Has a `fit` of its own, which leaves the work to the base class."""

    def fit(self, X, y, descriptions=None, *, note=""):
        self.note_ = note
        return super().fit(X, y, descriptions)


def test_a_method_with_a_fit_of_its_own_is_watched_as_well(small):
    assert _touched(OwnFit(), small) == _touched(ESZSL(), small)


def test_a_pipeline_is_watched_at_its_entrance_and_at_the_method_in_its_last_step(small):
    def fit(pipeline, data):
        pipeline.fit(*data.part("train"), eszsl__descriptions=data.descriptions)

    alone = _touched(ESZSL(), small)
    assert _touched(make_pipeline(StandardScaler(), ESZSL()), small, fit) == alone

    class PeekingLast(Peeking):
        pass

    peeking = make_pipeline(StandardScaler(), PeekingLast())
    watched = Watched(peeking)
    watched.fit(*small.part("train"), peekinglast__descriptions=small.descriptions)
    assert watched.touched(small) == {**alone, "unseen_descriptions_in_fit": True}
