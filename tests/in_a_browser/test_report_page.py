"""The report, at the width of a desk and of a phone."""

from __future__ import annotations

import pytest

from firstsight.reporting import report
from reporting import synthetic

pytestmark = pytest.mark.slow  # making a report takes longer than looking at it


def _written(folder, cells, with_map: bool) -> str:
    records = [synthetic.full_record("CUB", method, setting, 0) for method, setting in cells]
    place = synthetic.write(folder / "records", records)
    if with_map:
        synthetic.write_map(place, classes=20)
    return report(place, folder / "out").as_uri()


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    """A report with some figures, quickly drawn."""
    return _written(tmp_path_factory.mktemp("report"), [("rn", "zsl"), ("dap", "zsl")], with_map=False)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> str:
    """A report with figures of every kind."""
    cells = [(m, s) for m in ("rn", "transductive-deep-embedding") for s in ("zsl", "gzsl")]
    return _written(tmp_path_factory.mktemp("whole"), cells, with_map=True)


def test_on_a_phone_no_figure_is_cut_and_tables_scroll_in_their_boxes(open_page, complaints, cut, address):
    _nothing_is_cut(open_page(address, width=390), cut, figures=3)
    assert complaints == []


def test_on_a_phone_no_figure_of_any_kind_is_cut(open_page, complaints, cut, whole):
    _nothing_is_cut(open_page(whole, width=390), cut, figures=6)
    assert complaints == []


def _nothing_is_cut(page, cut, figures: int) -> None:
    assert cut(page) == []
    widths = page.evaluate(
        "[...document.querySelectorAll('svg')].map((one) => one.getBoundingClientRect()).filter((box) => box.width)"
        ".map((box) => [box.left, box.right])"
    )
    assert len(widths) >= figures
    assert all(0 <= left < right <= 390 for left, right in widths)


def test_a_table_fills_the_width_and_pictures_come_before_it(open_page, address):
    page = open_page(address)
    box = page.evaluate(
        """() => {
            const at = (selector) => document.querySelector(selector).getBoundingClientRect();
            const { width } = at("#conventional table");
            return { width, main: at("main").width, picture: at("svg").top, table: at("table").top };
        }"""
    )
    assert box["width"] > 0.9 * (box["main"] - 48)
    assert box["picture"] < box["table"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_audit_has_no_serious_findings(open_page, whole, audit, scheme):
    assert audit(open_page(whole, scheme=scheme)) == []
