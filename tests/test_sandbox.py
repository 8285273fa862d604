from __future__ import annotations

import io
import multiprocessing
import os
import sys

import pytest

from firstsight._io import sandbox
from firstsight._io.sandbox import SandboxDied, SandboxFailed, call_in_sandbox, without_current_folder


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


LIMITS = {"memory": 1 << 30, "seconds": 60}


def test_a_function_gets_json_and_returns_json_and_arrays():
    assert call_in_sandbox("os.path", "join", "a", "b", **LIMITS) == "a/b"
    array = call_in_sandbox("numpy", "ones", [2, 3], **LIMITS)
    assert array.shape == (2, 3)
    assert array.sum() == 6


def test_an_exception_is_its_type():
    with pytest.raises(SandboxFailed, match="ZeroDivisionError"):
        call_in_sandbox("operator", "truediv", 1, 0, **LIMITS)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
def test_a_call_that_takes_more_memory_fails_and_the_next_one_is_answered():
    with pytest.raises(SandboxFailed, match="MemoryError"):
        call_in_sandbox("numpy", "zeros", 1 << 31, memory=1 << 28, seconds=60)
    assert call_in_sandbox("os.path", "join", "a", "b", **LIMITS) == "a/b"


def test_a_result_that_claims_more_than_the_limit_is_not_received():
    with pytest.raises(EOFError):
        sandbox._receive(io.BytesIO(b'{"arrays": {"": ["f8", [1000000000000]]}}\n'), 1 << 20)
    with pytest.raises(EOFError):
        sandbox._receive(io.BytesIO(b'{"values": {"": "long"}}\n'), 10)


@pytest.mark.skipif(os.name == "nt", reason="limits of time are POSIX")
def test_a_call_that_takes_more_time_than_allowed_ends_its_process_and_the_next_one_is_answered():
    with pytest.raises(SandboxDied):
        call_in_sandbox("re", "match", "(a*)*(a*)*(a*)*b", "a" * 40, memory=1 << 30, seconds=1)
    assert call_in_sandbox("os.path", "join", "a", "b", **LIMITS) == "a/b"


def test_a_call_writes_no_file(tmp_path):
    with pytest.raises(SandboxFailed, match="OSError"):
        call_in_sandbox("shutil", "copyfile", __file__, str(tmp_path / "copy"), **LIMITS)
    assert not (tmp_path / "copy").exists() or not (tmp_path / "copy").stat().st_size
