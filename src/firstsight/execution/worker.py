"""A worker process: jobs come in as lines of JSON, records go out; it ends when nobody is left to send any.

Started as `python -P -m firstsight.execution.worker THREADS` with the thread limits already in its environment, because
numerical libraries read these when they are loaded.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstsight.data import ZeroShotDataset


def main() -> None:
    """Run jobs until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not mix with records
    jobs: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(jobs,), daemon=True).start()

    import torch

    torch.set_num_threads(int(sys.argv[1]))
    opened: dict[str, ZeroShotDataset] = {}
    while True:
        out.write(answer(jobs.get(), opened) + "\n")
        out.flush()


def answer(line: str, opened: dict[str, ZeroShotDataset]) -> str:
    """Run one job; `opened` keeps the data set for the next one."""
    from firstsight.execution.plan import Job
    from firstsight.execution.run_job import run_job
    from firstsight.execution.shared_data import open_shared

    order = json.loads(line)
    if order["data"] not in opened:
        opened.clear()  # let go of the one before
        opened[order["data"]] = open_shared(Path(order["data"]))
    job = Job(**{**order["job"], "settings": tuple(order["job"]["settings"])})
    dataset, checkpoint = opened[order["data"]], Path(order["checkpoint"])
    records = run_job(job, dataset, order["features"], checkpoint, order["calibrate"])
    return json.dumps([record.as_json() for record in records], ensure_ascii=False)


def _listen(jobs: queue.Queue[str]) -> None:
    for line in sys.stdin:
        jobs.put(line)
    os._exit(0)  # the parent has finished, or was killed: nobody waits for what is being computed


if __name__ == "__main__":
    main()
