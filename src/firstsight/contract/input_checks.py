"""Checks of construction, of invalid input and of extreme numbers."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from firstsight.contract.trial import Trial, assert_equal, assert_rejected
from firstsight.errors import BadInput
from firstsight.methods import validate_params

# An estimator that has not been fitted yet

SPACES = ("semantic", "visual", "latent")
SECTIONS = ("Score", "Parameters", "Attributes", "Reference", "Examples", ">>> ")


def check_constructor_only_stores(trial: Trial) -> None:
    """The constructor stores every parameter under its name and does nothing else; `fit` judges."""
    names = trial.cls._get_param_names()
    given = {name: object() for name in names}
    model = trial.cls(**given)
    for name, value in given.items():
        assert getattr(model, name, None) is value, f"parameter `{name}` is not stored as it was given"
    more = sorted(set(vars(model)) - set(names))
    assert not more, f"the constructor also sets {', '.join(more)}"
    for name in ("feature_scaling", "attribute_scaling"):
        assert name in names, f"there is no parameter `{name}`, which every method has"


def check_clone_and_repr(trial: Trial) -> None:
    """Every parameter has a default, and `get_params`, `clone` and `repr` work."""
    assert repr(trial.cls()).startswith(trial.cls.__name__)
    model = trial.new()
    copy = clone(model)
    assert copy.get_params() == model.get_params(), "clone changes parameters"


def check_it_describes_itself(trial: Trial) -> None:
    """Class variables and docstring say what readers and tuners need to know; grids hold legal values."""
    cls, names, text = trial.cls, trial.cls._get_param_names(), trial.cls.__doc__ or ""
    assert cls.space in SPACES, f"space is {cls.space!r}; expected one of {', '.join(SPACES)}"
    assert re.search(r"(19|20)\d\d", cls.reference), f"reference {cls.reference!r} does not name a paper with its year"
    assert isinstance(cls.extra_supervision, str), "extra_supervision is a sentence, or empty"
    for kind in ("grid", "quick"):
        strangers = sorted(set(getattr(cls, kind)) - set(names))
        assert not strangers, f"{kind} names {', '.join(strangers)}, which is not a parameter"
    for name, values in cls.grid.items():
        assert len(values) >= 2, f"the grid of `{name}` has only one value to choose from"
        for value in values:
            validate_params(trial.new(**{name: value}))
    missing = [word for word in SECTIONS if word not in text]
    assert not missing, f"the docstring has no {missing[0]!r}"
    assert re.search(r"[‖Σ∑ᵀ·⟨]|::\n", text), "the docstring states no formula"
    silent = [name for name in names if not re.search(rf"\b{name}\b", text)]
    assert not silent, f"the docstring does not explain the parameter `{silent[0] if silent else ''}`"


# Bad input: a clear message, and nothing is lost


def check_bad_rows_are_rejected(trial: Trial) -> None:
    """Rows that cannot be scored (wrong shape, NaN, infinite) get BadInput, and the model stays as it was."""
    model, X = trial.fitted, trial.task.X_unseen[:5]
    for method in (model.predict, model.decision_function):
        assert_rejected("X with one column too few", partial(method, X[:, 1:]), "features")
        assert_rejected("X that is one row, not a table", partial(method, X[0]))
        assert_rejected("X with NaN", partial(method, _with(X, np.nan)), "NaN")
        assert_rejected("X with infinity", partial(method, _with(X, np.inf)), "inf")
    assert_rejected("predict before fit", partial(trial.new().predict, X), "fit")
    assert_equal(trial.scores, model.decision_function(trial.task.X_test), "refused rows change the model")


def check_bad_candidates_are_rejected(trial: Trial) -> None:
    """Candidates that the model cannot judge get BadInput; a misspelt name is answered with the nearest."""
    task, model, X = trial.task, trial.fitted, trial.task.X_unseen[:5]
    name, new = task.unseen[0], task.table.loc[task.unseen]

    def ask(classes):
        return partial(model.predict, X, classes=classes)

    assert_rejected("a misspelt candidate", ask([name.replace("kind", "kynd")]), name, "did you mean")
    assert_rejected("an unknown candidate", ask([task.seen[0], "quagga"]), "quagga")
    assert_rejected("no candidate", ask([]))
    assert_rejected("a candidate twice", ask([name, name]), "twice")
    assert_rejected(
        "new classes with one attribute too few",
        ask(new.iloc[:, 1:]),
        str(new.shape[1]),
        str(new.shape[1] - 1),
    )
    attribute = new.columns[0]
    misspelt = new.rename(columns={attribute: attribute.replace("attribute", "atribute")})
    assert_rejected("new classes with a misspelt attribute", ask(misspelt), "did you mean", attribute)
    assert_rejected("new classes with one attribute too many", ask(new.assign(quagga=1.0)), "quagga")
    assert_rejected("new classes with NaN", ask(new.where(new != new.iloc[0, 0])), "NaN")
    assert_equal(trial.scores, model.decision_function(task.X_test), "refused candidates change the model")


def check_bad_training_data_is_rejected(trial: Trial) -> None:
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
        assert_rejected(what, partial(trial.fit, **given), *words)
    if trial.transductive:
        pool = trial.pool(trial.new())
        seen_only = table.loc[task.seen]
        for what, given, *words in (
            ("a pool with one column too few", {"pool": pool[:, 1:]}, "features"),
            ("a pool with NaN", {"pool": _with(pool, np.nan)}, "NaN"),
            ("a pool without an unseen class", {"table": seen_only}, "class"),
        ):
            assert_rejected(what, partial(trial.fit, **given), *words)
        assert_rejected("unseen classes without a pool", partial(trial.new().fit, X, y, table), "X_unlabeled")


def check_illegal_parameters_are_rejected(trial: Trial) -> None:
    """A parameter that makes no sense is refused by `fit`, in a sentence that names it."""
    for name in trial.cls._get_param_names():
        assert_rejected(f"{name}=object()", partial(trial.fit, trial.new(**{name: object()})), name)
    for name in ("feature_scaling", "attribute_scaling"):
        assert_rejected(f"{name}='nonsense'", partial(trial.fit, trial.new(**{name: "nonsense"})), name)
    assert_rejected("an unknown parameter", partial(trial.new().set_params, no_such_parameter=1), "no_such_parameter")


def check_rejected_fit_keeps_the_model(trial: Trial) -> None:
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
        assert_rejected("training data with a flaw", partial(trial.fit, model, **{**pool, **given}))
        try:
            after = model.decision_function(task.X_test)
        except Exception as error:
            raise AssertionError(f"after a refused fit the model no longer answers: {error}") from error
        assert_equal(trial.scores, after, "after a refused fit the model gives other answers")


def _with(X: np.ndarray, value: float) -> np.ndarray:
    X = X.copy()
    X[3, 2] = value
    return X


# Numbers at the ends of what a computer can hold: scores are finite, or BadInput says why not

Change = Callable[[np.ndarray], np.ndarray]
LARGEST = float(np.finfo(np.float32).max)


def _one_column(values: np.ndarray) -> np.ndarray:
    changed = values.copy()
    changed[:, 0] *= 1e30
    return changed


# How features may look after a mistake of units, a broken decoder, or an attack.
FEATURES: dict[str, Change] = {
    "× 1e30": lambda X: X * 1e30,
    "at the largest float32": lambda X: X / np.abs(X).max() * LARGEST,
    "× 1e-30": lambda X: X * 1e-30,
    "denormal": lambda X: (X * 1e-40).astype(np.float32),
    "constant": np.ones_like,
    "all zero": np.zeros_like,
    "with one huge column": _one_column,
    "× 1e200": lambda X: X.astype(np.float64) * 1e200,
}
DESCRIPTIONS: dict[str, Change] = {
    "all zero": np.zeros_like,
    "all the same": np.ones_like,
    "× 1e30": lambda A: A * 1e30,
    "× 1e-30": lambda A: A * 1e-30,
    "with one huge column": _one_column,
}


def check_extreme_rows_are_scored_or_rejected(trial: Trial) -> None:
    """Rows of huge, tiny or equal numbers get finite scores or BadInput, never NaN and an answer."""
    for what, change in FEATURES.items():
        for kind in (np.float64, np.float32):
            rows = change(trial.task.X_unseen[:5])
            if np.abs(rows).max() <= np.finfo(kind).max:
                assert_scored_or_rejected(f"rows {what}", trial.fitted, rows.astype(kind))


def check_extreme_candidates_are_scored_or_rejected(trial: Trial) -> None:
    """Candidates with huge, tiny or equal descriptions get finite scores or BadInput."""
    task = trial.task
    for what, change in DESCRIPTIONS.items():
        table = _like(task.table.loc[task.unseen], change)
        assert_scored_or_rejected(f"candidates {what}", trial.fitted, task.X_unseen[:5], table)


def check_extreme_training_data_are_fitted_or_rejected(trial: Trial) -> None:
    """A fit on huge, tiny or equal numbers gives finite scores or is refused with BadInput."""
    for what in ("× 1e30", "constant", "× 1e-30"):
        assert_fitted_or_rejected(trial, what, "")
    for what in ("× 1e30", "all zero"):
        assert_fitted_or_rejected(trial, "", what)


def assert_fitted_or_rejected(trial: Trial, features: str, descriptions: str) -> None:
    """One fit with `FEATURES[features]` and `DESCRIPTIONS[descriptions]`; an empty name leaves them as they are."""
    task = trial.task
    what = f"a fit on features {features or 'as usual'}, descriptions {descriptions or 'as usual'}"
    change = FEATURES.get(features, np.copy)
    table = _like(task.table, DESCRIPTIONS.get(descriptions, np.copy))
    model = trial.new()
    pool = change(trial.pool(model)) if trial.transductive else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            trial.fit(model, X=change(task.X), table=table, pool=pool)
        except BadInput as error:
            _assert_is_a_sentence(what, error)
            return
        except Exception as error:
            raise AssertionError(f"{what}: expected BadInput, got {type(error).__name__}: {error}") from error
    assert_scored_or_rejected(what, model, change(task.X_unseen[:5]))


def assert_scored_or_rejected(what: str, model, X: np.ndarray, classes: pd.DataFrame | None = None) -> None:
    """`predict` and `decision_function` agree: finite scores and an answer, or BadInput from both."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            scores = model.decision_function(X, classes=classes)
        except BadInput as error:
            _assert_is_a_sentence(what, error)
            scores = None
        except Exception as error:
            raise AssertionError(f"{what}: expected BadInput, got {type(error).__name__}: {error}") from error
        try:
            model.predict(X, classes=classes)
        except BadInput:
            assert scores is None, f"{what}: decision_function scores what predict refuses"
        else:
            assert scores is not None, f"{what}: predict answers what decision_function refuses"
    assert scores is None or np.isfinite(scores).all(), f"{what}: scores are NaN or infinite"


def _like(table: pd.DataFrame, change: Change) -> pd.DataFrame:
    return pd.DataFrame(change(table.to_numpy()), index=table.index, columns=table.columns)


def _assert_is_a_sentence(what: str, error: BadInput) -> None:
    assert len(str(error).split()) >= 5, f"{what}: {error} does not say what was expected"
