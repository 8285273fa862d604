"""A small zero-shot task that any sensible method solves in a moment, and a process to read models in."""

from __future__ import annotations

import importlib
import json
import runpy
import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd

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
