"""MATLAB v7.3 files, which are HDF5: every array is stored transposed, every cell is a reference."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firstsight.errors import BadInput, UnreadableFile

if TYPE_CHECKING:
    import h5py

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_DEFLATE_LIMIT = 1032  # as in matfile.py: what is stored cannot expand further


def is_hdf5(path: Path) -> bool:
    """Whether the signature stands where HDF5 allows it first: at 0, or after MATLAB's 512-byte text."""
    with path.open("rb") as file:
        start = file.read(512 + len(_SIGNATURE))
    return start.startswith(_SIGNATURE) or start[512:] == _SIGNATURE


def read_matrix(path: Path, name: str) -> np.ndarray:
    """HDF5's own shape is MATLAB's reversed, so (d, N) is already (N, d) here."""
    with _open(path) as file:
        if name not in file:
            raise BadInput(f"{path} has no variable {name!r}; check that this is the right file.")
        stored = _dataset(path, file, name)
        if stored.ndim != 2 or stored.dtype.kind not in "iuf":
            raise BadInput(f"{name!r} in {path} must be a full, real matrix of numbers; save it as one.")
        if stored.nbytes > stored.id.get_storage_size() * _DEFLATE_LIMIT:
            raise UnreadableFile(
                f"{name!r} in {path} claims shape {stored.shape}, but holds less data; get the file again."
            )
        out = np.empty(stored.shape, dtype=np.float32)
        if out.size:
            stored.read_direct(out)  # HDF5 converts to float32 in a small buffer of its own
        return out


def variable_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    with _open(path) as file:
        # Names that start with '#' are MATLAB's own bookkeeping.
        return {name: _dataset(path, file, name).shape[::-1] for name in file if not name.startswith("#")}


def read_variables(path: Path, names: Iterable[str]) -> dict[str, np.ndarray | list[str]]:
    with _open(path) as file:
        return {name: _value(file, _dataset(path, file, name)) for name in names if name in file}


def _open(path: Path) -> h5py.File:
    import h5py

    return h5py.File(path, "r")


def _dataset(path: Path, file: h5py.File, name: str) -> h5py.Dataset:
    import h5py

    linked = isinstance(file.get(name, getlink=True), h5py.ExternalLink)
    found = None if linked else file[name]
    # A data file has no business opening other files on this machine.
    if not isinstance(found, h5py.Dataset) or found.is_virtual or found.external:
        raise BadInput(f"{name!r} in {path} must be an array stored in the file itself; save it as one.")
    return found


def _value(file: h5py.File, stored: h5py.Dataset) -> np.ndarray | list[str]:
    import h5py

    if h5py.check_ref_dtype(stored.dtype) is not None:
        return [_text(file[reference]) for reference in stored[()].ravel()]
    if stored.attrs.get("MATLAB_class") == b"char":
        return [_text(stored)]
    return stored[()].T


def _text(stored: h5py.Dataset) -> str:
    if "MATLAB_empty" in stored.attrs:
        return ""
    codes = stored[()]
    if codes.dtype.kind not in "iu":
        raise ValueError("a cell that holds no text")
    return "".join(map(chr, codes.ravel())).rstrip()
