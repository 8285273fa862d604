from __future__ import annotations

from firstsight.reporting.run_tables import tuning_table

BY = {"objective": "zsl+gzsl", "folds": 12, "candidates": 6, "search": "grid"}


def _cells(table):
    return [[(cell.text, cell.detail) for cell in row] for row in table.rows if not isinstance(row, str)]


def test_a_tuned_figure_stands_over_that_of_the_defaults_of_the_same_seeds(read, synthetic):
    tuned = [synthetic.record(setting="zsl", seed=s, t1=50.0 + s, tuned=BY, given={"penalty": 1}) for s in (0, 1)]
    before = synthetic.record(setting="zsl", seed=1, t1=53.0, study="defaults")
    table = tuning_table(read([*tuned, before]))
    assert _cells(table) == [[("eszsl", ""), ("51.0", "53.0, −2.0"), ("–", "")]]  # seed 1 alone; it lost, and says so
    assert table.tidy == [
        {"dataset": "CUB", "method": "eszsl", "metric": "t1", "tuned": 51.0, "default": 53.0, "seeds": 1}
    ]


def test_where_validation_kept_the_defaults_nothing_is_run_again(read, synthetic):
    fixed = {"constant": 0.5, "ts": 40.0, "tr": 60.0, "h": 48.0}
    trade_off = {"ausuc": 33.3, "calibrated": fixed}
    kept = synthetic.record(setting="gzsl", tuned={**BY, "kept_defaults": True}, seen_unseen=trade_off)
    alone = synthetic.record(setting="zsl", t1=50.0, tuned=BY, given={"penalty": 1})
    table = tuning_table(read([kept, alone]))
    assert _cells(table) == [[("eszsl", ""), ("50.0", "defaults not run"), ("48.0", "=")]]


def test_without_anything_tuned_there_is_no_table(read, synthetic):
    assert tuning_table(read([synthetic.record(setting="zsl")])) is None
