"""The format of your own data as two tables, samples and classes, in CSV or Parquet.

`samples` has one row per sample. Column `class` is its class; `split`, if there, is train, test_seen,
test_unseen or empty (not used); `sample`, if there, is its name; every other column is a feature.

Features may also be in a file `features.npy` next to `samples`, one row per row of it, where they stay (`DiskSamples`);
`samples` has no other columns then: two sources of features are an error.

`classes` has one row per class. Column `class`, or else the first one, is its name; every other column is
part of its description. When `samples` has no `split`, a column `unseen` (true/false) must mark the classes
to be tested as unseen; then a fifth of the rows of every other class, drawn once and for all, is `test_seen`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firstsight._io.disk_samples import DiskSamples
from firstsight._io.files import text_of_name
from firstsight.data.dataset import ZeroShotDataset, hold_out
from firstsight.data.rules import PARTS
from firstsight.data.table_files import SUFFIXES, numbers, read_table, same_on_screen, texts
from firstsight.errors import BadInput, UnknownName

if TYPE_CHECKING:
    import pandas as pd

ACCEPTS = "a folder with samples.csv and classes.csv (or .parquet)"
_HELD_OUT = 0.2
_TRUE, _FALSE = {"true", "1", "1.0", "yes"}, {"false", "0", "0.0", "no", ""}


def matches(path: Path) -> bool:
    # A folder in the community's layout may have tables beside it.
    return path.is_dir() and not (path / "att_splits.mat").exists() and find_tables(path) is not None


def read(path: Path, features: str | None = None) -> dict[str, Any]:
    pair = find_tables(path)
    assert pair is not None
    return read_pair(*pair)


def read_tables(samples: str | Path, classes: str | Path) -> ZeroShotDataset:
    """Read a table of samples and a table of classes; this module's docstring says what they hold."""
    return ZeroShotDataset(**read_pair(samples, classes))


def find_tables(folder: str | Path) -> tuple[Path, Path] | None:
    """`samples` and `classes` in a folder, each .csv or .parquet; None unless both are there."""
    pair = []
    for stem in ("samples", "classes"):
        found = [path for suffix in SUFFIXES if (path := Path(folder) / (stem + suffix)).exists()]
        if len(found) > 1:
            raise BadInput(f"{folder} has both {found[0].name} and {found[1].name}; remove one of them.")
        pair += found
    return (pair[0], pair[1]) if len(pair) == 2 else None


def read_pair(samples: str | Path, classes: str | Path) -> dict[str, Any]:
    """Read the arguments of a data set; a class without a row in `classes` gets a description of NaN."""
    samples, classes = Path(samples), Path(classes)
    table, described = read_table(samples, {"class", "split", "sample"}), read_table(classes, {"class"})
    if "class" not in table:
        raise BadInput(f"{samples} must have a column 'class', but has {_some(table)}; add one.")
    key = "class" if "class" in described else described.columns[0]
    unseen = _truths(classes, described.pop("unseen")) if "unseen" in described else None
    names, labels_text = texts(classes, described.pop(key)), texts(samples, table.pop("class"))
    split = table.pop("split") if "split" in table else None
    sample_names = tuple(texts(samples, table.pop("sample"))) if "sample" in table else None
    undescribed = sorted(set(labels_text) - set(names))
    for name in undescribed:
        twin = next((known for known in names if same_on_screen(name, known)), None)
        if twin is not None:
            raise BadInput(
                f"The class {name!r} of {samples} looks the same as one of {classes}, but has other code points "
                f"({name!a}, and {twin!a}); write both the same way."
            )
    attributes = numbers(classes, described)
    code = {name: i for i, name in reversed(list(enumerate([*names, *undescribed])))}
    labels = np.array([code[name] for name in labels_text], dtype=np.int64)
    if split is not None:
        parts = _named_parts(texts(samples, split))
    elif unseen is not None:
        parts = _drawn_parts(labels, np.append(unseen, np.zeros(len(undescribed), dtype=bool)))
    else:
        raise BadInput(
            f"{samples} has no column 'split' and {classes} has no column 'unseen', so nothing says which "
            "classes are unseen; add one of the two."
        )
    features = _features(samples, table)
    return {
        "name": text_of_name(samples.resolve().parent.name),
        "class_names": (*names, *undescribed),
        "description_matrix": np.vstack([attributes, np.full((len(undescribed), attributes.shape[1]), np.nan, "f4")]),
        **parts,
        "labels": labels,
        "features": features,
        "feature_names": None if isinstance(features, DiskSamples) else tuple(map(str, table.columns)),
        "attribute_names": tuple(map(str, described.columns)),
        "sample_names": sample_names,
    }


def _features(samples: Path, table: pd.DataFrame) -> np.ndarray | DiskSamples:
    beside = samples.with_name("features.npy")
    if not beside.exists():
        return numbers(samples, table)
    if table.shape[1]:
        raise BadInput(
            f"{samples} has columns of features ({_some(table)}), and {beside} holds features, too; remove the columns "
            "or the file: the features of a data set come from one place."
        )
    rows = DiskSamples(beside)
    if len(rows) != len(table):
        raise BadInput(f"{beside} has {len(rows)} rows and {samples} {len(table)}; give one row for each sample.")
    return rows


def _named_parts(split: list[str]) -> dict[str, np.ndarray]:
    unknown = next((name for name in split if name and name not in PARTS), None)
    if unknown is not None:
        raise UnknownName("split", unknown, PARTS)
    return {part: np.flatnonzero(np.array(split) == part) for part in PARTS}


def _drawn_parts(labels: np.ndarray, unseen: np.ndarray) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)  # the same rows every time the same table is read
    train, test_seen = hold_out(np.flatnonzero(~unseen[labels]), labels, _HELD_OUT, random)
    return {"train": train, "test_seen": test_seen, "test_unseen": np.flatnonzero(unseen[labels])}


def _truths(path: Path, column: pd.Series) -> np.ndarray:
    words = column.fillna("").astype(str).str.strip().str.lower()
    strange = words[~words.isin(_TRUE | _FALSE)]
    if len(strange):
        raise BadInput(f"Column 'unseen' of {path} must be true or false, but contains {strange.iloc[0]!r}; fix it.")
    return words.isin(_TRUE).to_numpy()


def _some(table: pd.DataFrame) -> str:
    names = [repr(name) for name in table.columns[:5]]
    return ", ".join(names) + (", …" if table.shape[1] > 5 else "")
