"""Tables in CSV or Parquet: text stays text, and a line that does not fit the header is an error with its number."""

from __future__ import annotations

import csv
import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firstsight._io.files import Allowance, csv_name, require_file
from firstsight.data.rules import as_float32
from firstsight.errors import BadInput, UnreadableFile

if TYPE_CHECKING:
    import pandas as pd


# Names that a person takes for one and a program for two.


def normalized(name: str) -> str:
    """A name without what a reader overlooks: case, spaces, underscores, hyphens, invisible marks, composed letters.

    >>> normalized("Polar_Bear") == normalized("polar bear")
    True
    """
    text = unicodedata.normalize("NFKC", name).casefold()
    text = "".join(letter for letter in text if unicodedata.category(letter) not in ("Cc", "Cf"))
    return re.sub(r"[\s_-]+", "", text)


def same_on_screen(name: str, other: str) -> bool:
    """Whether two names differ in their code points alone, such as é in one piece and in two."""
    return unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", other)


def nearest_name(name: str, names: Sequence[str]) -> str | None:
    """The name that is the same when both are `normalized`, else the one that looks most like it."""
    same = {normalized(known): known for known in reversed(names)}.get(normalized(name))
    return same or next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.75)), None)


# Tables, CSV or Parquet: texts stay texts, and a line that does not fit the heading is refused by its number.

SUFFIXES = (".csv", ".parquet")
_KNOWN_COLUMNS = {"class", "split", "sample", "unseen"}
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
    column = "class" if "class" in table else table.columns[0]
    names = texts(path, table.pop(column))
    if table.shape[1] == 0:
        raise BadInput(
            f"{path} has a single column, {column!r}; expected columns of numbers next to it, which describe the "
            "classes. If you have names alone, write them to a .csv file with the column 'class'."
        )
    return pd.DataFrame(numbers(path, table), index=pd.Index(names, name="class"), columns=table.columns)


def check_header(path: Path, header: list[str]) -> None:
    """Reject a first line that holds a sample or a class instead of names: pandas would take it for the header.

    It does if its cells are numbers, all of them or all but the first, and no column has one of the names that a table
    of samples or classes has. Numbers that count the columns, 0, 1, 2, … or 1, 2, 3, …, are names: pandas writes these
    for an array.
    """
    if _KNOWN_COLUMNS & set(header):
        return
    if _are_values(header):
        line = "numbers"
    elif not _are_numbers(header) and _are_values(header[1:]):
        line = f"{header[0]!r} and numbers"
    else:
        return
    raise BadInput(
        f"The first line of {path} is {line}, as if it were data; a table begins with the names of its columns: put "
        "them above it (class, … for classes; f0, f1, … for features)."
    )


def _are_values(cells: list[str]) -> bool:
    """Whether all of these are numbers, other than those that count columns."""
    counted = [[str(number + start) for number in range(len(cells))] for start in (0, 1)]
    return _are_numbers(cells) and cells not in counted


def _are_numbers(cells: list[str]) -> bool:
    try:
        return bool([float(cell) for cell in cells])
    except ValueError:
        return False


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


def read_header(path: Path) -> list[str]:
    """The names of the columns of a CSV file; where the first line holds data, or is damaged, that is an error."""
    if path.suffix.lower() not in (".csv", ".txt"):
        raise BadInput(f"{path} must be a .csv or a .parquet file; convert it.")
    with _one_sentence(path):
        return _heading(path, _encoding_of(path))[0]


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

    encoding = _encoding_of(path)
    heading, separator = _heading(path, encoding)
    Allowance(path).take(_COLUMN_BYTES * len(heading), "The heading")
    wanted = (text_columns or set()) & set(heading) or ({heading[0]} if or_first else set())
    if text_columns is not None and ("" in heading[1:] or (heading[0] == "" and "" not in wanted)):
        raise BadInput(
            f"The heading of {path} leaves a column without a name, which would count as one more number; name it or "
            "remove it (pandas writes one for its index: leave it out with `index=False`)."
        )
    types: dict[str, Any] = {"dtype": str, "na_filter": False}
    if text_columns is not None:  # a class called "NA" or "007" is a class, not a missing value or a number
        missing = {name: _MISSING for name in heading if name not in wanted}
        types = {"dtype": dict.fromkeys(wanted, str), "keep_default_na": False, "na_values": missing}
    names = [name if name or name in wanted else f"Unnamed: {column}" for column, name in enumerate(heading)]
    try:
        table: pd.DataFrame = pd.read_csv(
            path, sep=separator, encoding=encoding, index_col=False, header=0, names=names, **types
        )
    except pd.errors.ParserError:
        _check_lines(path, encoding, separator, len(heading))
        raise
    table = table.assign(**{name: table[name].str.strip().map(csv_name) for name in wanted})
    return table.set_axis([csv_name(str(name)) for name in table.columns], axis=1)


def _encoding_of(path: Path) -> str:
    with path.open("rb") as file:
        return "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _heading(path: Path, encoding: str) -> tuple[list[str], str]:
    """The names of the columns, without spaces around them, and what stands between them.

    The first line after it is checked here: where it is longer, pandas would take its first cells for an index.
    """
    separator, heading = _separated(path, encoding)
    if not heading:
        raise UnreadableFile(f"{path} could not be read as a table: it is empty, and a table begins with column names.")
    check_header(path, heading)
    twice = next((name for name, count in Counter(heading).items() if name and count > 1), None)
    if twice is not None:  # pandas would call the second one otherwise and go on
        raise BadInput(f"The heading of {path} names the column {twice!r} twice; give every column its own name.")
    _check_lines(path, encoding, separator, len(heading), lines=2)
    return heading, separator


def _separated(path: Path, encoding: str) -> tuple[str, list[str]]:
    """Comma, semicolon or tab, and the cells of the first line that is not empty.

    Of those that cut it into as many cells as the next line, more than one, the one that gives most cells: a comma may
    be part of a name, or of a number. Where none does, the one that gives most cells of the first line.
    """
    found: list[tuple[tuple[bool, int], str, list[str]]] = []
    problem: Exception | None = None
    for separator in ("\t", ";", ","):  # where two give the same, a comma is rather part of a number
        with path.open(encoding=encoding, newline="") as file:
            lines = csv.reader(file, delimiter=separator)
            filled = (cells for cells in lines if len(cells) > 1 or "".join(cells).strip())
            try:
                first, second = next(filled, []), next(filled, [])
            except csv.Error as error:  # a whole line is one cell to the wrong separator, and too long
                problem = error
                continue
        found.append(((len(first) == len(second) > 1, len(first)), separator, [cell.strip() for cell in first]))
    if not found:
        raise UnreadableFile(f"{path} could not be read as a table ({problem}); save it again.")
    _, separator, header = max(found, key=lambda cut: cut[0])
    return separator, header


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
