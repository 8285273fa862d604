"""What a model is to name: pictures in any form, folders of them, or rows of features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from firstsight.data.feature_files import FeatureFile, read_feature_file
from firstsight.encoders.folders import is_picture, name_as_text, survey_pictures
from firstsight.errors import BadInput
from firstsight.terminal import logger

Show = Callable[[int, int], None]  # done, of how many
# What turns pictures, by path or in memory, into features (n, d) of those that can be read, with their places, and
# the others with the reason.
Encode = Callable[[Sequence[Any], Show | None], tuple[np.ndarray, list[int], list[tuple[int, str]]]]


@dataclass(frozen=True)
class Rows:
    """Features (n, d), what the rows are called, and their classes where these are known."""

    features: np.ndarray
    names: list[str | int]
    truth: list[str | None] | None = None
    skipped: list[tuple[str, str]] = field(default_factory=list)
    key: str = "row"  # what a name is: "row" or "file"
    pictures: list[Any] = field(default_factory=list)  # what was read: paths, or pictures in memory


def is_feature_file(given: Any) -> bool:
    """Whether what was given is a file of features, by its name; anything else on a disk is pictures."""
    if not isinstance(given, (str, Path)):
        return False
    path = Path(given)
    if not path.suffix and not path.exists():  # the commonest slip: a folder's name, mistyped
        return False
    return not path.is_dir() and not is_picture(path)


def is_features(given: Any) -> bool:
    """Whether an array holds rows of features; pictures are uint8."""
    return isinstance(given, np.ndarray) and given.dtype != np.uint8


def _is_numbers(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and bool(given) and all(isinstance(n, (int, float)) for n in given)


def as_list(given: Any) -> list[Any]:
    """One thing or several, as a list; rows of features are one thing."""
    if isinstance(given, pd.DataFrame):
        return [given.to_numpy(dtype=np.float32)]
    if isinstance(given, (list, tuple)):
        if _is_numbers(given):
            return [np.asarray(given, dtype=np.float32)]
        numbers = [
            [isinstance(n, (int, float)) for n in one] if isinstance(one, (list, tuple)) else [] for one in given
        ]
        if given and all(row and all(row) for row in numbers) and len(set(map(len, numbers))) == 1:
            return [np.asarray(given, dtype=np.float32)]
        return list(given)
    return [given]


def read_rows(given: Any, n_features: int, check: Callable[[FeatureFile, str], None]) -> Rows:
    """Rows of a feature file, a `FeatureFile` or an array; `check(file, its name)` looks at what made them."""
    if isinstance(given, np.ndarray):
        X = given[None] if given.ndim == 1 else given
        if X.ndim != 2:
            raise BadInput(f"Features must be rows (n, d) of numbers, but have the shape {given.shape}.")
        rows, what = Rows(X, list(range(len(X)))), "The array"
    elif isinstance(given, FeatureFile):
        check(given, "The features")
        rows, what = _of_file(given, list(given.names)), "The feature file"
    else:
        what = str(given)
        file = read_feature_file(given)
        check(file, f"The features in {what}")
        numbered = file.names == [str(number) for number in range(len(file.names))]
        rows = _of_file(file, list(range(len(file.names))) if numbered else list(file.names))
    if rows.features.shape[1] != n_features:
        raise BadInput(
            f"{what} has {rows.features.shape[1]} features per row; the model was fitted with {n_features}: use "
            "features from the same source."
        )
    return rows


def _of_file(file: FeatureFile, names: list[str | int]) -> Rows:
    return Rows(file.features, names, None if file.labels is None else list(file.labels), list(file.skipped))


def read_pictures(given: Iterable[Any], encode: Encode, progress: Show | None = None) -> Rows:
    """Features of pictures: files, folders (whose sub-folders are classes), PIL pictures and uint8 arrays."""
    pictures: list[Any] = []
    names: list[str | int] = []
    truth: list[str | None] = []
    for one in given:
        if isinstance(one, (str, Path)):
            survey = survey_pictures(one)
            for remark in survey.remarks():
                logger.warning("%s", remark)
            pictures += survey.paths
            names += [name_as_text(path) for path in survey.paths]
            truth += survey.classes if survey.classes is not None else [None] * len(survey.paths)
        else:
            names.append(getattr(one, "filename", "") or f"picture {len(pictures) + 1}")
            truth.append(None)
            pictures.append(one)
    features, places, unread = encode(pictures, progress)
    skipped = [(str(names[place]), why) for place, why in unread]
    if not places:
        name, why = skipped[0] if skipped else ("", "none was given")
        raise BadInput(f"None of the {len(pictures)} pictures could be read (for {name}: {why}); check them.")
    known, looked_at = [truth[place] for place in places], [pictures[place] for place in places]
    own = [names[place] for place in places]
    return Rows(features, own, known if any(known) else None, skipped, key="file", pictures=looked_at)
