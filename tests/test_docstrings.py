"""Every public name has a docstring that numpydoc can read and that says what it must."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path

import pytest

from firstsight.methods import builtin_methods

numpydoc = pytest.importorskip("numpydoc")
from numpydoc.docscrape import ClassDoc, FunctionDoc  # noqa: E402
from numpydoc.validate import validate  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import site_pages  # noqa: E402

# The rules that hold: layout, a summary, parameters and returns named rightly. Not required: "See Also", an example of
# everything, verbs in the infinitive, a capital letter where a Greek one stands.
EVERYWHERE = {"GL01", "GL03", "GL05", "GL06", "GL07", "GL08", "GL09", "GL10", "SS01", "SS02", "SS03", "SS04"}
EVERYWHERE |= {"PR02", "PR03", "PR04", "PR05", "PR07", "PR10", "RT03"}
# A method of a result is said in one line; functions and estimators say each parameter and what comes back.
IN_FULL = EVERYWHERE | {"GL02", "PR01", "RT01", "SS06"}
NAMES = sorted(
    {name for names in site_pages.rooms().values() for name in names}
    | {f"firstsight.{method.__name__}" for method in builtin_methods().values()}
)
ESTIMATORS = {"fit", "predict", "decision_function", "score"}


def _members(name: str) -> list[str]:
    """A class's own public methods and properties; those that scikit-learn makes are its own business."""
    value = site_pages._value(name)
    if not isinstance(value, type):
        return []
    kinds = (property, classmethod, staticmethod)
    return [
        f"{name}.{member}"
        for member, what in vars(value).items()
        if not member.startswith("_") and not member.endswith("_request")
        if inspect.isfunction(what) or isinstance(what, kinds)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_of_a_public_name_is_complete_and_well_formed(name):
    value = site_pages._value(name)
    rules = {name: IN_FULL, **dict.fromkeys(_members(name), EVERYWHERE)}
    if name == "firstsight.ZeroShotClassifier":
        rules |= {f"{name}.{member}": IN_FULL for member in ESTIMATORS}
    if isinstance(value, type) and not issubclass(value, site_pages.ZeroShotClassifier):
        rules[name] = IN_FULL - {"PR01"}
        if dataclasses.is_dataclass(value) and name.count(".") == 1:
            _every_field_is_explained(value)
    wrong = {
        one: told
        for one, codes in rules.items()
        if (told := [f"{code} {text}" for code, text in validate(one)["errors"] if code in codes])
    }
    assert not wrong


def _every_field_is_explained(value: type) -> None:
    doc = ClassDoc(value)
    told = {
        part.strip() for section in ("Parameters", "Attributes") for one in doc[section] for part in one.name.split(",")
    }
    silent = {field.name for field in dataclasses.fields(value)} - told
    assert not silent, f"{value.__name__} says nothing of {sorted(silent)}"


@pytest.mark.parametrize("word", builtin_methods())
def test_the_docstring_of_a_method_has_the_sections_that_its_page_is_made_of(word):
    doc = FunctionDoc(builtin_methods()[word])
    for section in ("Summary", "Parameters", "Attributes", "References", "Examples"):
        assert doc[section], f"{word} has no {section}"
    assert re.search(r"https://\S+$", "\n".join(doc["References"])), f"{word} has no link to its paper"
    assert any("Score" in line for line in doc["Extended Summary"])
