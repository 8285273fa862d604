"""libhdf5 runs in another process: what a file does to it, it does not do to us."""

from __future__ import annotations

import os
import threading

import h5py
import numpy as np
import pytest

from firstsight._io import sandbox
from firstsight.data.matfile import hdf5_shapes, hdf5_variables, read_matrix, read_variables, variable_shapes
from firstsight.errors import BadInput, UnreadableFile

NUMBERS = np.arange(12.0).reshape(3, 4)


@pytest.fixture
def mat(tmp_path):
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file["features"], file["labels"], file["nothing"] = NUMBERS, np.array([[1, 2, 3]], "u1"), np.empty((0, 3))
        file["single"] = np.float32(5)  # without dimensions
    return tmp_path / "a.mat"


def test_the_other_process_answers_as_this_one_would(mat):
    shapes = {"features": (4, 3), "labels": (3, 1), "nothing": (3, 0), "single": ()}
    assert variable_shapes(mat) == hdf5_shapes(mat) == shapes
    np.testing.assert_array_equal(read_matrix(mat, "features"), NUMBERS.astype("f4"))
    names = ["labels", "nothing", "single", "absent"]
    found, expected = read_variables(mat, names), hdf5_variables(mat, names)
    assert found.keys() == expected.keys() == {"labels", "nothing", "single"}
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array, strict=True)


def test_a_file_that_ends_the_reader_is_one_sentence_and_the_next_one_is_read(mat, monkeypatch):
    for last_deed in ("os.kill(os.getpid(), 11)", "print('{', end='')", 'print(\'{"arrays": {"": ["f4", [9]]}}\')'):
        sandbox.end_child()
        with monkeypatch.context() as patched:
            patched.setattr(sandbox, "_PROGRAM", f"import os; input(); {last_deed}")
            with pytest.raises(UnreadableFile, match=r"a\.mat could not be read .* ended HDF5's own reader"):
                read_matrix(mat, "features")
        assert read_matrix(mat, "features").shape == (3, 4)


def test_one_process_serves_all_files_and_several_threads(mat):
    read_matrix(mat, "features")
    process, sums = sandbox._child, []
    threads = [threading.Thread(target=lambda: sums.append(read_matrix(mat, "features").sum())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [NUMBERS.sum()] * 8
    assert sandbox._child is process


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_process_asks_a_reader_of_its_own(mat):
    read_matrix(mat, "features")
    child = os.fork()
    if child == 0:
        fine = sandbox._child is None and read_matrix(mat, "features").sum() == NUMBERS.sum()
        sandbox.end_child()
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert read_matrix(mat, "features").shape == (3, 4)


def test_paths_are_told_as_they_were_given_and_nothing_is_imported_from_the_current_folder(mat, monkeypatch):
    sandbox.end_child()
    (mat.parent / "h5py.py").write_text("open('imported', 'w')")
    monkeypatch.chdir(mat.parent)
    with pytest.raises(BadInput, match=r"^a\.mat has no variable 'x'"):
        read_matrix("a.mat", "x")
    with pytest.raises(UnreadableFile, match=r"^a\.mat has no|^gone/a\.mat does not exist"):
        read_matrix("gone/a.mat", "features")
    assert not (mat.parent / "imported").exists()
    sandbox.end_child()
