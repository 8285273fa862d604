from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from firstsight.cli.demo import demo_methods
from firstsight.data import load_dataset
from firstsight.errors import BadInput
from firstsight.evaluation import evaluate, percent
from firstsight.methods import builtin_methods, make_estimator
from firstsight.reporting.table import markdown_table

PROJECT = Path(__file__).resolve().parents[2]
_TOOL = runpy.run_path(str(PROJECT / "tools" / "readme.py"))
filled_in, readme, results_table, short_table, about_records, code_output, TOLERANCE = (
    _TOOL[name]
    for name in (
        "filled_in", "readme", "results_table", "short_table", "about_records", "code_output", "TOLERANCE",
    )
)  # fmt: skip
README = (PROJECT / "README.md").read_text(encoding="utf-8")
LOST = {"status": "failed", "t1": None, "ts": None, "tr": None, "h": None}


@pytest.fixture
def table(read):
    """The README's table of some records, as Markdown lines."""
    return lambda records: markdown_table(results_table(read(records))).splitlines()


def _line(lines, method):
    return next(line for line in lines if line.startswith(f"| {method} "))


def test_the_readmes_tables_are_what_the_records_say():
    assert readme(PROJECT) == README, "run: python tools/readme.py"
    written = (PROJECT / "results" / "README.md").read_text(encoding="utf-8")
    assert written == about_records(PROJECT), "run: python tools/readme.py"


def test_the_readme_is_short_and_says_what_people_search_for_in_its_first_screen():
    lines = README.splitlines()
    assert len(lines) <= 150
    first = " ".join(lines[:20])
    for words in ("Zero-shot learning in Python", "att_splits.mat` / xlsa17", "scikit-learn API", "CLIP features"):
        assert words in first
    assert f"{len(builtin_methods())} methods" in first


def test_what_the_python_of_the_readme_prints_is_what_it_shows():
    shown = re.search(r"<!-- output: begin -->\n(.*?)\n<!-- output: end -->", README, re.DOTALL)[1]
    assert len(shown.split()) > 20
    letters, printed = shown.split(), code_output(README).split()
    assert len(printed) == len(letters)
    # A letter that lies between two may change its name on another CPU.
    assert sum(a != b for a, b in zip(printed, letters, strict=True)) <= 1, "run: python tools/readme.py"


SLOW = {"transductive-deep-embedding"}  # the rest of the demo takes seconds


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(one, id=one["method"], marks=[pytest.mark.slow] if one["method"] in SLOW else [])
        for one in json.loads((PROJECT / "results" / "demo.json").read_text(encoding="utf-8"))
    ],
)
def test_the_demo_gives_the_figures_that_the_readme_shows(record):
    if record["method"] not in demo_methods():
        pytest.skip("the paper's methods need torch")
    parameters = demo_methods()[record["method"]]
    result = evaluate(make_estimator(record["method"], parameters, random_state=record["seed"]), load_dataset("glyphs"))
    for figure in ("t1", "ts", "tr", "h"):
        assert percent(getattr(result, figure)) == pytest.approx(record[figure], abs=TOLERANCE), "run: make readme"


def test_a_method_is_one_row_with_two_columns_per_data_set(table, synthetic):
    lines = table([synthetic.record(d, setting=s) for d in ("glyphs", "CUB") for s in ("zsl", "gzsl")])
    assert "| method | seeds | CUB T1 | CUB H | glyphs T1 | glyphs H |" in lines
    assert _line(lines, "eszsl") == "| eszsl | 1 | 50.0 | 30.0 | 50.0 | 30.0 |"


def test_seeds_become_mean_and_sample_deviation_and_studies_stay_out(table, synthetic):
    records = [synthetic.record(seed=s, setting=setting) for s in range(3) for setting in ("zsl", "gzsl")]
    records.append(synthetic.record(seed=7, study="separation", variant={"separation": 1.0}, t1=1.0))
    records.append(synthetic.record(method="rn", study="separation", variant={"separation": 1.0}, t1=1.0))
    lines = table(records)
    # 50, 51, 52: mean 51, sample deviation 1
    assert _line(lines, "eszsl") == "| eszsl | 3 | 51.0 ± 1.0 | 31.0 ± 1.0 |"
    assert not [line for line in lines if line.startswith("| rn ")]


def test_different_numbers_of_seeds_are_both_told(table, synthetic):
    records = [synthetic.record(seed=s) for s in range(5)] + [synthetic.record("glyphs")]
    assert _line(table(records), "eszsl").startswith("| eszsl | 1–5 |")


