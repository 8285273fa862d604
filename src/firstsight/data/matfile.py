"""MATLAB files (v5 and v7.3): read small variables whole, and one big matrix straight into float32.

`scipy.io.loadmat` returns a stored double matrix as doubles, three times the float32 size after the conversion, and a
damaged file can end the process inside it. Files of v5 are read here in plain Python, block by block, so that the
float32 result is the only large array and damage is an exception. v7.3 files are HDF5, for which there is one library,
in C: it runs in the sandbox.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

import numpy as np

from firstsight._io.files import Allowance, require_file
from firstsight._io.sandbox import SandboxDied, SandboxFailed, call_in_sandbox
from firstsight.errors import BadInput, UnreadableFile

if TYPE_CHECKING:
    import h5py


def read_matrix(path: str | Path, name: str) -> np.ndarray:
    """The matrix `name`, transposed, as float32: MATLAB's (d, N) on disk comes back as (N, d), C-contiguous.

    MATLAB writes column after column, so the transposed matrix is the file's bytes in their order.
    """
    matrix: np.ndarray | None = _read("matrix", path, name)
    if matrix is None:
        raise BadInput(f"{path} has no variable {name!r}; check that this is the right file.")
    return matrix


def variable_shapes(path: str | Path) -> dict[str, tuple[int, ...]]:
    """Name and MATLAB shape of every variable, without reading any of them."""
    return {name: tuple(shape) for name, shape in _read("shapes", path).items()}


def read_variables(path: str | Path, names: Iterable[str]) -> dict[str, np.ndarray | list[str]]:
    """Those of `names` that are there: numbers as MATLAB shapes them, cells and text as lists of strings."""
    variables: dict[str, np.ndarray | list[str]] = _read("variables", path, sorted(set(names)))
    return variables


def _read(what: str, path: str | Path, *arguments: Any) -> Any:
    """Call the function for v5 files here, or the one for HDF5 in the sandbox."""
    path = Path(path)
    with _translate_errors(path):
        if not _is_hdf5(require_file(path)):
            return _V5[what](path, *arguments)
        size = path.stat().st_size
        # `Allowance` is the limit of what is unpacked, and has the better message; this one is for the library.
        memory, seconds = 2 * (100 * size) + (1 << 30), 60 + (size >> 20)
        most = 100 * size + (64 << 20)  # what SECURITY.md promises of this process
        return call_in_sandbox(
            __name__, f"hdf5_{what}", str(path), *arguments, memory=memory, seconds=seconds, most=most
        )


@contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    """Raise every error about a damaged file as `UnreadableFile` with a clear message."""
    try:
        yield
    except BadInput:
        raise
    except PermissionError as error:
        raise UnreadableFile(f"{path} cannot be opened ({error.strerror}); check its permissions.") from error
    except Short as error:
        raise UnreadableFile(
            f"{path} ends before its data does: it is truncated; download or copy it again."
        ) from error
    except SandboxDied:
        raise UnreadableFile(
            f"{path} could not be read as a MATLAB v7.3 file: it ended HDF5's own reader, so it is damaged or "
            "harmful; download or save it again."
        ) from None
    except Exception as error:
        kind = error if isinstance(error, SandboxFailed) else type(error).__name__
        # zlib, struct, codecs and h5py answer damage with a dozen unrelated types (KeyError, RuntimeError, …).
        raise UnreadableFile(
            f"{path} could not be read as a MATLAB v5 or v7.3 file ({kind}); "
            "it is damaged or foreign: download or save it again."
        ) from error


# Files of v5: a header of 128 bytes, then variables as trees of tagged elements. Whatever a file claims, the worst that
# happens is an exception, because every length is asked of an `Allowance` before memory is taken for it.

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


def v5_matrix(path: Path, name: str) -> np.ndarray | None:
    """See `read_matrix`; None where there is no such variable."""
    with path.open("rb") as file:
        for header, source in _variables(file, path):
            if header.name == name:
                return _stream(source, header, path)
    return None


def v5_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """See `variable_shapes`."""
    with path.open("rb") as file:
        return {header.name: header.shape for header, _ in _variables(file, path)}


def v5_variables(path: Path, names: list[str]) -> dict[str, np.ndarray | list[str]]:
    """See `read_variables`."""
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


_V5: dict[str, Callable[..., Any]] = {"matrix": v5_matrix, "shapes": v5_shapes, "variables": v5_variables}


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


# Files of v7.3, which are HDF5: arrays are stored transposed, cells are references. A damaged file can end HDF5's
# library: all but `_is_hdf5` is called in the sandbox, where paths are text.

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_HDF5_FILTERS = {1, 2, 3, 32000}  # deflate, shuffle, checksum, LZF; for others HDF5 would look for programs to load


def _is_hdf5(path: Path) -> bool:
    """Whether the signature stands where HDF5 allows it first: at 0, or after MATLAB's 512-byte text."""
    with path.open("rb") as file:
        start = file.read(512 + len(_HDF5_SIGNATURE))
    return start.startswith(_HDF5_SIGNATURE) or start[512:] == _HDF5_SIGNATURE


