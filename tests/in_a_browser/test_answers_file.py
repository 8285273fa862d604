"""The file of `predict --html`, opened from the disk."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from firstsight.recognition import Recognizer

NASTY = '<img src=x onerror=alert(1)></script><script>alert("2")</script>'


@pytest.fixture(scope="module")
def address(calibrated, small, tmp_path_factory) -> str:
    """Sixty pictures, one of them of nothing known, one not read; a file's name and a truth are hostile."""
    rows = np.concatenate([small.features[small.test_unseen[:59]], np.full((1, 16), 1e-3, dtype=np.float32)])
    pictures = [Image.fromarray(one) for one in small.images[:60]]
    found = Recognizer(calibrated).predict(rows, top=5, why=True)
    names = [NASTY, *(f"{number}.png" for number in range(1, 60))]
    place = tmp_path_factory.mktemp("answers") / "answers.html"
    found = replace(
        found, names=names, truth=[NASTY, *[None] * 59], skipped=[("torn.png", NASTY)], key="file", images=pictures
    )
    found.to_html(place)
    return place.as_uri()


def test_names_are_text_and_the_browser_has_nothing_to_say_against_it(open_page, complaints, address, expect):
    page = open_page(address, offline=True)
    expect(page.locator(".answer-file").first).to_have_attribute("title", NASTY)
    expect(page.locator(".answer-chips").first).to_contain_text(NASTY)
    expect(page.locator("img[src=x]")).to_have_count(0)
    # Images further down are loaded when somebody scrolls to them.
    expect(page.locator(".answer img").first).to_have_js_property("complete", True)
    expect(page.locator(".answer img").first).not_to_have_js_property("naturalWidth", 0)
    assert complaints == []


def test_cards_come_in_portions_and_are_filtered_and_sorted(open_page, address, expect):
    page = open_page(address)
    answers = page.locator(".answer")
    expect(answers).to_have_count(48)
    page.get_by_role("button", name="Show 13 more").click()
    expect(answers).to_have_count(61)
    page.get_by_label("Kind", exact=True).select_option("none")
    expect(page.locator(".grid-count")).to_have_text(re.compile(r"^\d+ of 61 pictures$"))
    assert set(page.locator(".answer-name").all_inner_texts()) == {"none of these"}
    page.get_by_label("Kind", exact=True).select_option("error")
    expect(page.locator(".answer-error")).to_have_text([NASTY])
    page.get_by_label("Kind", exact=True).select_option("")
    expect(page.locator(".grid-count")).to_have_text("61 pictures")
    page.get_by_role("slider", name="Confidence at least").fill("0.5")
    expect(page.locator(".grid-count")).to_have_text(re.compile(r"^\d+ of 61 pictures$"))
    shown = _confidences(page)
    assert shown
    assert min(shown) >= 50
    page.get_by_label("Order", exact=True).select_option("unsure")
    expect(page.locator(".ranks li:first-child .rank-number").first).to_contain_text(str(min(shown)))
    assert _confidences(page) == sorted(shown)


def _confidences(page) -> list[int]:
    texts = page.locator(".ranks li:first-child .rank-number").all_inner_texts()
    return [int(text.strip("<> %")) for text in texts]


def test_a_phone_cuts_nothing(open_page, address, cut):
    page = open_page(address, width=390)
    page.locator(".why summary").first.click()
    assert cut(page) == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_audit_has_no_serious_findings(open_page, address, audit, scheme):
    page = open_page(address, scheme=scheme, bypass_csp=True)
    page.locator(".why summary").first.click()
    assert audit(page) == []
