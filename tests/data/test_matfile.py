from __future__ import annotations

import os
import struct
import tracemalloc
import zlib

import h5py
import numpy as np
import pytest
import scipy.io

from firstsight.data.matfile import read_matrix, read_variables, variable_shapes
from firstsight.errors import BadInput, UnreadableFile

TYPES = ["f8", "f4", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]


def _matrix(dtype="f8", shape=(5, 9)):
    return (np.random.default_rng(0).random(shape) * 100).astype(dtype)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
def test_every_stored_type_comes_back_transposed_in_float32(tmp_path, dtype, compressed):
    path = tmp_path / "a.mat"
    matrix = _matrix(dtype)
    scipy.io.savemat(path, {"before": np.ones(3), "features": matrix, "x": "y"}, do_compression=compressed)
    found = read_matrix(path, "features")
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, matrix.T.astype(np.float32))


@pytest.mark.parametrize("compressed", [True, False])
def test_streaming_agrees_with_scipy_across_many_blocks(tmp_path, compressed):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"features": _matrix(shape=(333, 1001))}, do_compression=compressed)
    np.testing.assert_array_equal(
        read_matrix(path, "features"), scipy.io.loadmat(path)["features"].T.astype(np.float32)
    )


@pytest.mark.parametrize("matrix", [np.array([[3]], dtype="u1"), np.array([[1, 2]], dtype="u2"), np.zeros((4, 0))])
def test_tiny_matrices_packed_into_their_tag_are_read(tmp_path, matrix):
    scipy.io.savemat(tmp_path / "a.mat", {"m": matrix})
    np.testing.assert_array_equal(read_matrix(tmp_path / "a.mat", "m"), matrix.T)


def test_big_endian_files_are_read(tmp_path):
    def field(code, data):
        return code.to_bytes(4, "big") + len(data).to_bytes(4, "big") + data + b"\0" * (-len(data) % 8)

    matrix = _matrix(shape=(2, 3))
    body = field(6, (6).to_bytes(4, "big") + b"\0" * 4)  # class double
    body += field(5, np.array([2, 3], dtype=">i4").tobytes())
    body += field(1, b"features") + field(9, matrix.T.astype(">f8").tobytes())
    path = tmp_path / "a.mat"
    path.write_bytes(b"MATLAB 5.0".ljust(124) + b"\x01\x00MI" + field(14, body))
    np.testing.assert_array_equal(scipy.io.loadmat(path)["features"], matrix)  # the file itself is right
    np.testing.assert_array_equal(read_matrix(path, "features"), matrix.T.astype(np.float32))


def test_hdf5_files_come_back_the_same_way(tmp_path, save_hdf5):
    path = tmp_path / "a.mat"
    matrix = _matrix()
    names = np.array([["ant"], ["café"]], dtype=object)
    save_hdf5(path, {"features": matrix, "names": names, "small": np.array([[1.0], [2.0]])})
    np.testing.assert_array_equal(read_matrix(path, "features"), matrix.T.astype(np.float32))
    assert variable_shapes(path) == {"features": (5, 9), "names": (2, 1), "small": (2, 1)}
    found = read_variables(path, ["names", "small", "absent"])
    assert found["names"] == ["ant", "café"]
    np.testing.assert_array_equal(found["small"], [[1.0], [2.0]])
    assert "absent" not in found


def test_shapes_and_small_variables_of_a_v5_file(tmp_path):
    path = tmp_path / "a.mat"
    names = np.array([["ant"], ["bee"]], dtype=object)
    scipy.io.savemat(path, {"features": _matrix(), "names": names, "text": ["one", "three"]}, do_compression=True)
    assert variable_shapes(path) == {"features": (5, 9), "names": (2, 1), "text": (2, 5)}
    assert read_variables(path, ["names", "text"]) == {"names": ["ant", "bee"], "text": ["one", "three"]}


