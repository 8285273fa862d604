from __future__ import annotations

import numpy as np
import pytest

from firstsight.reporting.accuracy_tables import accuracy_table
from firstsight.reporting.run_tables import leaks
from firstsight.reporting.shots_curves import few_shot_chart, few_shot_table

FEW_SHOT = {"held_out": 5, "learned_by": "refit", "update_seconds": 0.1}


@pytest.fixture
def few(read, synthetic):
    """T1 of two methods with 1 and 5 samples, in two draws; H of one of them."""

    def record(method, shots, seed, setting="zsl", **figures):
        more = {"study": "few-shot", "variant": {"shots": shots}, "few_shot": FEW_SHOT}
        return synthetic.record(method=method, seed=seed, setting=setting, **more, **figures)

    records = [record("eszsl", k, draw, t1=40.0 + k + 2 * draw) for k in (1, 5) for draw in (0, 1)]
    records += [record("nearest-mean", k, draw, t1=10.0 * k + draw) for k in (1, 5) for draw in (0, 1)]
    records += [record("eszsl", 5, 0, "gzsl", h=33.0, ts=30.0, tr=36.7), synthetic.record(t1=61.0)]
    return read(records)


def test_the_table_has_means_over_draws_and_marks_the_best_of_a_column(few):
    table = few_shot_table(few)
    rows = {row[0].text: row[1:] for row in table.rows if not isinstance(row, str)}
    assert list(rows) == ["nearest-mean", "eszsl"]  # the highest with the most samples first
    assert [cell.text for cell in rows["eszsl"]] == ["42.0 ± 1.4", "46.0 ± 1.4", "–", "33.0"]
    assert [cell.text for cell in rows["nearest-mean"]] == ["10.5 ± 0.7", "50.5 ± 0.7", "–", "–"]
    assert [cell.mark for cell in rows["eszsl"]] == ["best", "", "", "best"]
    assert "5 samples per class are held out of the test" in table.notes[0]


def test_the_figure_has_a_line_per_method_in_a_panel_per_metric(few):
    picture = few_shot_chart(few, "CUB")
    t1, h = picture.figure.axes
    assert (t1.get_title(), h.get_title()) == ("T1", "H")
    lines = {line.get_label(): line.get_xydata() for line in t1.lines}
    np.testing.assert_allclose(lines["eszsl"], [[0, 42], [1, 46]])
    assert [label.get_text() for label in t1.get_xticklabels()] == ["1", "5"]
    assert "T1 of nearest-mean from 10.5 with 1 to 50.5 with 5" in picture.alt


def test_other_tables_have_none_of_these_cells(few, read, synthetic):
    table = accuracy_table(few, "zsl")
    assert [row[1].text for row in table.rows if not isinstance(row, str)] == ["61.0"]
    assert few_shot_table(read([synthetic.record()])) is None


def test_samples_that_were_labelled_on_purpose_are_no_leak(read, synthetic):
    touched = {"unseen_classes_labelled": 50, "test_rows_labelled": 0}
    (made,) = read([synthetic.record(touched=touched)]).records
    assert leaks(made.touched, False) == ["labels of unseen classes"]
    assert leaks(made.touched, False, shots=1) == []
