"""Worker processes of this machine, each a loky executor of one process.

loky rather than the standard ProcessPoolExecutor, because it gives a process an environment of its own (numerical
libraries read the thread limits when they are loaded), says how a process died, kills one that is busy, and does not
execute the caller's script again. One executor per process, because a death breaks a whole executor: so it costs the
one cell that ran there, and is known to be that cell's.
"""

from __future__ import annotations

import os
import re
import tempfile
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from firstsight.child_processes import without_current_folder
from firstsight.data import ZeroShotDataset
from firstsight.errors import BadInput
from firstsight.execution.worker import begin, run_cell

# What the numerical libraries read when they are loaded.
_THREAD_LIMITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class WorkerDied(Exception):
    """The process that ran a cell is no more; the message is one sentence for its record."""


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worker_count(processes: int | None) -> int:
    """How many worker processes are meant: all processors for None and, as in scikit-learn, for -1."""
    if processes is None or processes == -1:
        return cores()
    if processes < 1:
        raise BadInput(f"`processes` must be at least 1, or -1 for all processors, but is {processes}.")
    return processes


class LocalWorkers:
    """So many processes. More threads than processors would make every one of them slower."""

    def __init__(self, processes: int):
        self.processes = processes
        set_already = os.environ.get("OMP_NUM_THREADS", "")  # who sets a limit means it
        limit = int(set_already[:9]) if set_already.isdecimal() else cores()
        self.threads = max(1, min(cores() // processes, limit))
        self._free: list[_Process] = []
        self._busy: dict[Future[str], _Process] = {}
        self._ending = ExitStack()

    def __enter__(self) -> LocalWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def slots(self) -> int:
        """One cell at a time per process."""
        return self.processes

    def submit(self, order: str, dataset: ZeroShotDataset) -> Future[str]:
        """Begin a cell in a process that is free; the data set is where the order says."""
        process = self._free.pop() if self._free else self._start()
        future = process.submit(order)
        self._busy[future] = process
        return future

    def answer(self, future: Future[str]) -> str:
        """What a cell has brought."""
        process = self._busy.pop(future)
        try:
            text = future.result()
        except BrokenProcessPool as broken:
            raise WorkerDied(process.last_words(str(broken))) from None
        self._free.append(process)
        return text

    def _start(self) -> _Process:
        started = _Process(self.threads)
        self._ending.callback(started.stop)
        return started


class _Process:
    def __init__(self, threads: int):
        from loky.process_executor import ProcessPoolExecutor

        # What libraries print, for the last words. The process removes its name, so that a kill leaves nothing behind.
        self._said, self._log = tempfile.mkstemp(prefix="firstsight-worker-")
        limits = dict.fromkeys(_THREAD_LIMITS, str(threads))
        about = {"initializer": begin, "initargs": (os.getpid(), self._log)}
        with without_current_folder():  # loky's own process, which removes what killed ones leave, starts here
            self._executor: Any = ProcessPoolExecutor(max_workers=1, env=limits, **about)

    def submit(self, order: str) -> Future[str]:
        with without_current_folder():  # the first submission starts the process
            future: Future[str] = self._executor.submit(run_cell, order)
        return future

    def last_words(self, told: str) -> str:
        """How it ended. loky tells the exit code in the text of its error alone: "…are {SIGKILL(-9)}"."""
        match = re.search(r"\((-?\d+)\)\}", told)
        if match is None:
            return "The process that ran this cell ended unexpectedly."
        code = int(match[1])
        with open(self._said, errors="replace", closefd=False) as log:
            log.seek(0)
            lines = log.read().strip().splitlines()
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        hint = "; the machine may have run out of memory" if code == -9 else ""
        said = f": {lines[-1].strip()}" if lines and code > 0 else ""
        return f"The process that ran this cell {how}{said}{hint}."

    def stop(self) -> None:
        self._executor.shutdown(wait=True, kill_workers=True)
        os.close(self._said)
        Path(self._log).unlink(missing_ok=True)
