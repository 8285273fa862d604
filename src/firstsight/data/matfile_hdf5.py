"""MATLAB v7.3 files, which are HDF5: arrays are stored transposed, cells are references.

HDF5 can be ended by a damaged file: all but `is_hdf5` is called in the sandbox (`matfile`), where paths are text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firstsight._io.files import Allowance
from firstsight.errors import BadInput, UnreadableFile

if TYPE_CHECKING:
    import h5py

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_FILTERS = {1, 2, 3, 32000}  # deflate, shuffle, checksum, LZF; for others HDF5 would look for programs to load


def is_hdf5(path: Path) -> bool:
    """Whether the signature stands where HDF5 allows it first: at 0, or after MATLAB's 512-byte text."""
    with path.open("rb") as file:
        start = file.read(512 + len(_SIGNATURE))
    return start.startswith(_SIGNATURE) or start[512:] == _SIGNATURE


def read_matrix(path: str, name: str) -> np.ndarray | None:
    """See `matfile.read_matrix`. HDF5's own shape is MATLAB's reversed, so (d, N) is already (N, d) here."""
    with _open(path) as file:
        if _link(file, name) is None:
            return None
        stored = _dataset(path, file, name)
        if stored.ndim != 2 or stored.dtype.kind not in "iuf":
            raise BadInput(f"{name!r} in {path} must be a full, real matrix of numbers; save it as one.")
        _ask(Allowance(path), stored, path, name)
        out = np.empty(stored.shape, dtype=np.float32)
        if out.size:
            stored.read_direct(out)  # HDF5 converts to float32 in a small buffer of its own
        return out


def variable_shapes(path: str) -> dict[str, tuple[int, ...]]:
    """See `matfile.variable_shapes`."""
    with _open(path) as file:
        # Names that start with '#' are MATLAB's own bookkeeping.
        return {name: _shape(path, file, name) for name in file if not name.startswith("#")}


def read_variables(path: str, names: Iterable[str]) -> dict[str, np.ndarray | list[str]]:
    """See `matfile.read_variables`."""
    allowance = Allowance(path)
    with _open(path) as file:
        present = [name for name in names if _link(file, name) is not None]
        return {name: _value(path, file, _dataset(path, file, name), name, allowance) for name in present}


def _shape(path: str, file: h5py.File, name: str) -> tuple[int, ...]:
    try:
        shape: tuple[int, ...] = _dataset(path, file, name).shape
    except BadInput:  # a struct or a link, which only those are refused who want to read it
        return ()
    return shape[::-1]


def _open(path: str) -> h5py.File:
    import h5py

    return h5py.File(path, "r")


def _link(file: h5py.File, name: str) -> object:
    return file.get(name, getlink=True)  # the link itself: nothing is followed to find out


def _dataset(path: str, file: h5py.File, name: str) -> h5py.Dataset:
    """A data file has no business opening other files on this machine: only what hangs in it directly is opened.

    MATLAB writes hard links alone; a soft link may lead through an external one.
    """
    import h5py

    stored = file[name] if isinstance(_link(file, name), h5py.HardLink) else None
    return _own(path, stored, name)


def _own(path: str, stored: object, name: str) -> h5py.Dataset:
    import h5py

    if not isinstance(stored, h5py.Dataset) or stored.is_virtual or stored.external or stored.shape is None:
        raise BadInput(f"{name!r} in {path} must be an array stored in the file itself; save it as one.")
    return stored


def _ask(allowance: Allowance, stored: h5py.Dataset, path: str, name: str) -> None:
    """Before memory is taken; chunks that were never written read as zeros and would cost the file nothing."""
    allowance.take(stored.nbytes, repr(name))
    chunk = stored.dtype.itemsize * math.prod(stored.chunks or (0,))  # HDF5 inflates a chunk as a whole
    allowance.take(chunk, f"A chunk of {name!r}")
    creation = stored.id.get_create_plist()
    if not {creation.get_filter(i)[0] for i in range(creation.get_nfilters())} <= _FILTERS:
        raise BadInput(f"{name!r} in {path} is packed in a way that MATLAB does not use; save it with MATLAB's -v7.3.")
    if stored.nbytes and not stored.id.get_storage_size():
        raise UnreadableFile(
            f"{name!r} in {path} claims shape {stored.shape[::-1]}, but holds no data; get the file again."
        )


def _value(path: str, file: h5py.File, stored: h5py.Dataset, name: str, allowance: Allowance) -> np.ndarray | list[str]:
    import h5py

    _ask(allowance, stored, path, name)
    if h5py.check_ref_dtype(stored.dtype) is h5py.Reference:
        cells = (_own(path, file[reference], name) for reference in stored[()].ravel())
        return ["".join(_text_rows(path, cell, name, allowance)) for cell in cells]
    if stored.attrs.get("MATLAB_class") == b"char":
        return _text_rows(path, stored, name, allowance)
    if stored.dtype.kind not in "biuf":
        raise BadInput(f"{name!r} in {path} must hold real numbers, text or a cell of names; save it as such.")
    return np.asarray(stored[()]).T  # of no dimensions, it is no array yet


def _text_rows(path: str, stored: h5py.Dataset, name: str, allowance: Allowance) -> list[str]:
    if "MATLAB_empty" in stored.attrs:
        return [""]
    _ask(allowance, stored, path, name)
    codes = np.atleast_2d(np.asarray(stored[()]).T)
    allowance.take(64 * len(codes), repr(name))  # the least that Python takes for a text in a list
    if codes.dtype.kind not in "iu" or codes.ndim != 2 or stored.attrs.get("MATLAB_class", b"char") != b"char":
        raise ValueError("a cell that holds no text")
    if codes.size and not 0 <= codes.min() <= codes.max() < 1 << 16:
        raise ValueError("a text of impossible letters")
    return [row.astype("<u2").tobytes().decode("utf-16-le").rstrip() for row in codes]
