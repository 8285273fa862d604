"""Parameters that `firstsight tune --json` has chosen, for a benchmark to use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput, UnreadableFile
from firstsight.schemas import reason
from firstsight.tuning.schema import ChoiceFile

# method → setting → {"parameters": …, "tuned": what the record says about them}
Choices = dict[str, dict[str, dict[str, Any]]]


def read_tuned(place: Path, datasets: list[ZeroShotDataset]) -> dict[str, Choices]:
    """By data set, the choices in a file or in a folder's .json files.

    A setting takes the choice that was made for it; where only the other setting's was made, it takes that.
    """
    if not place.exists():
        raise UnreadableFile(f"There is no {place}; `firstsight tune … --json {place}` writes it.")
    files = sorted(place.glob("*.json")) if place.is_dir() else [place]
    known = {dataset.name: dataset for dataset in datasets}
    found: dict[str, Choices] = {name: {} for name in known}
    source: dict[tuple[str, str, str], Path] = {}
    for file in files:
        choice = read_choice(file)
        dataset = known.get(choice.dataset)
        if dataset is None:
            continue  # a folder may serve several benchmarks
        if choice.split != dataset.split_hash:
            raise BadInput(f"{file} was tuned on another split of {dataset.name}; tune again on this one.")
        by_setting = found[dataset.name].setdefault(choice.method, {})
        about = {"folds": choice.folds, "candidates": len(choice.candidates), "search": choice.search}
        for objective, parameters in choice.chosen.items():
            before = source.setdefault((dataset.name, choice.method, objective), file)
            if before != file:
                raise BadInput(
                    f"{before} and {file.name} hold two choices for {choice.method} on {dataset.name} "
                    f"({objective}); keep one."
                )
            # Both objectives' choice is named alike for both, so that one fit of an inductive method serves them.
            same = "+".join(other for other, values in choice.chosen.items() if values == parameters)
            by_setting[objective] = {"parameters": parameters, "tuned": {"objective": same, **about}}
    if not any(found.values()):
        raise BadInput(f"{place} holds nothing that was tuned on {', '.join(known)}; leave --tuned out, or tune first.")
    for choices in found.values():
        for by_setting in choices.values():
            for setting, other in (("zsl", "gzsl"), ("gzsl", "zsl")):
                if setting not in by_setting:
                    by_setting[setting] = by_setting[other]
    return found


def read_choice(file: Path) -> ChoiceFile:
    """What one search chose."""
    try:
        return ChoiceFile.model_validate_json(file.read_bytes())
    except OSError as error:
        raise UnreadableFile(f"{file} cannot be read ({error.strerror}); check the path and its permissions.") from None
    except ValidationError as error:
        raise UnreadableFile(
            f"{file} is not what `firstsight tune --json` writes ({reason(error)}); give such a file."
        ) from None
