"""Features that stay on disk: a .npy file, read block by block, with the next block read ahead.

.npy, because it is one header and then the numbers, row after row: any block of rows is one read at a known place, any
program writes it, and what must not be executed cannot be in it. Zarr and Parquet pack blocks, which features hardly
repay, and cost a library more and a copy per block.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from typing import IO, Any

import numpy as np

from firstsight._io.files import open_regular
from firstsight.errors import BadInput, UnreadableFile

MEMORY = 2**30  # bytes that reading and computing may take beside the model, where nothing else is said
LARGEST_BLOCK = 8192  # rows: enough for a matrix product
# Bytes of a block. For more than 32 MiB, C libraries ask the system every time, which costs as much as reading.
_BLOCK_BYTES = 24 * 2**20
_AT_ONCE = 12  # blocks in memory at the worst: read ahead, in float32, in float64, scaled, its products
_GAP = 4  # rows that are rather read and dropped than jumped over


class DiskSamples:
    """Rows (n, d) of a .npy file as float32; a slice or a list of row numbers is an array, the whole never is.

    Methods that read block by block take them in the place of an array; others load them, if they fit into `memory`.

    Parameters
    ----------
    path : str or Path
        A .npy file of a matrix of floating-point numbers.
    memory : int, optional
        What working with them may take, in bytes: $FIRSTSIGHT_MEMORY_MIB, or else 1 GiB.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x.npy"
    >>> np.save(path, np.arange(8, dtype=np.float32).reshape(4, 2))
    >>> rows = DiskSamples(path)
    >>> rows.shape, rows[1:2], len(rows.take([0, 3]))
    ((4, 2), array([[2., 3.]], dtype=float32), 2)
    """

    dtype = np.dtype(np.float32)
    ndim = 2

    def __init__(self, path: str | Path, *, memory: int | None = None):
        memory = memory_allowed() if memory is None else memory
        if memory < 2**20:
            raise BadInput(f"`memory` must be at least 2**20 bytes, but is {memory}.")
        self.path, self.memory = Path(path), memory
        self._offset, self._stored, self._whole, self._state = _header(self.path)
        self._numbers: np.ndarray | None = None

    def take(self, numbers: Any) -> DiskSamples:
        """Some of the rows, in this order; nothing is read yet."""
        chosen = np.asarray(numbers, dtype=np.int64)
        some = DiskSamples.__new__(DiskSamples)
        some.__dict__.update(vars(self))
        some._numbers = chosen if self._numbers is None else self._numbers[chosen]
        return some

    def __len__(self) -> int:
        return self._whole[0] if self._numbers is None else len(self._numbers)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self._whole[1]

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Of all rows, were they in memory."""
        return len(self) * self.shape[1] * self.itemsize

    @property
    def is_whole_file(self) -> bool:
        """Whether these are the rows of the file, all of them in its order."""
        return self._numbers is None

    def __repr__(self) -> str:
        return f"DiskSamples({str(self.path)!r}: {len(self)} × {self.shape[1]})"

    def __getitem__(self, key: Any) -> np.ndarray:
        with self._open() as file:
            return self._read(file, key)

    def read(self, numbers: np.ndarray) -> np.ndarray:
        """Some of the rows, with numbers that are not finite refused."""
        rows = self[numbers]
        self._refuse_infinite(numbers, rows)
        return rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows in memory, for whoever cannot do without; refused where they do not fit."""
        if self.nbytes > self.memory:
            raise BadInput(
                f"{len(self)} rows of {self.path} take {self.nbytes / 2**30:.1f} GiB and must be in memory at once "
                f"here, where {self.memory / 2**30:.1f} GiB are allowed; use a method that reads blocks (`firstsight "
                "methods` tells), allow more (`memory`, $FIRSTSIGHT_MEMORY_MIB), or give fewer rows."
            )
        rows = self[:]
        return rows if dtype is None else rows.astype(dtype, copy=False)

    @property
    def block(self) -> int:
        """Rows read at once."""
        row = max(1, self.shape[1]) * self.itemsize
        return max(1, min(LARGEST_BLOCK * row, _BLOCK_BYTES, self.memory // _AT_ONCE) // row)

    def blocks(self, step: int | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        """All rows, one block after the other, the next being read meanwhile; NaN and infinity are refused."""
        step = min(step or self.block, self.block)
        parts = [slice(start, min(start + step, len(self))) for start in range(0, len(self), step)]
        with self._open() as file, ThreadPoolExecutor(1, "read ahead") as reader:
            ahead: Future[np.ndarray] | None = reader.submit(self._checked, file, parts[0]) if parts else None
            for part, following in zip(parts, [*parts[1:], None], strict=False):  # without rows, no parts
                assert ahead is not None
                rows = ahead.result()
                ahead = None if following is None else reader.submit(self._checked, file, following)
                yield part, rows
            self._refuse_changed(file)

    def _checked(self, file: FileIO, part: slice) -> np.ndarray:
        rows = self._read(file, part)
        self._refuse_infinite(np.arange(part.start, part.stop), rows)
        return rows

    def _refuse_infinite(self, numbers: np.ndarray, rows: np.ndarray) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(rows.sum()) or (good := np.isfinite(rows).all(axis=1)).all():
                return
        number = int(numbers[(~good).argmax()])
        number = number if self._numbers is None else int(self._numbers[number])
        raise BadInput(
            f"{self.path} contains NaN or infinite values in row {number}; expected finite numbers: fill these in or "
            "drop the row."
        )

    def _open(self) -> FileIO:
        try:
            file = FileIO(open_regular(self.path))
        except OSError as error:
            raise UnreadableFile(f"{self.path} cannot be read ({error.strerror}); is it still there?") from None
        self._refuse_changed(file)
        return file

    def _refuse_changed(self, file: FileIO) -> None:
        """Rows of two states of a file, or of a file in the place of another, are rows of neither."""
        if _state(file) != self._state:
            file.close()
            raise UnreadableFile(f"{self.path} was changed or replaced while it was in use; begin anew.")

    def _read(self, file: FileIO, key: Any) -> np.ndarray:
        if self._numbers is None and isinstance(key, slice):
            start, stop, stride = key.indices(len(self))
            rows = self._run(file, start, max(start, stop)) if stride > 0 else self._run(file, 0, 0)
            return rows if stride == 1 else np.ascontiguousarray(rows[::stride])
        numbers = np.arange(len(self))[key] if self._numbers is None else self._numbers[key]
        return self._gather(file, np.atleast_1d(numbers))

    def _gather(self, file: FileIO, numbers: np.ndarray) -> np.ndarray:
        """Rows in any order: neighbours are read together."""
        out = np.empty((len(numbers), self.shape[1]), dtype=self.dtype)
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        for run in np.split(np.arange(len(ordered)), np.flatnonzero(np.diff(ordered) > _GAP) + 1):
            if len(run):
                first = ordered[run[0]]
                out[order[run]] = self._run(file, int(first), int(ordered[run[-1]]) + 1)[ordered[run] - first]
        return out

    def _run(self, file: FileIO, first: int, last: int) -> np.ndarray:
        rows = np.empty((last - first, self._whole[1]), dtype=self._stored)
        into, done = rows.view(np.uint8).reshape(-1), 0
        file.seek(self._offset + first * self._whole[1] * self._stored.itemsize)
        while done < len(into):
            count = file.readinto(into[done:].data)
            if not count:
                raise UnreadableFile(f"{self.path} has become shorter while it was read; write it again.")
            done += count
        return rows.astype(self.dtype, copy=False)


class ChangedSamples:
    """Rows on the disk as `change` makes them, (n, width), whenever some are read: scaled ones, for example."""

    def __init__(self, rows: DiskSamples | ChangedSamples, change: Callable[[np.ndarray], np.ndarray], width: int):
        self._rows, self._change, self.shape = rows, change, (len(rows), width)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        return self._change(self._rows[key])

    def blocks(self, step: int | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        """As those of `DiskSamples`."""
        for part, rows in self._rows.blocks(step):
            yield part, self._change(rows)


def memory_allowed() -> int:
    """What the environment allows, in bytes."""
    said = os.environ.get("FIRSTSIGHT_MEMORY_MIB", "")
    if said and not (said.isdecimal() and len(said) < 10):  # ² is a digit, too, but no number
        raise BadInput(f"FIRSTSIGHT_MEMORY_MIB must be a whole number of MiB, but is {said!r}.")
    return int(said) * 2**20 if said else MEMORY


def blocks_of(X: Any, step: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Blocks of at most `step` rows of an array or of rows on the disk."""
    if isinstance(X, DiskSamples | ChangedSamples):
        yield from X.blocks(step)
        return
    for start in range(0, len(X), step):
        part = slice(start, min(start + step, len(X)))
        yield part, X[part]


