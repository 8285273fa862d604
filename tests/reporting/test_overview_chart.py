from __future__ import annotations

import numpy as np

from firstsight.reporting.charts import MOST_METHODS, overview_chart


def test_every_method_has_its_two_marks_in_one_order_for_all_data_sets(read, synthetic):
    t1 = {"rn": (40.0, 90.0), "ale": (50.0, 60.0), "mine": (10.0, 20.0)}
    records = [synthetic.record(d, m, t1=own[i]) for m, own in t1.items() for i, d in enumerate(("CUB", "glyphs"))]
    records.append(synthetic.record("CUB", "rn", "gzsl", h=33.0))
    picture = overview_chart(read(records))
    cub, _ = picture.figure.axes
    assert [label.get_text() for label in cub.get_yticklabels()] == ["rn", "ale", "mine"]  # means 65, 55, 15
    marks = {tuple(np.ravel(line.get_xydata())) for line in cub.lines if line.get_marker() != "None"}
    assert marks == {(40.0, 0), (33.0, 0), (50.0, 1), (10.0, 2)}
    assert "Highest T1: ale on CUB, rn on glyphs" in picture.alt


def test_of_very_many_methods_the_first_are_shown_and_that_is_said(read, synthetic):
    picture = overview_chart(read([synthetic.record(method=f"m{i}", t1=float(i)) for i in range(40)]))
    assert len(picture.figure.axes[0].get_yticklabels()) == MOST_METHODS
    assert f"The first {MOST_METHODS} of 40 methods." in picture.notes
