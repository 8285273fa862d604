"""The generated pages of the site: every public name once, every method with its figures."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from statistics import mean

import pytest

import firstsight
from firstsight.methods import all_methods
from firstsight.reporting.results import read_results

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tools"))
import site_pages  # noqa: E402


@pytest.fixture(scope="module")
def pages():
    return site_pages.pages(read_results(PROJECT / "results"))


def test_every_public_name_stands_on_exactly_one_page(pages):
    directive = re.compile(r"^\.\. auto\w+:: (firstsight\.\S+)$", re.MULTILINE)
    homes = Counter(name for text in pages.values() for name in directive.findall(text))
    twice = {name: count for name, count in homes.items() if count > 1}
    assert not twice, f"on more than one page: {twice}"
    public = {f"firstsight.{name}" for name in firstsight.__all__ if not name.startswith("__")}
    assert not public - set(homes), f"on no page: {sorted(public - set(homes))}"


def test_every_method_has_a_page_that_the_index_leads_to(pages):
    for word, method in all_methods().items():
        page = pages[f"methods/{word}.rst"]
        assert f".. autoclass:: firstsight.{method.__name__}" in page
        assert f":doc:`{word}`" in pages["methods/index.rst"]


def test_the_figures_of_a_method_are_those_of_its_records(pages):
    lines = (PROJECT / "results" / "CUB.jsonl").read_text(encoding="utf-8").splitlines()
    newest = {}
    for record in map(json.loads, lines):
        if record["method"] == "deep-embedding" and not record["study"] and record["setting"] == "zsl":
            newest[record["seed"]] = record["t1"]
    page = pages["methods/deep-embedding.rst"]
    assert f"{mean(newest.values()):.1f} ±" in page
    row = re.search(r"Published figures.*?- CUB\n\s+- (\S+)", page, re.DOTALL)
    assert row[1] == "57.1"  # the paper's Table 4


def test_the_methods_to_choose_from_are_ranked_by_their_mean(pages):
    tables = pages["generated/choosing.txt"].split("### ")[1:]
    assert len(tables) == 2
    for table in tables:
        means = [float(line.split(" | ")[1]) for line in table.splitlines() if line.startswith("| [")]
        assert means == sorted(means, reverse=True)
        assert means
    assert "[qfsl]" not in pages["generated/choosing.txt"]  # gets extra supervision


def test_pages_that_have_not_changed_are_not_written_again(tmp_path):
    site_pages.write_pages(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    site_pages.write_pages(tmp_path)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    assert len(before) > 30