def _header(path: Path) -> tuple[int, np.dtype[Any], tuple[int, int], tuple[int, ...]]:
    """Where the numbers begin, their type, the shape, and the file's state; nothing is believed that it cannot hold."""
    try:
        with open(open_regular(path), "rb") as file:
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, fortran, dtype = read(file)
            offset, state = file.tell(), _state(file)
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read ({error.strerror}); check the path.") from None
    except Exception:  # a header is Python's text, and its parser answers damage with many unrelated types
        raise UnreadableFile(f"{path} is not a .npy file; write one with `firstsight embed` or numpy.save.") from None
    if len(shape) != 2 or shape[0] < 0 or not 0 < shape[1] < 2**31 or dtype.kind != "f" or fortran:
        raise BadInput(
            f"{path} must hold a matrix of floating-point numbers, row after row, but holds shape {shape}, type {dtype}"
            f"{', column after column' if fortran else ''}; save it so (numpy.ascontiguousarray)."
        )
    if state[2] < offset + shape[0] * shape[1] * dtype.itemsize:
        raise UnreadableFile(f"{path} is shorter than its header claims ({shape[0]} rows); write it again.")
    return offset, dtype, (shape[0], shape[1]), state


def _state(file: IO[bytes]) -> tuple[int, ...]:
    """Changes when the file does, or another one takes its place."""
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
