"""Importing the report changes nothing for a program that draws figures of its own, and hides no other name."""

from __future__ import annotations

import subprocess
import sys

_CODE = """
import importlib, pkgutil, warnings
import matplotlib
import firstsight.evaluation, firstsight.experiments.records  # which bring scipy, with warnings of its own

before = matplotlib.rcParams.copy(), list(warnings.filters)
import firstsight.reporting
names = [m.name for m in pkgutil.walk_packages(firstsight.reporting.__path__, "firstsight.reporting.")]
for name in names:
    importlib.import_module(name)
after = matplotlib.rcParams.copy(), list(warnings.filters)
assert "firstsight.reporting.charts" in names, names
for one, other in zip(before, after):
    assert one == other, (one, other)
import sys
assert "matplotlib.pyplot" not in sys.modules
"""


def test_importing_any_part_of_the_report_changes_no_global():
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_the_call_is_firstsight_report_whatever_was_imported_before():
    import firstsight
    import firstsight.reporting.page

    assert firstsight.report is firstsight.reporting.report
    assert callable(firstsight.report)