@pytest.mark.parametrize("kind", ["compressed", "plain", "hdf5"])
def test_doubles_load_within_one_and_a_half_times_their_float32_size(tmp_path, kind, save_hdf5):
    path = tmp_path / "a.mat"
    # Few distinct values: compressing 40 MB of noise would take longer than the test is worth.
    matrix = np.random.default_rng(0).integers(0, 9, size=(1024, 5000)).astype(np.float64)
    if kind == "hdf5":
        with h5py.File(path, "w") as file:
            file.create_dataset("features", data=matrix.T, chunks=(64, 64))
    else:
        scipy.io.savemat(path, {"features": matrix}, do_compression=kind == "compressed")
    expected = float(matrix.sum())
    size = matrix.size * 4
    del matrix
    tracemalloc.start()
    try:
        found = read_matrix(path, "features")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 1.5 * size
    assert found.sum(dtype=np.float64) == expected


@pytest.mark.parametrize("compressed", [True, False])
def test_a_file_cut_anywhere_is_called_truncated_or_damaged(tmp_path, compressed):
    whole = tmp_path / "whole.mat"
    scipy.io.savemat(whole, {"features": _matrix(), "labels": np.ones((9, 1))}, do_compression=compressed)
    content = whole.read_bytes()
    cut = tmp_path / "cut.mat"
    for length in range(0, len(content) - 1, 7):
        cut.write_bytes(content[:length])
        for read in (lambda: read_matrix(cut, "labels"), lambda: read_variables(cut, ["labels"])):
            with pytest.raises(BadInput) as caught:
                read()
            assert "\n" not in str(caught.value)
    assert "truncated" in str(caught.value)


def test_any_flipped_byte_is_refused_or_harmless(tmp_path):
    path = tmp_path / "a.mat"
    matrix = _matrix()
    scipy.io.savemat(path, {"features": matrix}, do_compression=True)
    content = bytearray(path.read_bytes())
    refused = 0
    for position in range(126, len(content)):
        content[position] ^= 0x55
        path.write_bytes(content)
        try:
            found = read_matrix(path, "features")
        except BadInput:
            refused += 1
        else:  # a flag that does not matter; the numbers are guarded by the stream's checksum
            np.testing.assert_array_equal(found, matrix.T.astype(np.float32))
        content[position] ^= 0x55
    assert refused > 0.9 * (len(content) - 126)


def test_a_header_that_claims_terabytes_is_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"features": _matrix(shape=(2, 3))}, do_compression=False)
    content = path.read_bytes()
    claimed = content.replace(np.array([2, 3], "<i4").tobytes(), np.array([2**30, 2**30], "<i4").tobytes())
    path.write_bytes(claimed)
    with pytest.raises(UnreadableFile, match="claims shape"):
        read_matrix(path, "features")
    with h5py.File(path, "w") as file:
        file.create_dataset("features", shape=(2**30, 2**30), dtype="f8", chunks=(8, 8))
    with pytest.raises(UnreadableFile, match=r"claims 9,223,\S+ bytes"):
        read_matrix(path, "features")


@pytest.mark.parametrize("content", [b"", b"hello", b"\x00" * 500, b"\x89HDF\r\n\x1a\nnothing"])
def test_foreign_files_are_named_as_such(tmp_path, content):
    path = tmp_path / "a.mat"
    path.write_bytes(content)
    for read in (
        lambda: read_matrix(path, "x"),
        lambda: variable_shapes(path),
        lambda: read_variables(path, ["x"]),
    ):
        with pytest.raises(UnreadableFile, match="MATLAB v5"):
            read()


def test_a_missing_file_and_a_missing_variable_are_told_apart(tmp_path):
    with pytest.raises(UnreadableFile, match="does not exist"):
        read_matrix(tmp_path / "a.mat", "features")
    scipy.io.savemat(tmp_path / "a.mat", {"x": 1})
    with pytest.raises(BadInput, match="has no variable 'features'"):
        read_matrix(tmp_path / "a.mat", "features")


@pytest.mark.parametrize("value", [np.ones((2, 2)) * 1j, "text", np.ones((2, 2, 2)), scipy.sparse.eye(3).tocsc()])
def test_what_is_no_full_real_matrix_is_refused(tmp_path, value):
    scipy.io.savemat(tmp_path / "a.mat", {"features": value}, do_compression=True)
    with pytest.raises(BadInput, match="full, real matrix"):
        read_matrix(tmp_path / "a.mat", "features")


