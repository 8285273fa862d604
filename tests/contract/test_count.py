"""Nothing drops out of discovery unnoticed: every file here is a method, and the paper's are all there."""

from __future__ import annotations

from pathlib import Path

import firstsight.methods
from firstsight.methods import own_methods

FILES = sorted(Path(firstsight.methods.__file__).parent.glob("*.py"))


def test_the_papers_two_and_the_seventeen_that_it_compares_with_are_there():
    assert len(own_methods()) >= 19


def test_there_is_one_file_per_method():
    files = [file.stem.replace("_", "-") for file in FILES if file.stem not in ("__init__", "base")]
    assert files == sorted(own_methods())


def test_every_method_has_its_own_class_and_description():
    classes = own_methods().values()
    assert len({method.__name__ for method in classes}) == len(classes)
    assert len({method.__doc__ for method in classes}) == len(classes)
