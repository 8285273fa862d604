from __future__ import annotations

import pytest

from firstsight.reporting.accuracy_tables import significance_table

ONCE = "one run (deterministic, or one seed)"


def _texts(table):
    return [[cell.text for cell in row] for row in table.rows if not isinstance(row, str)]


def test_the_table_names_leader_runner_up_and_verdict(read, synthetic):
    def record(method, seed, t1, **more):
        classes = {str(i): t1 + i for i in range(20)}
        return synthetic.record(method=method, seed=seed, t1=t1, per_class={"t1": classes}, **more)

    records = [record("rn", s, 60.0 + s) for s in range(3)]
    records += [record("ale", s, 50.0 + 1.1 * s) for s in range(3)]
    records += [record("sje", 0, 70.0, transductive=True)]
    table = significance_table(read(records))
    overall, inductive = _texts(table)
    assert table.rows[0] == "CUB"
    assert overall == ["T1", "all", "sje †", "rn", "+9.0", "1 and 3", "–", "–", ONCE, "0.0001", "yes"]
    assert inductive[:6] == ["T1", "inductive", "rn", "ale", "+9.9", "3"]
    assert inductive[-3:] == ["yes (paired)", "0.0001", "yes"]
    line = table.tidy[0]
    assert (line["dataset"], line["leader"], line["runner_up"], line["difference"]) == ("CUB", "sje", "rn", 9.0)
    assert (line["p_seeds"], line["p_classes"]) == (None, 0.0001)


@pytest.mark.parametrize(("seeds", "said"), [((1, 5), ONCE), ((1, 1), ONCE), ((2, 5), "too few seeds")])
def test_one_run_may_be_all_there_is(read, synthetic, seeds, said):
    cells = [(m, s) for m, n in zip(("rn", "ale"), seeds, strict=True) for s in range(n)]
    table = significance_table(read([synthetic.record(method=m, seed=s) for m, s in cells]))
    assert _texts(table)[0][8] == said


def test_a_leader_by_nothing_is_a_tie(read, synthetic):
    records = [synthetic.record(method=m, t1=t1) for m, t1 in (("ale", 70.0), ("rn", 70.02), ("sje", 60.0))]
    table = significance_table(read(records))
    (row,) = _texts(table)
    assert row[2:5] == ["rn", "ale", "tie"]
    assert table.tidy[0]["difference"] == 0.02
    assert "Tie: the difference rounds to 0.0." in table.notes
    assert not any("Tie" in note for note in significance_table(read(records[1:])).notes)


def test_who_is_told_more_is_not_compared(read, synthetic):
    records = [synthetic.record(method=m, t1=t1) for m, t1 in (("ale", 50.0), ("rn", 60.0), ("qfsl", 90.0))]
    records[-1]["extra_supervision"] = "it knows more"
    table = significance_table(read(records))
    (row,) = _texts(table)
    assert row[2:4] == ["rn", "ale"]
    assert row[-1] == "not recorded"  # without accuracies per class
    assert "(*) are not compared" in table.notes[-1]


def test_one_method_alone_has_nobody_to_lead(read, synthetic):
    assert significance_table(read([synthetic.record()])) is None