def test_a_setting_or_data_set_that_was_not_run_is_a_dash(table, synthetic):
    records = [synthetic.record(), synthetic.record("glyphs", "rn", "gzsl")]
    assert _line(table(records), "eszsl") == "| eszsl | 1 | 50.0 | – | – | – |"
    assert _line(table(records), "rn") == "| rn | 1 | – | – | – | 30.0 |"


def test_failed_cells_are_told(table, synthetic):
    records = [synthetic.record(), synthetic.record(seed=1, **LOST), synthetic.record(setting="gzsl", **LOST)]
    records.append(synthetic.record(method="rn", **LOST))
    assert _line(table(records), "eszsl") == "| eszsl | 1 | 50.0 (1 of 2 seeds failed) | *failed* |"
    assert _line(table(records), "rn") == "| rn | 0 | *failed* | – |"


def test_methods_stand_by_space_in_the_papers_order_and_its_own_come_last(results):
    rows = [row if isinstance(row, str) else row[0].text for row in results_table(results).rows]
    assert len(rows) == 19 + 3
    assert rows[:5] == ["semantic space", "dap", "iap", "cmt", "devise"]
    assert [row for row in rows if row.endswith("space")] == ["semantic space", "visual space", "latent space"]
    assert rows[-3:] == ["qfsl † *", "deep-embedding", "transductive-deep-embedding †"]


def test_best_and_second_are_marked_and_who_is_told_more_takes_no_place(table, synthetic):
    records = [synthetic.record(method=m, t1=t1) for m, t1 in (("ale", 50.0), ("sje", 60.0), ("rn", 70.0))]
    records.append(synthetic.record(method="qfsl", t1=90.0, extra_supervision="it knows which rows are unseen"))
    lines = table(records)
    assert [_line(lines, m).split("|")[3].strip() for m in ("ale", "sje", "rn", "qfsl")] == [
        "50.0",
        "<ins>60.0</ins>",
        "**70.0**",
        "90.0",
    ]
    assert _line(lines, "qfsl").startswith("| qfsl \\* |")
    assert "\\* gets extra supervision, and is therefore not ranked: it knows which rows are unseen." in lines


def test_marks_are_explained_only_where_they_occur(table, synthetic):
    plain = " ".join(table([synthetic.record()]))
    assert "†" not in plain
    assert "extra supervision" not in plain
    assert "† transductive" in " ".join(table([synthetic.record(transductive=True)]))


def test_the_table_ends_with_where_to_find_the_rest(table, synthetic):
    assert table([synthetic.record()])[-1].startswith("`firstsight report results --out page` makes a page")


def test_a_document_without_its_markers_is_refused():
    with pytest.raises(BadInput, match="markers"):
        filled_in("nothing here", "demo", "x")


def test_the_readme_is_filled_from_the_records_of_its_project(synthetic, tmp_path):
    markers = "".join(f"<!-- {name}: begin -->\n<!-- {name}: end -->\n" for name in ("demo", "results", "tuning"))
    (tmp_path / "README.md").write_text(markers, encoding="utf-8")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "README.md").write_text(markers, encoding="utf-8")
    demo = {"method": "m", "t1": 51.25, "ts": 20, "tr": 80, "h": 32, "seconds": 3, "seed": 0}
    (tmp_path / "results" / "demo.json").write_text(json.dumps([demo]))
    synthetic.write(tmp_path / "results", [synthetic.record(method="eszsl", t1=77.0)])
    assert "m recognises 51.2 % of" in readme(tmp_path)
    assert "| eszsl | 77.0/– |" in readme(tmp_path)
    assert "| eszsl | 1 | 77.0 | – |" in about_records(tmp_path)


def test_the_short_table_has_the_strongest_rival_and_the_four_methods_of_the_story(synthetic, read):
    methods = {"ale": 50, "sje": 60, "deep-embedding": 70, "kernel-prototypes": 72, "transductive-deep-embedding": 75}
    records = [synthetic.record(method=m, t1=float(t1), transductive=m.startswith("t")) for m, t1 in methods.items()]
    records.append(synthetic.record(method="qfsl", t1=90.0, extra_supervision="it knows which rows are unseen"))
    lines = short_table(read(records)).splitlines()
    assert [line.split("|")[1].strip() for line in lines if line.startswith("|")][2:] == [
        "sje",
        "deep-embedding",
        "kernel-prototypes",
        "transductive-deep-embedding †",
        "transductive-kernel-prototypes",
    ]
    assert "sje has the highest mean T1" in lines[-1]
