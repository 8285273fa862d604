"""Nothing drops out of discovery unnoticed: methods, files and rows are as many as the README says."""

from __future__ import annotations

from pathlib import Path

import firstsight.methods
from firstsight.methods import all_methods

EXPECTED = 22  # the paper's two, the seventeen that it compares with, and three of our own


def test_there_are_as_many_methods_as_we_count():
    assert len(all_methods()) == EXPECTED


def test_there_is_one_file_per_method():
    folder = Path(firstsight.methods.__file__).parent
    files = sorted(f.stem.replace("_", "-") for f in folder.glob("*.py") if f.stem not in ("__init__", "base"))
    assert files == sorted(all_methods())
    assert len(files) == EXPECTED


def test_every_method_has_its_own_class_and_reference():
    classes = all_methods().values()
    assert len({method.__name__ for method in classes}) == EXPECTED
    assert len({method.__doc__ for method in classes}) == EXPECTED
