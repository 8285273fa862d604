"""HDF5 files are read by a process of their own: a damaged one can end whoever opens it, and that is not us.

The functions are those of `matfile_hdf5`. One process answers all of them, begins with the first such file (a third of
a second), and sends what it has read as plain bytes. When a file ends it, the next file gets another.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

from firstsight.errors import BadInput, UnreadableFile

_PROGRAM = "from firstsight.data.hdf5_process import serve; serve()"
_one_at_a_time = threading.Lock()
_reader: subprocess.Popen[bytes] | None = None


def read_matrix(path: Path, name: str) -> np.ndarray | None:
    """See `matfile.read_matrix`."""
    matrix: np.ndarray | None = _ask("read_matrix", path, name).get("")
    return matrix


def variable_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """See `matfile.variable_shapes`."""
    return {name: tuple(shape) for name, shape in _ask("variable_shapes", path).items()}


def read_variables(path: Path, names: set[str]) -> dict[str, np.ndarray | list[str]]:
    """See `matfile.read_variables`."""
    return _ask("read_variables", path, sorted(names))


def _ask(function: str, path: Path, *more: Any) -> dict[str, Any]:
    global _reader
    place = "/" if path.is_absolute() else os.getcwd()  # paths are told as they were given
    with _one_at_a_time:
        if _reader is None or _reader.poll() is not None:
            # -P: what lies in the current folder is not for this process to import.
            _reader = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        assert _reader.stdin is not None
        assert _reader.stdout is not None
        try:
            _reader.stdin.write(json.dumps([place, function, os.fspath(path), *more]).encode() + b"\n")
            _reader.stdin.flush()
            about, arrays = _receive(_reader.stdout)
        except BaseException as error:
            end_reader()  # the next one to ask would hear the rest of this answer
            if isinstance(error, EOFError | BrokenPipeError):
                raise UnreadableFile(
                    f"{path} could not be read as a MATLAB v7.3 file: it ended HDF5's own reader, so it is damaged or "
                    "harmful; download or save it again."
                ) from None
            raise
    if "refused" in about:
        raise (UnreadableFile if about["damaged"] else BadInput)(about["refused"])
    return arrays


def end_reader() -> None:
    """Stop the process, if there is one."""
    global _reader
    if _reader is not None:
        _reader.kill()
        _reader.communicate()
        _reader = None


def _forget() -> None:
    """A forked process asks a reader of its own."""
    global _one_at_a_time, _reader
    _one_at_a_time, _reader = threading.Lock(), None


atexit.register(end_reader)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _receive(answers: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is said of an answer in a line of JSON, and the values that follow: arrays as their bytes."""
    line = answers.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    about = json.loads(line)
    values = dict(about.get("values", {}))
    for name, (dtype, shape) in about.get("arrays", {}).items():
        values[name] = np.empty(shape, dtype)
        if answers.readinto(values[name].reshape(-1).view(np.uint8)) < values[name].nbytes:
            raise EOFError
    return about, values


# In the other process -----------------------------------------------------------------------------------------------


def serve() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever asks
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # nothing that a library prints comes between
        for line in sys.stdin.buffer:
            place, function, path, *more = json.loads(line)
            for part in _answer(place, function, Path(path), more):
                answers.write(part)
            answers.flush()


def _answer(place: str, function: str, path: Path, more: list[Any]) -> list[Any]:
    from firstsight.data import matfile, matfile_hdf5

    try:
        with matfile.one_sentence(path):
            os.chdir(place)
            values = getattr(matfile_hdf5, function)(path, *more)
    except BadInput as error:
        refused = {"refused": str(error), "damaged": isinstance(error, UnreadableFile)}
        return [json.dumps(refused).encode() + b"\n"]
    if not isinstance(values, dict):
        values = {} if values is None else {"": values}
    arrays = {name: np.asarray(value, order="C") for name, value in values.items() if isinstance(value, np.ndarray)}
    about = {
        "values": {name: value for name, value in values.items() if name not in arrays},
        "arrays": {name: (array.dtype.str, array.shape) for name, array in arrays.items()},
    }
    return [json.dumps(about).encode() + b"\n", *(array.reshape(-1).view(np.uint8) for array in arrays.values())]
