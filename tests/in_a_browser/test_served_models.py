"""The page over a model of features whose classes a text model described, with benchmark records beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from firstsight import ESZSL, describe
from firstsight.recognition import Recognizer
from reporting import synthetic

pytestmark = pytest.mark.slow  # a text model and a report take longer than looking at them


@pytest.fixture(scope="module")
def address(browser, served, shared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("described")
    encoder = shared / "backbones" / "all-minilm-l6-v2"
    names = ["cat", "dog", "violin", "piano"]
    table = describe(pd.DataFrame({"text": [f"a photo of a {name}" for name in names]}, index=names), encoder=encoder)
    rows = np.random.default_rng(0).normal(size=(40, 8)).astype(np.float32)
    Recognizer(ESZSL().fit(rows, np.repeat(names, 10), table)).save(folder / "model")
    cells = [("rn", "zsl"), ("dap", "zsl")]
    records = synthetic.write(folder / "records", [synthetic.full_record("CUB", m, s, 0) for m, s in cells])
    words = [folder / "model", "--text-encoder", encoder, "--results", records]
    with served(folder / "told", *words) as found:
        yield found


def test_a_class_is_taught_by_a_sentence(open_page, address, complaints):
    page = open_page(f"{address}#teach")
    page.wait_for_selector(".class-list li")
    page.locator("#class-name").fill("guitar")
    page.get_by_label("A sentence that describes it").fill("A wooden instrument with six strings.")
    page.get_by_role("button", name="Teach it").click()
    page.locator("#notices", has_text="guitar is known now. 5 classes in all.").wait_for()
    page.get_by_role("button", name="Undo the last one").click()
    page.locator("#notices", has_text="Undone. 4 classes in all.").wait_for()
    page.get_by_role("tab", name="Recognise").click()
    page.locator("#recognise", has_text="fitted on features, not on pictures").wait_for()
    assert complaints == []


@pytest.mark.parametrize("width", [1280, 390])
def test_the_report_of_the_records_is_shown_as_soon_as_it_is_drawn(open_page, address, complaints, cut, expect, width):
    page = open_page(f"{address}#measure", width=width)
    page.wait_for_selector("iframe.report-frame")
    report = page.frame_locator("iframe.report-frame")
    report.locator("#conventional table").wait_for()
    page.wait_for_function("document.querySelector('iframe.report-frame').clientHeight > 1500")  # no box within a box
    assert cut(page) == []
    page.get_by_role("link", name="on a page of its own").click()
    page.wait_for_url("**/report/index.html")
    expect(page.locator("#conventional table")).to_be_visible()
    assert complaints == []
