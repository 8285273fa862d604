from __future__ import annotations

import numpy as np

from firstsight.evaluation.calibration import reliability
from firstsight.reporting.charts import reliability_plot
from firstsight.reporting.figure_style import save_figure


def test_the_plot_shows_the_bins_that_have_rows_and_tells_the_error(tmp_path):
    confidence = np.array([0.05] * 10 + [0.95] * 30)
    found = reliability(confidence, np.array([False] * 10 + [True] * 24 + [False] * 6))
    figure = reliability_plot(found, "birds")
    upper, lower = figure.axes
    assert [round(bar.get_height(), 2) for bar in upper.patches] == [0.0, 0.8]
    assert [round(bar.get_height(), 2) for bar in lower.patches] == [0.25, 0.75]
    assert "birds" in upper.get_title()
    assert f"{0.25 * 0.05 + 0.75 * 0.15:.3f}" in upper.get_title()
    save_figure(figure, tmp_path / "reliability.png")
    assert (tmp_path / "reliability.png").read_bytes().startswith(b"\x89PNG")
