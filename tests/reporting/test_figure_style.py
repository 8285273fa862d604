from __future__ import annotations

import re

import matplotlib
import pytest

from firstsight.reporting.charts import (
    class_chart,
    confusion_chart,
    overview_chart,
    rounds_chart,
    study_chart,
    trade_off_chart,
)
from firstsight.reporting.embedding_maps import map_figure, read_maps
from firstsight.reporting.figure_style import (
    COLOURS,
    MANY_COLOURS,
    NARROW,
    WIDE,
    figure_style,
    panels,
    png_of,
    short,
    slug,
    svg_of,
)


def test_without_their_records_there_are_no_charts(read, synthetic):
    bare = read([synthetic.record(), synthetic.record(setting="gzsl")])
    for draw in (rounds_chart, trade_off_chart, class_chart, confusion_chart):
        assert draw(bare, "CUB") is None
    assert study_chart(bare, "CUB", "separation") is None
    assert read_maps(bare.folder, bare.splits) == []
    assert map_figure("CUB", {}) is None


def test_names_with_dollars_and_letters_without_a_shape_are_drawn(read, synthetic, recwarn):
    results = read([synthetic.record(confusion=[["$a_{", "鳥", 3]])])
    chart = confusion_chart(results, "CUB")
    assert png_of(chart).startswith(b"\x89PNG")
    assert "$a_{" in svg_of(chart, NARROW)
    assert not list(recwarn)


def test_drawing_changes_no_setting_of_matplotlib(results):
    before = dict(matplotlib.rcParams)
    svg_of(overview_chart(results), WIDE)
    assert dict(matplotlib.rcParams) == before
    with figure_style():
        assert dict(matplotlib.rcParams) != before


def test_a_figure_on_a_page_is_text_in_the_colours_of_the_page_and_always_the_same(results):
    picture = overview_chart(results)
    drawn = svg_of(picture, NARROW)
    assert drawn == svg_of(picture, NARROW)
    assert re.search(r"<text[^>]*>transductive-deep-embedding †</text>", drawn)
    assert "var(--ink)" in drawn
    for colour in ("#1a1a1a", "#000000", "#ffffff"):  # would vanish on a dark page, or glare
        assert colour not in drawn
    assert not re.search(r' id="[a-z0-9]+_\d+"|<!--|<style|<metadata', drawn)  # names that two figures would share


def test_a_name_is_no_markup_in_a_figure(read, synthetic):
    nasty = "<script>alert(1)</script>-->"
    drawn = svg_of(confusion_chart(read([synthetic.record(confusion=[[nasty, "b", 3]])]), "CUB"), WIDE)
    assert "<script" not in drawn
    assert "&lt;script&gt;" in drawn


@pytest.mark.parametrize(("width", "columns"), [(NARROW, 1), (WIDE, 3)])
def test_panels_stand_side_by_side_only_where_they_fit(width, columns):
    figure, axes = panels(width, 3, height=2.0)
    assert len(axes) == 3
    assert axes[0].get_gridspec().ncols == columns
    assert figure.get_size_inches().tolist() == [width, 2.0 * 3 / columns]


@pytest.mark.parametrize("draw", [rounds_chart, trade_off_chart, class_chart, confusion_chart])
def test_what_is_drawn_for_a_phone_is_as_narrow_as_a_phone(results, draw):
    drawn = svg_of(draw(results, "CUB"), NARROW)
    width = float(re.search(r'width="([\d.]+)pt"', drawn)[1])
    assert width <= 72 * NARROW + 0.1


def test_all_colours_differ():
    assert len(set(MANY_COLOURS)) == 24
    assert MANY_COLOURS[: len(COLOURS)] == COLOURS


def test_names_become_files_and_labels():
    assert slug("../CUB 200") == "CUB_200"
    assert slug("///") == "unnamed"
    assert short("x" * 40, 10) == "x" * 9 + "…"
