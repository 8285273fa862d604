"""Tables of classes as people write them: an empty one to fill in, and a filled one as numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firstsight.data.table_files import read_texts
from firstsight.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

TEXT_COLUMNS = ("text", "description", "sentence")
YES = {"yes", "y", "true", "ja", "oui", "si", "sí", "sim"}
NO = {"no", "n", "false", "nein", "non", "nee", "não"}
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+%?")
MISSING = {"", "na", "n/a", "nan", "?", "-", "–", "unknown"}


def read_class_table(path: str | Path) -> pd.DataFrame:
    """A .csv file as text, indexed by class (column `class`, or else the first); every class once.

    A file with one class a line and no heading is no table: the first line must name the columns.
    """
    import pandas as pd

    path = Path(path)
    table = read_texts(path)
    table.columns = table.columns.str.strip()
    key = "class" if "class" in table else table.columns[0]
    if key != "class" and table.shape[1] == 1:
        raise BadInput(
            f"{path} must have a column 'class', but its only column is called {key!r}; write class as the first line."
        )
    names = table.pop(key).str.strip()
    if len(names) == 0:
        raise BadInput(f"{path} has no classes; write one per line below the heading.")
    if (names == "").any():
        raise BadInput(f"Column {key!r} of {path} has empty entries; fill them in.")
    if names.duplicated().any():
        twice = names[names.duplicated()].iloc[0]
        raise BadInput(f"{path} describes the class {twice!r} more than once; keep one row per class.")
    return table.set_index(pd.Index(names, name="class"))


def empty_table(classes: Sequence[str], attributes: Sequence[str]) -> pd.DataFrame:
    """A table to fill in: a row per class, an empty column per attribute."""
    import pandas as pd

    attributes = [name.strip() for name in attributes]
    if not attributes or "" in attributes:
        raise BadInput("Give the attributes separated by commas, for example: striped,hooved,eats grass.")
    twice = [name for name in attributes if attributes.count(name) > 1]
    if twice:
        raise BadInput(f"The attribute {twice[0]!r} is named more than once; name it once.")
    return pd.DataFrame("", index=pd.Index(list(classes), name="class"), columns=attributes)


def attributes_as_numbers(table: pd.DataFrame, scale: bool = False) -> tuple[pd.DataFrame, list[str]]:
    """A filled table of text as numbers, and what a person should know about it.

    Numbers stay as they are; 85% is 0.85; yes and no (true, false, ja, nein, …) are 1 and 0; an empty cell takes the
    mean of its column. `scale` brings every column to 0…1, from its smallest value to its largest.
    """
    import pandas as pd

    numbers = pd.DataFrame({name: _column(str(name), table[name]) for name in table}, index=table.index)
    notes = []
    missing = int(numbers.isna().to_numpy().sum())
    if missing:
        empty = [str(name) for name in numbers if numbers[name].isna().all()]
        if empty:
            more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
            raise BadInput(f"The attribute {empty[0]!r}{more} is filled in for no class; fill it in or remove it.")
        columns = int(numbers.isna().any().sum())
        notes.append(
            f"{missing} of {numbers.size} values are missing, in {columns} of {numbers.shape[1]} attributes; each took "
            "the mean of its attribute."
        )
        numbers = numbers.fillna(numbers.mean())
    low, reach = numbers.min(), numbers.max() - numbers.min()
    if scale:
        numbers = (numbers - low) / reach.where(reach > 0, 1)
        notes.append("Every attribute was brought to 0…1; describe later classes on the same scale.")
    elif _units_differ(reach[reach > 0].to_numpy()):
        notes.append(
            f"{reach.idxmax()!r} spreads over {reach.max():g} and {reach[reach > 0].idxmin()!r} over "
            f"{reach[reach > 0].min():g}: if their units differ, the first drowns the second, and --scale brings every "
            "attribute to 0…1; attributes in one unit, such as percentages, are better left as they are."
        )
    constant = reach.index[reach == 0].astype(str).tolist()
    if constant and len(numbers) > 1:
        notes.append(f"{len(constant)} attributes are the same for every class, for example {constant[0]!r}.")
    return numbers, notes


def _units_differ(reach: np.ndarray) -> bool:
    """Whether attributes spread over ranges of different orders, with nothing in between: kilograms beside yes and no.

    In one unit ranges differ as well, but gradually, and mean something: percentages of CUB's birds spread over 0.7 to
    97, no two neighbouring ranges further apart than 1.8 times, and scaling them costs the kernel prototypes accuracy
    (91 to 85 of 128 right). A column in kilograms beside yes and no costs them 85 to 53, which scaling restores.
    """
    ranges = np.sort(reach)
    return len(ranges) > 1 and ranges[-1] > 100 * ranges[0] and bool((ranges[1:] > 10 * ranges[:-1]).any())


def _column(name: str, cells: pd.Series) -> list[float]:
    percent = any(cell.strip().endswith("%") for cell in cells)
    commas = [cell.strip() for cell in cells if "," in cell]
    if commas and all(map(_THOUSANDS.fullmatch, commas)):
        raise BadInput(
            f"The attribute {name!r} has the value {commas[0]!r}, which half of the world reads as "
            f"{commas[0].replace(',', '')} and the other half as {commas[0].replace(',', '.')}; write one of these."
        )
    values = []
    for who, cell in cells.items():
        value = _cell(cell)
        if value is None or math.isinf(value):
            raise BadInput(
                f"The attribute {name!r} of class {who!r} is {cell!r}; expected a number, a percentage, yes or no, or "
                "an empty cell: correct it."
            )
        if percent and "%" not in cell and abs(value) > 1:
            raise BadInput(
                f"The attribute {name!r} is given in percent for some classes, but is {cell!r} for {who!r}; write "
                "% everywhere or nowhere."
            )
        values.append(value)
    return values


def _cell(cell: str) -> float | None:
    """The number that a cell means, NaN for a missing one, None for what means nothing."""
    word = cell.strip().lower()
    if word in MISSING:
        return math.nan
    if word in YES or word in NO:
        return float(word in YES)
    share = word.removesuffix("%").strip()
    if share.count(",") == 1 and "." not in share:
        share = share.replace(",", ".")  # the decimal comma of half of the world
    try:
        value = float(share)
    except ValueError:
        return None
    return value / 100 if word.endswith("%") else value
