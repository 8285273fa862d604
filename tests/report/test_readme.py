from __future__ import annotations

from pathlib import Path

import pytest

from firstsight.errors import BadInput
from firstsight.report.readme import both_settings, filled_in, readme, results_table

PROJECT = Path(__file__).resolve().parents[2]


def record(seed, **changes):
    figures = {"t1": 50.0 + seed, "ts": 20.0, "tr": 60.0, "h": 30.0}
    return {"dataset": "CUB", "method": "eszsl", "split": "a", "seed": seed, **figures, **changes}


def test_the_readmes_tables_are_what_the_records_say():
    assert (PROJECT / "README.md").read_text(encoding="utf-8") == readme(PROJECT), (
        "run: python -m firstsight.report.readme"
    )


def test_seeds_become_mean_and_deviation():
    # 50, 51, 52: mean 51, sample deviation 1
    assert "| CUB | eszsl | 3 | 51.0 ± 1.0 | 20.0 ± 0.0 |" in results_table([record(seed) for seed in range(3)])


def test_a_setting_that_was_not_run_is_a_dash():
    assert "| – | – | – |" in results_table([record(0, ts=None, tr=None, h=None)])


def test_extra_supervision_is_visible():
    table = results_table([record(0, extra_supervision="knows more")])
    assert "eszsl *" in table
    assert "is told more" in table


def test_records_of_two_splits_are_not_averaged():
    with pytest.raises(BadInput, match="different splits"):
        results_table([record(0), record(1, split="b")])


def test_a_document_without_its_markers_is_refused():
    with pytest.raises(BadInput, match="markers"):
        filled_in("nothing here", "demo", "x")


def test_benchmark_records_of_both_settings_become_one_row(read, synthetic):
    records = [synthetic.record(seed=s, setting=setting) for s in range(2) for setting in ("zsl", "gzsl")]
    records.append(synthetic.record(seed=7, study="separation", variant={"separation": 1.0}, t1=1.0))
    table = results_table(both_settings(read(records)))
    assert "| CUB | eszsl | 2 | 50.5 ± 0.7 | 20.5 ± 0.7 | 60.0 ± 0.0 | 30.5 ± 0.7 |" in table


def test_failed_cells_are_told(read, synthetic):
    lost = {"status": "failed", "t1": None, "ts": None, "tr": None, "h": None}
    records = [synthetic.record(), synthetic.record(seed=1, **lost), synthetic.record(setting="gzsl", **lost)]
    table = results_table(both_settings(read(records)))
    assert "| 50.0 (1 failed) | failed | failed | failed |" in table


def test_the_readme_is_filled_from_the_records_of_its_project(synthetic, tmp_path):
    markers = "".join(f"<!-- {name}: begin -->\n<!-- {name}: end -->\n" for name in ("demo", "results"))
    (tmp_path / "README.md").write_text(markers, encoding="utf-8")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "demo.json").write_text("[]")
    synthetic.write(tmp_path / "results", [synthetic.record(method="eszsl", t1=77.0)])
    assert "| CUB | eszsl | 1 | 77.0 | – | – | – |" in readme(tmp_path)
