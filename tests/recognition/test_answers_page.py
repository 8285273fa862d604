"""The page of `predict --html`: one file, all of it text, small; what it does in a browser is in tests/serving."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from firstsight.encoders.images import THUMBNAIL_BYTES
from firstsight.methods import ESZSL
from firstsight.recognition import Recognizer
from firstsight.web import sha256_source

NASTY = '</script><script>alert("1")</script><img src=x onerror=alert(1)> $title & \u2028'


class Page(HTMLParser):
    """Elements, the text of each, and attributes of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.attributes, self.inside = [], {}, [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        self.texts.setdefault(tag, []).append("")
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside:
            self.texts[self.inside][-1] += data

    @property
    def entries(self):
        return json.loads(self.texts["script"][0])


@pytest.fixture(scope="module")
def answers(calibrated, small):
    rows = np.concatenate([small.features[small.test_unseen[:6]], np.full((1, 16), 1e-3, dtype=np.float32)])
    pictures = [Image.fromarray(one) for one in small.images[:7]]
    found = Recognizer(calibrated).predict(rows, top=5, why=True)
    truth = [str(name) for name in small.part("test_unseen")[1][:6]] + [None]
    names = [f"{number}.png" for number in range(7)]
    return replace(
        found, names=names, truth=truth, skipped=[("torn.png", "damaged: no end")], key="file", images=pictures
    )


@pytest.fixture
def page(answers, tmp_path):
    answers.to_html(tmp_path / "a.html", title="Letters & more")
    return Page((tmp_path / "a.html").read_text(encoding="utf-8"))


def test_the_page_has_every_answer_with_picture_ranking_reasons_and_truth(page, answers, small):
    assert len(page.entries) == len(answers) + 1
    for row, entry in enumerate(page.entries[:-1]):
        assert entry["file"] == f"{row}.png"
        assert [one["class"] for one in entry["top"]] == answers.classes[row].tolist()
        assert [one["confidence"] for one in entry["top"]] == answers.confidence[row].tolist()
        assert [one["seen"] for one in entry["top"]] == [one in small.seen_classes for one in answers.classes[row]]
        assert entry["why"] == answers.why[row].model_dump(by_alias=True)
        assert entry["truth"] == answers.truth[row]
        content = base64.b64decode(entry["picture"].removeprefix("data:image/jpeg;base64,"))
        assert 0 < len(content) <= THUMBNAIL_BYTES
    assert page.entries[6]["class"] == "none of these"
    assert page.entries[-1] == {"file": "torn.png", "error": "damaged: no end", "class": None, "top": []}
    assert page.texts["h1"] == ["Letters & more"]
    (said,) = (text for text in page.texts["p"] if "among 24 classes" in text)
    assert "7 pictures" in said
    assert "14 with labelled samples, 10 with a description only" in said
    assert "1 picture could not be read" in said


def test_the_page_needs_no_other_file_and_lets_nothing_in(page):
    links = [(tag, value) for tag, name, value in page.attributes if name in ("src", "href", "action")]
    assert links == []
    assert page.tags.count("script") == 2
    assert not re.search(r"https?:|@import", page.texts["style"][0])
    (policy,) = (value for _, name, value in page.attributes if name == "content" and "default-src" in value)
    assert policy.startswith("default-src 'none'; img-src data:; font-src data:;")
    assert sha256_source(page.texts["style"][0]) in policy
    assert sha256_source(page.texts["script"][1]) in policy
    assert "unsafe" not in policy


def test_hostile_names_are_text(small, tmp_path):
    X, y = small.part("train")
    table = small.descriptions.rename(index=lambda name: NASTY + name, columns=lambda name: NASTY + name)
    model = ESZSL().fit(X, [NASTY + name for name in y], table)
    found = Recognizer(model).predict(X[:3], why=True)
    found = replace(found, names=[NASTY] * 3, truth=[NASTY] * 3, skipped=[(NASTY, NASTY)], key="file")
    found.to_html(tmp_path / "a.html", title=NASTY)
    page = Page((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert page.tags.count("script") == 2
    assert "img" not in page.tags
    assert page.texts["title"] == [NASTY]
    assert page.entries[0]["file"] == page.entries[-1]["error"] == NASTY
    assert all(one["class"].startswith(NASTY) for one in page.entries[0]["top"])


def test_rows_of_features_have_no_pictures_and_no_calibration_is_said(eszsl, small, tmp_path):
    Recognizer(eszsl).predict(small.features[:2]).to_html(tmp_path / "a.html")
    page = Page((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert [entry["file"] for entry in page.entries] == ["row 0", "row 1"]
    assert not any("picture" in entry for entry in page.entries)
    assert any("This model has no calibration" in text for text in page.texts["p"])
