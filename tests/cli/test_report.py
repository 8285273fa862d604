from __future__ import annotations

import json

import pytest


def _record(**changes):
    key = {"dataset": "CUB", "method": "eszsl", "setting": "zsl", "seed": 0, "variant": {}, "study": ""}
    return {"schema": 1, "status": "done", **key, "t1": 50.0, "split": "a", **changes}


@pytest.fixture
def place(tmp_path):
    """Write records: `place(record, …)` gives their folder."""

    def write(*records):
        folder = tmp_path / "results"
        folder.mkdir(exist_ok=True)
        (folder / "CUB.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
        return folder

    return write


def test_the_page_is_made_and_named(cli, place, tmp_path):
    done = cli("report", place(_record()), "--out", tmp_path / "out")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{tmp_path / 'out' / 'index.html'}\n"
    assert "50.0" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("words", "opened"), [((), False), (("--open", "no"), False), (("--open", "yes"), True)])
def test_the_browser_opens_only_when_asked(cli, place, tmp_path, monkeypatch, words, opened):
    pages = []
    monkeypatch.setattr("webbrowser.open", pages.append)
    assert cli("report", place(_record()), "--out", tmp_path / "out", *words).code == 0
    assert bool(pages) == opened


def test_a_place_without_records_is_one_sentence(cli, tmp_path):
    cli("report", tmp_path / "nowhere", "--out", tmp_path / "out").is_refused_with("firstsight benchmark")
    (tmp_path / "empty").mkdir()
    cli("report", tmp_path / "empty", "--out", tmp_path / "out").is_refused_with("firstsight benchmark")
    assert not (tmp_path / "out").exists()


def test_records_of_another_version_are_one_sentence(cli, place, tmp_path):
    cli("report", place(_record(schema=7)), "--out", tmp_path / "out").is_refused_with("version 7", "version 1")
    assert not (tmp_path / "out").exists()


def test_two_splits_under_one_name_are_one_sentence(cli, place, tmp_path):
    folder = place(_record(), _record(seed=1, split="b"))
    cli("report", folder, "--out", tmp_path / "out").is_refused_with("CUB", "different splits")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(cli, place, tmp_path):
    (tmp_path / "file").write_text("old")
    for out in (tmp_path / "file", tmp_path / "file" / "deeper"):
        cli("report", place(_record()), "--out", out).is_refused_with("Could not write into the folder")
    assert (tmp_path / "file").read_text() == "old"


def test_a_damaged_map_is_one_sentence_and_makes_no_folder(cli, place, tmp_path):
    folder = place(_record())
    (folder / "maps").mkdir()
    (folder / "maps" / "CUB.npz").write_bytes(b"not a map")
    cli("report", folder, "--out", tmp_path / "out").is_refused_with("CUB.npz is not a map", "remove it")
    assert not (tmp_path / "out").exists()
