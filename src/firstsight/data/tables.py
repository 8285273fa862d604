"""Data sets of one's own as a pair of tables, CSV or Parquet.

`samples` has one row per sample. Column `class` is its class; `split`, if there, is train, test_seen,
test_unseen or empty (not used); `sample`, if there, is its name; every other column is a feature.

`classes` has one row per class. Column `class`, or else the first one, is its name; every other column is
part of its description. When `samples` has no `split`, a column `unseen` (true/false) must mark the classes
to be tested as unseen; then a fifth of the rows of every other class, drawn once and for all, is `test_seen`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firstsight.data import npz
from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.holding_out import hold_out
from firstsight.data.raw import RawDataset
from firstsight.data.rules import checks
from firstsight.data.rules.checks import PARTS
from firstsight.errors import BadInput, UnknownName, UnreadableFile

if TYPE_CHECKING:
    import pandas as pd

_SUFFIXES = (".csv", ".parquet")
_HELD_OUT = 0.2
_TRUE, _FALSE = {"true", "1", "1.0", "yes"}, {"false", "0", "0.0", "no", ""}


def read_tables(samples: str | Path, classes: str | Path) -> ZeroShotDataset:
    """Read a table of samples and a table of classes; this module's docstring says what they hold."""
    return read_raw_tables(samples, classes).checked()


def read_features(path: str | Path) -> tuple[np.ndarray, list]:
    """Rows to predict: their features (n, d) and their names (column or key `sample`, else their numbers).

    .npy: a matrix; .npz: key `features` and, if there, `sample_names`; .csv or .parquet: every column of numbers but
    `sample`; `class` and `split` are passed over, so a table of samples will do.
    """
    path = Path(path)
    if path.suffix in (".npy", ".npz"):
        return npz.read_feature_arrays(path)
    table = _read(path, {"class", "split", "sample"}, or_first=False).drop(columns=["class", "split"], errors="ignore")
    names = _strings(path, table.pop("sample")) if "sample" in table else list(range(len(table)))
    return _numbers(path, table), names


def read_classes_of_samples(path: str | Path) -> list[str] | None:
    """Column `class` of a table of samples; None if there is none."""
    path = Path(path)
    if path.suffix not in _SUFFIXES:
        return None
    table = _read(path, {"class", "sample", "split"}, or_first=False)
    return _strings(path, table["class"]) if "class" in table else None


def read_descriptions(path: str | Path) -> pd.DataFrame:
    """A table of classes (.csv or .parquet) indexed by class: column `class`, or else the first one."""
    path = Path(path)
    table = _read(path, {"class"}).drop(columns="unseen", errors="ignore")
    names = _strings(path, table.pop("class" if "class" in table else table.columns[0]))
    import pandas as pd

    return pd.DataFrame(_numbers(path, table), index=pd.Index(names, name="class"), columns=table.columns)


def find_tables(folder: str | Path) -> tuple[Path, Path] | None:
    """`samples` and `classes` in a folder, each .csv or .parquet; None unless both are there."""
    pair = []
    for stem in ("samples", "classes"):
        there = [path for suffix in _SUFFIXES if (path := Path(folder) / (stem + suffix)).exists()]
        if len(there) > 1:
            raise BadInput(f"{folder} has both {there[0].name} and {there[1].name}; remove one of them.")
        pair += there
    return (pair[0], pair[1]) if len(pair) == 2 else None


def read_raw_tables(samples: str | Path, classes: str | Path) -> RawDataset:
    """As `read_tables`, unjudged; a class without a row in `classes` gets a description of NaN."""
    samples, classes = Path(samples), Path(classes)
    table, described = _read(samples, {"class", "split", "sample"}), _read(classes, {"class"})
    if "class" not in table:
        raise BadInput(f"{samples} must have a column 'class', but has {_some(table)}; add one.")
    key = "class" if "class" in described else described.columns[0]
    unseen = _truths(classes, described.pop("unseen")) if "unseen" in described else None
    names, labels_text = _strings(classes, described.pop(key)), _strings(samples, table.pop("class"))
    split = table.pop("split") if "split" in table else None
    sample_names = tuple(_strings(samples, table.pop("sample"))) if "sample" in table else None
    undescribed = sorted(set(labels_text) - set(names))
    attributes = _numbers(classes, described)
    code = {name: i for i, name in reversed(list(enumerate([*names, *undescribed])))}
    labels = np.array([code[name] for name in labels_text], dtype=np.int64)
    if split is not None:
        parts = _named_parts(_strings(samples, split))
    elif unseen is not None:
        parts = _drawn_parts(labels, np.append(unseen, np.zeros(len(undescribed), dtype=bool)))
    else:
        raise BadInput(
            f"{samples} has no column 'split' and {classes} has no column 'unseen', so nothing says which "
            "classes are unseen; add one of the two."
        )
    return RawDataset(
        name=samples.resolve().parent.name,
        class_names=(*names, *undescribed),
        description_matrix=np.vstack([attributes, np.full((len(undescribed), attributes.shape[1]), np.nan, "f4")]),
        parts=parts,
        labels=labels,
        features=_numbers(samples, table),
        attribute_names=tuple(map(str, described.columns)),
        sample_names=sample_names,
    )


