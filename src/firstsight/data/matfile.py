"""MATLAB files (v5 and v7.3): read small variables whole, and one big matrix straight into float32.

`scipy.io.loadmat` returns a stored double matrix as doubles, three times the float32 size after the conversion, and a
damaged file can end the process inside it. `matfile_v5` reads these files in plain Python, block by block, so that the
float32 result is the only large array and damage is an exception. v7.3 files are HDF5, for which there is one library,
in C: it runs in the sandbox.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from firstsight._io.files import require_file
from firstsight._io.sandbox import SandboxDied, SandboxFailed, call_in_sandbox
from firstsight.data import matfile_hdf5, matfile_v5
from firstsight.errors import BadInput, UnreadableFile


def read_matrix(path: str | Path, name: str) -> np.ndarray:
    """The matrix `name`, transposed, as float32: MATLAB's (d, N) on disk comes back as (N, d), C-contiguous.

    MATLAB writes column after column, so the transposed matrix is the file's bytes in their order.
    """
    matrix: np.ndarray | None = _read("read_matrix", path, name)
    if matrix is None:
        raise BadInput(f"{path} has no variable {name!r}; check that this is the right file.")
    return matrix


def variable_shapes(path: str | Path) -> dict[str, tuple[int, ...]]:
    """Name and MATLAB shape of every variable, without reading any of them."""
    return {name: tuple(shape) for name, shape in _read("variable_shapes", path).items()}


def read_variables(path: str | Path, names: Iterable[str]) -> dict[str, np.ndarray | list[str]]:
    """Those of `names` that are there: numbers as MATLAB shapes them, cells and text as lists of strings."""
    variables: dict[str, np.ndarray | list[str]] = _read("read_variables", path, sorted(set(names)))
    return variables


def _read(function: str, path: str | Path, *arguments: Any) -> Any:
    """Call a function of `matfile_v5` here, or of `matfile_hdf5` in the sandbox."""
    path = Path(path)
    with _translate_errors(path):
        if not matfile_hdf5.is_hdf5(require_file(path)):
            return getattr(matfile_v5, function)(path, *arguments)
        size = path.stat().st_size
        # `Allowance` is the limit of what is unpacked, and has the better message; this one is for the library.
        memory, seconds = 2 * (100 * size) + (1 << 30), 60 + (size >> 20)
        most = 100 * size + (64 << 20)  # what SECURITY.md promises of this process
        return call_in_sandbox(
            "firstsight.data.matfile_hdf5", function, str(path), *arguments, memory=memory, seconds=seconds, most=most
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
    except matfile_v5.Short as error:
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
