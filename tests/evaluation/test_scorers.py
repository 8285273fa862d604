from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from firstsight.errors import BadInput
from firstsight.evaluation import evaluate, mean_class_accuracy
from firstsight.evaluation.scorers import ClassWiseSplit, h_scorer, t1_scorer
from firstsight.methods import ESZSL


@pytest.fixture(scope="module")
def training(small):
    return *small.part("train"), small.descriptions


def test_t1_and_h_are_those_of_an_evaluation(small):
    """A fold of a search is a data set whose test rows come in one heap."""
    result = evaluate(ESZSL(feature_penalty=0.02), small)
    X, y = (np.concatenate([small.part(part)[i] for part in ("test_seen", "test_unseen")]) for i in (0, 1))
    model = result.models["zsl"]
    assert t1_scorer(model, X, y) == pytest.approx(result.t1)
    assert h_scorer(model, X, y) == pytest.approx(result.h)


class Oracle:
    """Knows the answer if it is among the candidates, else says the first."""

    seen_classes_ = np.array(["ox", "yak"])

    def predict(self, X, classes):
        self.asked = list(classes)
        return np.array([name if name in self.asked else self.asked[0] for name in X[:, 0]])


def test_candidates_are_the_classes_of_the_test_rows_without_training_rows():
    rows = np.array([["ox"], ["okapi"], ["okapi"], ["gnu"]])
    oracle = Oracle()
    assert t1_scorer(oracle, rows, rows[:, 0]) == 1
    assert oracle.asked == ["gnu", "okapi"]
    assert h_scorer(oracle, rows, rows[:, 0]) == 1
    assert oracle.asked == ["ox", "yak", "gnu", "okapi"]


def test_classes_count_alike_whatever_their_number_of_rows():
    rows = np.array([["okapi"], ["okapi"], ["okapi"], ["gnu"]])
    wrong = np.array(["okapi", "okapi", "okapi", "zebu"])  # what the rows really are
    assert t1_scorer(Oracle(), rows, wrong) == 0.5


def test_a_grid_search_over_groups_chooses_by_t1(training):
    X, y, table = training
    search = GridSearchCV(
        ESZSL(), {"feature_penalty": [1.0, 1e9]}, scoring=t1_scorer, cv=GroupKFold(3), error_score="raise"
    )
    search.fit(X, y, groups=y, descriptions=table)
    by_hand = []
    for penalty in (1.0, 1e9):
        for train, test in GroupKFold(3).split(X, y, groups=y):
            model = ESZSL(feature_penalty=penalty).fit(X[train], y[train], table)
            by_hand.append(mean_class_accuracy(y[test], model.predict(X[test], classes=np.unique(y[test]))))
    means = np.reshape(by_hand, (2, 3)).mean(axis=1)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], means)
    assert search.best_index_ == means.argmax()
    assert search.best_estimator_.unseen_classes_.size == 10  # refitted on all classes with rows


def test_a_grid_search_over_a_pipeline_chooses_by_h(training):
    X, y, table = training
    pipeline = make_pipeline(StandardScaler(), ESZSL())
    search = GridSearchCV(
        pipeline,
        {"eszsl__feature_penalty": [1.0, 1e9]},
        scoring={"h": h_scorer, "t1": t1_scorer},
        refit="h",
        cv=ClassWiseSplit(3, random_state=0),
        error_score="raise",
    )
    search.fit(X, y, eszsl__descriptions=table)
    assert search.best_params_ == {"eszsl__feature_penalty": 1.0}
    assert set(search.best_estimator_.predict(X[:5], classes=list(table.index[:4]))) <= set(table.index[:4])


def test_a_class_wise_split_holds_out_every_class_once_and_a_share_of_the_other_rows():
    y = np.repeat([f"kind {i}" for i in range(9)], 10)
    held = []
    for train, test in ClassWiseSplit(3, held_out=0.2, random_state=0).split(y[:, None], y):
        assert sorted([*train, *test]) == list(range(90))
        unseen = set(y) - set(y[train])
        held += unseen
        counts = pd.Series(y[test]).value_counts()
        assert {counts[name] for name in unseen} == {10}
        assert {counts[name] for name in set(y) - unseen} == {2}
    assert sorted(held) == sorted(set(y))


def test_a_class_wise_split_repeats_itself():
    y = np.repeat(np.arange(8), 5)
    one, two, other = (
        [test.tolist() for _, test in ClassWiseSplit(2, random_state=seed).split(y[:, None], y)] for seed in (1, 1, 2)
    )
    assert one == two != other


def test_what_cannot_be_scored_is_one_sentence(training):
    X, y, table = training
    model = ESZSL().fit(X, y, table)
    with pytest.raises(BadInput, match=r"hold out whole classes: GroupKFold"):
        t1_scorer(model, X, y)
    with pytest.raises(BadInput, match=r"all of these rows are of other classes"):
        cross_val_score(
            ESZSL(), X, y, groups=y, scoring=h_scorer, cv=GroupKFold(2), params={"descriptions": table},
            error_score="raise",
        )  # fmt: skip
    with pytest.raises(BadInput, match="GroupKFold"):
        cross_val_score(
            ESZSL(), X, y, scoring=t1_scorer, cv=KFold(2, shuffle=True, random_state=0),
            params={"descriptions": table}, error_score="raise",
        )  # fmt: skip
    for wrong in (1, 8):
        with pytest.raises(BadInput, match=f"`n_splits` must lie between 2 and .* but is {wrong}"):
            list(ClassWiseSplit(wrong).split(X, y))
    with pytest.raises(BadInput, match="`held_out` is a share"):
        list(ClassWiseSplit(held_out=1.0).split(X, y))
