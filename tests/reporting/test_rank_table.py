from __future__ import annotations

from firstsight.reporting.accuracy_tables import rank_table, rankings, verdict
from firstsight.reporting.charts import rank_chart
from firstsight.reporting.figure_style import NARROW

SETS = ("CUB", "SUN", "glyphs")
FIGURES = {"ale": 70.0, "rn": 60.0, "mine": 50.0}


def _records(synthetic, figures=FIGURES, sets=SETS, **changes):
    return [synthetic.record(d, m, t1=v, **changes) for d in sets for m, v in figures.items()]


def test_methods_are_ranked_over_the_data_sets(read, synthetic):
    results = read(_records(synthetic))
    (one,) = rankings(results)
    assert (one.kind, one.metric, one.datasets) == ("inductive", "t1", ["CUB", "SUN", "glyphs"])
    assert one.comparison.ranks == {"ale": 1.0, "rn": 2.0, "mine": 3.0}
    table = rank_table(results, [one])
    assert [[cell.text for cell in row] for row in table.rows[1:]] == [
        ["ale", "1.00"],
        ["rn", "2.00"],
        ["mine", "3.00"],
    ]
    assert table.tidy[0]["mean_rank"] == 1.0


def test_fewer_than_three_data_sets_or_methods_are_not_summed_up(read, synthetic):
    assert rankings(read(_records(synthetic, sets=SETS[:2]))) == []
    assert rankings(read(_records(synthetic, figures={"ale": 70.0, "rn": 60.0}))) == []
    assert rank_table(read(_records(synthetic, sets=SETS[:2])), []) is None


def test_transductive_methods_are_ranked_apart_and_who_is_told_more_not_at_all(read, synthetic):
    records = _records(synthetic) + _records(synthetic, {"t1": 80.0, "t2": 81.0, "t3": 82.0}, transductive=True)
    records += _records(synthetic, {"qfsl": 99.0}, transductive=True, extra_supervision="it knows more")
    found = {one.kind: list(one.comparison.ranks) for one in rankings(read(records))}
    assert found == {"inductive": ["ale", "rn", "mine"], "transductive": ["t3", "t2", "t1"]}


def test_h_and_calibrated_h_are_compared_where_they_are_recorded(read, synthetic):
    fixed = {"seen_unseen": {"calibrated": {"constant": 0.5, "ts": 40.0, "tr": 60.0, "h": 48.0}}}
    records = [synthetic.record(d, m, "gzsl", **fixed) for d in SETS for m in FIGURES]
    assert [one.metric for one in rankings(read(records))] == ["h", "calibrated h"]


def test_a_method_that_was_not_run_everywhere_is_left_out_and_named(read, synthetic):
    results = read([*_records(synthetic), synthetic.record("CUB", "sje", t1=99.0)])
    (one,) = rankings(results)
    assert "sje" not in one.comparison.ranks
    assert one.left_out == ["sje"]
    assert verdict(one).endswith("Not run on all of these: sje.")


def test_a_data_set_with_few_methods_does_not_spoil_the_summary_of_the_others(read, synthetic):
    (one,) = rankings(read([*_records(synthetic), synthetic.record("ponds", "ale")]))
    assert one.datasets == list(SETS)
    assert len(one.comparison.ranks) == 3


def test_the_chart_names_every_method_with_its_rank_for_both_widths(read, synthetic):
    results = read(_records(synthetic))
    picture = rank_chart(results, rankings(results)[0])
    (axis,) = picture.figure.axes
    said = [text.get_text() for text in axis.texts]
    assert {"ale  1.0", "rn  2.0", "3.0  mine"} <= set(said)
    (axis,) = picture.draw(NARROW).axes
    assert [label.get_text() for label in axis.get_yticklabels()][1:] == ["ale  1.0", "rn  2.0", "mine  3.0"]
    assert "critical difference is 1.91" in picture.alt  # 2.343 · √(12 / 18)