def _named_parts(split: list[str]) -> dict[str, np.ndarray]:
    unknown = next((name for name in split if name and name not in PARTS), None)
    if unknown is not None:
        raise UnknownName("split", unknown, PARTS)
    return {part: np.flatnonzero(np.array(split) == part) for part in PARTS}


def _drawn_parts(labels: np.ndarray, unseen: np.ndarray) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)  # the same rows every time the same table is read
    train, test_seen = hold_out(np.flatnonzero(~unseen[labels]), labels, _HELD_OUT, random)
    return {"train": train, "test_seen": test_seen, "test_unseen": np.flatnonzero(unseen[labels])}


def _read(path: Path, texts: set[str], or_first: bool = True) -> pd.DataFrame:
    """The table at `path`; those of `texts` it has, or else its first column (if so wished), hold text."""
    import pandas as pd

    if path.suffix not in _SUFFIXES:
        raise BadInput(f"{path} must be a .csv or a .parquet file; convert it.")
    try:
        if path.suffix == ".parquet":
            table = pd.read_parquet(path)
            return table.reset_index() if table.index.name else table  # a frame saved with its index
        columns = pd.read_csv(path, nrows=0, encoding="utf-8-sig").columns
        texts = texts & set(columns) or ({columns[0]} if or_first else set())
        if not texts:
            return pd.read_csv(path, encoding="utf-8-sig")
        # Read apart: a class called "NA" or "007" is a class, not a missing value or a number.
        text = pd.read_csv(path, usecols=list(texts), dtype=str, na_filter=False, encoding="utf-8-sig")
        rest = pd.read_csv(path, usecols=lambda name: name not in texts, encoding="utf-8-sig")
        return pd.concat([text.apply(lambda column: column.str.strip()), rest], axis=1)
    except FileNotFoundError as error:
        raise UnreadableFile(f"{path} does not exist; check the path.") from error
    except ImportError as error:
        raise BadInput(
            f"Reading {path} needs pyarrow, which is not installed; pip install 'firstsight[parquet]', or "
            "save the table as CSV."
        ) from error
    except (OSError, ValueError, IndexError) as error:  # pandas' and pyarrow's parsing errors are ValueErrors
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnreadableFile(f"{path} could not be read as a table ({reason}); save it again.") from error


def _strings(path: Path, column: pd.Series) -> list[str]:
    found = ["" if missing else str(value) for value, missing in zip(column, column.isna(), strict=True)]
    if "" in found and column.name != "split":
        raise BadInput(f"Column {column.name!r} of {path} has empty entries; fill them in.")
    return found


def _numbers(path: Path, table: pd.DataFrame) -> np.ndarray:
    wrong = [name for name in table if table[name].dtype.kind not in "fiub"]
    if wrong:
        raise BadInput(f"Column {wrong[0]!r} of {path} must hold numbers, but holds text; convert or remove it.")
    if table.shape[1] == 0:
        raise BadInput(f"{path} has no columns of numbers; add some.")
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, which is then reported as such
        return checks.as_float32(path.stem, table.to_numpy(dtype=np.float32, na_value=np.nan))


def _truths(path: Path, column: pd.Series) -> np.ndarray:
    words = column.fillna("").astype(str).str.strip().str.lower()
    strange = words[~words.isin(_TRUE | _FALSE)]
    if len(strange):
        raise BadInput(f"Column 'unseen' of {path} must be true or false, but contains {strange.iloc[0]!r}; fix it.")
    return words.isin(_TRUE).to_numpy()


def _some(table: pd.DataFrame) -> str:
    names = [repr(name) for name in table.columns[:5]]
    return ", ".join(names) + (", …" if table.shape[1] > 5 else "")
