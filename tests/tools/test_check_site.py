from __future__ import annotations

import runpy
from pathlib import Path

import pytest

problems = runpy.run_path(str(Path(__file__).resolve().parents[2] / "tools" / "check_site.py"))["problems"]


@pytest.fixture
def site(tmp_path):
    """Writes pages and says what is wrong with them."""

    def told(**pages):
        for name, text in pages.items():
            (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
        return problems(tmp_path)

    return told


def test_a_whole_site_has_no_problem(site):
    page = '<a href="two.html#place">x</a><a href="#top" id="top">y</a><a href="https://example.org/a">z</a>'
    assert site(one=page, two='<h1 id="place">x</h1><a href="mailto:a@example.org">m</a>') == []


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ('<a href="three.html">x</a>', "there is no three.html"),
        ('<a href="two.html#nowhere">x</a>', "there is no place two.html#nowhere"),
        ('<a href="#nowhere">x</a>', "there is no place #nowhere"),
        ('<img src="picture.png">', "there is no picture.png"),
        ('<script src="https://example.org/x.js"></script>', "from another site"),
        ('<link rel="stylesheet" href="//example.org/x.css">', "from another site"),
        ('<a href="https://nowhere">x</a>', "is not an address"),
    ],
)
def test_what_leads_nowhere_is_told(site, page, sentence):
    (told,) = site(one=page, two="<p>x</p>")
    assert sentence in told


def test_an_empty_folder_is_no_site(site):
    assert len(site()) == 1
