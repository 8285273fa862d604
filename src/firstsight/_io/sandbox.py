"""One child process with limits for libraries in C that read untrusted files: whatever a file does to it, we live on.

The child begins with the first call (about half a second) and answers all of them. Arguments and results are JSON
and plain bytes of arrays, never pickles. A file that ends the child, or takes more memory or time than the call allows,
raises `SandboxDied`; the next call starts another child. POSIX limits: elsewhere only the clock ends a call.
"""

from __future__ import annotations

import atexit
import importlib
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from firstsight.errors import BadInput, UnreadableFile

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_PROGRAM = "from firstsight._io.sandbox import serve; serve()"
_CLOCK = 20  # seconds on the clock for each second of the processor's time: the machine has other work, too
_one_call = threading.Lock()
_child: subprocess.Popen[bytes] | None = None
# What reading the answer of a child raises that a file has taken over.
_BAD_ANSWER = (EOFError, OSError, ValueError, TypeError, AttributeError, LookupError, OverflowError, MemoryError)


class SandboxDied(Exception):
    """The child process ended, or met a limit, before it had answered."""


class SandboxFailed(Exception):
    """The function raised an exception, whose type is the message."""


def call_in_sandbox(
    module: str, function: str, *arguments: Any, memory: int, seconds: int, most: int | None = None
) -> Any:
    """Call a function of one of our modules in the child process.

    The function takes what JSON can hold, and returns that, an array, or a dictionary of both. `memory` limits what the
    call may take (bytes), `most` what it may return (`memory` if left out), `seconds` its CPU time. `BadInput` is
    raised here as it was there.
    """
    global _child
    request = {"folder": _current_folder(), "module": module, "function": function, "arguments": arguments}
    with _one_call:
        if _child is None or _child.poll() is not None:
            # -P: what lies in the current folder is not for this process to import.
            _child = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        assert _child.stdin is not None
        assert _child.stdout is not None
        clock = threading.Timer(_CLOCK * seconds, _child.kill)
        clock.start()
        try:
            _child.stdin.write(json.dumps({**request, "memory": memory, "seconds": seconds}).encode() + b"\n")
            _child.stdin.flush()
            header, values = _receive(_child.stdout, memory if most is None else most)
        except BaseException as error:
            end_child()  # the next call would read the rest of this answer
            if isinstance(error, _BAD_ANSWER):
                raise SandboxDied from None
            raise
        finally:
            clock.cancel()
    if "refused" in header:
        raise (UnreadableFile if header["damaged"] else BadInput)(header["refused"])
    if "failed" in header:
        raise SandboxFailed(header["failed"])
    return values if header["is_dict"] else values[""]


def end_child() -> None:
    """Stop the child process, if there is one."""
    global _child
    if _child is not None:
        _child.kill()
        _child.communicate()
        _child = None


def _forget() -> None:
    """A forked process starts its own child."""
    global _one_call, _child
    _one_call, _child = threading.Lock(), None


atexit.register(end_child)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _receive(answers: Any, limit: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the header of an answer, a line of JSON, and the values that follow: arrays as their bytes."""
    line = answers.readline(limit)
    if not line.endswith(b"\n"):
        raise EOFError
    header = json.loads(line)
    kinds = ({"failed"}, {"refused", "damaged"}, {"is_dict"})
    if not isinstance(header, dict) or not any(kind <= header.keys() for kind in kinds):
        raise EOFError
    values = dict(header.get("values", {}))
    for name, (dtype, shape) in header.get("arrays", {}).items():
        if np.dtype(dtype).kind not in "biufSU":
            raise EOFError
        limit -= math.prod(shape) * np.dtype(dtype).itemsize
        if limit < 0:
            raise EOFError
        values[name] = np.empty(shape, dtype)
        if answers.readinto(values[name].reshape(-1).view(np.uint8)) < values[name].nbytes:
            raise EOFError
    return header, values


def _current_folder() -> str:
    """Relative paths mean the same in the child, and its messages show them as they were given."""
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return "/"


# In the child process -----------------------------------------------------------------------------------------------


def serve() -> None:
    """Answer calls until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that calls
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # a reader has nothing to write
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # nothing that a library prints comes between
        for line in sys.stdin.buffer:
            for part in _answer(json.loads(line)):
                answers.write(part)
            answers.flush()


def _answer(request: dict[str, Any]) -> Iterator[Any]:
    function = getattr(importlib.import_module(request["module"]), request["function"])
    _limit(request["memory"], request["seconds"])
    header: dict[str, Any]
    arrays: dict[str, np.ndarray] = {}
    try:
        os.chdir(request["folder"])
        result = function(*request["arguments"])
    except BadInput as error:
        header = {"refused": str(error), "damaged": isinstance(error, UnreadableFile)}
    except Exception as error:  # the caller knows what a failure of its function means
        header = {"failed": type(error).__name__}
    else:
        values = result if isinstance(result, dict) else {"": result}
        arrays = {name: np.asarray(array, order="C") for name, array in values.items() if isinstance(array, np.ndarray)}
        header = {
            "is_dict": isinstance(result, dict),
            "values": {name: value for name, value in values.items() if name not in arrays},
            "arrays": {name: (array.dtype.str, array.shape) for name, array in arrays.items()},
        }
    yield json.dumps(header).encode() + b"\n"
    for array in arrays.values():
        yield array.reshape(-1).view(np.uint8)


def _limit(memory: int, seconds: int) -> None:
    """Limit what this call may take in addition to what the process has."""
    if resource is None:
        return
    limits = {resource.RLIMIT_CPU: math.ceil(time.process_time()) + seconds}
    with suppress(OSError):  # Linux tells the size of the process; other systems do not keep this limit anyway
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limits[resource.RLIMIT_AS] = size + memory
    for what, soft in limits.items():
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


# Other processes ----------------------------------------------------------------------------------------------------


@contextmanager
def without_current_folder() -> Iterator[None]:
    """Start processes within this block that do not import from the current folder, which may hold foreign files.

    A new interpreter looks there first, before it gets this one's `sys.path` from what started it (loky,
    multiprocessing): PYTHONSAFEPATH forbids that. What the caller's PYTHONPATH names stays.
    """
    path, safe = sys.path, os.environ.get("PYTHONSAFEPATH")
    asked_for = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path = [entry for entry in path if entry and (entry in asked_for or not _is_current_folder(entry))]
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        sys.path = path
        if safe is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = safe


def _is_current_folder(entry: str) -> bool:
    try:
        return os.path.samefile(entry, ".")
    except OSError:  # the entry does not exist, or the current folder was removed
        return False
