"""The invented records of the report's tests, for what is made from records outside the package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _module(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_fixtures = _module(ROOT / "tests" / "reporting" / "conftest.py")
synthetic, read, results = _fixtures.synthetic, _fixtures.read, _fixtures.results
