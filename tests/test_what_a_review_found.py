"""Small things that surprised a careful reader of the public face, each from its cause."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import firstsight
from firstsight.data.feature_files import FeatureFile
from firstsight.errors import BadInput, UnreadableFile
from firstsight.experiments.plan import entries_of
from firstsight.methods import ESZSL, QFSL, SJE


class Doubled(TransformerMixin, BaseEstimator):
    """Has nothing to fit, and no sign of a fit."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return 2 * np.asarray(X)


class Elsewhere(ESZSL):
    """A method that no package has installed."""


@pytest.fixture
def letters(small):
    return firstsight.fit(ESZSL(), small)


def test_a_step_without_a_fitted_state_may_stand_in_a_pipeline(small):
    plain = firstsight.evaluate(ESZSL(feature_scaling="unit"), small)
    assert firstsight.evaluate(make_pipeline(Doubled(), ESZSL(feature_scaling="unit")), small).h == plain.h


def test_a_search_over_a_pipeline_has_no_pool(small):
    search = GridSearchCV(make_pipeline(StandardScaler(), QFSL()), {}, cv=GroupKFold(2))
    with pytest.raises(BadInput, match="no pool of unlabelled rows is right"):
        firstsight.evaluate(search, small)


def test_evaluate_takes_what_load_dataset_reads_and_says_what_it_does_not_take(small, tmp_path):
    from firstsight.data import write_npz

    found = firstsight.evaluate(ESZSL(), write_npz(small, tmp_path / "small.npz"), "both")
    assert found.h == firstsight.evaluate(ESZSL(), small).h
    for wrong in ("eszsl", ESZSL):
        with pytest.raises(BadInput, match=r"such as firstsight\.ESZSL\(\)"):
            firstsight.evaluate(wrong, small)


def test_one_name_is_one_class(letters):
    letters.remove_classes("kind q")
    assert "kind q" not in letters.model.classes_
    assert len(letters.classes) == 23


def test_a_model_says_the_seed_that_it_was_fitted_with(small):
    X, y = small.part("train")
    rows = FeatureFile(X, [str(number) for number in range(len(X))], y.tolist())
    assert firstsight.learn(rows, small.descriptions, method=SJE(random_state=7, epochs=1)).provenance.seed == 7


def test_a_pipeline_is_not_fitted_by_a_methods_name(small):
    with pytest.raises(BadInput, match="is a Pipeline; a pipeline or a search is fitted by its own `fit`"):
        firstsight.fit(make_pipeline(StandardScaler(), ESZSL()), small)


@pytest.mark.parametrize("processes", [0, -2])
def test_an_impossible_number_of_processes_is_refused(small, processes):
    for call in (firstsight.benchmark, firstsight.tune):
        with pytest.raises(BadInput, match=f"or -1 for all processors, but is {processes}"):
            call(ESZSL(), small, processes=processes)
    with pytest.raises(BadInput, match="nothing to run"):
        firstsight.benchmark(ESZSL(), [])


def test_rows_may_come_as_a_table_or_as_lists(letters, small):
    X = small.features[:3]
    expected = letters.predict(X).best
    assert letters.predict(pd.DataFrame(X)).best == expected
    assert letters.predict(X.tolist()).best == expected


def test_truth_of_another_length_is_refused(letters, small):
    with pytest.raises(BadInput, match="each of the 3 rows, but has 2"):
        letters.score(small.features[:3], ["kind q"] * 2)


def test_a_word_can_have_a_name():
    assert [entry.name for entry in entries_of({"my": "eszsl"})] == ["my"]
    assert [entry.name for entry in entries_of([("my", "eszsl"), "sae"])] == ["my", "sae"]
    assert [entry.name for entry in entries_of(("eszsl", "sae"))] == ["eszsl", "sae"]


def test_a_model_of_another_class_says_how_to_load_it(small, tmp_path):
    X, y = small.part("train")
    firstsight.save(Elsewhere().fit(X, y, small.descriptions), tmp_path / "model")
    with pytest.raises(UnreadableFile, match="load it with method="):
        firstsight.load(tmp_path / "model")
    assert isinstance(firstsight.load(tmp_path / "model", method=Elsewhere), Elsewhere)
