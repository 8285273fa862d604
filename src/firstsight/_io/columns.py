"""Match the columns of a table by name to those of a fit."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from firstsight.errors import BadInput


def in_fitted_order(table: pd.DataFrame, fitted: np.ndarray | None) -> pd.DataFrame:
    """The table's columns in the order of the names that a fit had; where either has none, as they are."""
    columns = [str(column) for column in table.columns]
    if fitted is None or not any(isinstance(column, str) for column in table.columns):
        return table
    try:
        order = _order_by_name(columns, fitted.tolist())
    except _OtherNames as other:
        raise BadInput(
            f"This model's classes are described by {len(fitted)} attributes, but `classes` has {len(columns)} columns "
            f"and {other}; give one column per attribute, under its name."
        ) from None
    return table if order is None else table.iloc[:, order]


def fitted_order(columns: Sequence[str], fitted: Sequence[str], name: str) -> list[int] | None:
    """Where each feature of a fit is among the columns of `name`, matched by name; None: they are in its order."""
    try:
        return _order_by_name(list(columns), list(fitted))
    except _OtherNames as other:
        advice = "give one column per feature, under its name"
        if other.extra:
            advice = f"remove it, or, in a file, call it `sample` if it names the samples: {advice}"
        raise BadInput(
            f"This model was fitted with {len(fitted)} features, but {name} has {len(columns)} columns of numbers and "
            f"{other}; {advice}."
        ) from None


def _order_by_name(columns: list[str], names: list[str]) -> list[int] | None:
    """Where each of `names` is among `columns`, in any order; None if they are the same already.

    Columns called "0", "1", "2", … in this order are a table without names, as pandas writes it: taken by position.
    """
    if columns == names:
        return None
    if sorted(columns) == sorted(names) and len(set(names)) == len(names):
        position = {column: index for index, column in enumerate(columns)}
        return [position[name] for name in names]
    if columns == [str(number) for number in range(len(names))]:
        return None
    raise _OtherNames(columns, names)


class _OtherNames(Exception):
    """The columns of a table are not those of the model; says which are missing, repeated or unknown."""

    def __init__(self, columns: list[str], names: list[str]):
        known, given, counts = set(names), set(columns), Counter(columns)
        missing = [name for name in names if name not in given]
        unknown = [column for column in columns if column not in known]
        twice = sorted(column for column, count in counts.items() if count > 1)
        said = [f"{what} {_some(listed)}" for what, listed in (("lacks", missing), ("repeats", twice)) if listed]
        if unknown:
            lower = {name.lower(): name for name in missing}
            near = difflib.get_close_matches(unknown[0].lower(), lower, n=1, cutoff=0.5)
            hint = f" (did you mean {lower[near[0]]!r}?)" if near else ""
            said.append(f"has {_some(unknown)}, which the model does not know{hint}")
        super().__init__(" and ".join(said))
        self.extra = bool(unknown) and not missing


def _some(names: list[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


# A text encoder gives more numbers than this; fewer numbered columns are an attribute in several columns.
NARROWEST_TEXT = 32


def column_groups(names: Sequence[str]) -> dict[str, list[int]]:
    """Positions of the columns that each text encoder made (`encoder:0`, `encoder:1`, …), and of all others.

    >>> groups = column_groups(["striped", *(f"clip:{number}" for number in range(512)), "colour:0", "colour:1"])
    >>> {name: len(positions) for name, positions in groups.items()}
    {'attributes': 3, 'clip': 512}
    """
    numbered: dict[str, list[int]] = {}
    for name in names:
        encoder, _, number = str(name).rpartition(":")
        if encoder and number.isdecimal():
            numbered.setdefault(encoder, []).append(int(number))
    texts = {name for name, n in numbered.items() if len(n) >= NARROWEST_TEXT and n == list(range(len(n)))}
    groups: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        encoder = str(name).rpartition(":")[0]
        groups.setdefault(encoder if encoder in texts else "attributes", []).append(position)
    return groups
