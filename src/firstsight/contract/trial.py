"""A method on trial: exemptions, estimators and fitted models that the checks share."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from firstsight.contract.task import Task, make_task
from firstsight.methods import ZeroShotClassifier, all_methods

# The one table of what a method need not promise, and why.

# (class name, or "transductive" for every method that declares itself so; check) → reason. The tests
# expect each of these checks to fail: an exemption that is no longer needed is an error.
EXEMPTIONS: dict[tuple[str, str], str] = {
    ("transductive", "check_unseen_descriptions_do_not_leak"): (
        "a transductive method is fitted for the unseen classes that it is given; it declares this"
    ),
    ("transductive", "check_new_classes_need_no_retraining"): (
        "its fit depends on which unseen classes it is given; later ones are scored by a fit without them"
    ),
    ("Cosine", "check_learns_nothing_from_shuffled_labels"): (
        "it uses no labels: what it knows came with the space that rows and descriptions share"
    ),
}


def exemptions(cls: type) -> dict[str, str]:
    """The checks that a method is freed from, with the reason."""
    kinds = {cls.__name__} | ({"transductive"} if getattr(cls, "transductive", False) else set())
    return {check: reason for (kind, check), reason in EXEMPTIONS.items() if kind in kinds}


# A method on trial: how to make it, and what checks share (the task, one fitted model, its scores).

# Scores that only rounding may tell apart: as a share of the range of all scores (float32 has seven digits).
CLOSE = 1e-4


class Trial:
    """Makes and fits estimators of one method on the contract's small task.

    A class is tried with its `quick` parameters (what suits a few hundred rows), an estimator with its own. The
    model that most checks look at is fitted once; every fit gets copies, so that a method that spoils its input
    is found by the one check that looks for it.
    """

    def __init__(self, method: type[ZeroShotClassifier] | ZeroShotClassifier, **parameters: Any):
        self.cls: Any = method if isinstance(method, type) else type(method)
        own = getattr(self.cls, "quick", {}) if isinstance(method, type) else method.get_params(deep=False)
        self.parameters = {**own, **parameters}
        self.transductive = bool(getattr(self.cls, "transductive", False))

    @cached_property
    def task(self) -> Task:
        return make_task(shared_space=bool(getattr(self.cls, "shared_space", False)))

    def new(self, **changes: Any) -> Any:
        """An estimator that has not been fitted; its randomness is fixed."""
        if "random_state" in self.cls._get_param_names() and self.parameters.get("random_state") is None:
            changes = {"random_state": 0, **changes}
        return self.cls(**{**self.parameters, **changes})

    def fit(self, model=None, *, X=None, y=None, table=None, pool=None) -> Any:
        """Fit `model` (or a new one) on the task, with whatever is given in place of the task's own."""
        model = self.new() if model is None else model
        X = self.task.X.copy() if X is None else X
        y = self.task.y.copy() if y is None else y
        table = self.task.table.copy() if table is None else table
        if not self.transductive:
            return model.fit(X, y, table)
        return model.fit(X, y, table, X_unlabeled=self.pool(model) if pool is None else pool)

    def pool(self, model) -> np.ndarray:
        """The unlabelled rows that the setting of a transductive method prescribes."""
        only_unseen = model.setting == "zsl" or model.extra_supervision
        return (self.task.X_unseen if only_unseen else self.task.X_test).copy()

    @cached_property
    def fitted(self) -> Any:
        """The model that most checks look at; they may not change it."""
        return self.fit()

    @cached_property
    def scores(self) -> np.ndarray:
        """Scores (n, C) of the task's test rows by `fitted`; columns follow its `classes_`."""
        return self.fitted.decision_function(self.task.X_test)


def same(expected: np.ndarray, actual: np.ndarray, what: str) -> None:
    """Both arrays are equal bit for bit."""
    assert np.shape(expected) == np.shape(actual), f"{what}: shape {np.shape(actual)}, not {np.shape(expected)}"
    if not np.array_equal(expected, actual):
        gap = np.abs(np.asarray(expected) - actual).max() if np.asarray(actual).dtype.kind == "f" else "some"
        raise AssertionError(f"{what} (largest difference: {gap})")


def close(expected: np.ndarray, actual: np.ndarray, what: str) -> None:
    """Both arrays of scores are equal but for rounding."""
    assert np.shape(expected) == np.shape(actual), f"{what}: shape {np.shape(actual)}, not {np.shape(expected)}"
    gap, span = np.abs(expected - actual).max(), np.ptp(expected)
    assert gap <= CLOSE * span, f"{what} (largest difference: {gap:.3g}; scores span {span:.3g})"


def refused(what: str, call: Callable[[], Any], *words: str) -> None:
    """The call raises a ValueError (as BadInput is) whose message is a sentence that contains the words."""
    try:
        call()
    except ValueError as error:
        text = str(error)
        assert len(text.split()) >= 5, f"{what}: {text!r} does not say what was expected"
        missing = [word for word in words if word not in text]
        assert not missing, f"{what}: the message should mention {missing[0]!r}, but is {text!r}"
    except Exception as error:
        raise AssertionError(f"{what}: expected BadInput, got {type(error).__name__}: {error}") from error
    else:
        raise AssertionError(f"{what} was accepted; expected BadInput")


def loaded_again(model: Any) -> Any:
    """The model after `save` and `load`."""
    from firstsight.persistence.model_folder import load, save

    with tempfile.TemporaryDirectory() as place:
        save(model, Path(place, "model"))
        return load(Path(place, "model"), type(model))


@cache
def _fresh_process() -> subprocess.Popen[str]:
    # One process for all methods: it has fitted nothing, and starting it (imports) outlasts a contract.
    return subprocess.Popen(
        [sys.executable, "-c", "from firstsight.contract.task import read_models; read_models()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )


def scores_in_fresh_process(model, X: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Save a fitted model, load it in a process that never fitted one; its `classes_` and scores there."""
    from firstsight.persistence.model_folder import save

    cls = type(model)
    # A class typed into a console has no file that another process could read: that is an error here, as it should be.
    file = "" if cls in all_methods().values() else inspect.getfile(cls)
    with tempfile.TemporaryDirectory() as place:
        job = {"name": cls.__name__, "module": cls.__module__, "file": file}
        job |= {
            what: str(Path(place, what)) + end for what, end in (("folder", ""), ("rows", ".npy"), ("scores", ".npy"))
        }
        np.save(job["rows"], X)
        save(model, job["folder"])
        process = _fresh_process()
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps(job), file=process.stdin, flush=True)
        answer = json.loads(process.stdout.readline() or '{"error": "the process died"}')
        assert "error" not in answer, f"loading in a fresh process failed: {answer['error']}"
        return answer["classes"], np.load(job["scores"])