def hdf5_matrix(path: str, name: str) -> np.ndarray | None:
    """See `read_matrix`. HDF5's own shape is MATLAB's reversed, so (d, N) is already (N, d) here."""
    with _open_hdf5(path) as file:
        if _hdf5_link(file, name) is None:
            return None
        stored = _hdf5_dataset(path, file, name)
        if stored.ndim != 2 or stored.dtype.kind not in "iuf":
            raise BadInput(f"{name!r} in {path} must be a full, real matrix of numbers; save it as one.")
        _check_size(Allowance(path), stored, path, name)
        out = np.empty(stored.shape, dtype=np.float32)
        if out.size:
            stored.read_direct(out)  # HDF5 converts to float32 in a small buffer of its own
        return out


def hdf5_shapes(path: str) -> dict[str, tuple[int, ...]]:
    """See `variable_shapes`."""
    with _open_hdf5(path) as file:
        # Names that start with '#' are MATLAB's own bookkeeping.
        return {name: _hdf5_shape(path, file, name) for name in file if not name.startswith("#")}


def hdf5_variables(path: str, names: Iterable[str]) -> dict[str, np.ndarray | list[str]]:
    """See `read_variables`."""
    allowance = Allowance(path)
    with _open_hdf5(path) as file:
        present = [name for name in names if _hdf5_link(file, name) is not None]
        return {name: _hdf5_value(path, file, _hdf5_dataset(path, file, name), name, allowance) for name in present}


def _hdf5_shape(path: str, file: h5py.File, name: str) -> tuple[int, ...]:
    try:
        shape: tuple[int, ...] = _hdf5_dataset(path, file, name).shape
    except BadInput:  # a struct or a link, which only those are refused who want to read it
        return ()
    return shape[::-1]


def _open_hdf5(path: str) -> h5py.File:
    import h5py

    return h5py.File(path, "r")


def _hdf5_link(file: h5py.File, name: str) -> object:
    return file.get(name, getlink=True)  # the link itself: nothing is followed to find out


def _hdf5_dataset(path: str, file: h5py.File, name: str) -> h5py.Dataset:
    """A data file has no business opening other files on this machine: only what hangs in it directly is opened.

    MATLAB writes hard links alone; a soft link may lead through an external one.
    """
    import h5py

    stored = file[name] if isinstance(_hdf5_link(file, name), h5py.HardLink) else None
    return _check_stored(path, stored, name)


def _check_stored(path: str, stored: object, name: str) -> h5py.Dataset:
    import h5py

    if not isinstance(stored, h5py.Dataset) or stored.is_virtual or stored.external or stored.shape is None:
        raise BadInput(f"{name!r} in {path} must be an array stored in the file itself; save it as one.")
    return stored


def _check_size(allowance: Allowance, stored: h5py.Dataset, path: str, name: str) -> None:
    """Before memory is taken; chunks that were never written read as zeros and would cost the file nothing."""
    allowance.take(stored.nbytes, repr(name))
    chunk = stored.dtype.itemsize * math.prod(stored.chunks or (0,))  # HDF5 inflates a chunk as a whole
    allowance.take(chunk, f"A chunk of {name!r}")
    creation = stored.id.get_create_plist()
    if not {creation.get_filter(i)[0] for i in range(creation.get_nfilters())} <= _HDF5_FILTERS:
        raise BadInput(f"{name!r} in {path} is packed in a way that MATLAB does not use; save it with MATLAB's -v7.3.")
    if stored.nbytes and not stored.id.get_storage_size():
        raise UnreadableFile(
            f"{name!r} in {path} claims shape {stored.shape[::-1]}, but holds no data; get the file again."
        )


def _hdf5_value(
    path: str, file: h5py.File, stored: h5py.Dataset, name: str, allowance: Allowance
) -> np.ndarray | list[str]:
    import h5py

    _check_size(allowance, stored, path, name)
    if h5py.check_ref_dtype(stored.dtype) is h5py.Reference:
        cells = (_check_stored(path, file[reference], name) for reference in stored[()].ravel())
        return ["".join(_hdf5_text_rows(path, cell, name, allowance)) for cell in cells]
    if stored.attrs.get("MATLAB_class") == b"char":
        return _hdf5_text_rows(path, stored, name, allowance)
    if stored.dtype.kind not in "biuf":
        raise BadInput(f"{name!r} in {path} must hold real numbers, text or a cell of names; save it as such.")
    return np.asarray(stored[()]).T  # of no dimensions, it is no array yet


def _hdf5_text_rows(path: str, stored: h5py.Dataset, name: str, allowance: Allowance) -> list[str]:
    if "MATLAB_empty" in stored.attrs:
        return [""]
    _check_size(allowance, stored, path, name)
    codes = np.atleast_2d(np.asarray(stored[()]).T)
    allowance.take(64 * len(codes), repr(name))  # the least that Python takes for a text in a list
    if codes.dtype.kind not in "iu" or codes.ndim != 2 or stored.attrs.get("MATLAB_class", b"char") != b"char":
        raise ValueError("a cell that holds no text")
    if codes.size and not 0 <= codes.min() <= codes.max() < 1 << 16:
        raise ValueError("a text of impossible letters")
    return [row.astype("<u2").tobytes().decode("utf-16-le").rstrip() for row in codes]
