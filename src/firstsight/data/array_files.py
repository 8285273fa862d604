"""Arrays in .npz and .npy files: atomic writes, and reads that do not trust a header."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

import numpy as np

from firstsight._io.files import Allowance, require_file, write_atomically
from firstsight.errors import BadInput, UnreadableFile

_BLOCK = 1 << 20
_LARGEST_TEXT = 1 << 16  # bytes of one entry
_MAGIC = b"\x93NUMPY"


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> Path:
    """Write an .npz file, uncompressed: features hardly shrink."""
    path = Path(path)
    if path.suffix != ".npz":
        raise BadInput(f"The file must end in .npz, but is called {path.name!r}; rename it.")

    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    write_atomically(path, save)
    return path


def read_arrays(path: str | Path, keys: Iterable[str]) -> dict[str, np.ndarray]:
    """The named arrays of an .npz file that are there; the one array of an .npy file is its `features`.

    Only numbers and text, never anything pickled, and never more than the file can hold: shape and type are judged
    before memory is taken.
    """
    path = require_file(path)
    allowance = Allowance(path)
    try:
        with path.open("rb") as file:
            if path.suffix == ".npy" and file.peek(6)[:6] == _MAGIC:
                return {"features": _read(file, path.stat().st_size, allowance, "The array")}
            with zipfile.ZipFile(file) as archive:
                members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
                return {key: _member(archive, members[key], allowance, key) for key in keys if key in members}
    except BadInput:
        raise
    except Exception as error:  # zipfile, zlib and NumPy answer damage with many unrelated types
        raise UnreadableFile(
            f"{path} could not be read as an {path.suffix} file of plain arrays ({type(error).__name__}); it is "
            "damaged, foreign or pickled: save it with firstsight's write_npz or numpy.savez."
        ) from error


def read_names(path: Path, arrays: Mapping[str, np.ndarray], key: str) -> tuple[str, ...] | None:
    """The names under `key`; None where there are none."""
    if key not in arrays:
        return None
    if arrays[key].ndim != 1:
        raise BadInput(f"`{key}` in {path} must be a list of names, but has shape {arrays[key].shape}; flatten it.")
    return tuple(map(str, arrays[key].tolist()))


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, allowance: Allowance, key: str) -> np.ndarray:
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("packed as NumPy never does")
    with archive.open(member) as stream:
        return _read(stream, member.file_size, allowance, f"`{key}`")


def _read(stream: IO[bytes], size: int, allowance: Allowance, what: str) -> np.ndarray:
    """The array in a stream of `size` bytes that begins with NumPy's header."""
    version = np.lib.format.read_magic(stream)
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, fortran, dtype = header(stream)
    plain = dtype.kind in "biuf" or (dtype.kind == "U" and 0 < dtype.itemsize <= _LARGEST_TEXT)
    if not plain or dtype.names or dtype.subdtype or len(shape) > 4 or min(shape, default=0) < 0:
        raise ValueError("neither numbers nor text")
    count = math.prod(shape)
    allowance.take(count * dtype.itemsize, what)
    if count * dtype.itemsize > size:
        raise ValueError("less data than the header claims")
    flat = np.empty(count, dtype=dtype)
    into = flat.view(np.uint8)
    for start in range(0, into.size, _BLOCK):
        block = stream.read(min(_BLOCK, into.size - start))
        into[start : start + _BLOCK] = np.frombuffer(block, dtype=np.uint8)  # a short block does not fit, and says so
    if stream.read(1):  # at the end, zipfile compares the checksum
        raise ValueError("more data than the header claims")
    if dtype.kind == "U":
        _check_letters(flat)
    return flat.reshape(shape, order="F" if fortran else "C")


def _check_letters(texts: np.ndarray) -> None:
    """NumPy keeps four bytes per letter and believes them; what is no letter breaks whoever looks at it later."""
    codes = texts.view(np.dtype("u4").newbyteorder(texts.dtype.byteorder))
    if codes.size and (codes.max() > 0x10FFFF or ((codes >= 0xD800) & (codes <= 0xDFFF)).any()):
        raise ValueError("text with impossible letters")
