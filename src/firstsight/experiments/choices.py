"""The rule by which tuning picks the winner among scored candidates, and the files of choices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from firstsight._io.files import read_regular
from firstsight._io.schemas import Schema, reason
from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput, UnreadableFile
from firstsight.experiments.plan import TunedParameters

# What each objective maximises: T1 in the conventional setting, H in the generalized one.
METRICS = {"zsl": "t1", "gzsl": "h"}
# How a winner is chosen where the defaults are among the candidates and there are several folds.
RULE = "the highest mean among candidates whose gain over the defaults exceeds its standard error; else the defaults"


class ScoredCandidate(Schema):
    """Parameters and what they scored on each fold, in percent."""

    parameters: dict[str, Any] = Field(description="the candidate")
    error: str = Field("", description="why it has no score; empty where it has one")
    t1: list[float] = Field([], alias="T1", description="one value per fold, percent; fewer folds: it fell behind")
    h: list[float] = Field([], alias="H", description="one value per fold, percent")

    def scores(self, objective: str) -> list[float]:
        """Return the value of each fold; none where the parameters could not be fitted."""
        return self.t1 if objective == "zsl" else self.h

    def mean(self, objective: str) -> float:
        """Return the mean over folds, −∞ without any."""
        scores = self.scores(objective)
        return float(np.mean(scores)) if scores else -np.inf

    def deviation(self, objective: str) -> float | None:
        """Return the standard deviation over folds; None for one fold."""
        scores = self.scores(objective)
        return float(np.std(scores, ddof=1)) if len(scores) > 1 else None


class ChoiceFile(Schema):
    """One search: on which data, among which candidates, and the best of them for each objective."""

    schema_version: Literal[1] = Field(alias="schema", description="version of this list: 1")
    method: str = Field(description="the method's name, or the one that the caller gave to an estimator")
    dataset: str = Field(description="the name of the data set")
    split: str = Field(description="hash of its classes, labels and parts")
    objectives: list[Literal["zsl", "gzsl"]] = Field(description="`zsl` maximises T1, `gzsl` maximises H")
    search: str = Field(description="`grid` or `optuna`")
    folds: int = Field(ge=1, description="validation folds")
    independent_folds: float = Field(description="how many folds without a class in common would know as many classes")
    calibrated: bool = Field(description="whether H is with the fold's best constant taken off seen scores")
    race: bool = Field(description="whether candidates that fell behind on a third of the folds were dropped")
    fits: int = Field(description="how many (candidate, fold) pairs were tried")
    rule: str = Field(description="how the choice was made; empty: the highest mean")
    default: dict[str, Any] | None = Field(description="the candidate that holds the method's defaults")
    seed: int = Field(description="everything random follows from it")
    grid: dict[str, list[Any]] = Field(description="the values that were tried")
    fixed: dict[str, Any] = Field(description="parameters that were set and not searched")
    chosen: dict[Literal["zsl", "gzsl"], dict[str, Any]] = Field(min_length=1, description="objective → parameters")
    candidates: list[ScoredCandidate] = Field(description="every candidate and what it scored")


def grid_candidates(grid: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Return every combination of a grid's values.

    >>> grid_candidates({"penalty": [1, 2], "epochs": [5]})
    [{'penalty': 1, 'epochs': 5}, {'penalty': 2, 'epochs': 5}]
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def choose(
    candidates: Sequence[ScoredCandidate],
    objective: str,
    default: ScoredCandidate | None = None,
    independent: float = 1.0,
) -> ScoredCandidate:
    """Return the winner: the highest mean; of equals the first, so that the grid's order decides and not chance.

    With `default`, the candidate of the method's defaults, others must be better by more than the noise between folds
    (`RULE`), which are `independent` ones (`independent_folds`).
    """
    scored = [c for c in candidates if c.scores(objective)]
    if not scored:
        why = candidates[0].error.rstrip(".") if candidates else "there are none"
        raise BadInput(f"No candidate could be fitted ({why}); give other values.")
    if default is not None and default.scores(objective):
        gains = [(c, *gain_over(default, c, objective, independent)) for c in scored if c is not default]
        scored = [default, *(c for c, gain, error in gains if gain > error)]
    return max(scored, key=lambda candidate: candidate.mean(objective))


def gain_over(
    default: ScoredCandidate, candidate: ScoredCandidate, objective: str, independent: float
) -> tuple[float, float]:
    """Return what a candidate scores above the defaults, mean over the folds, and the standard error of that.

    The error is paired: folds differ far more from each other than two candidates on one fold do.
    """
    differences = np.subtract(candidate.scores(objective), default.scores(objective))
    return float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(independent))


def independent_folds(folds: Sequence[ZeroShotDataset]) -> float:
    """Return how many folds without a class in common would hold out as many different classes as these do.

    Folds that hold out the same classes repeat part of the same evidence: four times three folds of twelve classes
    know no more classes than three do.
    """
    held_out = [fold.unseen_classes for fold in folds]
    different = {name for names in held_out for name in names}
    return min(len(folds), len(different) / float(np.mean([len(names) for names in held_out])))


def is_numeric(values: list[Any]) -> bool:
    """Whether a parameter's values are numbers with something between them."""
    return len(values) > 1 and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def parameters_at_edge(best: ScoredCandidate, grid: dict[str, list[Any]]) -> list[str]:
    """Return parameters whose best value is the smallest or largest of those tried: beyond may be better.

    Of two values each is at an edge, so that three are the least that can tell.
    """
    tried = {name: values for name, values in grid.items() if is_numeric(values) and len(values) > 2}
    return [name for name, values in tried.items() if best.parameters[name] in (min(values), max(values))]


