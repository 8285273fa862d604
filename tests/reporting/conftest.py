"""Invented records for every test of the report."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def synthetic():
    """The module beside this file that invents records."""
    spec = importlib.util.spec_from_file_location("synthetic", Path(__file__).with_name("synthetic.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def results(synthetic, tmp_path_factory):
    """All invented records, read back."""
    from firstsight.reporting.results import read_results

    folder = synthetic.write(tmp_path_factory.mktemp("results"), synthetic.all_records())
    return read_results(synthetic.write_map(folder))


@pytest.fixture
def read(synthetic, tmp_path):
    """Write some records and read them: `read([record, …])`."""
    from firstsight.reporting.results import read_results

    return lambda records: read_results(synthetic.write(tmp_path / "records", records))
