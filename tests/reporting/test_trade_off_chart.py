from __future__ import annotations

import numpy as np

from firstsight.reporting.charts import trade_off_chart


def _lines(axis):
    return {line.get_label(): line.get_xydata() for line in axis.lines if not line.get_label().startswith("_")}


def test_tradeoffs_name_the_largest_areas_and_leave_the_others_grey(results):
    picture = trade_off_chart(results, "CUB")
    named = _lines(picture.figure.axes[0])
    assert len(named) == 6
    grey = [line for line in picture.figure.axes[0].lines if line.get_color() == "#bbbbbb"]
    assert len(grey) == 19 - 6
    legend = [text.get_text() for text in picture.figure.legends[0].get_texts()]
    assert legend[-3:] == ["the others", "the method as it is", "calibrated on validation classes"]
    assert any(text.startswith("transductive-deep-embedding (") for text in legend)


def test_a_curve_that_lacks_its_cross_is_explained(read, synthetic):
    curve = {"ausuc": None, "best_h": None, "curve": [[0.0, 60.0], [40.0, 0.0]], "calibrated": None}
    crossed = {**curve, "calibrated": {"constant": 0.5, "ts": 20.0, "tr": 30.0, "h": 24.0}}
    cells = {"ale": crossed, "rn": curve}
    records = [synthetic.record(method=m, setting="gzsl", seen_unseen=own) for m, own in cells.items()]
    words = "A curve without a cross was not calibrated."
    assert words in trade_off_chart(read(records), "CUB").notes
    assert words not in trade_off_chart(read([{**r, "seen_unseen": crossed} for r in records]), "CUB").notes
    assert words not in trade_off_chart(read([{**r, "seen_unseen": curve} for r in records]), "CUB").notes


def test_a_curve_without_area_or_calibration_is_drawn_all_the_same(read, synthetic):
    records = [synthetic.record(setting="gzsl", seen_unseen={"curve": [[0.0, 60.0], [40.0, 0.0]]})]
    figure = trade_off_chart(read(records), "CUB").figure
    (drawn,) = _lines(figure.axes[0]).values()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["eszsl", "the method as it is"]
    np.testing.assert_allclose(drawn, [[0, 60], [40, 0]])
