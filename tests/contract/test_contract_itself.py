"""The contract can fail: each deliberately broken method is caught by the check that is meant for it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from firstsight.contract import CHECKS, ContractViolation, Trial, check_method
from firstsight.methods import Range
from firstsight.methods.base import TransductiveClassifier, ZeroShotClassifier

pytest.importorskip("torch")

import torch


class Honest(ZeroShotClassifier):
    """Learns the matrix W that maps descriptions to class means by ridge regression, and keeps every promise.

    Objective: ‖S W − M‖² + λ ‖W‖².

    Score: −‖x − a_c W‖².

    Parameters
    ----------
    penalty : λ
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
    random_state : not needed; here so that broken variants can misuse it

    Attributes
    ----------
    weights_ (a, d) : W

    Reference: nobody, 2024.

    Examples
    --------
    >>> model = Honest()
    """

    space = "visual"
    reference = "Nobody, A Method for Tests, 2024"
    grid: ClassVar[dict[str, list[Any]]] = {"penalty": [0.1, 1.0, 10.0]}
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "penalty": [Range(float, above=0)],
    }

    def __init__(self, *, penalty=0.1, feature_scaling=None, attribute_scaling=None, random_state=None):
        self.penalty = penalty
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling
        self.random_state = random_state

    def _fit(self, X, y, S):
        means = np.stack([X[y == c].mean(axis=0) for c in range(len(S))])  # (k, d)
        S = np.c_[S, np.ones(len(S))]
        self.weights_ = np.linalg.solve(S.T @ S + self.penalty * np.eye(S.shape[1]), S.T @ means)

    def _embed_classes(self, A):
        return np.c_[A, np.ones(len(A))] @ self.weights_  # (k, d)

    def _scores(self, X, E, seen):
        return -((X[:, None] - E) ** 2).sum(axis=2)


class ForgetsAParameter(Honest):
    def __init__(self, *, penalty=0.1, feature_scaling=None, attribute_scaling=None, random_state=None):
        super().__init__(feature_scaling=feature_scaling, attribute_scaling=attribute_scaling)


class JudgesInTheConstructor(Honest):
    def __init__(self, *, penalty=0.1, feature_scaling=None, attribute_scaling=None, random_state=None):
        super().__init__(penalty=float(penalty), feature_scaling=feature_scaling, attribute_scaling=attribute_scaling)


class WorksInTheConstructor(Honest):
    def __init__(self, *, penalty=0.1, feature_scaling=None, attribute_scaling=None, random_state=None):
        super().__init__(penalty=penalty, feature_scaling=feature_scaling, attribute_scaling=attribute_scaling)
        self.random_state = random_state
        self.cache = {}


class NeedsAnArgument(Honest):
    def __init__(self, penalty, *, feature_scaling=None, attribute_scaling=None, random_state=None):
        super().__init__(penalty=penalty, feature_scaling=feature_scaling, attribute_scaling=attribute_scaling)
        self.random_state = random_state


class SaysNothing(Honest):
    """A method."""


class TunesAStranger(Honest):
    __doc__ = Honest.__doc__
    grid: ClassVar[dict[str, list[Any]]] = {"alpha": [1, 2]}


class IgnoresAParameter(Honest):
    def _fit(self, X, y, S):
        penalty, self.penalty = self.penalty, 0.1
        super()._fit(X, y, S)
        self.penalty = penalty


class ChangesItsParameters(Honest):
    def _fit(self, X, y, S):
        super()._fit(X, y, S)
        self.penalty = 7.0


class ReturnsNothing(Honest):
    def fit(self, X, y, descriptions=None):
        super().fit(X, y, descriptions)


class SpoilsItsInput(Honest):
    def _fit(self, X, y, S):
        if X.flags.writeable:
            X -= X.mean(axis=0)
        super()._fit(X, y, S)


class NeedsWritableRows(Honest):
    def _scores(self, X, E, seen):
        X += 0
        return super()._scores(X, E, seen)


class NeverRepeats(Honest):
    def _fit(self, X, y, S):
        super()._fit(X, y, S)
        self.weights_ = self.weights_ + 1e-9 * np.random.default_rng().normal(size=self.weights_.shape)


class Remembers(Honest):
    def _fit(self, X, y, S):
        before = getattr(self, "weights_", 0)
        super()._fit(X, y, S)
        if np.shape(before) == self.weights_.shape:
            self.weights_ = 0.5 * (self.weights_ + before)


class SeedsTorch(Honest):
    def _fit(self, X, y, S):
        torch.manual_seed(0)
        super()._fit(X, y, S)


class DrawsFromNumpy(Honest):
    def _fit(self, X, y, S):
        np.random.rand()  # noqa: NPY002
        super()._fit(X, y, S)


class Leaks(Honest):
    def _fit(self, X, y, S):
        super()._fit(X, y, S)
        self.weights_ = self.weights_ * (1 + 1e-3 * self.descriptions_.mean())


class MemorisesNames(Honest):
    def decision_function(self, X, classes=None):
        scores = super().decision_function(X, classes)
        return scores + 0.01 * np.array([hash_of(c) for c in self.candidates(classes)[0]])


def hash_of(name) -> int:
    return sum(map(ord, str(name))) % 7


class CountsTheTable(Honest):
    def _embed_classes(self, A):
        return super()._embed_classes(A) + 0.1 * np.arange(len(A))[:, None]


class DislikesSinglePrecision(Honest):
    def _fit(self, X, y, S):
        super()._fit(X, y, S)
        if X.dtype == np.float32:
            self.weights_ = self.weights_[:, ::-1].copy()


class LooksAtOtherRows(Honest):
    def _scores(self, X, E, seen):
        return super()._scores(X - X.mean(axis=0), E, seen)


class Constant(Honest):
    def _scores(self, X, E, seen):
        return np.zeros((len(X), len(E)))


class Guesses(Honest):
    def _fit(self, X, y, S):
        super()._fit(X, y, S)
        self.weights_ = np.random.default_rng(0).normal(size=self.weights_.shape)


class KnowsTheAnswer(Honest):
    def _fit(self, X, y, S):
        # What a method would do that was shown the true classes: labels do not matter to it.
        task = Trial(Honest).task
        codes = {name: i for i, name in enumerate(dict.fromkeys(task.y.tolist()))}
        true = np.array([codes[name] for name in task.y])[: len(X)]
        super()._fit(X, true, task.table.loc[list(codes)].to_numpy(X.dtype))


class GivesInfinity(Honest):
    def decision_function(self, X, classes=None):
        scores = super().decision_function(X, classes)
        return np.where(scores < scores.max(axis=1, keepdims=True), -np.inf, scores)


class AnswersFromNothing(Honest):
    """Hides what the base class would refuse."""

    def _answer(self, X, classes, lost):
        table = self.descriptions_ if not isinstance(classes, pd.DataFrame) else classes.to_numpy()
        return np.full((len(X), len(table)), np.nan) if lost else super().decision_function(X, classes)


class LosesHugeRows(AnswersFromNothing):
    def decision_function(self, X, classes=None):
        return self._answer(X, classes, np.abs(X).max() > 1e20)


class LosesHugeCandidates(AnswersFromNothing):
    def decision_function(self, X, classes=None):
        return self._answer(X, classes, isinstance(classes, pd.DataFrame) and np.abs(classes.to_numpy()).max() > 1e20)


class LearnsFromAnything(AnswersFromNothing):
    def fit(self, X, y, descriptions=None):
        self.lost_ = bool(np.abs(X).max() > 1e20)
        return super().fit(np.clip(X, -1e3, 1e3), y, descriptions)

    def decision_function(self, X, classes=None):
        return self._answer(X, classes, self.lost_)


class AnswersOutsideTheCandidates(Honest):
    def predict(self, X, classes=None):
        return super().predict(X)


class ScoresTheOtherWayRound(Honest):
    def decision_function(self, X, classes=None):
        return -super().decision_function(X, classes)


class IgnoresTheOrder(Honest):
    def decision_function(self, X, classes=None):
        return super().decision_function(X, sorted(classes) if isinstance(classes, list) else classes)


class KnowsOldClassesOnly(Honest):
    def _embed_classes(self, A):
        E = super()._embed_classes(A)
        known = (A[:, None] == self.descriptions_).all(axis=2).any(axis=1)
        return np.where(known[:, None], E, 0)


class StrangersGetLess(Honest):
    def decision_function(self, X, classes=None):
        scores = super().decision_function(X, classes)
        return scores - 1.0 * ~np.isin(self.candidates(classes)[0], self.classes_)


class ConfusedByFewCandidates(Honest):
    def _scores(self, X, E, seen):
        scores = super()._scores(X, E, seen)
        return scores if len(E) > 8 else -scores


class KeepsWeightsToItself(Honest):
    def _fit(self, X, y, S):
        super()._fit(X, y, S)
        self._offset = 1.0

    def _scores(self, X, E, seen):
        return super()._scores(X, E, seen) + getattr(self, "_offset", 0.0)


class AcceptsAnything(Honest):
    def check_features(self, X):
        return np.nan_to_num(np.resize(np.asarray(X, dtype=float), (len(X), self.n_features_in_)))


class TakesAnyCandidate(Honest):
    def candidates(self, classes=None):
        if isinstance(classes, list):
            classes = [c for c in classes if c in self.classes_] or None
        return super().candidates(classes)


class FillsIn(Honest):
    def _prepare(self, X, y, descriptions):
        return super()._prepare(np.nan_to_num(X), y, descriptions)


class JudgesNoParameter(Honest):
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        name: [object] for name in ("penalty", "feature_scaling", "attribute_scaling", "random_state")
    }


class TakesAttributesByPosition(Honest):
    def candidates(self, classes=None):
        named = isinstance(classes, pd.DataFrame)
        return super().candidates(classes.set_axis(range(classes.shape[1]), axis="columns") if named else classes)


class ForgetsTheNamesOfAttributes(Honest):
    def _prepare(self, X, y, descriptions):
        return super()._prepare(X, y, descriptions.set_axis(range(descriptions.shape[1]), axis="columns"))


class LosesTheModel(Honest):
    def fit(self, X, y, descriptions=None):
        self.weights_ = None
        return super().fit(X, y, descriptions)


class TakesAnyPool(TransductiveClassifier, Honest):
    def __init__(self, *, setting="gzsl", penalty=0.1, feature_scaling=None, attribute_scaling=None, random_state=None):
        super().__init__(penalty=penalty, feature_scaling=feature_scaling, attribute_scaling=attribute_scaling)
        self.random_state = random_state
        self.setting = setting

    def fit(self, X, y, descriptions=None, *, X_unlabeled=None):
        return Honest.fit(self, X, y, descriptions)

    def _fit(self, X, y, S):
        Honest._fit(self, X, y, S)


CAUGHT = [
    (ForgetsAParameter, "check_constructor_only_stores", "penalty"),
    (JudgesInTheConstructor, "check_constructor_only_stores", "float"),
    (WorksInTheConstructor, "check_constructor_only_stores", "cache"),
    (NeedsAnArgument, "check_clone_and_repr", "penalty"),
    (SaysNothing, "check_it_describes_itself", "Score"),
    (TunesAStranger, "check_it_describes_itself", "alpha"),
    (ReturnsNothing, "check_fit_returns_self", "self"),
    (ChangesItsParameters, "check_fit_returns_self", "penalty"),
    (SpoilsItsInput, "check_inputs_are_only_read", "changes the caller's X"),
    (NeedsWritableRows, "check_inputs_are_only_read", "read-only"),
    (NeverRepeats, "check_same_seed_same_scores", "random_state"),
    (Remembers, "check_fit_starts_afresh", "before"),
    (SeedsTorch, "check_global_randomness_untouched", "torch"),
    (DrawsFromNumpy, "check_global_randomness_untouched", "numpy"),
    (Leaks, "check_unseen_descriptions_do_not_leak", "seen classes"),
    (MemorisesNames, "check_names_do_not_matter", "names"),
    (CountsTheTable, "check_table_order_does_not_matter", "order"),
    (DislikesSinglePrecision, "check_float32_and_float64_agree", "float32"),
    (IgnoresAParameter, "check_every_grid_parameter_matters", "penalty"),
    (Guesses, "check_learns_the_task", "chance"),
    (KnowsTheAnswer, "check_learns_nothing_from_shuffled_labels", "without true labels"),
    (Constant, "check_scores_are_finite", "same score"),
    (GivesInfinity, "check_scores_are_finite", "infinite"),
    (LosesHugeRows, "check_extreme_rows_are_scored_or_rejected", "rows × 1e30"),
    (LosesHugeCandidates, "check_extreme_candidates_are_scored_or_rejected", "candidates × 1e30"),
    (LearnsFromAnything, "check_extreme_training_data_are_fitted_or_rejected", "a fit on features × 1e30"),
    (LooksAtOtherRows, "check_rows_are_independent", "other rows"),
    (AnswersOutsideTheCandidates, "check_candidates_are_respected", "not a candidate"),
    (ScoresTheOtherWayRound, "check_candidates_are_respected", "best"),
    (IgnoresTheOrder, "check_columns_follow_candidates", "order"),
    (StrangersGetLess, "check_new_names_are_welcome", "new classes"),
    (TakesAttributesByPosition, "check_attributes_go_by_name", "by position"),
    (ForgetsTheNamesOfAttributes, "check_attributes_go_by_name", "forgets the names"),
    (KnowsOldClassesOnly, "check_new_classes_need_no_retraining", "after the fit"),
    (ConfusedByFewCandidates, "check_fewer_candidates_are_never_harder", "among the unseen"),
    (KeepsWeightsToItself, "check_saved_model_in_a_fresh_process", "other scores"),
    (AcceptsAnything, "check_bad_rows_are_rejected", "accepted"),
    (TakesAnyCandidate, "check_bad_candidates_are_rejected", "accepted"),
    (FillsIn, "check_bad_training_data_is_rejected", "NaN"),
    (TakesAnyPool, "check_bad_training_data_is_rejected", "pool"),
    (JudgesNoParameter, "check_illegal_parameters_are_rejected", "object()"),
    (LosesTheModel, "check_rejected_fit_keeps_the_model", "after a refused fit"),
]


@pytest.mark.parametrize(("method", "check", "says"), CAUGHT, ids=[f"{m.__name__}-{c}" for m, c, _ in CAUGHT])
def test_a_broken_method_is_caught_by_the_check_meant_for_it(method, check, says):
    with pytest.raises(Exception, match=says) as caught:
        CHECKS[check](Trial(method))
    assert isinstance(caught.value, (AssertionError, TypeError, ValueError))


def test_every_check_is_shown_to_fail():
    assert {check for _, check, _ in CAUGHT} == set(CHECKS)


def test_an_honest_method_from_outside_the_package_passes_by_one_call():
    assert check_method(Honest) == list(CHECKS)


def test_an_estimator_is_tried_with_its_own_parameters():
    assert Trial(Honest(penalty=3.0)).new().penalty == 3.0
    assert Trial(Honest(penalty=3.0), penalty=4.0).new().penalty == 4.0


def test_the_summary_names_every_broken_promise_and_why():
    with pytest.raises(ContractViolation, match="Leaks breaks") as caught:
        check_method(Leaks)
    assert "check_unseen_descriptions_do_not_leak: other descriptions" in str(caught.value)
    assert "Promised: Changing or adding" in str(caught.value)


def test_every_check_says_its_promise_in_one_sentence():
    for name, check in CHECKS.items():
        text = (check.__doc__ or "").strip()
        assert text.endswith("."), name
        assert "\n" not in text, name
