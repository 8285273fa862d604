from __future__ import annotations

import json
import re
import runpy
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from PIL import Image

PROJECT = Path(__file__).resolve().parents[2]
_TOOL = runpy.run_path(str(PROJECT / "tools" / "images.py"))
colours, compared, comparison, drawn_from, look = (
    _TOOL[name] for name in ("colours", "compared", "comparison", "drawn_from", "look_of_the_web_app")
)
IMAGES = PROJECT / _TOOL["IMAGES"]


def test_the_images_are_drawn_from_the_present_records_and_the_present_web_app():
    written = json.loads((IMAGES / "drawn_from.json").read_text(encoding="utf-8"))
    assert written == drawn_from(PROJECT), "run: python tools/images.py"


def test_every_image_that_the_readme_shows_is_there_and_all_are_shown_and_small():
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    shown = set(re.findall(r'(?:src|srcset)="docs/images/([^"]+)"', text))
    files = {path.name: path.stat().st_size for path in IMAGES.iterdir() if path.suffix != ".json"}
    assert shown == set(files)
    assert sum(files.values()) <= _TOOL["LARGEST"]
    for name in files:
        if name.endswith(".png"):
            with Image.open(IMAGES / name) as image:
                assert image.width >= 1000
        else:
            ET.parse(IMAGES / name)


@pytest.mark.parametrize("scheme", _TOOL["SCHEMES"])
def test_the_comparison_names_the_default_and_the_papers_methods_in_the_colours_of_the_web_app(scheme, synthetic, read):
    records = [
        synthetic.record(method=name, t1=t1, cpu_seconds=seconds, transductive=name.startswith("trans"))
        for name, t1, seconds in (
            ("kernel-prototypes", 60.0, 5.0),
            ("deep-embedding", 50.0, 10.0),
            ("transductive-deep-embedding", 70.0, 20.0),
            ("ale", 40.0, 3.0),
        )
    ]
    points = compared(read(records))
    assert [(p["method"], p["t1"], p["seconds"], p["inductive"]) for p in points if p["method"] != "ale"] == [
        ("deep-embedding", 50.0, 10.0, True),
        ("transductive-deep-embedding", 70.0, 20.0, False),
        ("kernel-prototypes", 60.0, 5.0, True),
    ]
    drawn = comparison(points, colours(PROJECT, scheme))
    for name in ("kernel-prototypes", "deep-embedding", "transductive-deep-embedding"):
        assert f">{name}<" in drawn
    assert ">ale<" not in drawn
    assert colours(PROJECT, scheme)["unseen"] in drawn


def test_a_method_with_extra_supervision_is_not_compared(synthetic, read):
    told_more = synthetic.record(method="qfsl", t1=90.0, cpu_seconds=1.0, extra_supervision="it knows more")
    points = compared(read([synthetic.record(method="ale", cpu_seconds=1.0), told_more]))
    assert [point["method"] for point in points] == ["ale"]


def test_the_dark_colours_differ_and_a_change_of_the_web_app_changes_its_digest(tmp_path):
    light, dark = (colours(PROJECT, scheme) for scheme in ("light", "dark"))
    assert set(light) == set(dark)
    assert light["page"] != dark["page"]
    for path in _TOOL["_LOOK"]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    before = look(tmp_path)
    sheet = tmp_path / _TOOL["_LOOK"][0]
    sheet.write_bytes(b"p { }\r\n")
    changed = look(tmp_path)
    assert changed != before
    sheet.write_bytes(b"p { }\n")  # as another system checks it out
    assert look(tmp_path) == changed
