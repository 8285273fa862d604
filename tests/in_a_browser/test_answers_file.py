"""The file of `predict --html`, opened from the disk."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from firstsight.recognition import answer

NASTY = '<img src=x onerror=alert(1)></script><script>alert("2")</script>'


@pytest.fixture(scope="module")
def address(calibrated, small, tmp_path_factory) -> str:
    """Sixty pictures, one of them of nothing known, one not read; a file's name and a truth are hostile."""
    rows = np.concatenate([small.features[small.test_unseen[:59]], np.full((1, 16), 1e-3, dtype=np.float32)])
    pictures = [Image.fromarray(one) for one in small.images[:60]]
    found = answer(calibrated, rows, top=5, why=True)
    names = [NASTY, *(f"{number}.png" for number in range(1, 60))]
    place = tmp_path_factory.mktemp("answers") / "answers.html"
    found.about(names, [NASTY, *[None] * 59], [("torn.png", NASTY)], "file", pictures).to_html(place)
    return place.as_uri()


def test_names_are_text_and_the_browser_has_nothing_to_say_against_it(open_page, complaints, address):
    page = open_page(address, offline=True)
    page.wait_for_selector(".answer")
    assert page.locator(".answer-file").first.get_attribute("title") == NASTY
    assert NASTY in page.locator(".answer-chips").first.inner_text()
    assert page.locator("img[src=x]").count() == 0
    assert page.locator(".answer img").first.evaluate("(img) => img.complete && img.naturalWidth > 0")
    assert complaints == []


def test_cards_come_in_portions_and_are_filtered_and_sorted(open_page, address):
    page = open_page(address)
    assert page.locator(".answer").count() == 48
    page.get_by_role("button", name="Show 13 more").click()
    assert page.locator(".answer").count() == 61
    page.get_by_label("Kind", exact=True).select_option("none")
    assert "none of these" in [one.inner_text() for one in page.locator(".answer-name").all()]
    page.get_by_label("Kind", exact=True).select_option("error")
    assert [one.inner_text() for one in page.locator(".answer-error").all()] == [NASTY]
    page.get_by_label("Kind", exact=True).select_option("")
    page.get_by_role("slider", name="Confidence at least").fill("0.5")
    firsts = page.locator(".ranks li:first-child .rank-number")
    shown = [int(one.inner_text().strip("<> %")) for one in firsts.all()]
    assert shown
    assert min(shown) >= 50
    page.get_by_label("Order", exact=True).select_option("unsure")
    shown = [int(one.inner_text().strip("<> %")) for one in firsts.all()]
    assert shown == sorted(shown)


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
