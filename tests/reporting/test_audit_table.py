from __future__ import annotations

import pytest

from firstsight.reporting.run_tables import audit_table, leaks

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
    (made,) = read([record]).records
    assert leaks(made.touched, made.transductive) == found


def test_the_audit_joins_what_is_the_same_and_shows_a_leak(read, synthetic):
    clean = [synthetic.record(seed=s, setting=setting, touched=CLEAN) for s in range(2) for setting in ("zsl", "gzsl")]
    leaking = synthetic.record(method="rn", touched={**CLEAN, "test_rows_labelled": 3})
    table = audit_table(read([*clean, leaking]))
    assert _texts(table) == [
        ["CUB", "eszsl", "zsl, gzsl", "4", "7,057", "150", "0", "0", "0", "no", "clean"],
        ["CUB", "rn", "zsl", "1", "7,057", "150", "0", "3", "0", "no", "LEAK: labels of test rows"],
    ]
    assert "1 of them" in table.title
    assert "none" in audit_table(read([clean[0]])).title
