"""Choices: the files that `firstsight tune --json` writes and a benchmark reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from firstsight._io.files import read_regular
from firstsight._io.schemas import Dictionary, List, Schema, reason
from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput, UnreadableFile

# What `firstsight tune --json` writes: a search, what it scored and what it chose.


class Scored(Schema):
    parameters: dict[str, Any] = Field(description="the candidate")
    error: str = Field("", description="why it has no score; empty where it has one")
    t1: List[float] = Field([], alias="T1", description="one figure per fold, percent; fewer folds: it fell behind")
    h: List[float] = Field([], alias="H", description="one figure per fold, percent")


class ChoiceFile(Schema):
    """One search: on which data, among which candidates, and the best of them for each objective."""

    schema_version: Literal[1] = Field(1, alias="schema", description="version of this list; left out means 1")
    method: str = Field(description="the method's word, or the name that the caller gave to an estimator")
    dataset: str = Field(description="the name of the data set")
    split: str = Field(description="hash of its classes, labels and parts")
    objectives: List[Literal["zsl", "gzsl"]] = Field([], description="`zsl` maximises T1, `gzsl` maximises H")
    search: str = Field(description="`grid` or `optuna`")
    folds: int = Field(ge=1, description="validation folds")
    independent_folds: float | None = Field(
        None, description="how many folds without a class in common would know as many classes"
    )
    calibrated: bool = Field(False, description="whether H is with the fold's best constant taken off seen scores")
    race: bool = Field(False, description="whether candidates that fell behind on a third of the folds were dropped")
    fits: int | None = Field(None, description="how many (candidate, fold) pairs were tried")
    rule: str = Field("", description="how the choice was made; empty: the highest mean")
    default: dict[str, Any] | None = Field(None, description="the candidate that holds the method's defaults")
    seed: int = Field(0, description="everything random follows from it")
    grid: Dictionary[list[Any]] = Field({}, description="the values that were tried")
    fixed: Dictionary[Any] = Field({}, description="parameters that were set and not searched")
    chosen: dict[Literal["zsl", "gzsl"], dict[str, Any]] = Field(min_length=1, description="objective → parameters")
    candidates: list[Scored] = Field(description="every candidate and what it scored")


# Parameters that `firstsight tune --json` has chosen, for a benchmark to use.

# method → setting → {"parameters": …, "tuned": what the record says about them}
Choices = dict[str, dict[str, dict[str, Any]]]


def read_choices(place: Path) -> list[tuple[str, ChoiceFile]]:
    """What a file, or each of a folder's .json files, holds, and where it stood."""
    if not place.exists():
        raise UnreadableFile(f"There is no {place}; `firstsight tune … --json {place}` writes it.")
    files = sorted(place.glob("*.json")) if place.is_dir() else [place]
    return [(str(file), read_choice(file)) for file in files]


def gather_choices(
    choices_made: list[tuple[str, ChoiceFile]], datasets: list[ZeroShotDataset], place: str
) -> dict[str, Choices]:
    """By data set, the choices that were made for it.

    A setting takes the choice that was made for it; where only the other setting's was made, it takes that.
    """
    known = {dataset.name: dataset for dataset in datasets}
    gathered: dict[str, Choices] = {name: {} for name in known}
    source: dict[tuple[str, str, str], str] = {}
    for file, choice in choices_made:
        dataset = known.get(choice.dataset)
        if dataset is None:
            continue  # a folder may serve several benchmarks
        if choice.split != dataset.split_hash:
            raise BadInput(f"{file} was tuned on another split of {dataset.name}; tune again on this one.")
        by_setting = gathered[dataset.name].setdefault(choice.method, {})
        about = {"folds": choice.folds, "candidates": len(choice.candidates), "search": choice.search}
        for objective, parameters in choice.chosen.items():
            before = source.setdefault((dataset.name, choice.method, objective), file)
            if before != file:
                raise BadInput(
                    f"{before} and {file} hold two choices for {choice.method} on {dataset.name} "
                    f"({objective}); keep one."
                )
            # Both objectives' choice is named alike for both, so that one fit of an inductive method serves them.
            same = "+".join(other for other, values in choice.chosen.items() if values == parameters)
            kept = choice.default is not None and parameters == {**choice.fixed, **choice.default}
            tuned = {"objective": same, **about, **({"kept_defaults": True} if kept else {})}
            by_setting[objective] = {"parameters": parameters, "tuned": tuned}
    if not any(gathered.values()):
        raise BadInput(f"{place} holds nothing that was tuned on {', '.join(known)}; leave it out, or tune first.")
    for choices in gathered.values():
        for by_setting in choices.values():
            for setting, other in (("zsl", "gzsl"), ("gzsl", "zsl")):
                if setting not in by_setting:
                    by_setting[setting] = by_setting[other]
    return gathered


def untuned(choices: dict[str, Choices], methods: list[str], settings: Iterable[str]) -> list[str]:
    """What tuning does not cover, in sentences: nobody should take defaults for a choice."""
    lines = []
    for dataset, by_method in choices.items():
        if without := [method for method in methods if method not in by_method]:
            lines.append(f"Not tuned on {dataset}, and run with their defaults: {', '.join(without)}.")
        for setting in settings:
            objectives = {m: by_method[m][setting]["tuned"]["objective"].split("+") for m in methods if m in by_method}
            if other := [method for method, own in objectives.items() if setting not in own]:
                lines.append(f"Tuned on {dataset} for the other setting than {setting} only: {', '.join(other)}.")
    return lines


def read_choice(file: Path) -> ChoiceFile:
    """What one search chose."""
    try:
        return ChoiceFile.model_validate_json(read_regular(file))
    except OSError as error:
        raise UnreadableFile(f"{file} cannot be read ({error.strerror}); check the path and its permissions.") from None
    except ValidationError as error:
        raise UnreadableFile(
            f"{file} is not what `firstsight tune --json` writes ({reason(error)}); give such a file."
        ) from None


def refuse_to_lose(path: Path, method: str, dataset: str, objectives: list[str]) -> None:
    """A file is written over by a search that answers all that it answered, and by no other."""
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
