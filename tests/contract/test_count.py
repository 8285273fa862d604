"""Nothing drops out of discovery unnoticed: every file here is a method, and the paper's are all there."""

from __future__ import annotations

from pathlib import Path

import firstsight.methods
from firstsight.methods import builtin_methods

FOLDER = Path(firstsight.methods.__file__).parent
# A method is a file or, where it needs several, a package.
FILES = sorted([*FOLDER.glob("*.py"), *(init.parent for init in FOLDER.glob("*/__init__.py"))])


def test_the_papers_two_and_the_seventeen_that_it_compares_with_are_there():
    assert len(builtin_methods()) >= 19


def test_there_is_one_file_per_method():
    files = [file.stem.replace("_", "-") for file in FILES if file.stem != "base" and file.stem[0] != "_"]
    assert sorted(files) == sorted(builtin_methods())


def test_every_method_has_its_own_class_and_description():
    classes = builtin_methods().values()
    assert len({method.__name__ for method in classes}) == len(classes)
    assert len({method.__doc__ for method in classes}) == len(classes)
