"""One word or path to a data set, whatever its format."""

from __future__ import annotations

from pathlib import Path

from firstsight.data import npz, tables, xlsa17
from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.raw import RawDataset
from firstsight.errors import BadInput, UnreadableFile

ACCEPTED = (
    "'glyphs' (built in), a folder with att_splits.mat and a feature file, a folder with samples.csv and "
    "classes.csv (or .parquet), or an .npz file"
)


def load_dataset(path_or_name: str | Path, features: str | None = None) -> ZeroShotDataset:
    """Load "glyphs", an xlsa17 folder, a folder with a pair of tables, or an .npz file.

    `features` names the feature file of an xlsa17 folder that has several.
    """
    if str(path_or_name) == "glyphs":
        _refuse_features(path_or_name, features)
        return _glyphs()
    return load_raw(path_or_name, features).checked()


def load_raw(path_or_name: str | Path, features: str | None = None) -> RawDataset:
    """As `load_dataset`, unjudged."""
    path = Path(path_or_name)
    if str(path_or_name) == "glyphs":
        _refuse_features(path_or_name, features)
        return RawDataset.of(_glyphs())
    if (path / xlsa17.SPLITS_FILE).exists():
        return xlsa17.read_raw(path, features)
    _refuse_features(path_or_name, features)
    if path.is_dir() and (pair := tables.find_tables(path)) is not None:
        return tables.read_raw_tables(*pair)
    if path.is_file() and path.suffix == ".npz":
        return npz.read_raw_npz(path)
    if not path.exists():
        raise UnreadableFile(f"There is no data set {str(path)!r}; accepted are {ACCEPTED}.")
    raise BadInput(f"{path} is not a data set that firstsight can read; accepted are {ACCEPTED}.")


def _glyphs() -> ZeroShotDataset:
    from firstsight.data.glyphs import load_glyphs

    return load_glyphs()


def _refuse_features(path_or_name: str | Path, features: str | None) -> None:
    if features is not None:
        raise BadInput(
            f"`features` chooses among the feature files of a folder with att_splits.mat, but {path_or_name} "
            "is none; leave it out."
        )
