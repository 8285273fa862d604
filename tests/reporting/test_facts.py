from __future__ import annotations

import pytest

from firstsight.report.facts import audit_table, cost_table, failure_table, leaks, parameter_table, warning_table
from firstsight.report.measures import calibration_table, space_table

CLEAN = {"labelled_rows": 7057, "labelled_classes": 150, "unlabelled_rows": 0, "test_rows_labelled": 0}


def _texts(table):
    return [[cell.text for cell in row] for row in table.rows if not isinstance(row, str)]


@pytest.mark.parametrize(
    ("touched", "transductive", "found"),
    [
        ({}, False, []),
        ({"test_rows_labelled": 1}, False, ["labels of test rows"]),
        ({"test_rows_labelled": 1}, True, ["labels of test rows"]),
        ({"unseen_classes_labelled": 2}, True, ["labels of unseen classes"]),
        ({"unlabelled_rows": 5}, True, []),
        ({"unlabelled_rows": 5}, False, ["unlabelled rows, though inductive"]),
        ({"unseen_descriptions_in_fit": True}, True, []),
        ({"unseen_descriptions_in_fit": True}, False, ["descriptions of unseen classes, though inductive"]),
    ],
)
def test_a_leak_is_what_the_kind_of_method_may_not_touch(read, synthetic, touched, transductive, found):
    record = synthetic.record(touched={**CLEAN, **touched}, transductive=transductive)
    assert leaks(read([record]).records[0]) == found


def test_the_audit_joins_what_is_the_same_and_shows_a_leak(read, synthetic):
    clean = [synthetic.record(seed=s, setting=setting, touched=CLEAN) for s in range(2) for setting in ("zsl", "gzsl")]
    leaking = synthetic.record(method="rn", touched={**CLEAN, "test_rows_labelled": 3})
    table = audit_table(read([*clean, leaking]))
    assert _texts(table) == [
        ["CUB", "eszsl", "zsl, gzsl", "4", "7,057", "150", "0", "0", "–", "–", "clean"],
        ["CUB", "rn", "zsl", "1", "7,057", "150", "0", "3", "–", "–", "LEAK: labels of test rows"],
    ]
    assert "1 of them" in table.title
    assert "none" in audit_table(read([clean[0]])).title


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
        ({"alpha": 1.0}, {"objective": "gzsl", "folds": 3}, "tuned on validation classes (objective gzsl, folds 3)"),
        (
            {"alpha": 1.0, "b": 2},
            {"objective": "gzsl", "set_by_hand": ["b"]},
            "tuned on validation classes (objective gzsl); set by hand: b",
        ),
        ({"alpha": 1.0}, True, "tuned on validation classes"),
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


def test_spaces_stand_beside_the_papers_claims(read, synthetic):
    facts = {"compactness": 0.5, "separability": -0.25, "hubness": None, "embedding": {"compactness": 0.4}}
    methods = (("dap", "semantic"), ("rn", "latent"), ("deep-embedding", "latent"))
    records = [synthetic.record(method=m, space=space, space_facts=facts) for m, space in methods]
    table = space_table(read(records))
    claims = {row[0]: row[1:] for row in _texts(table)}
    figures = ["0.50", "−0.25", "–"]
    said = {"dap": "compact", "rn": "separable", "deep-embedding": "both"}
    assert claims == {method: [claim, *figures] for method, claim in said.items()}
    assert table.rows[1][2].detail == "own 0.40"
    assert any(note.startswith("–: not recorded, or there is no such number. Hubness") for note in table.notes)
    whole = [{**record, "space_facts": {**facts, "hubness": 0.5}} for record in records]
    assert not any("–:" in note for note in space_table(read(whole)).notes)


def test_calibrated_figures_stand_beside_those_as_they_are(read, synthetic):
    fixed = {"constant": 0.5, "ts": 40.0, "tr": 60.0, "h": 48.0}
    whole = synthetic.record(setting="gzsl", seen_unseen={"ausuc": 33.3, "curve": None, "calibrated": fixed})
    part = synthetic.record(setting="gzsl", method="rn", seen_unseen={"ausuc": 20.0, "calibrated": None})
    table = calibration_table(read([whole, part]))
    assert _texts(table) == [["eszsl", "33.3", "30.0", "48.0"], ["rn", "20.0", "30.0", "–"]]
    assert table.notes[-1] == "H cal. is – where a method was not calibrated."
    line = next(line for line in table.tidy if line["method"] == "eszsl")
    assert (line["calibrated_ts"], line["calibrated_constant"]) == (40.0, 0.5)


def test_calibration_of_fewer_seeds_than_h_is_told(read, synthetic):
    fixed = {"constant": 0.5, "ts": 40.0, "tr": 60.0, "h": 48.0}
    found = [{"ausuc": 33.3, "calibrated": own} for own in (fixed, None, None)]
    records = [synthetic.record(setting="gzsl", seed=s, seen_unseen=own) for s, own in enumerate(found)]
    table = calibration_table(read(records))
    assert _texts(table) == [["eszsl", "33.3 ± 0.0", "31.0 ± 1.0", "48.0"]]
    assert table.notes[2:] == ["Calibrated for fewer seeds than H is of: eszsl on CUB (1 of 3)."]


def test_without_calibration_there_is_no_column_of_dashes(read, synthetic):
    table = calibration_table(read([synthetic.record(setting="gzsl", seen_unseen={"ausuc": 33.3})]))
    assert [column.title for column in table.columns] == ["method", "AUSUC", "H"]
    assert _texts(table) == [["eszsl", "33.3", "30.0"]]
    assert "--calibrate" in table.notes[1]


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
