from __future__ import annotations

import csv
from importlib.resources import files

import pytest

from firstsight.reporting.results import dataset_order, paper_order, published, published_figures

DATASETS = ["AWA1", "AWA2", "CUB", "SUN", "APY"]


def _count(metric):
    return sum(own == metric for _, _, own in published_figures())


def test_the_file_has_both_tables_whole():
    # Conventional: 18 methods × 5 data sets, without three dashes (PSR on AwA1, RN on SUN and aPY).
    assert _count("t1") == 18 * 5 - 3
    # Generalized: QFSL as well, which has two dashes of its own (AwA1, aPY).
    assert _count("ts") == _count("tr") == _count("h") == 19 * 5 - 5
    assert len({method for _, method, _ in published_figures()}) == 19
    assert list(dict.fromkeys(dataset for dataset, _, _ in published_figures())) == DATASETS


def test_no_line_is_there_twice_and_every_one_has_a_source():
    text = files("firstsight.reporting").joinpath("published.csv").read_text(encoding="utf-8")
    lines = list(csv.DictReader(text.splitlines()))
    assert len(lines) == len(published_figures()) == 87 + 3 * 90
    assert all(line["source"] and (line["setting"] == "zsl") == (line["metric"] == "t1") for line in lines)


@pytest.mark.parametrize(
    ("dataset", "method", "metric", "value"),
    [  # read from the paper by eye
        ("CUB", "deep-embedding", "t1", 57.1),
        ("CUB", "transductive-deep-embedding", "t1", 67.8),
        ("CUB", "deep-embedding", "h", 31.9),
        ("CUB", "transductive-deep-embedding", "ts", 54.0),
        ("CUB", "transductive-deep-embedding", "tr", 62.9),
        ("CUB", "transductive-deep-embedding", "h", 58.1),
        ("AWA1", "transductive-deep-embedding", "t1", 85.3),
        ("AWA2", "qfsl", "h", 77.4),
        ("SUN", "qfsl", "tr", 51.3),
        ("APY", "devise", "t1", 39.8),
        ("APY", "conse", "tr", 91.2),
        ("SUN", "sync", "tr", 43.3),
        ("CUB", "rn", "ts", 38.1),
        ("CUB", "eszsl", "h", 21.0),
        ("AWA1", "dap", "t1", 44.1),
        ("APY", "transductive-deep-embedding", "h", 43.3),
    ],
)
def test_a_figure_is_the_papers(dataset, method, metric, value):
    assert published(dataset, method, metric).value == value


def test_the_papers_mistakes_are_mended_and_told():
    dem = published("SUN", "dem", "t1")
    assert dem.value == 61.9
    assert published("SUN", "sae", "t1").value == 40.3  # whose figure stands in DEM's row
    assert "corrected" in dem.source
    assert "40.3" in dem.note
    cmt = published("CUB", "cmt", "h")
    assert cmt.name_in_paper == "CMT*"
    assert "novelty" in cmt.note
    assert published("CUB", "cmt", "t1").name_in_paper == "CMT"  # the conventional row is CMT itself
    corrected = {(d, m) for (d, m, _), p in published_figures().items() if "corrected" in p.source}
    assert corrected == {("SUN", "dem")} | {(dataset, "cmt") for dataset in DATASETS}


def test_every_published_h_is_the_harmonic_mean_of_its_ts_and_tr():
    for (dataset, method, metric), found in published_figures().items():
        if metric == "h":
            ts, tr = (published(dataset, method, part).value for part in ("ts", "tr"))
            assert found.value == pytest.approx(2 * ts * tr / (ts + tr), abs=0.15)  # of rounded figures


def test_what_was_not_published_has_no_figure():
    for dataset in ("ANIMALS42", "glyphs"):
        assert published(dataset, "deep-embedding", "t1") is None
    assert published("AWA1", "psr", "t1") is None
    assert published("CUB", "qfsl", "t1") is None


def test_the_names_of_the_papers_methods_are_those_of_the_command_line():
    from firstsight.methods import builtin_methods

    assert {method for _, method, _ in published_figures()} <= set(builtin_methods())


def test_case_does_not_matter_and_order_is_the_papers():
    assert published("aPY", "DAP", "t1").value == 33.8
    assert sorted(["glyphs", "SUN", "awa1", "CUB"], key=dataset_order) == ["awa1", "CUB", "SUN", "glyphs"]
    methods = ["transductive-deep-embedding", "zebra", "qfsl", "dap", "rn", "deep-embedding"]
    assert sorted(methods, key=paper_order) == ["dap", "rn", "qfsl", "deep-embedding", methods[0], "zebra"]
