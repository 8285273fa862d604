from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files

from firstsight.web import as_data, read_script, read_style, sha256_source


def test_a_style_sheet_carries_its_fonts_and_asks_for_nothing():
    sheet = read_style("tokens.css", "answer_cards.css")
    assert "/*" not in sheet
    links = re.findall(r"url\(([^)]*)\)", sheet)
    assert len(links) == 2
    for link in links:
        assert base64.b64decode(link.removeprefix("data:font/woff2;base64,"))[:4] == b"wOF2"
    assert ".answer" in sheet


def test_modules_become_one_script():
    script = read_script("elements.js", "answer_cards.js")
    assert not re.search(r"^(import|export)\b", script, flags=re.MULTILINE)
    assert script.index("function el(") < script.index("class AnswerGrid")


def test_data_read_back_as_they_were_and_cannot_end_their_script():
    nasty = {"</script><script>alert(1)</script>": ["<!--", "a & b", "\u2028\u2029", "é"]}
    said = as_data(nasty)
    assert json.loads(said) == nasty
    assert not set(said) & set("<>&\u2028\u2029")


def test_a_source_is_what_the_policy_calls_it():
    digest = hashlib.sha256(b"a {}\n").digest()
    assert sha256_source("a {}\n") == f"'sha256-{base64.b64encode(digest).decode()}'"


def test_every_font_has_its_licence_beside_it():
    fonts = files("firstsight.web").joinpath("parts/fonts")
    names = {path.name for path in fonts.iterdir()}
    for name in (name for name in names if name.endswith(".woff2")):
        assert "SIL Open Font License" in fonts.joinpath(f"{name[:-6]}.LICENSE.txt").read_text(encoding="utf-8")
    assert len(names) == 4
