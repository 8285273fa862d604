"""Reading MATLAB files (v5 and v7.3): small variables whole, one big matrix straight into float32.

`scipy.io.loadmat` returns a stored double matrix as doubles: twice the float32 size, three times after the
conversion. `read_matrix` inflates and converts block by block, so the float32 result is the only large array.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from firstsight.data import matfile_hdf5
from firstsight.errors import BadInput, UnreadableFile

_HEADER = 128  # bytes of text, version and byte-order mark before the first variable
_BLOCK = 1 << 20
_MATRIX, _COMPRESSED = 14, 15
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_FULL_NUMERIC = range(6, 16)  # MATLAB's classes double … uint64; below are cell, struct, object, char, sparse
_COMPLEX = 0x0800
_DEFLATE_LIMIT = 1032  # deflate cannot expand further: a header that claims more lies about its size
_LARGEST_HEADER_FIELD = 1 << 16


def read_matrix(path: str | Path, name: str) -> np.ndarray:
    """The matrix `name`, transposed, as float32: MATLAB's (d, N) on disk comes back as (N, d), C-contiguous.

    MATLAB writes column after column, so the transposed matrix is the file's bytes in their order.
    """
    path = Path(path)
    with _one_sentence(path):
        if matfile_hdf5.is_hdf5(path):
            return matfile_hdf5.read_matrix(path, name)
        with path.open("rb") as file:
            for variable in _variables(file, path):
                if variable.name == name:
                    return _stream(file, path, variable)
    raise BadInput(f"{path} has no variable {name!r}; check that this is the right file.")


def variable_shapes(path: str | Path) -> dict[str, tuple[int, ...]]:
    """Name and MATLAB shape of every variable, without reading any of them."""
    path = Path(path)
    with _one_sentence(path):
        if matfile_hdf5.is_hdf5(path):
            return matfile_hdf5.variable_shapes(path)
        with path.open("rb") as file:
            return {v.name: v.shape for v in _variables(file, path)}


def read_variables(path: str | Path, names: Iterable[str]) -> dict[str, np.ndarray | list[str]]:
    """Those of `names` that are there: numbers as MATLAB shapes them, cells and text as lists of strings."""
    path, names = Path(path), set(names)
    with _one_sentence(path):
        if matfile_hdf5.is_hdf5(path):
            return matfile_hdf5.read_variables(path, names)
        with path.open("rb") as file:
            for _ in _variables(file, path):  # a cut file is told from a foreign one before SciPy sees it
                pass
            file.seek(0)
            from scipy.io import loadmat

            found = loadmat(file, variable_names=list(names))
    return {
        name: [_text(cell) for cell in value.ravel(order="F")] if value.dtype.kind in "OU" else value
        for name, value in found.items()
        if name in names
    }


def _text(cell: object) -> str:
    """The string in a cell, however many boxes MATLAB put around it."""
    while isinstance(cell, np.ndarray):
        if cell.size != 1:
            return "".join(map(str, cell.ravel()))
        cell = cell.item()
    return str(cell).rstrip()


@contextmanager
def _one_sentence(path: Path) -> Iterator[None]:
    """Whatever the libraries below raise about a damaged file becomes one sentence."""
    try:
        yield
    except (BadInput, KeyboardInterrupt):
        raise
    except FileNotFoundError as error:
        raise UnreadableFile(f"{path} does not exist; check the path.") from error
    except (PermissionError, IsADirectoryError) as error:
        raise UnreadableFile(f"{path} cannot be opened ({error.strerror}); check its permissions.") from error
    except _Short as error:
        raise _truncated(path) from error
    except Exception as error:
        # SciPy, zlib and h5py answer damage with a dozen unrelated exception types (TypeError, KeyError, …).
        raise UnreadableFile(
            f"{path} could not be read as a MATLAB v5 or v7.3 file ({type(error).__name__}); "
            "it is damaged or foreign: download or save it again."
        ) from error


def _truncated(path: Path) -> UnreadableFile:
    return UnreadableFile(f"{path} ends before its data does: it is truncated; download or copy it again.")


class _Short(Exception):
    """Fewer bytes than the file promised."""


@dataclass(frozen=True)
class _Variable:
    name: str
    shape: tuple[int, ...]
    order: Literal["<", ">"]
    kind: int
    start: int
    length: int


def _variables(file: BinaryIO, path: Path) -> Iterator[_Variable]:
    """Every variable's header; their data are skipped, not read."""
    size = path.stat().st_size
    head = file.read(_HEADER)
    orders: dict[bytes, Literal["<", ">"]] = {b"IM": "<", b"MI": ">"}
    order = orders.get(head[126:128])
    if order is None:
        raise UnreadableFile(f"{path} is not a MATLAB v5 or v7.3 file; save it with MATLAB's -v7 or scipy.io.savemat.")
    position = _HEADER
    while position < size:
        file.seek(position)
        tag = file.read(8)
        if len(tag) < 8:
            raise _truncated(path)
        kind, length = struct.unpack(order + "II", tag)
        if kind not in (_MATRIX, _COMPRESSED):
            raise UnreadableFile(f"{path} holds an unknown element (type {kind}); it is damaged: get it again.")
        if position + 8 + length > size:
            raise _truncated(path)
        _, _, shape, name = _matrix_header(_Source(file, kind, length), order)
        yield _Variable(name, shape, order, kind, position + 8, length)
        position += 8 + length