def test_an_hdf5_link_to_another_file_is_not_followed(tmp_path):
    with h5py.File(tmp_path / "secret.mat", "w") as file:
        file["features"] = np.ones((2, 2))
    path = tmp_path / "a.mat"
    with h5py.File(path, "w") as file:
        file["features"] = h5py.ExternalLink(str(tmp_path / "secret.mat"), "features")
    with pytest.raises(BadInput, match="stored in the file itself"):
        read_matrix(path, "features")


def _through_a_soft_link(path, secret):
    with h5py.File(path, "w") as file:
        file["elsewhere"] = h5py.ExternalLink(str(secret), "/")
        file["features"] = h5py.SoftLink("/elsewhere/features")


def _in_external_storage(path, secret):
    with h5py.File(path, "w") as file:
        file.create_dataset("features", (2, 2), "f8", external=[(str(secret), 0, 32)])


def _virtually(path, secret):
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((2, 2), "f8")
        layout[:] = h5py.VirtualSource(str(secret), "features", (2, 2))
        file.create_virtual_dataset("features", layout)


def _by_a_reference(path, secret):
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((2, 2), "u2")
        layout[:] = h5py.VirtualSource(str(secret), "features", (2, 2))
        names = np.empty((1, 1), dtype=h5py.ref_dtype)
        names[0, 0] = file.create_virtual_dataset("#refs#/a", layout).ref
        file.create_dataset("features", data=names, dtype=h5py.ref_dtype)


@pytest.mark.parametrize("way", [_through_a_soft_link, _in_external_storage, _virtually, _by_a_reference])
def test_no_way_leads_from_an_hdf5_file_into_another(tmp_path, way):
    secret = tmp_path / "secret.mat"
    with h5py.File(secret, "w") as file:
        file["features"] = np.ones((2, 2))
    path = tmp_path / "a.mat"
    way(path, secret)
    for read in (lambda: read_matrix(path, "features"), lambda: read_variables(path, ["features"])):
        with pytest.raises(BadInput, match=r"stored in the file itself|full, real matrix") as caught:
            read()
        assert "\n" not in str(caught.value)


def test_a_small_hdf5_file_cannot_unpack_to_gigabytes(tmp_path):
    path = tmp_path / "a.mat"
    with h5py.File(path, "w") as file:
        zeros = file.create_dataset("labels", (1, 1 << 27), "f8", chunks=(1, 1 << 20), compression="gzip")
        zeros[0, :8] = 1  # one chunk is written: the others are zeros that cost nothing
        text = file.create_dataset("#refs#/long", data=np.full((1, 1 << 20), 65, "u2"), compression="gzip")
        names = np.full((1, 1000), text.ref, dtype=h5py.ref_dtype)  # a thousand names, all the same long text
        file.create_dataset("allclasses_names", data=names, dtype=h5py.ref_dtype)
        file.create_dataset("att", (2, 2), "f8", chunks=(2, 2))  # never written at all
    for name in ("labels", "allclasses_names", "att"):
        with pytest.raises(UnreadableFile, match=r"claims .* (too much for a file|but holds no data)"):
            read_variables(path, [name])


@pytest.mark.parametrize("value", [np.zeros((1 << 14, 1 << 14), "u1"), "a" * (1 << 26)])
def test_a_small_v5_file_cannot_unpack_to_gigabytes(tmp_path, value):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"att": value}, do_compression=True)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(UnreadableFile, match="too much for a file"):
        read_variables(path, ["att"])


def test_deeply_boxed_cells_are_refused_not_followed(tmp_path):
    boxes = np.array(["x"], dtype=object)
    for depth in range(12):
        box = np.empty((1, 1), dtype=object)
        box[0, 0] = boxes
        boxes = box
        scipy.io.savemat(tmp_path / "a.mat", {"names": boxes})
        if depth < 3:
            assert read_variables(tmp_path / "a.mat", ["names"]) == {"names": ["x"]}
    with pytest.raises(BadInput, match="a cell of names"):
        read_variables(tmp_path / "a.mat", ["names"])


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.mat")
    with pytest.raises(UnreadableFile, match="regular file"):
        read_variables(tmp_path / "a.mat", ["x"])


