"""Choosing parameters on validation classes: folds of the training rows, from which no test row can be reached."""

from __future__ import annotations

import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput, FirstsightWarning
from firstsight.evaluation.protocol import evaluate

# What each objective maximises: T1 in the conventional setting, H in the generalized one.
FIGURE = {"zsl": "t1", "gzsl": "h"}


@dataclass(frozen=True)
class Candidate:
    """One choice of parameters and what it scored on each fold, as fractions."""

    parameters: dict[str, Any]
    scores: tuple[float, ...]
    seconds: float = 0.0
    error: str = ""  # why there is no score: parameters with which the method cannot be fitted

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores)) if self.scores else -np.inf

    @property
    def deviation(self) -> float:
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else 0.0

    @property
    def key(self) -> str:
        return json.dumps(self.parameters, sort_keys=True)


def grid_candidates(grid: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Every combination of a grid's values.

    >>> grid_candidates({"penalty": [1, 2], "epochs": [5]})
    [{'penalty': 1, 'epochs': 5}, {'penalty': 2, 'epochs': 5}]
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def score_candidate(
    estimator, folds: Iterable[ZeroShotDataset], parameters: dict[str, Any], objective: str = "zsl"
) -> Candidate:
    """Fit with these parameters on every fold's training rows and score the classes that it holds out."""
    if objective not in FIGURE:
        raise BadInput(f"`objective` must be zsl or gzsl; got {objective!r}.")
    began = time.perf_counter()
    scores = []
    try:
        with warnings.catch_warnings():
            # That a candidate collapses is no news to the caller: its score says so.
            warnings.simplefilter("ignore", FirstsightWarning)
            for fold in folds:
                result = evaluate(clone(estimator).set_params(**parameters), fold, (objective,))
                scores.append(getattr(result, FIGURE[objective]))
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        message = " ".join(str(error).split())
        return Candidate(parameters, (), time.perf_counter() - began, message)
    return Candidate(parameters, tuple(scores), time.perf_counter() - began)


def search_grid(
    estimator,
    folds: list[ZeroShotDataset],
    grid: dict[str, list[Any]],
    objective: str = "zsl",
    known: Iterable[Candidate] = (),
    tell: Callable[[Candidate], None] = lambda candidate: None,
) -> list[Candidate]:
    """Score every combination of the grid; `known` ones are not fitted again; `tell` hears of every new one."""
    scored = {candidate.key: candidate for candidate in known}
    found = []
    for parameters in grid_candidates(grid):
        candidate = scored.get(Candidate(parameters, ()).key)
        if candidate is None:
            candidate = score_candidate(estimator, folds, parameters, objective)
            tell(candidate)
        found.append(candidate)
    return found


def search_optuna(
    estimator,
    folds: list[ZeroShotDataset],
    grid: dict[str, list[Any]],
    objective: str = "zsl",
    trials: int = 20,
    seed: int = 0,
    known: Iterable[Candidate] = (),
    tell: Callable[[Candidate], None] = lambda candidate: None,
) -> list[Candidate]:
    """As `search_grid`, but Optuna proposes values between the grid's smallest and largest numbers.

    Positive numbers are searched on a logarithmic scale. The `known` candidates count as trials already made.
    """
    try:
        import optuna
    except ImportError:
        raise BadInput(
            "--search optuna needs Optuna, which is not installed; run pip install 'firstsight[optuna]'."
        ) from None

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    found = list(known)
    space = {name: _distribution(values) for name, values in grid.items()}
    # Seeded by what is known already: a resumed search goes on and does not propose the first trials again.
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed + len(found)))
    for candidate in found:
        study.add_trial(
            optuna.trial.create_trial(
                params=candidate.parameters, distributions=space, value=candidate.mean if candidate.scores else 0.0
            )
        )
    while len(found) < trials:
        trial = study.ask(space)
        candidate = score_candidate(estimator, folds, dict(trial.params), objective)
        study.tell(trial, candidate.mean if candidate.scores else 0.0)
        found.append(candidate)
        tell(candidate)
    return found


def best_of(candidates: list[Candidate]) -> Candidate:
    """The highest mean; of equals the first, so that the order of the grid decides and not chance."""
    if not any(candidate.scores for candidate in candidates):
        reason = candidates[0].error if candidates else "there are none"
        raise BadInput(f"No candidate could be fitted ({reason}); give other values.")
    return max(candidates, key=lambda candidate: candidate.mean)


def _distribution(values: list[Any]):
    import optuna

    numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
    if not numbers or len(values) < 2:
        return optuna.distributions.CategoricalDistribution(values)
    kind = (
        optuna.distributions.IntDistribution
        if all(isinstance(v, int) for v in values)
        else optuna.distributions.FloatDistribution
    )
    return kind(min(values), max(values), log=min(values) > 0)
