from __future__ import annotations

import pytest

from firstsight.reporting.accuracy_tables import calibration_table
from firstsight.reporting.run_tables import (
    audit_table,
    cost_table,
    failure_table,
    parameter_table,
    space_table,
    warning_table,
)

TUNED = {"objective": "gzsl", "folds": 3, "candidates": 4, "search": "grid"}
HOW = "objective gzsl, folds 3, candidates 4, search grid"


def _texts(table):
    return [[cell.text for cell in row] for row in table.rows if not isinstance(row, str)]


def test_failures_have_their_sentence(read, synthetic):
    lost = synthetic.record(
        status="failed", error="It <broke>.", variant={"separation": 0.0}, study="separation", t1=None
    )
    (row,) = _texts(failure_table(read([lost, synthetic.record()])))
    assert row == ["CUB", "eszsl", "It <broke>.", "zsl", "0", "separation 0.0"]


def test_costs_are_means_over_seeds_with_the_highest_peak(read, synthetic):
    facts = [
        {"seconds": 10.0, "fit_seconds": 8.0, "peak_mib": 700},
        {"seconds": 12.0, "fit_seconds": 8.0, "peak_mib": 900},
    ]
    versions = {"versions": {"firstsight": "0.1.0", "numpy": "2.4.6"}, "threads": 1}
    table = cost_table(read([synthetic.record(seed=s, **facts[s], **versions) for s in range(2)]))
    assert _texts(table) == [["CUB", "eszsl", "zsl", "2", "11.0 ± 1.4", "8.0 ± 0.0", "–", "900", "1"]]
    assert table.notes[-1] == "Versions: firstsight 0.1.0, numpy 2.4.6."


def test_the_one_fit_of_an_inductive_method_is_not_counted_twice(read, synthetic):
    hour = {"seconds": 3600.0}
    both = [synthetic.record(setting=s, **hour) for s in ("zsl", "gzsl")]
    assert "1.0 hours" in cost_table(read(both)).title
    assert "2.0 hours" in cost_table(read([{**r, "transductive": True} for r in both])).title


@pytest.mark.parametrize(
    ("seconds", "said"), [(12.3, "12.3 seconds"), (90.0, "1.5 minutes"), (3600.0, "1.0 hours"), (9000.0, "2.5 hours")]
)
def test_the_cost_of_all_runs_has_a_unit_that_fits(read, synthetic, seconds, said):
    assert cost_table(read([synthetic.record(seconds=seconds)])).title == f"What the runs cost: {said} in all"


@pytest.mark.parametrize(
    ("given", "tuned", "said"),
    [
        ({}, False, "own defaults"),
        ({"alpha": 1.0, "b": 2}, False, "set by hand: alpha, b"),
        ({"alpha": 1.0}, TUNED, f"tuned on validation classes ({HOW})"),
        (
            {"alpha": 1.0, "b": 2},
            {**TUNED, "set_by_hand": ["b"]},
            f"tuned on validation classes ({HOW}); set by hand: b",
        ),
    ],
)
def test_parameters_say_how_they_were_chosen(read, synthetic, given, tuned, said):
    record = synthetic.record(parameters={"alpha": 1.0, "b": 2}, given=given, tuned=tuned)
    (row,) = _texts(parameter_table(read([record])))
    assert row[3:] == [said, "alpha 1.0, b 2"]


def test_seeds_whose_parameters_were_chosen_otherwise_are_both_told(read, synthetic):
    records = [synthetic.record(seed=s, parameters={"b": 2}, given={"b": 2} if s else {}) for s in range(2)]
    (row,) = _texts(parameter_table(read(records)))
    assert row[3] == "own defaults / set by hand: b"


def test_warnings_are_counted_by_seed(read, synthetic):
    table = warning_table(read([synthetic.record(seed=s, warnings=["It has collapsed."]) for s in range(2)]))
    assert _texts(table) == [["CUB", "eszsl", "zsl", "–", "It has collapsed.", "0, 1"]]


def test_the_same_parameters_stand_in_one_row(read, synthetic):
    cells = [(d, s) for d in ("glyphs", "CUB") for s in ("gzsl", "zsl")]
    records = [synthetic.record(d, setting=s, parameters={"alpha": 1.0}) for d, s in cells]
    records += [synthetic.record("SUN", parameters={"alpha": 1.0}), synthetic.record("APY", parameters={"alpha": 2.0})]
    assert _texts(parameter_table(read(records))) == [
        ["CUB, glyphs", "eszsl", "zsl, gzsl", "own defaults", "alpha 1.0"],
        ["SUN", "eszsl", "zsl", "own defaults", "alpha 1.0"],
        ["APY", "eszsl", "zsl", "own defaults", "alpha 2.0"],
    ]


def test_without_their_records_there_are_no_tables(read, synthetic):
    bare = read([synthetic.record(), synthetic.record(setting="gzsl")])
    for make in (
        failure_table,
        audit_table,
        cost_table,
        parameter_table,
        warning_table,
        space_table,
        calibration_table,
    ):
        assert make(bare) is None