Choices = dict[str, dict[str, TunedParameters]]  # method → setting → what tuning has chosen


def read_choice(file: Path) -> ChoiceFile:
    """Read what one search chose."""
    try:
        return ChoiceFile.model_validate_json(read_regular(file))
    except OSError as error:
        raise UnreadableFile(f"{file} cannot be read ({error.strerror}); check the path and its permissions.") from None
    except ValidationError as error:
        raise UnreadableFile(
            f"{file} is not what `firstsight tune --json` writes ({reason(error)}); give such a file."
        ) from None


def read_choices(path: Path) -> list[tuple[str, ChoiceFile]]:
    """Read a file, or each of a folder's .json files; returned with their paths."""
    if not path.exists():
        raise UnreadableFile(f"There is no {path}; `firstsight tune … --json {path}` writes it.")
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    return [(str(file), read_choice(file)) for file in files]


def check_overwrite(path: Path, method: str, dataset: str, objectives: Sequence[str]) -> None:
    """Reject a search that answers less than the file that it would overwrite."""
    if not path.exists():
        return
    before = read_choice(path)
    same = (before.method, before.dataset) == (method, dataset)
    lost = [objective for objective in before.chosen if not same or objective not in objectives]
    if lost:
        raise BadInput(
            f"{path} holds what was chosen for {before.method} on {before.dataset} ({', '.join(lost)}), which would be "
            "lost; choose another file, or remove it."
        )


def gather_choices(
    files: list[tuple[str, ChoiceFile]], datasets: list[ZeroShotDataset], source: str
) -> dict[str, Choices]:
    """Return the choices that were made for each data set.

    A setting takes the choice that was made for it; where only the other setting's was made, it takes that.
    """
    by_name = {dataset.name: dataset for dataset in datasets}
    gathered: dict[str, Choices] = {name: {} for name in by_name}
    file_of: dict[tuple[str, str, str], str] = {}
    for file, choice in files:
        dataset = by_name.get(choice.dataset)
        if dataset is None:
            continue  # a folder may serve several benchmarks
        if choice.split != dataset.split_hash:
            raise BadInput(f"{file} was tuned on another split of {dataset.name}; tune again on this one.")
        by_setting = gathered[dataset.name].setdefault(choice.method, {})
        for objective, parameters in choice.chosen.items():
            before = file_of.setdefault((dataset.name, choice.method, objective), file)
            if before != file:
                raise BadInput(
                    f"{before} and {file} hold two choices for {choice.method} on {dataset.name} "
                    f"({objective}); keep one."
                )
            by_setting[objective] = TunedParameters(parameters, _source(choice, parameters))
    if not any(gathered.values()):
        raise BadInput(f"{source} holds nothing that was tuned on {', '.join(by_name)}; leave it out, or tune first.")
    for by_setting in (s for choices in gathered.values() for s in choices.values()):
        for setting in METRICS:
            by_setting.setdefault(setting, next(iter(by_setting.values())))
    return gathered


def _source(choice: ChoiceFile, parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        # Both objectives' choice has the same name for both, so that one fit of an inductive method serves them.
        "objective": "+".join(objective for objective, chosen in choice.chosen.items() if chosen == parameters),
        "folds": choice.folds,
        "candidates": len(choice.candidates),
        "search": choice.search,
        "kept_defaults": choice.default is not None and parameters == {**choice.fixed, **choice.default},
    }


def describe_untuned(choices: dict[str, Choices], methods: list[str], settings: Iterable[str]) -> list[str]:
    """Return sentences about what tuning does not cover, so that defaults are not taken for a choice."""
    lines = []
    for dataset, by_method in choices.items():
        if without := [method for method in methods if method not in by_method]:
            lines.append(f"Not tuned on {dataset}, and run with their defaults: {', '.join(without)}.")
        for setting in settings:
            tuned = [method for method in methods if method in by_method]
            if other := [m for m in tuned if setting not in by_method[m][setting].source["objective"].split("+")]:
                lines.append(f"Tuned on {dataset} for the other setting than {setting} only: {', '.join(other)}.")
    return lines
