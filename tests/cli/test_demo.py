from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from firstsight.cli import demo
from firstsight.methods import DEFAULT_METHOD
from firstsight.reporting import embedding_maps as figures

FILES = ["embedding_map.png", "predictions.png", "results.json", "results.md"]
METHODS = [DEFAULT_METHOD, "deep-embedding", "transductive-deep-embedding"]


@pytest.fixture
def tiny(monkeypatch, small):
    """The demo on the small data set, in a second."""
    settings = {"embedding_dim": 16, "learning_rate": 1e-2, "iterations": 8, "batch_size": 16}
    monkeypatch.setattr(demo, "SETTINGS", settings)
    monkeypatch.setattr(demo, "ROUNDS", {"rounds": 2, "round_iterations": 2})
    monkeypatch.setattr("firstsight.data.load_dataset", lambda name: small)


def test_the_demo_writes_a_table_and_two_images(tiny, cli, tmp_path, monkeypatch):
    pytest.importorskip("torch")  # without it, the demo leaves the methods of the paper out
    titles, draw = [], figures.sample_predictions
    monkeypatch.setattr(figures, "sample_predictions", lambda *a: titles.append(a[3]) or draw(*a))
    done = cli("demo", "--out", tmp_path / "out", "--seed", 1)
    assert (done.code, done.err) == (0, "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    records = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [record["method"] for record in records] == METHODS
    table = (tmp_path / "out" / "results.md").read_text().splitlines()
    assert table[0] == "| method | T1 | ts | tr | H | seconds |"
    for record, line in zip(records, table[2:], strict=True):
        assert record["seed"] == 1
        expected = [record[name] for name in ("t1", "ts", "tr", "h", "seconds")]
        assert [float(cell) for cell in line.split("|")[2:-1]] == pytest.approx(expected, abs=0.051)
        shown = next(row for row in done.out.splitlines() if row.startswith(record["method"] + " "))
        assert [float(word) for word in shown.split()[1:]] == pytest.approx(expected, abs=0.051)
    # Sizes and chance are those of the data, not of a text that somebody typed.
    assert "288 images of 24 accented letters" in done.out
    assert "guessing gives T1 10.0 and ts 4.2" in " ".join(done.out.split())
    assert "named among all 24 " in titles[0]
    assert str(tmp_path / "out" / "predictions.png") in done.out  # whole, so that it can be clicked or copied
    assert demo.verdict(records) in done.out.splitlines()
    assert done.out.splitlines()[-1].startswith(f"Next: {demo.NEXT_COMMAND}")
    for name in FILES[:2]:
        with Image.open(tmp_path / "out" / name) as picture:
            assert np.asarray(picture.convert("L")).std() > 1


def test_a_place_that_cannot_be_written_is_one_sentence(tiny, cli, tmp_path):
    (tmp_path / "file").write_text("old")
    done = cli("demo", "--out", tmp_path / "file")
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert "Could not write" in line
    assert (tmp_path / "file").read_text() == "old"


def test_without_torch_and_a_server_the_demo_shows_the_default_and_says_what_to_install(
    tiny, cli, tmp_path, monkeypatch
):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    done = cli("demo", "--out", tmp_path / "out")
    assert (done.code, done.err) == (0, "")
    assert [record["method"] for record in json.loads((tmp_path / "out" / "results.json").read_text())] == METHODS[:1]
    assert "firstsight[torch]" in done.out
    assert "firstsight[serve]" in done.out.splitlines()[-1]


def test_the_verdict_is_one_sentence_with_the_figures_of_the_table():
    records = [
        {"method": m, "t1": t1, "seconds": s} for m, t1, s in zip(METHODS, (81.26, 70, 75), (2, 4, 16), strict=True)
    ]
    said = demo.verdict(records)
    for part in (f"{DEFAULT_METHOD} recognises 81.3 %", "after 2 s", "70.0 % after 4 s", "75.0 % after 16 s"):
        assert part in said
    assert said.count(". ") == 0
    assert said.endswith(".")
    assert demo.verdict(records[:1]).endswith("after 2 s.")


@pytest.mark.slow
def test_the_real_demo_shows_the_transductive_method_ahead(cli, tmp_path):
    assert cli("demo", "--out", tmp_path).code == 0
    _, inductive, transductive = json.loads((tmp_path / "results.json").read_text())
    assert transductive["ts"] > inductive["ts"]
    assert transductive["h"] > inductive["h"]
