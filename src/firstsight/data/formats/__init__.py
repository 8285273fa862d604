"""`load_dataset`, and the readers of data sets: each file in this folder reads one format.

A reader is a module or an object with `matches(path) -> bool` and `read(path, features)`, which returns a
`ZeroShotDataset`, or a dictionary of its arguments, which the audit reports every error of. `ACCEPTS`, if it exists,
names what it reads; `CHOOSES_FEATURES = True` states that it uses `features`. Installed packages add readers with an
entry point in the group "firstsight.datasets" (docs/data.md).
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.rules import RawDataset
from firstsight.errors import BadInput, FirstsightWarning, UnreadableFile

GROUP = "firstsight.datasets"


class Reader(Protocol):
    def matches(self, path: Path, /) -> bool: ...

    def read(self, path: Path, features: str | None = None, /) -> ZeroShotDataset | dict[str, Any]: ...


class _BuiltIn:
    """The reader of the built-in data set, which has a name instead of a file."""

    ACCEPTS = "'glyphs' (built in)"

    def matches(self, path: Path, /) -> bool:
        return str(path) == "glyphs"

    def read(self, path: Path, features: str | None = None, /) -> ZeroShotDataset:
        from firstsight.data.glyphs import load_glyphs

        return load_glyphs()


@cache
def all_readers() -> dict[str, Reader]:
    """The built-in reader, those of this folder by their file's name, and those of other installed packages."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    readers: dict[str, Reader] = {"built_in": _BuiltIn()}
    readers |= {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            if point.name in readers:
                raise ValueError(f"there is a reader {point.name} already; give its entry point another name.")
            reader = point.load()
            reader = reader() if isinstance(reader, type) else reader
            if not all(callable(getattr(reader, name, None)) for name in ("matches", "read")):
                raise TypeError(f"it must have `matches(path)` and `read(path, features)`, and is {reader!r}.")
            readers[point.name] = reader
        except Exception as error:  # a mistake of another package must not stop the readers here
            reason = " ".join(str(error).split())
            warnings.warn(f"The reader {point.name!r} ({point.value}) is left out: {reason}", FirstsightWarning, 2)
    return readers


def find_reader(path: Path, features: str | None = None) -> Reader:
    """The first reader that says it can read `path`."""
    reader = next((reader for reader in all_readers().values() if reader.matches(path)), None)
    if reader is None:
        accepted = [getattr(reader, "ACCEPTS", name) for name, reader in all_readers().items()]
        known = f"accepted are {', '.join(accepted[:-1])}, or {accepted[-1]}."
        if not path.exists():
            raise UnreadableFile(f"There is no data set {str(path)!r}; {known}")
        raise BadInput(f"{path} is not a data set that firstsight can read; {known}")
    if features is not None and not getattr(reader, "CHOOSES_FEATURES", False):
        raise BadInput(
            f"`features` chooses among the feature files of a folder with att_splits.mat, but {path} is not one; leave "
            "it out."
        )
    return reader


def load_dataset(path_or_name: str | Path, features: str | None = None) -> ZeroShotDataset:
    """Load a data set by its name or from its files.

    Parameters
    ----------
    path_or_name : str or Path
        "glyphs", an xlsa17 folder, a folder with a pair of tables, an .npz file, or what an installed reader reads.
    features : str, optional
        The feature file of an xlsa17 folder that has several.

    Returns
    -------
    ZeroShotDataset
        Validated; what deserves a look is a warning.
    """
    path = Path(path_or_name)
    found = find_reader(path, features).read(path, features)
    dataset = ZeroShotDataset(**found) if isinstance(found, dict) else found
    for finding in dataset.warnings:
        warnings.warn(f"{dataset.name}: {finding.message}", FirstsightWarning, 2)
    return dataset


def load_raw(path_or_name: str | Path, features: str | None = None) -> RawDataset:
    """Load a data set as `load_dataset` does, but without validating what a reader found."""
    path = Path(path_or_name)
    found = find_reader(path, features).read(path, features)
    return RawDataset(**found) if isinstance(found, dict) else found