@pytest.mark.parametrize("kind", ["v5", "compressed", "hdf5"])
def test_mutated_files_are_read_or_refused_in_one_sentence(tmp_path, kind, att_splits, res101, save_hdf5):
    path = tmp_path / "a.mat"
    variables = {**att_splits, **res101}
    if kind == "hdf5":
        save_hdf5(path, variables)
    else:
        scipy.io.savemat(path, variables, do_compression=kind == "compressed")
    content, random = path.read_bytes(), np.random.default_rng(11)
    outcomes = set()
    for _ in range(150):
        changed = bytearray(content)
        for position in random.integers(len(content), size=random.integers(1, 8)):
            size = int(random.integers(1, 9))
            changed[position : position + size] = random.choice([b"", b"\xff" * size, bytes(size), b"\x01" * size])
        path.write_bytes(changed)
        try:
            variable_shapes(path)
            read_variables(path, set(variables) - {"features"})
            read_matrix(path, "features")
            outcomes.add("read")
        except BadInput as error:
            outcomes.add("refused" if "\n" not in str(error) else "more than a sentence")
    assert outcomes <= {"read", "refused"}
    assert "refused" in outcomes


def _element(kind, data):
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def _opaque(name):
    """A text of MATLAB's newer class `string`: flags, name and class, but no shape."""
    flags = _element(6, struct.pack("<II", 17, 0))
    return _element(14, flags + _element(1, name) + _element(1, b"MCOS") + _element(1, b"string"))


@pytest.mark.parametrize("compressed", [True, False])
def test_an_object_beside_the_numbers_is_refused_only_to_whoever_reads_it(tmp_path, compressed):
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"features": _matrix()})
    added = _opaque(b"notes")
    if compressed:
        packed = zlib.compress(added)
        added = struct.pack("<II", 15, len(packed)) + packed
    content = path.read_bytes()
    path.write_bytes(content[:128] + added + content[128:])
    assert variable_shapes(path) == {"notes": (), "features": (5, 9)}
    np.testing.assert_array_equal(read_matrix(path, "features"), _matrix().T.astype(np.float32))
    with pytest.raises(BadInput, match=r"'notes' .* must hold real numbers"):
        read_variables(path, ["notes"])


def test_two_variables_of_one_name_are_refused(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"labels": np.ones((9, 1))})
    scipy.io.savemat(tmp_path / "b.mat", {"features": _matrix(), "labels": np.zeros((9, 1))})
    with (tmp_path / "a.mat").open("ab") as file:
        file.write((tmp_path / "b.mat").read_bytes()[128:])
    for read in (variable_shapes, lambda path: read_variables(path, ["labels"])):
        with pytest.raises(UnreadableFile, match="two variables 'labels'"):
            read(tmp_path / "a.mat")


def test_a_struct_or_a_link_in_hdf5_is_refused_only_to_whoever_reads_it(tmp_path):
    path = tmp_path / "a.mat"
    with h5py.File(path, "w") as file:
        file["features"], file["struct/field"] = _matrix(), 1.0
        file["soft"], file["type"] = h5py.SoftLink("/features"), np.dtype("f8")
        file["outside"] = h5py.ExternalLink(str(tmp_path / "secret.mat"), "/")
    assert variable_shapes(path) == {"features": (9, 5), "struct": (), "soft": (), "type": (), "outside": ()}
    for name in ("struct", "soft", "type", "outside"):
        with pytest.raises(BadInput, match="stored in the file itself"):
            read_variables(path, [name])


def test_a_matrix_of_letters_in_hdf5_has_a_text_in_every_row(tmp_path):
    letters = np.array([[ord(letter) for letter in row] for row in ("one  ", "three")], dtype=np.uint16)
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file.create_dataset("text", data=letters.T).attrs["MATLAB_class"] = np.bytes_("char")
    assert read_variables(tmp_path / "a.mat", ["text"]) == {"text": ["one", "three"]}


def test_numbers_in_a_cell_of_hdf5_are_no_letters(tmp_path):
    with h5py.File(tmp_path / "a.mat", "w") as file:
        number = file.create_dataset("#refs#/a", data=np.array([[65]], dtype=np.uint8))
        number.attrs["MATLAB_class"] = np.bytes_("uint8")
        file.create_dataset("names", data=np.full((1, 1), number.ref, h5py.ref_dtype), dtype=h5py.ref_dtype)
    with pytest.raises(UnreadableFile, match="could not be read"):
        read_variables(tmp_path / "a.mat", ["names"])
