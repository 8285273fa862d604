"""Checks of `fit`: what it may use and change, and that it learns."""

from __future__ import annotations

import operator
import random
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd

from firstsight.contract.trial import UNSEEN, Trial, assert_close, assert_equal
from firstsight.evaluation.scores import mean_class_accuracy

# Chance is 1/8. The task is easy: the methods at hand reach 0.9 and more. With shuffled labels whole classes are
# right or wrong at once, so that one fit of 138 reached 0.36 by luck; no mean of three was above 0.28.
LEARNED, NOT_LEARNED, SHUFFLES = 0.5, 0.3, 3


def check_fit_returns_self(trial: Trial) -> None:
    """`fit` returns the estimator and leaves its parameters as they were given."""
    model = trial.new()
    before = model.get_params()
    assert trial.fit(model) is model, "fit does not return self"
    for name, value in model.get_params().items():
        assert value is before[name] or value == before[name], f"fit changes the parameter `{name}`"


def check_inputs_are_only_read(trial: Trial) -> None:
    """`fit` and `predict` change nothing that they are given, and accept arrays that are read-only."""
    task = trial.task
    given: dict[str, Any] = {"X": task.X.copy(), "y": task.y.copy(), "table": task.table.copy()}
    pool = {"pool": trial.pool(trial.new())} if trial.transductive else {}
    kept, rows = {name: value.copy() for name, value in pool.items()}, task.X_unseen.copy()
    trial.fit(**given, **pool).predict(rows)
    for name in ("X", "y"):
        assert_equal(getattr(task, name), given[name], f"fit changes the caller's {name}")
    assert given["table"].equals(task.table), "fit changes the caller's descriptions"
    assert_equal(task.X_unseen, rows, "predict changes the caller's X")
    for name, value in kept.items():
        assert_equal(value, pool[name], f"fit changes the caller's {name}")

    frozen = task.table.to_numpy().copy()
    for array in (given["X"], given["y"], rows, frozen, *pool.values()):
        array.setflags(write=False)
    given["table"] = pd.DataFrame(frozen, index=task.table.index, copy=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*not writable.*")
        trial.fit(**given, **pool).predict(rows)


def check_same_seed_same_scores(trial: Trial) -> None:
    """Two fits with the same `random_state` give the same scores, bit for bit."""
    again = trial.fit().decision_function(trial.task.X_test)
    assert_equal(trial.scores, again, "a second fit with the same random_state gives other scores")


def check_fit_starts_afresh(trial: Trial) -> None:
    """Fitting an estimator again forgets what it was fitted on before."""
    task = trial.task
    some = np.isin(task.y, task.seen[: len(task.seen) // 2])
    renamed = task.table.rename(columns=lambda name: f"former {name}")
    model = trial.fit(X=task.X[some], y=task.y[some], table=renamed)
    again = trial.fit(model).decision_function(task.X_test)
    assert_equal(trial.scores, again, "a model that was fitted before on other rows gives other scores")
    assert list(model.attribute_names_in_) == list(task.table.columns), (
        "names of attributes from an earlier fit are kept"
    )
    unnamed = trial.fit(model, table=task.table.set_axis(range(task.table.shape[1]), axis="columns"))
    assert not hasattr(unnamed, "attribute_names_in_"), "names are kept from an earlier fit whose attributes had names"


def check_global_randomness_untouched(trial: Trial) -> None:
    """Neither fitting nor scoring draws from, or sets, the random state that the whole process shares."""

    def states():
        keys, position = operator.itemgetter(1, 2)(np.random.get_state())  # noqa: NPY002
        found = {"numpy": (keys.tobytes(), position), "random": random.getstate()}
        if torch := sys.modules.get("torch"):
            found["torch"] = torch.get_rng_state().numpy().tobytes()
        return found

    trial.fitted.predict(trial.task.X_unseen)  # a method that computes with torch has imported it by now
    # A method that sets a fixed seed has done so above: one number later, setting it again shows.
    random.random()
    np.random.random_sample()  # noqa: NPY002
    if torch := sys.modules.get("torch"):
        torch.rand(())
    before = states()
    trial.fit().predict(trial.task.X_unseen)
    touched = [name for name, state in states().items() if state != before[name]]
    assert not touched, f"the global random state of {', '.join(touched)} is not what it was before"


def check_unseen_descriptions_do_not_leak(trial: Trial) -> None:
    """Changing or adding descriptions of unseen classes does not change one bit of the scores of seen ones."""
    task = trial.task
    table = task.table.copy()
    table.loc[task.unseen] = 3 * table.loc[task.unseen].to_numpy()[::-1] + 1
    more = pd.DataFrame(table.loc[task.unseen].to_numpy() ** 2, [f"added {c}" for c in task.unseen], table.columns)
    with_more = trial.fit(table=pd.concat([more, table])).decision_function(task.X_test, classes=task.seen)
    expected = trial.fitted.decision_function(task.X_test, classes=task.seen)
    assert_equal(expected, with_more, "other descriptions of unseen classes change the scores of seen classes")


def check_names_do_not_matter(trial: Trial) -> None:
    """Classes under other names, or numbered, get the same scores and predictions under the new names."""
    task = trial.task
    old = task.table.index.tolist()
    other = dict(zip(old, [f"{'zyxwv'[i % 5]} {c}" for i, c in enumerate(reversed(old))], strict=True))
    model = trial.fit(y=np.array([other[c] for c in task.y]), table=task.table.rename(index=other))
    assert_equal(trial.scores, model.decision_function(task.X_test), "other class names change the scores")
    expected = [other[c] for c in trial.fitted.predict(task.X_test)]
    assert model.predict(task.X_test).tolist() == expected, "other class names change the predictions"

    number = {c: i for i, c in enumerate(reversed(old))}
    model = trial.fit(y=np.array([number[c] for c in task.y]), table=task.table.to_numpy()[::-1])
    assert_close(trial.scores[:, ::-1], model.decision_function(task.X_test), "numbered classes get other scores")


def check_table_order_does_not_matter(trial: Trial) -> None:
    """The order of rows in the table of descriptions changes the order of columns and nothing else."""
    task = trial.task
    table = task.table.sort_index()
    model = trial.fit(table=table)
    order = pd.Index(trial.fitted.classes_).get_indexer(table.index)
    assert_close(trial.scores[:, order], model.decision_function(task.X_test), "the order of the table changes scores")


def check_float32_and_float64_agree(trial: Trial) -> None:
    """Rows in single and in double precision lead to nearly the same predictions."""
    task = trial.task
    pool = {"pool": trial.pool(trial.new()).astype(np.float32)} if trial.transductive else {}
    model = trial.fit(X=task.X.astype(np.float32), table=task.table.astype(np.float32), **pool)
    agree = (model.predict(task.X_test.astype(np.float32)) == trial.fitted.predict(task.X_test)).mean()
    assert agree >= 0.95, f"a fit in float32 and one in float64 agree on {agree:.0%} of the rows only"


def check_every_grid_parameter_matters(trial: Trial) -> None:
    """Some value in the grid of each parameter changes the scores: nothing is tuned that has no effect."""
    for name, values in trial.cls.grid.items():
        models = (trial.fit(trial.new(**{name: value})) for value in values)
        others = (model.decision_function(trial.task.X_test) for model in models)
        assert any(not np.array_equal(trial.scores, scores) for scores in others), f"`{name}` changes nothing"


def check_learns_the_task(trial: Trial) -> None:
    """Rows of unseen classes are named far better than chance, and so are new rows of seen classes."""
    task, model = trial.task, trial.fitted
    for kind, X, y, classes in (
        ("unseen", task.X_unseen, task.y_unseen, task.unseen),
        ("seen", task.X_seen, task.y_seen, task.seen),
    ):
        accuracy = mean_class_accuracy(y, model.predict(X, classes=classes))
        assert accuracy >= LEARNED, (
            f"accuracy on {kind} classes is {accuracy:.2f} (chance: {1 / len(classes):.2f}; expected {LEARNED} on "
            "this easy task); if the defaults are made for larger data, give the class `quick` parameters"
        )


def check_learns_nothing_from_shuffled_labels(trial: Trial) -> None:
    """With labels in random order nothing can be learned, and accuracy on unseen classes is near chance."""
    task, rng, accuracies = trial.task, np.random.default_rng(0), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a method may well warn here that it learned nothing
        for _ in range(SHUFFLES):
            model = trial.fit(y=rng.permutation(task.y))
            accuracies.append(mean_class_accuracy(task.y_unseen, model.predict(task.X_unseen, classes=task.unseen)))
    mean = float(np.mean(accuracies))
    assert mean <= NOT_LEARNED, f"accuracy {mean:.2f} on unseen classes without true labels (chance: {1 / UNSEEN:.2f})"
