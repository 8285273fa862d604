"""A method on trial: the small task, exemptions, estimators and fitted models that the checks share."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from firstsight.methods import ZeroShotClassifier, all_methods

# The task

SEEN, UNSEEN, ATTRIBUTES, FEATURES = 24, 8, 8, 40
TRAIN_ROWS, TEST_ROWS = 15, 10  # per class


@dataclass(frozen=True)
class Task:
    """Rows of seen classes to learn from, rows of both kinds to name, one description per class."""

    X: np.ndarray
    y: np.ndarray
    table: pd.DataFrame
    seen: list[str]
    unseen: list[str]
    X_seen: np.ndarray
    y_seen: np.ndarray
    X_unseen: np.ndarray
    y_unseen: np.ndarray

    @property
    def X_test(self) -> np.ndarray:
        return np.concatenate([self.X_seen, self.X_unseen])


def make_task(seed: int = 1, shared_space: bool = False) -> Task:
    """Features are a noisy, rectified linear image of the descriptions: as a deep network's, never negative.

    With `shared_space`, that image itself is what describes a class: rows and descriptions are vectors of one space.

    Descriptions are nearly binary and any two differ in two attributes at least, so that methods which reduce
    them to yes and no, and methods which mix seen classes, both have a chance.
    """
    rng = np.random.default_rng(seed)
    patterns: list[np.ndarray] = []
    for number in rng.permutation(2**ATTRIBUTES):
        pattern = number >> np.arange(ATTRIBUTES) & 1
        if pattern.sum() >= 2 and all((pattern != other).sum() >= 2 for other in patterns):
            patterns.append(pattern)
        if len(patterns) == SEEN + UNSEEN:
            break
    A = 0.8 * np.array(patterns) + 0.2 * rng.uniform(size=(SEEN + UNSEEN, ATTRIBUTES))
    centres = 0.5 + 0.5 * (A - A.mean(axis=0)) @ rng.normal(size=(ATTRIBUTES, FEATURES))
    described = centres if shared_space else A
    # Neither the order of names nor that of the table tells seen from unseen.
    names = np.array([f"kind_{i:02d}" for i in rng.permutation(SEEN + UNSEEN)])
    table = pd.DataFrame(described, index=names, columns=[f"attribute {m}" for m in range(described.shape[1])])
    table = table.iloc[rng.permutation(SEEN + UNSEEN)]

    def draw(classes: range, rows: int) -> tuple[np.ndarray, np.ndarray]:
        codes = rng.permutation(np.repeat(classes, rows))
        return np.maximum(0, centres[codes] + 0.3 * rng.normal(size=(len(codes), FEATURES))), names[codes]

    train, seen, unseen = range(SEEN), range(SEEN), range(SEEN, SEEN + UNSEEN)
    return Task(
        *draw(train, TRAIN_ROWS),
        table,
        names[:SEEN].tolist(),
        names[SEEN:].tolist(),
        *draw(seen, TEST_ROWS),
        *draw(unseen, TEST_ROWS),
    )


# (class name, or "transductive" or "shared_space" for methods that declare themselves so; check) → reason. The tests
# expect each of these checks to fail: an exemption that is no longer needed is an error.
EXEMPTIONS: dict[tuple[str, str], str] = {
    ("transductive", "check_unseen_descriptions_do_not_leak"): (
        "a transductive method is fitted for the unseen classes that it is given; it declares this"
    ),
    ("transductive", "check_new_classes_need_no_retraining"): (
        "its fit depends on which unseen classes it is given; later ones are scored by a fit without them"
    ),
    ("shared_space", "check_learns_nothing_from_shuffled_labels"): (
        "without labels it knows what came with the space that rows and descriptions share"
    ),
}


def exemptions(cls: type) -> dict[str, str]:
    """The checks that a method is freed from, with the reason."""
    kinds = {cls.__name__, *(kind for kind in ("transductive", "shared_space") if getattr(cls, kind, False))}
    return {check: reason for (kind, check), reason in EXEMPTIONS.items() if kind in kinds}


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
        params = getattr(self.cls, "quick", {}) if isinstance(method, type) else method.get_params(deep=False)
        self.parameters = {**params, **parameters}
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


def assert_equal(expected: np.ndarray, actual: np.ndarray, what: str) -> None:
    """Both arrays are equal bit for bit."""
    assert np.shape(expected) == np.shape(actual), f"{what}: shape {np.shape(actual)}, not {np.shape(expected)}"
    if not np.array_equal(expected, actual):
        gap = np.abs(np.asarray(expected) - actual).max() if np.asarray(actual).dtype.kind == "f" else "some"
        raise AssertionError(f"{what} (largest difference: {gap})")


def assert_close(expected: np.ndarray, actual: np.ndarray, what: str) -> None:
    """Both arrays of scores are equal but for rounding."""
    assert np.shape(expected) == np.shape(actual), f"{what}: shape {np.shape(actual)}, not {np.shape(expected)}"
    gap, span = np.abs(expected - actual).max(), np.ptp(expected)
    assert gap <= CLOSE * span, f"{what} (largest difference: {gap:.3g}; scores span {span:.3g})"


def assert_rejected(what: str, call: Callable[[], Any], *words: str) -> None:
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


def reloaded(model: Any) -> Any:
    """The model after `save` and `load`."""
    from firstsight.persistence.model_folder import load, save

    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder, "model"))
        return load(Path(folder, "model"), type(model))


# A process that has fitted nothing reads models and answers with their scores.


def read_models() -> None:
    """The loop of the fresh process: a folder and rows come in by a line of JSON, scores go out by a file."""
    from firstsight.persistence.model_folder import load

    for line in sys.stdin:
        job = json.loads(line)
        answer = {}
        try:
            outside = _class_outside(job["module"], job["file"], job["name"]) if job["file"] else None
            model = load(job["folder"], outside)
            np.save(job["scores"], model.decision_function(np.load(job["rows"])))
            answer = {"classes": model.classes_.tolist()}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


def _class_outside(module: str, file: str, name: str) -> type:
    """A method that lives outside `firstsight.methods`, where `load` looks: by import, else from its file."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ModuleNotFoundError, AttributeError):
        return runpy.run_path(file)[name]


@cache
def _fresh_process() -> subprocess.Popen[str]:
    # One process for all methods: it has fitted nothing, and starting it (imports) outlasts a contract.
    return subprocess.Popen(
        [sys.executable, "-c", "from firstsight.contract.trial import read_models; read_models()"],
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
    with tempfile.TemporaryDirectory() as folder:
        job = {"name": cls.__name__, "module": cls.__module__, "file": file}
        job |= {
            what: str(Path(folder, what)) + end for what, end in (("folder", ""), ("rows", ".npy"), ("scores", ".npy"))
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
