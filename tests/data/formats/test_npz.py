from __future__ import annotations

import io
import tracemalloc
import zipfile

import numpy as np
import pytest

from firstsight.data import ZeroShotDataset, load_dataset, read_npz, write_npz
from firstsight.errors import BadInput, CannotWrite, UnreadableFile


@pytest.fixture
def dataset(arrays):
    return ZeroShotDataset(
        **arrays,
        attribute_names=tuple("vwxyz"),
        images=np.arange(80 * 6, dtype=np.uint32).astype(np.uint8).reshape(80, 2, 3),
        sample_names=tuple(f"s{i}" for i in range(80)),
    )


def test_what_is_written_reads_back_the_same(tmp_path, dataset):
    back = load_dataset(write_npz(dataset, tmp_path / "deep" / "a.npz"))
    for field in ("features", "labels", "description_matrix", "train", "test_seen", "test_unseen", "images"):
        np.testing.assert_array_equal(getattr(back, field), getattr(dataset, field))
    for field in ("name", "class_names", "attribute_names", "sample_names", "split_hash"):
        assert getattr(back, field) == getattr(dataset, field)


def test_a_fold_with_unlabelled_rows_survives_the_round_trip(tmp_path, dataset):
    fold = dataset.validation_folds()[0]
    assert read_npz(write_npz(fold, tmp_path / "a.npz")).split_hash == fold.split_hash


def test_optional_keys_may_be_absent(tmp_path, arrays):
    given = {name: value for name, value in arrays.items() if name not in ("name", "description_matrix")}
    np.savez(tmp_path / "plain.npz", **given, descriptions=arrays["description_matrix"])
    back = read_npz(tmp_path / "plain.npz")
    assert back.name == "plain"
    np.testing.assert_array_equal(back.description_matrix, arrays["description_matrix"])


def test_missing_keys_are_all_named(tmp_path, arrays):
    del arrays["train"], arrays["labels"]
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(BadInput, match="lacks labels, descriptions, train"):
        read_npz(tmp_path / "a.npz")


def test_pickled_arrays_are_refused(tmp_path, arrays):
    arrays["class_names"] = np.array(arrays["class_names"], dtype=object)
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(UnreadableFile, match="pickled"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("keep", [0, 10, 1000, -30])
def test_a_cut_file_is_refused(tmp_path, dataset, keep):
    path = write_npz(dataset, tmp_path / "a.npz")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UnreadableFile, match="could not be read"):
        read_npz(path)


def test_a_single_array_is_not_a_data_set(tmp_path):
    with (tmp_path / "a.npz").open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(UnreadableFile, match="could not be read"):
        read_npz(tmp_path / "a.npz")


def test_the_file_must_be_called_npz_and_its_place_writable(tmp_path, dataset):
    with pytest.raises(BadInput, match=r"must end in \.npz"):
        write_npz(dataset, tmp_path / "a.zip")
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite):
        write_npz(dataset, tmp_path / "file" / "a.npz")


@pytest.mark.parametrize("what", ["nothing", "glyph", "a.txt", "."])
def test_anything_else_is_answered_with_what_is_accepted(tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(BadInput, match="accepted are 'glyphs'"):
        load_dataset(what)


def test_choosing_features_where_there_is_no_choice_is_refused(tmp_path, dataset):
    with pytest.raises(BadInput, match="leave it out"):
        load_dataset(write_npz(dataset, tmp_path / "a.npz"), features="res101")


def _zip_with(path, arrays, key, content: bytes, compression=zipfile.ZIP_DEFLATED):
    """The arrays as numpy.savez writes them, with one member replaced by bytes of one's own."""
    np.savez(path, **{"descriptions" if k == "description_matrix" else k: v for k, v in arrays.items() if k != key})
    with zipfile.ZipFile(path, "a", compression) as archive:
        archive.writestr(f"{key}.npy", content)


def _npy(header: dict, data: bytes = b"") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + data


HOSTILE = {
    "ten thousand million empty records": _npy({"descr": "|V0", "fortran_order": False, "shape": (10**10,)}),
    "ten thousand million empty texts": _npy({"descr": "<U0", "fortran_order": False, "shape": (10**10,)}),
    "more than the member holds": _npy({"descr": "<f8", "fortran_order": False, "shape": (80,)}, bytes(10)),
    "less than the member holds": _npy({"descr": "<f8", "fortran_order": False, "shape": (8,)}, bytes(640)),
    "a negative shape": _npy({"descr": "<f8", "fortran_order": False, "shape": (-1, -1)}, bytes(8)),
    "Python objects": _npy({"descr": "|O", "fortran_order": False, "shape": (1,)}, b"cos\nsystem\n"),
    "a structure": _npy({"descr": [("a", "<f8")], "fortran_order": False, "shape": (1,)}, bytes(8)),
    "letters that are none": _npy({"descr": "<U1", "fortran_order": False, "shape": (2,)}, b"\xff" * 8),
    "half of a letter": _npy({"descr": "<U1", "fortran_order": False, "shape": (1,)}, b"\x00\xd8\x00\x00"),
    "a bomb": _npy({"descr": "|u1", "fortran_order": False, "shape": (1 << 28,)}, bytes(1 << 28)),
    "no array": b"hello",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_member_that_lies_is_refused_before_memory_is_taken(tmp_path, arrays, case):
    path = tmp_path / "a.npz"
    _zip_with(path, arrays, "class_names", HOSTILE[case])
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableFile) as caught:
            read_npz(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert peak < 20 << 20


def test_only_numpys_own_ways_of_packing_are_read(tmp_path, arrays):
    names = io.BytesIO()
    np.save(names, np.array(arrays["class_names"]))
    for way in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        _zip_with(tmp_path / "a.npz", arrays, "class_names", names.getvalue(), way)
        with pytest.raises(UnreadableFile, match="could not be read"):
            read_npz(tmp_path / "a.npz")
    _zip_with(tmp_path / "a.npz", arrays, "class_names", names.getvalue())
    assert read_npz(tmp_path / "a.npz").class_names == arrays["class_names"]


def test_a_name_that_is_no_text_is_refused(tmp_path, arrays):
    arrays = {**arrays, "descriptions": arrays.pop("description_matrix"), "name": np.arange(3)}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(BadInput, match=r"`name` in .* must be one text"):
        read_npz(tmp_path / "a.npz")