def _stream(file: BinaryIO, path: Path, variable: _Variable) -> np.ndarray:
    file.seek(variable.start)
    source = _Source(file, variable.kind, variable.length)
    matlab_class, is_complex, shape, name = _matrix_header(source, variable.order)
    if matlab_class not in _FULL_NUMERIC or is_complex or len(shape) != 2:
        raise BadInput(f"{name!r} in {path} must be a full, real matrix of numbers; save it as one.")
    code, length, inline = _tag(source, variable.order)
    stored = np.dtype(_STORED[code]).newbyteorder(variable.order)
    count = math.prod(shape)
    largest = variable.length * (_DEFLATE_LIMIT if variable.kind == _COMPRESSED else 1)
    if length != count * stored.itemsize or length > largest:  # before a false header allocates terabytes
        raise UnreadableFile(
            f"{name!r} in {path} claims shape {shape}, but holds other data; it is damaged: get it again."
        )
    out = np.empty(shape[::-1], dtype=np.float32)
    flat = out.reshape(-1)
    step = _BLOCK // stored.itemsize
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, which the data set refuses by name
        for start in range(0, count, step):
            wanted = min(step, count - start) * stored.itemsize
            block = source.read(wanted) if inline is None else inline[:wanted]
            flat[start : start + step] = np.frombuffer(block, dtype=stored)
    source.finish()
    return out


class _Source:
    """The bytes of one variable, inflated only as far as they are asked for."""

    def __init__(self, file: BinaryIO, kind: int, length: int):
        self._file = file
        self._left = length
        self._inflate = zlib.decompressobj() if kind == _COMPRESSED else None
        self._pending = b""
        if self._inflate is not None and struct.unpack("=I", self.read(8)[:4])[0] not in (14, 14 << 24):
            raise ValueError("a compressed element that is no matrix")

    def read(self, count: int) -> bytes:
        pieces = []
        while count:
            piece = self._some(count)
            if not piece:
                raise _Short
            pieces.append(piece)
            count -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def finish(self) -> None:
        """Run to the end of the compressed stream: only there does its checksum tell whether it is intact."""
        while self._inflate is not None and not self._inflate.eof:
            if not self._some(_BLOCK) and not self._inflate.eof:
                raise _Short

    def _some(self, count: int) -> bytes:
        """Between 1 and `count` bytes; none at the end."""
        if self._inflate is None:
            return self._take(count)
        while True:
            data = self._pending or self._take(1 << 16)
            piece = self._inflate.decompress(data, count)
            self._pending = self._inflate.unconsumed_tail
            if piece or self._inflate.eof or not data:
                return piece

    def _take(self, count: int) -> bytes:
        data = self._file.read(min(count, self._left))
        self._left -= len(data)
        return data


def _matrix_header(source: _Source, order: str) -> tuple[int, bool, tuple[int, ...], str]:
    flags = struct.unpack(order + "I", _field(source, order)[:4])[0]
    dimensions = np.frombuffer(_field(source, order), dtype=order + "i4")
    name = _field(source, order).decode("latin-1")
    return flags & 0xFF, bool(flags & _COMPLEX), tuple(int(n) for n in dimensions), name


def _field(source: _Source, order: str) -> bytes:
    _, length, inline = _tag(source, order)
    if inline is not None:
        return inline
    if length > _LARGEST_HEADER_FIELD:
        raise ValueError("a header field of impossible length")
    return source.read(length + -length % 8)[:length]


def _tag(source: _Source, order: str) -> tuple[int, int, bytes | None]:
    """Type and length of what follows; MATLAB packs up to four bytes of data into the tag itself."""
    word, second = source.read(4), source.read(4)
    code = struct.unpack(order + "I", word)[0]
    if code >> 16:
        return code & 0xFFFF, code >> 16, second[: code >> 16]
    return code, struct.unpack(order + "I", second)[0], None
