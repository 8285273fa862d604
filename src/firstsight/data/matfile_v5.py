"""MATLAB v5 files: a header of 128 bytes, then variables as trees of tagged elements.

Plain Python and NumPy on purpose: whatever a file claims, the worst that happens is an exception. Every length is asked
of an `Allowance` before memory is taken for it.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import numpy as np

from firstsight._io.files import Allowance
from firstsight.errors import BadInput, UnreadableFile

_HEADER = 128  # bytes of text, version and byte-order mark before the first variable
_BLOCK = 1 << 20
_SMALL = 1 << 10
_MATRIX, _COMPRESSED = 14, 15
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_ENCODED = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}  # of text
_CELL, _CHAR, _OPAQUE = 1, 4, 17  # MATLAB's classes; opaque are its newer objects, such as strings and tables
_FULL_NUMERIC = range(6, 16)  # double … uint64; between are struct, object and sparse
_COMPLEX = 0x0800
_LARGEST_HEADER_FIELD = 1 << 16
_DEEPEST_CELL = 8  # MATLAB boxes a name once or twice


class Short(Exception):
    """Fewer bytes than the file promised."""


class _Header(NamedTuple):
    """What stands before the data of a matrix, a cell or a text."""

    matlab_class: int
    is_complex: bool
    shape: tuple[int, ...]
    name: str


def read_matrix(path: Path, name: str) -> np.ndarray | None:
    """See `matfile.read_matrix`; None where there is no such variable."""
    with path.open("rb") as file:
        for header, source in _variables(file, path):
            if header.name == name:
                return _stream(source, header, path)
    return None


def variable_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """See `matfile.variable_shapes`."""
    with path.open("rb") as file:
        return {header.name: header.shape for header, _ in _variables(file, path)}


def read_variables(path: Path, names: list[str]) -> dict[str, np.ndarray | list[str]]:
    """See `matfile.read_variables`."""
    variables: dict[str, np.ndarray | list[str]] = {}
    allowance = Allowance(path)
    with path.open("rb") as file:
        for header, source in _variables(file, path):
            if header.name in names:
                variables[header.name] = _value(source, header, path, allowance)
                source.finish()
    return variables


def _variables(file: BinaryIO, path: Path) -> Iterator[tuple[_Header, _Source]]:
    """Every variable's header, and a source that stands at its data; what is not read is skipped."""
    size = path.stat().st_size
    head = file.read(_HEADER)
    orders: dict[bytes, Literal["<", ">"]] = {b"IM": "<", b"MI": ">"}
    order = orders.get(head[126:128])
    if order is None:
        raise UnreadableFile(f"{path} is not a MATLAB v5 or v7.3 file; save it with MATLAB's -v7 or scipy.io.savemat.")
    position, names = _HEADER, set()
    while position < size:
        file.seek(position)
        tag = file.read(8)
        if len(tag) < 8:
            raise Short
        kind, length = struct.unpack(order + "II", tag)
        if kind not in (_MATRIX, _COMPRESSED):
            raise UnreadableFile(f"{path} holds an unknown element (type {kind}); it is damaged: get it again.")
        if position + 8 + length > size:
            raise Short
        source = _Source(file, order, length, kind == _COMPRESSED)
        header = _header(source)
        if header.name in names:  # which of them counts, nobody could say
            raise UnreadableFile(f"{path} holds two variables {header.name!r}; save it again with one.")
        names.add(header.name)
        yield header, source
        position += 8 + length


def _stream(source: _Source, header: _Header, path: Path) -> np.ndarray:
    if header.matlab_class not in _FULL_NUMERIC or header.is_complex or len(header.shape) != 2:
        raise BadInput(f"{header.name!r} in {path} must be a full, real matrix of numbers; save it as one.")
    stored, inline = _numbers_ahead(source, header, path, Allowance(path))
    out = np.empty(header.shape[::-1], dtype=np.float32)
    flat = out.reshape(-1)
    step = _BLOCK // stored.itemsize
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, which the data set refuses by name
        for start in range(0, flat.size, step):
            wanted = min(step, flat.size - start) * stored.itemsize
            block = source.read(wanted) if inline is None else inline[:wanted]
            flat[start : start + step] = np.frombuffer(block, dtype=stored)
    source.finish()
    return out


def _value(
    source: _Source, header: _Header, path: Path, allowance: Allowance, depth: int = 0
) -> np.ndarray | list[str]:
    """Numbers in MATLAB's shape; the rows of a text; the texts of a cell, column after column."""
    if header.matlab_class == _CELL and depth < _DEEPEST_CELL:
        count = math.prod(header.shape)
        allowance.take(64 * count, repr(header.name))  # the least that Python takes for a text in a list
        return [_cell(source, path, allowance, depth) for _ in range(count)]
    if header.matlab_class == _CHAR:
        return _text_rows(source, header, allowance)
    if header.matlab_class not in _FULL_NUMERIC or header.is_complex:
        raise BadInput(f"{header.name!r} in {path} must hold real numbers, text or a cell of names; save it as such.")
    stored, inline = _numbers_ahead(source, header, path, allowance)
    length = math.prod(header.shape) * stored.itemsize
    data = source.read(length) if inline is None else inline
    if inline is None:
        source.read(-length % 8)
    return np.frombuffer(data, dtype=stored).reshape(header.shape, order="F")


