"""Promises about bad input: one clear sentence, and nothing is lost."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np

from firstsight.contract.trial import Trial, refused, same


def check_bad_rows_are_refused(trial: Trial) -> None:
    """Rows that cannot be scored (wrong shape, NaN, infinite) get BadInput, and the model stays as it was."""
    model, X = trial.fitted, trial.task.X_unseen[:5]
    for method in (model.predict, model.decision_function):
        refused("X with one column too few", partial(method, X[:, 1:]), "features")
        refused("X that is one row, not a table", partial(method, X[0]))
        refused("X with NaN", partial(method, _with(X, np.nan)), "NaN")
        refused("X with infinity", partial(method, _with(X, np.inf)), "inf")
    refused("predict before fit", partial(trial.new().predict, X), "fit")
    same(trial.scores, model.decision_function(trial.task.X_test), "refused rows change the model")


def check_bad_candidates_are_refused(trial: Trial) -> None:
    """Candidates that the model cannot judge get BadInput; a misspelt name is answered with the nearest."""
    task, model, X = trial.task, trial.fitted, trial.task.X_unseen[:5]
    name, new = task.unseen[0], task.table.loc[task.unseen]

    def ask(classes):
        return partial(model.predict, X, classes=classes)

    refused("a misspelt candidate", ask([name.replace("kind", "kynd")]), name, "did you mean")
    refused("an unknown candidate", ask([task.seen[0], "quagga"]), "quagga")
    refused("no candidate", ask([]))
    refused("a candidate twice", ask([name, name]), "twice")
    refused(
        "new classes with one attribute too few",
        ask(new.iloc[:, 1:]),
        str(new.shape[1]),
        str(new.shape[1] - 1),
    )
    attribute = new.columns[0]
    misspelt = new.rename(columns={attribute: attribute.replace("attribute", "atribute")})
    refused("new classes with a misspelt attribute", ask(misspelt), "did you mean", attribute)
    refused("new classes with one attribute too many", ask(new.assign(quagga=1.0)), "quagga")
    refused("new classes with NaN", ask(new.where(new != new.iloc[0, 0])), "NaN")
    same(trial.scores, model.decision_function(task.X_test), "refused candidates change the model")


def check_bad_training_data_is_refused(trial: Trial) -> None:
    """Training data that contradict themselves get BadInput that names what is wrong."""
    task = trial.task
    X, y, table = task.X, task.y, task.table
    for what, given, *words in (
        ("X with NaN", {"X": _with(X, np.nan)}, "NaN"),
        ("X with infinity", {"X": _with(X, np.inf)}, "inf"),
        ("X that is one row, not a table", {"X": X[0]}),
        ("more rows than labels", {"y": y[1:]}, str(len(y))),
        ("a label without description", {"table": table.drop(index=y[0])}, y[0], "descriptions"),
        ("labels of one class only", {"X": X[y == y[0]], "y": y[y == y[0]]}, "1 class"),
        ("descriptions with NaN", {"table": table.where(table != table.iloc[0, 0])}, "NaN"),
        ("two descriptions of a class", {"table": table.rename(index={y[1]: y[0]})}, y[0]),
        ("a description that is text", {"table": table.assign(colour="red")}, "colour"),
        ("descriptions in one dimension", {"table": table.iloc[:, 0].to_numpy()}),
    ):
        refused(what, partial(trial.fit, **given), *words)
    if trial.transductive:
        pool = trial.pool(trial.new())
        seen_only = table.loc[task.seen]
        for what, given, *words in (
            ("a pool with one column too few", {"pool": pool[:, 1:]}, "features"),
            ("a pool with NaN", {"pool": _with(pool, np.nan)}, "NaN"),
            ("a pool without an unseen class", {"table": seen_only}, "class"),
        ):
            refused(what, partial(trial.fit, **given), *words)
        refused("unseen classes without a pool", partial(trial.new().fit, X, y, table), "X_unlabeled")


def check_illegal_parameters_are_refused(trial: Trial) -> None:
    """A parameter that makes no sense is refused by `fit`, in a sentence that names it."""
    for name in trial.cls._get_param_names():
        refused(f"{name}=object()", partial(trial.fit, trial.new(**{name: object()})), name)
    for name in ("feature_scaling", "attribute_scaling"):
        refused(f"{name}='nonsense'", partial(trial.fit, trial.new(**{name: "nonsense"})), name)
    refused("an unknown parameter", partial(trial.new().set_params, no_such_parameter=1), "no_such_parameter")


def check_refused_fit_keeps_the_model(trial: Trial) -> None:
    """A fitted model whose next `fit` is refused answers as before."""
    task, table = trial.task, trial.task.table
    half = np.isin(task.y, task.seen[:12])
    fewer: dict[str, Any] = {"X": task.X[half][:, 1:], "y": task.y[half], "table": table.drop(index=task.seen[12:])}
    attempts = [
        {**fewer, "table": table.drop(index=task.y[half][0])},
        {**fewer, "X": _with(fewer["X"], np.nan)},
        {**fewer, "table": fewer["table"].where(table != table.iloc[0, 0])},
    ]
    if trial.transductive:
        attempts.append({**fewer, "pool": task.X_unseen[:, 2:]})
    for given in attempts:
        model = copy.deepcopy(trial.fitted)
        pool = {"pool": task.X_unseen[:, 1:]} if trial.transductive else {}
        refused("training data with a flaw", partial(trial.fit, model, **{**pool, **given}))
        try:
            after = model.decision_function(task.X_test)
        except Exception as error:
            raise AssertionError(f"after a refused fit the model no longer answers: {error}") from error
        same(trial.scores, after, "after a refused fit the model gives other answers")


def _with(X: np.ndarray, value: float) -> np.ndarray:
    X = X.copy()
    X[3, 2] = value
    return X
