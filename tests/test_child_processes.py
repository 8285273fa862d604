from __future__ import annotations

import multiprocessing
import os
import sys

from firstsight._io.child_processes import without_current_folder


def test_a_new_process_does_not_import_what_lies_in_the_current_folder(tmp_path, monkeypatch):
    for module in ("pickle", "multiprocessing", "numpy", "sitecustomize"):
        (tmp_path / f"{module}.py").write_text("open('executed', 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    before = list(sys.path)
    with without_current_folder():
        process = multiprocessing.get_context("spawn").Process(target=os.getpid)
        process.start()
        process.join()
    assert process.exitcode == 0
    assert not (tmp_path / "executed").exists()
    assert sys.path == before
    assert "PYTHONSAFEPATH" not in os.environ


def test_a_current_folder_that_was_removed_keeps_nothing_from_starting(tmp_path, monkeypatch):
    place = tmp_path / "gone"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()
    with without_current_folder():
        assert os.environ["PYTHONSAFEPATH"] == "1"
