from __future__ import annotations

import runpy
from importlib.metadata import distribution
from pathlib import Path

_TOOL = runpy.run_path(str(Path(__file__).resolve().parents[2] / "tools" / "licences.py"))
needed, licence = _TOOL["needed"], _TOOL["licence"]


def test_what_is_needed_is_followed_to_its_ends_and_extras_are_asked_for():
    found = needed("firstsight")
    assert {"numpy", "scikit-learn", "joblib"} <= set(found)  # joblib is scikit-learn's
    assert "pytest" not in found
    assert "pytest" in needed("firstsight", ["dev"])


def test_every_package_of_the_core_says_its_licence():
    silent = [name for name, package in needed("firstsight").items() if licence(package) == "not said"]
    assert not silent
    assert "BSD" in licence(distribution("numpy"))
