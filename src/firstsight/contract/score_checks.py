"""Checks of a fitted model: scores, candidates, new classes, saving."""

from __future__ import annotations

import numpy as np

from firstsight.contract.trial import Trial, assert_close, assert_equal, reloaded, scores_in_fresh_process


def check_scores_are_finite(trial: Trial) -> None:
    """Scores have one row per row of X, one column per class, and are finite numbers that differ."""
    expected = (len(trial.task.X_test), len(trial.task.table))
    assert trial.scores.shape == expected, f"scores have shape {trial.scores.shape}; expected {expected}"
    assert np.isfinite(trial.scores).all(), "some scores are NaN or infinite"
    assert (np.ptp(trial.scores, axis=1) > 0).all(), "some rows get the same score for all classes"


def check_rows_are_independent(trial: Trial) -> None:
    """The scores of a row do not depend on the other rows of the call."""
    X = trial.task.X_test
    few = [5, 2, 11, len(X) - 1]
    assert_close(trial.scores[few], trial.fitted.decision_function(X[few]), "scores depend on the other rows")
    assert_close(trial.scores[:1], trial.fitted.decision_function(X[:1]), "a row alone gets other scores")
    assert (trial.fitted.predict(X[few]) == trial.fitted.predict(X)[few]).all(), "predictions depend on other rows"


def check_candidates_are_respected(trial: Trial) -> None:
    """`predict` answers with the best-scored of the candidates that a list or a table names, and no other."""
    task, model = trial.task, trial.fitted
    few = [task.unseen[3], task.seen[1], task.unseen[0], task.seen[5]]
    for classes in (few, task.table.loc[few], task.unseen[:1], None):
        labels = (
            model.classes_
            if classes is None
            else np.array(list(classes) if isinstance(classes, list) else classes.index)
        )
        scores = model.decision_function(task.X_test, classes=classes)
        assert scores.shape == (len(task.X_test), len(labels)), f"{len(labels)} candidates, scores {scores.shape}"
        answers = model.predict(task.X_test, classes=classes)
        strangers = set(answers.tolist()) - set(labels.tolist())
        assert not strangers, f"predict answers {sorted(strangers)[0]!r}, which is not a candidate"
        assert (answers == labels[scores.argmax(axis=1)]).all(), "predict is not the best of decision_function"


def check_columns_follow_candidates(trial: Trial) -> None:
    """Column j of the scores belongs to the j-th candidate, in whatever order they come."""
    task, model = trial.task, trial.fitted
    candidates = model.classes_.tolist()
    order = np.random.default_rng(0).permutation(len(candidates))
    reordered = model.decision_function(task.X_test, classes=[candidates[j] for j in order])
    assert_close(trial.scores[:, order], reordered, "scores do not follow the order of `classes`")


def check_new_names_are_welcome(trial: Trial) -> None:
    """A class that comes at prediction time, by its description alone, is scored like a known one."""
    task, model = trial.task, trial.fitted
    table = task.table.loc[task.unseen].rename(index=lambda name: f"new {name}")
    expected = model.decision_function(task.X_test, classes=task.unseen)
    assert_close(expected, model.decision_function(task.X_test, classes=table), "new classes get other scores")
    answers = set(model.predict(task.X_test, classes=table).tolist())
    assert answers <= set(table.index), "predict does not answer with the names of new classes"


def check_attributes_go_by_name(trial: Trial) -> None:
    """Columns of a table of classes are matched by name, whatever their order, also by a model that was loaded."""
    task = trial.task
    backwards = task.table[task.table.columns[::-1]]
    for model, who in ((trial.fitted, "the model"), (reloaded(trial.fitted), "the loaded model")):
        assert list(getattr(model, "attribute_names_in_", [])) == list(task.table.columns), f"{who} forgets the names"
        scores = model.decision_function(task.X_test, classes=backwards)
        assert_equal(
            model.decision_function(task.X_test, classes=task.table), scores, f"{who} takes attributes by position"
        )
        answers = model.predict(task.X_test, classes=backwards)
        assert (answers == model.predict(task.X_test)).all(), f"{who} predicts from attributes by position"


def check_new_classes_need_no_retraining(trial: Trial) -> None:
    """A model fitted without unseen descriptions scores classes described later as if it had known them."""
    task = trial.task
    model = trial.fit(table=task.table.loc[task.seen])
    scores = model.decision_function(task.X_test, classes=task.table.loc[trial.fitted.classes_])
    assert_close(trial.scores, scores, "classes described after the fit get other scores than those described before")


def check_fewer_candidates_are_never_harder(trial: Trial) -> None:
    """An unseen row named right among all classes is named right among the unseen ones: ts ≤ T1."""
    task, model = trial.task, trial.fitted
    among_all = model.predict(task.X_unseen) == task.y_unseen
    among_unseen = model.predict(task.X_unseen, classes=task.unseen) == task.y_unseen
    lost = int((among_all & ~among_unseen).sum())
    assert lost == 0, f"{lost} rows are right among all classes but wrong among the unseen ones"


def check_saved_model_in_a_fresh_process(trial: Trial) -> None:
    """A saved model gives the same scores, bit for bit, in a process that has never fitted it."""
    classes, scores = scores_in_fresh_process(trial.fitted, trial.task.X_test)
    assert classes == trial.fitted.classes_.tolist(), "the loaded model has other classes"
    assert_equal(trial.scores, scores, "the loaded model gives other scores")
