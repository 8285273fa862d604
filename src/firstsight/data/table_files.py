"""Tables, CSV or Parquet: texts stay texts, and a line that does not fit the heading is refused by its number."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firstsight.data.rules.arrays import as_float32
from firstsight.errors import BadInput, UnreadableFile
from firstsight.files import Allowance, csv_name, require_file

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".parquet")
_COLUMN_BYTES = 16 << 10  # what pandas takes for a column, however few its rows
_MISSING = [
    "",
    "NA",
    "N/A",
    "n/a",
    "#N/A",
    "NaN",
    "nan",
    "-NaN",
    "-nan",
    "null",
    "NULL",
    "None",
    "<NA>",
]  # as pandas has it


def read_descriptions(path: str | Path) -> pd.DataFrame:
    """A table of classes (.csv or .parquet) indexed by class: column `class`, or else the first one."""
    import pandas as pd

    path = Path(path)
    table = read_table(path, {"class"}).drop(columns="unseen", errors="ignore")
    if "class" not in table and _are_values([str(name) for name in table.columns[1:]]):
        raise BadInput(
            f"The first line of {path} is {table.columns[0]!r} and numbers, as if it were a class; a table begins with "
            "the names of its columns: put them above it, `class` first."
        )
    names = texts(path, table.pop("class" if "class" in table else table.columns[0]))
    return pd.DataFrame(numbers(path, table), index=pd.Index(names, name="class"), columns=table.columns)


def _are_values(heading: list[str]) -> bool:
    """Whether all of these are numbers, other than those that count columns: pandas calls nameless ones 0, 1, 2, …"""
    try:
        numbers = [float(name) for name in heading]
    except ValueError:
        return False
    return bool(numbers) and [n - numbers[0] for n in numbers] != list(range(len(numbers)))


def read_table(path: Path, text_columns: set[str], or_first: bool = True) -> pd.DataFrame:
    """The table at `path`; those of `text_columns` it has, or else its first column (if so wished), hold text."""
    if path.suffix.lower() not in SUFFIXES:
        raise BadInput(f"{path} must be a .csv or a .parquet file; convert it.")
    with _one_sentence(path):
        return _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path, text_columns, or_first)


def read_texts(path: Path) -> pd.DataFrame:
    """The table at `path`, every cell of it as text; what is missing is an empty one."""
    if path.suffix.lower() not in (".csv", ".txt"):
        raise BadInput(f"{path} must be a .csv file; save the table as one.")
    with _one_sentence(path):
        return _read_csv(path, None)


@contextmanager
def _one_sentence(path: Path) -> Iterator[None]:
    require_file(path)
    try:
        yield
    except BadInput:
        raise
    except ImportError as error:
        raise BadInput(
            f"Reading {path} needs pyarrow, which is not installed; pip install 'firstsight[parquet]', or "
            "save the table as CSV."
        ) from error
    except UnicodeError as error:
        raise UnreadableFile(
            f"{path} is not UTF-8 text; it may be Latin-1 or another program's own encoding: save it as UTF-8 "
            "(spreadsheets call it 'CSV UTF-8')."
        ) from error
    except Exception as error:  # pandas and pyarrow answer damage with many unrelated types
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnreadableFile(f"{path} could not be read as a table ({reason}); save it again.") from error


def texts(path: Path, column: pd.Series) -> list[str]:
    """A column of names, none of them empty."""
    cells = ["" if missing else str(value) for value, missing in zip(column, column.isna(), strict=True)]
    if "" in cells and column.name != "split":
        raise BadInput(f"Column {column.name!r} of {path} has empty entries; fill them in.")
    return cells


def numbers(path: Path, table: pd.DataFrame) -> np.ndarray:
    """All columns as a float32 matrix."""
    wrong = [name for name in table if len(table) and table[name].dtype.kind not in "fiub"]  # no rows have no type
    if wrong:
        raise BadInput(f"Column {wrong[0]!r} of {path} must hold numbers, but holds text; convert or remove it.")
    if table.shape[1] == 0:
        raise BadInput(f"{path} has no columns of numbers; add some.")
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, which is then reported as such
        values: np.ndarray = as_float32(path.stem, table.to_numpy(dtype=np.float32, na_value=np.nan))
    return values


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow.parquet

    size = pyarrow.parquet.read_metadata(path)
    Allowance(path).take(
        8 * size.num_rows * size.num_columns, "The table"
    )  # a run of equal values costs the file nothing
    stored = pyarrow.parquet.read_table(path)
    stored.validate(full=True)  # text that is none would be found out much later
    table: pd.DataFrame = stored.to_pandas()
    return table.reset_index() if table.index.name else table  # a frame saved with its index


def _read_csv(path: Path, text_columns: set[str] | None, or_first: bool = True) -> pd.DataFrame:
    """`text_columns` hold text, or the first one does; None: all do."""
    import pandas as pd

    with path.open("rb") as file:
        encoding = "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    heading, separator = _heading(path, encoding)
    Allowance(path).take(_COLUMN_BYTES * len(heading), "The heading")
    wanted = (text_columns or set()) & set(heading) or ({heading[0]} if or_first else set())
    if text_columns is not None and "" in heading and not (heading[0] == "" and heading[0] in wanted):
        raise BadInput(
            f"The heading of {path} leaves a column without a name, which would count as one more number; name it or "
            "remove it (pandas writes one for its index: leave it out with `index=False`)."
        )
    types: dict[str, Any] = {"dtype": str, "na_filter": False}
    if text_columns is not None:  # a class called "NA" or "007" is a class, not a missing value or a number
        missing = {name: _MISSING for name in heading if name not in wanted}
        types = {"dtype": dict.fromkeys(wanted, str), "keep_default_na": False, "na_values": missing}
    try:
        table: pd.DataFrame = pd.read_csv(path, sep=separator, encoding=encoding, index_col=False, **types)
    except pd.errors.ParserError:
        _check_lines(path, encoding, separator, len(heading))
        raise
    table = table.assign(**{name: table[name].str.strip().map(csv_name) for name in wanted})
    return table.set_axis([csv_name(str(name)) for name in table.columns], axis=1)


def _heading(path: Path, encoding: str) -> tuple[list[str], str]:
    """The names of the columns and what stands between them: of comma, semicolon and tab the most frequent one.

    The first line after it is checked here: where it is longer, pandas would take its first cells for an index.
    """
    with path.open(encoding=encoding, newline="") as file:
        first = next((line for line in file if line.strip()), "")
    separator = max((",", ";", "\t"), key=first.count)
    heading = next(csv.reader([first], delimiter=separator), [])
    if not heading:
        raise UnreadableFile(f"{path} could not be read as a table: it is empty, and a table begins with column names.")
    twice = next((name for name, count in Counter(heading).items() if name and count > 1), None)
    if twice is not None:  # pandas would call the second one otherwise and go on
        raise BadInput(f"The heading of {path} names the column {twice!r} twice; give every column its own name.")
    _check_lines(path, encoding, separator, len(heading), lines=2)
    return heading, separator


def _check_lines(path: Path, encoding: str, separator: str, expected: int, lines: int | None = None) -> None:
    """Refuse the first line with more cells than the heading, among so many lines that are not empty."""
    with path.open(encoding=encoding, newline="") as file:
        reader = csv.reader(file, delimiter=separator)
        for cells in reader:
            if len(cells) > expected:
                raise BadInput(
                    f"Line {reader.line_num} of {path} has {len(cells)} cells, but the heading names {expected} "
                    "columns; give every line one cell per column."
                )
            if lines is not None and cells and (lines := lines - 1) == 0:
                return