def _numbers_ahead(source: _Source, header: _Header, path: Path, allowance: Allowance) -> tuple[np.dtype, bytes | None]:
    """How the numbers that follow are stored, after their count was found right, and themselves if they are tiny."""
    code, length, inline = _tag(source)
    stored = np.dtype(_STORED[code]).newbyteorder(source.order)
    if length != math.prod(header.shape) * stored.itemsize:
        raise UnreadableFile(
            f"{header.name!r} in {path} claims shape {_short(header.shape)}, but holds other data; it is damaged: "
            "get it again."
        )
    allowance.take(length, repr(header.name))
    return stored, inline


def _short(shape: tuple[int, ...]) -> str:
    return str(shape) if len(shape) < 5 else f"of {len(shape)} dimensions"


def _text_rows(source: _Source, header: _Header, allowance: Allowance) -> list[str]:
    code, length, inline = _tag(source)
    allowance.take(4 * length, repr(header.name))
    data = source.read(length + -length % 8)[:length] if inline is None else inline
    encoding = _ENCODED[code]
    if encoding[:4] == "utf-" and encoding != "utf-8":
        encoding += "-le" if source.order == "<" else "-be"
    text = data.decode(encoding)
    if len(header.shape) != 2 or header.shape[0] <= 1:
        return [text.rstrip()]
    n_rows, n_columns = header.shape
    if len(text) != n_rows * n_columns:
        raise ValueError("a text of another size than it claims")
    return [text[row::n_rows].rstrip() for row in range(n_rows)]


def _cell(source: _Source, path: Path, allowance: Allowance, depth: int) -> str:
    """The text in a cell, however many boxes MATLAB put around it."""
    code, length, inline = _tag(source)
    if code != _MATRIX or inline is not None:
        raise ValueError("a cell that holds no matrix")
    if length == 0:  # how MATLAB writes an empty cell
        return ""
    end = source.position + length
    header = _header(source)
    inside = _value(source, header, path, allowance, depth + 1)
    if source.position > end:
        raise ValueError("a cell that is larger than it claims")
    source.skip(end - source.position)
    return "".join(map(str, inside if isinstance(inside, list) else inside.ravel().tolist()))


class _Source:
    """The bytes of one variable, inflated only as far as they are asked for."""

    def __init__(self, file: BinaryIO, order: Literal["<", ">"], length: int, compressed: bool):
        self.order = order
        self.position = 0
        self._file = file
        self._left = length
        self._inflate = zlib.decompressobj() if compressed else None
        self._pending = b""  # not yet inflated
        self._ready, self._at = b"", 0  # inflated and not yet given away, from `_at` on
        if compressed and _tag(self)[0] != _MATRIX:
            raise ValueError("a compressed element that is not a matrix")

    def read(self, count: int) -> bytes:
        if count <= _SMALL:  # tags and names by the thousand: they are served from one piece
            while len(self._ready) - self._at < count:
                piece = self._some(1 << 14)
                if not piece:
                    raise Short
                self._ready, self._at = self._ready[self._at :] + piece, 0
            self._at += count
            self.position += count
            return self._ready[self._at - count : self._at]
        pieces = []
        if ready := self._ready[self._at : self._at + count]:
            self._at += len(ready)
            self.position += len(ready)
            count -= len(ready)
            pieces.append(ready)
        while count:
            piece = self._some(count)
            if not piece:
                raise Short
            pieces.append(piece)
            count -= len(piece)
            self.position += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def skip(self, count: int) -> None:
        for start in range(0, count, _BLOCK):
            self.read(min(_BLOCK, count - start))

    def finish(self) -> None:
        """Run to the end of the compressed stream: only there does its checksum tell whether it is intact."""
        more = 0
        while self._inflate is not None and not self._inflate.eof:
            piece = self._some(_BLOCK)
            if not piece and not self._inflate.eof:
                raise Short
            if (more := more + len(piece)) > _BLOCK:  # a few bytes of padding at most: this would go on for gigabytes
                raise ValueError("more data than the header claims")

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


def _header(source: _Source) -> _Header:
    flags = struct.unpack(source.order + "I", _field(source)[:4])[0]
    if flags & 0xFF == _OPAQUE:  # these have no shape, but the name comes in its place
        return _Header(_OPAQUE, False, (), _field(source).decode("latin-1"))
    dimensions = _field(source)
    shape = struct.unpack(f"{source.order}{len(dimensions) // 4}i", dimensions)
    if len(shape) < 2 or len(shape) > 32 or min(shape) < 0:
        raise ValueError("a matrix of impossible shape")
    return _Header(flags & 0xFF, bool(flags & _COMPLEX), shape, _field(source).decode("latin-1"))


def _field(source: _Source) -> bytes:
    _, length, inline = _tag(source)
    if inline is not None:
        return inline
    if length > _LARGEST_HEADER_FIELD:
        raise ValueError("a header field of impossible length")
    return source.read(length + -length % 8)[:length]


def _tag(source: _Source) -> tuple[int, int, bytes | None]:
    """Type and length of what follows; MATLAB packs up to four bytes of data into the tag itself."""
    code, length = struct.unpack(source.order + "II", word := source.read(8))
    if code >> 16:
        if code >> 16 > 4:
            raise ValueError("a small element of more than four bytes")
        return code & 0xFFFF, code >> 16, word[4 : 4 + (code >> 16)]
    return code, length, None
