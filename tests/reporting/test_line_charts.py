from __future__ import annotations

import numpy as np
import pytest

from firstsight.reporting.charts import rounds_chart, study_chart


def _lines(axis):
    return {line.get_label(): line.get_xydata() for line in axis.lines if not line.get_label().startswith("_")}


def test_rounds_are_means_over_seeds_of_what_each_round_reached(read, synthetic):
    def rounds(*figures):
        first, *later = ({"round": i + 1, "t1": f, "selected": 5} for i, f in enumerate(figures))
        return [first, *({**one, "pseudo_label_accuracy": 80.0} for one in later)]

    records = [synthetic.record(seed=0, rounds=rounds(50, 60)), synthetic.record(seed=1, rounds=rounds(54, 62))]
    picture = rounds_chart(read(records), "CUB")
    accuracy, pseudo = picture.figure.axes
    np.testing.assert_allclose(_lines(accuracy)["T1"], [[1, 52], [2, 61]])
    np.testing.assert_allclose(_lines(pseudo)["conventional"], [[2, 80]])  # nothing was labelled before round 1
    assert "T1 goes from 52.0 to 61.0" in picture.alt


def test_a_study_draws_one_panel_per_method_and_shades_what_collapsed(results):
    figure = study_chart(results, "CUB", "separation").figure
    assert [axis.get_title() for axis in figure.axes] == ["deep-embedding", "transductive-deep-embedding"]
    for axis in figure.axes:
        assert set(_lines(axis)) == {"T1", "ts", "tr", "H"}
        assert [label.get_text() for label in axis.get_xticklabels()] == ["0", "1", "10", "30", "100", "300", "1000"]
        places = axis.get_xticks()
        assert (np.diff(places) > 0).all()  # zero, which has no logarithm, comes first
        assert len([patch for patch in axis.patches if patch.get_label() != ""]) == 2  # λ = 0 and 1
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["T1", "ts", "tr", "H", "collapsed, or hardly trained"]


@pytest.mark.parametrize("low_first", [True, False])
def test_every_value_of_every_panel_of_a_study_is_inside_the_axis_that_they_share(read, synthetic, low_first):
    def record(method, value, t1, **more):
        return synthetic.record(method=method, t1=t1, study="separation", variant={"separation": value}, **more)

    low, high = ("deep-embedding", "transductive-deep-embedding")[:: 1 if low_first else -1]
    records = [record(low, 0.0, 2.0, collapsed=True), record(low, 1000.0, 46.0)]
    records += [record(high, 0.0, 2.0, collapsed=True), record(high, 1000.0, 94.4)]
    for axis in study_chart(read(records), "CUB", "separation").figure.axes:
        bottom, top = axis.get_ylim()
        assert bottom == 0
        assert 94.4 < top < 105


def test_where_all_has_collapsed_noise_does_not_fill_the_picture(read, synthetic):
    study = {"study": "separation", "variant": {"separation": 0.0}, "collapsed": True}
    picture = study_chart(read([synthetic.record(t1=2.0, **study)]), "CUB", "separation")
    assert picture.figure.axes[0].get_ylim() == (0, 10)


def test_a_study_of_one_setting_says_what_it_shows_and_what_the_tables_are_made_with(read, synthetic):
    study = {"study": "separation", "variant": {"separation": 10.0}}
    records = [synthetic.record(setting="gzsl", **study), synthetic.record(parameters={"separation": 300.0})]
    picture = study_chart(read(records), "CUB", "separation")
    assert picture.alt == "ts, tr, H of eszsl on CUB with λ from 10 to 10."
    assert picture.notes == ["One seed.", "In the tables of accuracies, λ is 300."]


def test_study_figures_are_those_of_the_records(results):
    wanted = {
        r.variant["separation"]: r.t1
        for r in results.studies
        if (r.dataset, r.method, r.setting) == ("CUB", "deep-embedding", "zsl")
    }
    drawn = _lines(study_chart(results, "CUB", "separation").figure.axes[0])["T1"]
    np.testing.assert_allclose(drawn[:, 1], [wanted[v] for v in sorted(wanted)])
