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
    """One choice of parameters and, for each objective, what it scored on each fold, as fractions."""

    parameters: dict[str, Any]
    scores: dict[str, list[float]]  # objective → one figure per fold
    seconds: float = 0.0
    error: str = ""  # why there is no score: parameters with which the method cannot be fitted

    def mean(self, objective: str) -> float:
        return float(np.mean(self.scores[objective])) if self.scores else -np.inf

    def deviation(self, objective: str) -> float:
        scores = self.scores[objective]
        return float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0

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
    estimator, folds: Iterable[ZeroShotDataset], parameters: dict[str, Any], objectives: Iterable[str] = tuple(FIGURE)
) -> Candidate:
    """Fit with these parameters on every fold's training rows and score the classes that it holds out.

    One fit of an inductive method serves both objectives; a transductive one is fitted for each.
    """
    objectives = tuple(objectives)
    if not objectives or set(objectives) - set(FIGURE):
        raise BadInput(f"`objectives` must name zsl, gzsl or both; got {objectives}.")
    began = time.perf_counter()
    scores: dict[str, list[float]] = {objective: [] for objective in objectives}
    try:
        with warnings.catch_warnings():
            # That a candidate collapses is no news to the caller: its score says so.
            warnings.simplefilter("ignore", FirstsightWarning)
            for fold in folds:
                result = evaluate(clone(estimator).set_params(**parameters), fold, objectives)
                for objective in objectives:
                    scores[objective].append(getattr(result, FIGURE[objective]))
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        message = " ".join(str(error).split())
        return Candidate(parameters, {}, time.perf_counter() - began, message)
    return Candidate(parameters, scores, time.perf_counter() - began)


def search_grid(
    estimator,
    folds: list[ZeroShotDataset],
    grid: dict[str, list[Any]],
    objectives: Iterable[str] = tuple(FIGURE),
    known: Iterable[Candidate] = (),
    tell: Callable[[Candidate], None] = lambda candidate: None,
) -> list[Candidate]:
    """Score every combination of the grid; `known` ones are not fitted again; `tell` hears of every new one."""
    scored = {candidate.key: candidate for candidate in known}
    found = []
    for parameters in grid_candidates(grid):
        candidate = scored.get(Candidate(parameters, {}).key)
        if candidate is None:
            candidate = score_candidate(estimator, folds, parameters, objectives)
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

    It maximises one objective. Positive numbers are searched on a logarithmic scale. The `known` candidates count as
    trials already made.
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
    def value(candidate: Candidate) -> float:
        return candidate.mean(objective) if candidate.scores else 0.0

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed + len(found)))
    for candidate in found:
        trial = optuna.trial.create_trial(params=candidate.parameters, distributions=space, value=value(candidate))
        study.add_trial(trial)
    while len(found) < trials:
        asked = study.ask(space)
        candidate = score_candidate(estimator, folds, dict(asked.params), (objective,))
        study.tell(asked, value(candidate))
        found.append(candidate)
        tell(candidate)
    return found


def best_of(candidates: list[Candidate], objective: str) -> Candidate:
    """The highest mean; of equals the first, so that the order of the grid decides and not chance."""
    if not any(candidate.scores for candidate in candidates):
        reason = candidates[0].error if candidates else "there are none"
        raise BadInput(f"No candidate could be fitted ({reason}); give other values.")
    return max(candidates, key=lambda candidate: candidate.mean(objective))


def at_an_end(best: Candidate, grid: dict[str, list[Any]]) -> list[str]:
    """The numbers whose best value is the smallest or the largest of those tried: beyond may be better."""
    return [
        name for name, tried in grid.items() if _numbers(tried) and best.parameters[name] in (min(tried), max(tried))
    ]


def _numbers(values: list[Any]) -> bool:
    return len(values) > 1 and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)


def _distribution(values: list[Any]):
    import optuna

    if not _numbers(values):
        return optuna.distributions.CategoricalDistribution(values)
    kind = (
        optuna.distributions.IntDistribution
        if all(isinstance(v, int) for v in values)
        else optuna.distributions.FloatDistribution
    )
    return kind(min(values), max(values), log=min(values) > 0)
