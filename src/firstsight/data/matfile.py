"""Reading MATLAB files (v5 and v7.3): small variables whole, one big matrix straight into float32.

`scipy.io.loadmat` returns a stored double matrix as doubles, three times the float32 size after the conversion, and a
damaged file can end the process inside it. `matfile_v5` reads these files in plain Python, block by block, so that the
float32 result is the only large array and damage is an exception. v7.3 files are HDF5, for which there is one library,
in C: another process runs it (`hdf5_process`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np

from firstsight._io.files import require_file
from firstsight.data import hdf5_process, matfile_hdf5, matfile_v5
from firstsight.errors import BadInput, UnreadableFile


def read_matrix(path: str | Path, name: str) -> np.ndarray:
    """The matrix `name`, transposed, as float32: MATLAB's (d, N) on disk comes back as (N, d), C-contiguous.

    MATLAB writes column after column, so the transposed matrix is the file's bytes in their order.
    """
    path = Path(path)
    with one_sentence(path):
        matrix: np.ndarray | None = _layout(path).read_matrix(path, name)
    if matrix is None:
        raise BadInput(f"{path} has no variable {name!r}; check that this is the right file.")
    return matrix


def variable_shapes(path: str | Path) -> dict[str, tuple[int, ...]]:
    """Name and MATLAB shape of every variable, without reading any of them."""
    path = Path(path)
    with one_sentence(path):
        shapes: dict[str, tuple[int, ...]] = _layout(path).variable_shapes(path)
    return shapes


def read_variables(path: str | Path, names: Iterable[str]) -> dict[str, np.ndarray | list[str]]:
    """Those of `names` that are there: numbers as MATLAB shapes them, cells and text as lists of strings."""
    path = Path(path)
    with one_sentence(path):
        variables: dict[str, np.ndarray | list[str]] = _layout(path).read_variables(path, set(names))
    return variables


def _layout(path: Path) -> ModuleType:
    return hdf5_process if matfile_hdf5.is_hdf5(require_file(path)) else matfile_v5


@contextmanager
def one_sentence(path: Path) -> Iterator[None]:
    """Whatever is raised about a damaged file becomes one sentence."""
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
    except Exception as error:
        # zlib, struct, codecs and h5py answer damage with a dozen unrelated types (KeyError, RuntimeError, …).
        raise UnreadableFile(
            f"{path} could not be read as a MATLAB v5 or v7.3 file ({type(error).__name__}); "
            "it is damaged or foreign: download or save it again."
        ) from error
