"""Whether load, save and predict cost more than they did at another commit: ratios of CPU time, measured in one run.

    git worktree add ../before COMMIT
    python benchmarks/before_and_after.py ../before [--methods ESZSL GFZSL DeepEmbedding] [--features 2048]

The old source and this one each fit the same rows (of CUB's size) in a process of their own, which then waits; the
two take turns at every operation, so that whatever else the machine does meets both. CPU time leaves out what others
take.
"""

from __future__ import annotations

import argparse
import inspect
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

OPERATIONS = ("load", "save", "predict 1 row", "predict 1,500 rows")
TURN_SECONDS = 0.05  # of CPU time, so that the clock's steps do not count


def operations(source: Path, method: str, features: int, folder: Path) -> dict[str, Callable[[], object]]:
    import numpy as np

    import firstsight

    if not Path(firstsight.__file__).is_relative_to(source.resolve()):
        sys.exit(f"firstsight was imported from {firstsight.__file__}; give a checkout that holds src/firstsight.")
    rng = np.random.default_rng(0)
    X = rng.random((1500, features), dtype=np.float32)
    cls = getattr(firstsight, method)
    # Deep embeddings have learned to scale rows since: that is a better method, not a slower package.
    wishes = {"random_state": 0, "preset": "fast", "iterations": 2, "feature_length": 0}
    model = cls(**{name: value for name, value in wishes.items() if name in inspect.signature(cls).parameters})
    model.fit(X, np.arange(len(X)) % 150, rng.random((200, 312), dtype=np.float32))
    firstsight.save(model, folder)
    return {
        "load": lambda: firstsight.load(folder),
        "save": lambda: firstsight.save(model, folder),
        "predict 1 row": lambda: model.predict(X[:1]),
        "predict 1,500 rows": lambda: model.predict(X),
    }


def serve(source: str, method: str, features: str, folder: str) -> None:
    """The child: for each line (an operation's name) the CPU seconds of one call."""
    known = operations(Path(source), method, int(features), Path(folder))
    calls = {}
    for name, call in known.items():
        call()
        began = time.process_time()
        call()
        calls[name] = max(1, round(TURN_SECONDS / max(time.process_time() - began, 1e-6)))
    print("ready", flush=True)
    for line in sys.stdin:
        name = line.strip()
        began = time.process_time()
        for _ in range(calls[name]):
            known[name]()
        print((time.process_time() - began) / calls[name], flush=True)


def start(source: Path, method: str, features: int, folder: Path) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", __file__, "--serve", str(source), method, str(features), str(folder)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(child: subprocess.Popen[str], name: str) -> float:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(name + "\n")
    child.stdin.flush()
    return float(child.stdout.readline())


def compare(sources: list[Path], method: str, features: int, turns: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        children = [start(source, method, features, Path(scratch) / str(place)) for place, source in enumerate(sources)]
        try:
            for child, source in zip(children, sources, strict=True):
                assert child.stdout is not None
                if child.stdout.readline() != "ready\n":
                    sys.exit(f"{method} could not be fitted with {source}; its message is above.")
            for name in OPERATIONS:
                # Who begins changes from turn to turn: the second finds other caches than the first.
                taken: tuple[list[float], list[float]] = ([], [])
                for turn in range(turns):
                    for which in (0, 1) if turn % 2 else (1, 0):
                        taken[which].append(ask(children[which], name))
                old, new = taken
                print(
                    f"{method:18} {name:18} {1e3 * median(old):9.3f} → {1e3 * median(new):9.3f} ms   "
                    f"median × {median(new) / median(old):.2f}   minimum × {min(new) / min(old):.2f}",
                    flush=True,
                )
        finally:
            for child in children:
                child.kill()
                child.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old_source", type=Path, help="a checkout of the other commit")
    parser.add_argument("--methods", nargs="+", default=["ESZSL", "GFZSL", "DeepEmbedding"])
    parser.add_argument("--features", type=int, default=2048, help="few show what checks and bookkeeping cost")
    parser.add_argument("--turns", type=int, default=40)
    arguments = parser.parse_args()
    for method in arguments.methods:
        compare([arguments.old_source, Path(__file__).parents[1]], method, arguments.features, arguments.turns)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(*sys.argv[2:])
    else:
        main()
