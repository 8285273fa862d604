"""Candidate parameters, their scores on validation folds, and how the winner is chosen."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput
from firstsight.experiments.entries import Entry
from firstsight.experiments.plan import make_plan
from firstsight.experiments.records import Cell, Key, Record, file_stem, key_of, read_records
from firstsight.experiments.session import CHECKPOINTS, Event, prepare, remove_if_empty
from firstsight.experiments.workers import Engine

# Choosing parameters by what they scored on validation classes; `experiments/candidates.py` makes the scores.

# What each objective maximises: T1 in the conventional setting, H in the generalized one.
FIGURE = {"zsl": "t1", "gzsl": "h"}


@dataclass(frozen=True)
class Candidate:
    """One choice of parameters and, for each objective, what it scored on each fold, in percent."""

    parameters: dict[str, Any]
    scores: dict[str, list[float]]  # objective → one figure per fold
    error: str = ""  # why there is no score: parameters with which the method cannot be fitted

    def mean(self, objective: str) -> float:
        return float(np.mean(self.scores[objective])) if self.scores else -np.inf

    def deviation(self, objective: str) -> float | None:
        """Over folds; one alone has none."""
        scores = self.scores[objective]
        return float(np.std(scores, ddof=1)) if len(scores) > 1 else None


Score = Callable[[list[dict[str, Any]]], list[Candidate]]


def grid_candidates(grid: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Every combination of a grid's values.

    >>> grid_candidates({"penalty": [1, 2], "epochs": [5]})
    [{'penalty': 1, 'epochs': 5}, {'penalty': 2, 'epochs': 5}]
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def search_optuna(
    score: Score, grid: dict[str, list[Any]], objective: str, trials: int = 20, seed: int = 0
) -> list[Candidate]:
    """Optuna proposes values between the grid's smallest and largest numbers, one candidate after the other.

    Positive numbers are searched on a logarithmic scale. The same seed and the same scores lead to the same proposals:
    a search that was killed goes the same way again, and `score` need not fit anew what it knows.
    """
    try:
        import optuna
    except ImportError:
        raise BadInput(
            "--search optuna needs Optuna, which is not installed; run pip install 'firstsight[optuna]'."
        ) from None

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = {name: _distribution(values) for name, values in grid.items()}
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    candidates = []
    for _ in range(trials):
        trial = study.ask(space)
        (candidate,) = score([dict(trial.params)])
        study.tell(trial, candidate.mean(objective) if candidate.scores else 0.0)
        candidates.append(candidate)
    return candidates


def best_of(candidates: list[Candidate], objective: str) -> Candidate:
    """The highest mean; of equals the first, so that the order of the grid decides and not chance."""
    if not any(candidate.scores for candidate in candidates):
        reason = candidates[0].error.rstrip(".") if candidates else "there are none"
        raise BadInput(f"No candidate could be fitted ({reason}); give other values.")
    return max(candidates, key=lambda candidate: candidate.mean(objective))


# How a choice is made where the defaults are among the candidates and there are folds to tell noise by.
RULE = "the highest mean among candidates whose gain over the defaults exceeds its standard error; else the defaults"


def independent_folds(folds: Sequence[ZeroShotDataset]) -> float:
    """How many folds without a class in common would hold out as many different classes as these do.

    Folds that hold out the same classes repeat part of the same evidence: four times three folds of twelve classes
    know no more classes than three do.
    """
    held_out = [fold.unseen_classes for fold in folds]
    different = {name for names in held_out for name in names}
    return min(len(folds), len(different) / float(np.mean([len(names) for names in held_out])))


def gain_over(default: Candidate, candidate: Candidate, objective: str, independent: float) -> tuple[float, float]:
    """What a candidate scores above the defaults, mean over the folds, and the standard error of that.

    The error is paired: folds differ far more from each other than two candidates on one fold do.
    """
    differences = np.subtract(candidate.scores[objective], default.scores[objective])
    return float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(independent))


def beyond_noise(candidates: list[Candidate], default: Candidate, objective: str, independent: float) -> Candidate:
    """`RULE`: the defaults stay, unless another candidate is better by more than the folds differ about it."""
    if not default.scores:
        return best_of(candidates, objective)
    gains = [(c, *gain_over(default, c, objective, independent)) for c in candidates if c.scores and c is not default]
    return best_of([default, *(c for c, gain, error in gains if gain > error)], objective)


def at_an_end(best: Candidate, grid: dict[str, list[Any]]) -> list[str]:
    """The numbers whose best value is the smallest or the largest of those tried: beyond may be better.

    Two values have nothing but ends, so that three are the least that can tell.
    """
    tried = {name: values for name, values in grid.items() if _numbers(values) and len(values) > 2}
    return [name for name, values in tried.items() if best.parameters[name] in (min(values), max(values))]


def _numbers(values: list[Any]) -> bool:
    return len(values) > 1 and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)


def _distribution(values: list[Any]) -> Any:
    import optuna

    if not _numbers(values):
        return optuna.distributions.CategoricalDistribution(values)
    kind = (
        optuna.distributions.IntDistribution
        if all(isinstance(v, int) for v in values)
        else optuna.distributions.FloatDistribution
    )
    return kind(min(values), max(values), log=min(values) > 0)


# Trials of parameters on validation folds: every fit is a job of the benchmark's runner, parallel and safe to kill.

STUDY = "tune"


@dataclass(frozen=True)
class Trials:
    """A search's fits, whose records are kept in `folder`: what is there already is not fitted again."""

    folder: Path
    folds: list[ZeroShotDataset]
    entry: Entry  # with the parameters that are not searched
    objectives: list[str]
    seed: int
    engine: Engine
    tell: Callable[[list[Record]], None] = lambda records: None  # hears of every fit that has ended
    calibrated: bool = False  # H is the one with the fold's best constant taken off seen classes' scores

    def score(self, candidates: list[dict[str, Any]]) -> list[Candidate]:
        """Fit with each candidate on every fold's training rows and judge it on the classes that the fold holds out.

        One fit of an inductive method serves both objectives; a transductive one is fitted for each.
        """
        plans = {
            fold.name: [
                replace(job, seed=self.seed)
                for job in make_plan(fold.name, [self.entry], self.objectives, study=STUDY, variants=candidates)
            ]
            for fold in self.folds
        }
        instead = f"those are trials of another search: remove {self.folder} to start again"
        with prepare(self.folder, self.folds, plans, instead=instead) as session:
            session.run(self.engine, self._show)
        records = {key_of(record): record for record in read_records(self.folder)}
        return [self._candidate(parameters, records) for parameters in candidates]

    def _show(self, event: Event) -> None:
        if event.records is not None:
            self.tell(event.records)

    def _candidate(self, parameters: dict[str, Any], known: dict[Key, Record]) -> Candidate:
        cells = [
            [known[key_of(Cell(fold.name, self.entry.name, self.seed, parameters, STUDY, o))] for fold in self.folds]
            for o in self.objectives
        ]
        errors = [record.error or "" for records in cells for record in records if record.status == "failed"]
        if errors:
            return Candidate(parameters, {}, errors[0])
        figures = zip(self.objectives, cells, strict=True)
        return Candidate(parameters, {o: [self._figure(record, o) for record in records] for o, records in figures})

    def _figure(self, record: Record, objective: str) -> float:
        if objective == "gzsl" and self.calibrated:
            return (record.seen_unseen.best_h if record.seen_unseen else None) or 0.0
        figure: float = getattr(record, FIGURE[objective])
        return figure


def forget_trials(folder: Path, folds: list[ZeroShotDataset]) -> None:
    """Remove what a search has left in a folder, and the folder if nothing else is in it."""
    for path in folder.glob("*.jsonl"):
        if all(record.study == STUDY for record in read_records(path)):
            path.unlink()
    for fold in folds:  # checkpoints are those of fits that failed
        checkpoints = folder / CHECKPOINTS / file_stem(fold.name)
        for checkpoint in checkpoints.glob("*.safetensors"):
            checkpoint.unlink()
        remove_if_empty(checkpoints)
    remove_if_empty(folder / CHECKPOINTS)
    remove_if_empty(folder)
