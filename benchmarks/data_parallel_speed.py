"""One fit by two processes against one process: seconds of an outer iteration, and the loss curves of both.

    python benchmarks/data_parallel_speed.py [--shape AwA1] [--batch-size 256] [--turns 3]

Every process has one thread. Both kinds are run in turns, on random features; the ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
from training_speed import SHAPES, make

from firstsight.devices import data_parallel
from firstsight.methods import DeepEmbedding


def fit(given: argparse.Namespace) -> list[dict[str, float]]:
    """The history of a short fit."""
    X, y, A = make(SHAPES[given.shape])
    model = DeepEmbedding(iterations=given.iterations, batch_size=given.batch_size, random_state=0)
    return model.fit(X.numpy(), y.numpy(), A.numpy()).history_


def one_process(given: argparse.Namespace) -> None:
    """What a child does: fit alone, or together with the others, and print the history."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="The embedding has collapsed")  # random features teach nothing
    if given.processes == 1:
        print(json.dumps(fit(given)))
        return
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{given.meeting}", rank=given.rank, world_size=given.processes
    )
    with data_parallel():
        history = fit(given)
    print(json.dumps(history))
    torch.distributed.destroy_process_group()


def start(given: argparse.Namespace, processes: int) -> list[dict[str, float]]:
    """Run so many children together; the history of the first."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, f"--shape={given.shape}", f"--batch-size={given.batch_size}"]
        words += [f"--iterations={given.iterations}", f"--processes={processes}", f"--meeting={folder}/meeting"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        runs = [
            subprocess.Popen([*words, f"--rank={rank}"], env=environment, stdout=subprocess.PIPE, text=True)
            for rank in range(processes)
        ]
        printed = [run.communicate()[0] for run in runs]
    history: list[dict[str, float]] = json.loads(printed[0])
    return history


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="AwA1", choices=SHAPES)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--meeting", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank is not None:
        one_process(given)
        return
    seconds: dict[int, list[float]] = {1: [], 2: []}
    curves = {}
    for _ in range(given.turns):
        for processes, found in seconds.items():
            history = start(given, processes)
            found += [step["seconds"] for step in history[1:]]  # the first warms up
            curves[processes] = np.array([step["loss"] for step in history])
    one, two = (np.median(seconds[processes]) for processes in (1, 2))
    apart = np.abs(curves[2] / curves[1] - 1).max()
    print(f"{given.shape}, batches of {given.batch_size}: one process {one:.3f} s, two {two:.3f} s an iteration")
    print(f"speed-up {one / two:.2f}; losses differ by at most {apart:.1e} of themselves")


if __name__ == "__main__":
    main()
