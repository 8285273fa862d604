"""Every reader of data sets, found by looking into this folder: one file, one format; there is no list to keep.

A reader is anything, a module will do, with `matches(path) -> bool` and `read(path, features)`, which returns a
`ZeroShotDataset`, or an `UncheckedDataset` for the audit to judge. `ACCEPTS`, if there, says in words what it reads;
`CHOOSES_FEATURES = True` says that it heeds `features`. Installed packages add theirs with an entry point in the group
"firstsight.datasets" (docs/data.md).
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.unchecked import UncheckedDataset
from firstsight.errors import BadInput, FirstsightWarning, UnreadableFile

GROUP = "firstsight.datasets"


class Reader(Protocol):
    def matches(self, path: Path, /) -> bool: ...

    def read(self, path: Path, features: str | None = None, /) -> ZeroShotDataset | UncheckedDataset: ...


@cache
def all_readers() -> dict[str, Reader]:
    """Own readers by their file's name and, after them, those of other installed packages."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    readers: dict[str, Reader] = {name: importlib.import_module(f"{__name__}.{name}") for name in names}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            if point.name in readers:
                raise ValueError(f"there is a reader {point.name} already; give its entry point another name.")
            reader = point.load()
            reader = reader() if isinstance(reader, type) else reader
            if not all(callable(getattr(reader, name, None)) for name in ("matches", "read")):
                raise TypeError(f"it must have `matches(path)` and `read(path, features)`, and is {reader!r}.")
            readers[point.name] = reader
        except Exception as error:  # whatever another package does wrong, the readers here go on working
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
