"""How other Python processes are started: nothing that lies in the current folder is for them to import."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_current_folder() -> Iterator[None]:
    """Processes that are started within do not import from the current folder, which may be anybody's.

    A new interpreter looks there first, before it is told of this one's `sys.path` by whoever started it (loky,
    multiprocessing): PYTHONSAFEPATH forbids that. What the caller's PYTHONPATH names stays.
    """
    path, safe = sys.path, os.environ.get("PYTHONSAFEPATH")
    asked_for = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path = [place for place in path if place and (place in asked_for or not _is_here(place))]
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        sys.path = path
        if safe is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = safe


def _is_here(place: str) -> bool:
    try:
        return os.path.samefile(place, ".")
    except OSError:  # not there, or we are in a folder that was removed
        return False
