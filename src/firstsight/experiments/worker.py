"""What runs in a worker process, here or on another machine: a cell's order comes in as JSON, its records go out."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstsight.errors import FirstsightError

if TYPE_CHECKING:
    from firstsight.data import ZeroShotDataset

_opened: dict[str, ZeroShotDataset] = {}  # by identity: the data set of the cell before, for the next
_one_at_a_time = threading.Lock()  # thread limits, caught warnings and measured memory are the whole process's


class ClusterProblem(FirstsightError):
    """A cluster does not answer, goes away or is not as it must be; what was finished is kept."""


class DataNotHere(Exception):
    """The data set is not where the order says: this machine does not share that disk."""


def begin(parent: int, log: str) -> None:
    """Prepare a worker process of this machine: quiet, and ended when its parent is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    with open(log, "ab", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    with contextlib.suppress(OSError):  # some systems keep the name of an open file
        os.unlink(log)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(0)  # the parent was killed: nobody waits for what is being computed


def run_cell(order: str, features: Any = None, rest: dict[str, Any] | None = None) -> str:
    """Run one job; `features` and the `rest` of its data set are handed over where no disk is shared."""
    asked = json.loads(order)
    refuse_other_version(version_here(), socket.gethostname(), asked["version"])

    from firstsight.experiments.jobs import run_job
    from firstsight.experiments.plan import Job

    with _one_at_a_time:
        dataset = _open(asked["identity"], Path(asked["data"]), features, rest)
        job = Job(**{**asked["job"], "settings": tuple(asked["job"]["settings"])})
        # Without a common disk nobody else could go on from a checkpoint.
        checkpoint = None if rest is not None else Path(asked["checkpoint"])
        records = run_job(job, dataset, asked["features"], checkpoint, asked["calibrate"])
    return json.dumps([record.as_json() for record in records], ensure_ascii=False)


def version_here() -> str:
    """The version of firstsight in this process."""
    import firstsight

    return firstsight.__version__


def refuse_other_version(there: str, where: str, here: str) -> None:
    """Records of one run must come from one firstsight."""
    if there != here:
        raise ClusterProblem(
            f"The worker at {where} has firstsight {there}, and this is {here}; install the same version everywhere."
        )


def _open(identity: str, folder: Path, features: Any, rest: dict[str, Any] | None) -> ZeroShotDataset:
    from firstsight.data import ZeroShotDataset
    from firstsight.experiments.shared_data import open_shared, shared_identity

    if identity not in _opened:
        _opened.clear()  # let go of the one before
        if rest is not None:
            _opened[identity] = ZeroShotDataset(features=features, **rest)
        elif shared_identity(folder) == identity:
            _opened[identity] = open_shared(folder)
        else:
            raise DataNotHere(str(folder))
    return _opened[identity]
