"""What a table of the report is, before it becomes HTML, LaTeX, Markdown or CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import Any


@dataclass(frozen=True)
class Cell:
    """What stands in one place: the text, a small sign behind it, a quieter line beneath it, and how it is marked.

    A `share` from 0 to 1 is shown as a bar behind the text where the format has bars.
    """

    text: str
    detail: str = ""
    mark: str = ""  # "best", "second", "failed", "ours" or ""
    sign: str = ""
    share: float | None = None


@dataclass(frozen=True)
class Column:
    """The head of a column; neighbours with the same `group` share a head above their own."""

    title: str
    group: str = ""
    is_number: bool = True


Row = Sequence[Cell] | str


@dataclass(frozen=True)
class Table:
    """A table; a row that is a string is a heading over all columns.

    `name` is the stem of its files. `tidy` are the same figures for programs, one mapping per CSV line; left out,
    the CSV has the table's own texts.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    tidy: Sequence[Mapping[str, Any]] = field(default=())


def words(*titles: str) -> list[Column]:
    """Columns of words."""
    return [Column(title, is_number=False) for title in titles]


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Mean ± standard deviation; without a deviation if there is only one value, a dash without any."""
    if not values:
        return "–"
    shown = f"{mean(values):.{digits}f}".replace("-", "−")
    return shown + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def signed(value: float, digits: int = 1) -> str:
    """A difference with its sign; what rounds to nothing has none."""
    shown = f"{value:+.{digits}f}"
    return shown[1:] if float(shown) == 0 else shown.replace("-", "−")
