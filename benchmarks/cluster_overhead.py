"""The same cells on worker processes of this machine (loky) and on a Dask cluster of as many workers on loopback.

    python benchmarks/cluster_overhead.py [--methods eszsl,sae,…] [--seeds 2] [--workers 2] [--repeats 3]

The two take turns; medians are compared. Processes are new in every run, and load torch in it: loky starts its own, and
those of the cluster are started anew just before. `between` is what a run takes beyond the seconds of its cells, shared
by the workers: loading, sending, scheduling and writing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import firstsight


def timed(engine: dict[str, object], words: argparse.Namespace) -> tuple[float, float]:
    """Seconds of a benchmark, and those beyond its cells."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        firstsight.benchmark(
            words.methods.split(","), "glyphs", seeds=words.seeds, out=folder, progress=False, **engine
        )
        seconds = time.perf_counter() - began
        lines = [json.loads(line) for path in Path(folder).glob("*.jsonl") for line in path.read_text().splitlines()]
    assert all(line["status"] == "done" for line in lines)
    # The settings of one fit share it: its seconds are counted once.
    fits = {(line["method"], line["seed"]): line["fit_seconds"] for line in lines}
    judged = sum(line["seconds"] - line["fit_seconds"] for line in lines)
    return seconds, seconds - (sum(fits.values()) + judged) / words.workers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="eszsl,sae,conse,sync,ale,devise")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    words = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # of both kinds of workers

    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=words.workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        engines: dict[str, dict[str, object]] = {"loky": {"processes": words.workers}, "dask": {"engine": client}}
        timed(engines["dask"], words)  # data and libraries have been read once
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in engines}
        for _ in range(words.repeats):
            for name, engine in engines.items():
                if name == "dask":
                    client.restart()
                found[name].append(timed(engine, words))
                print(
                    f"{name}: {found[name][-1][0]:.2f} s, of which between cells {found[name][-1][1]:.2f} s", flush=True
                )
    seconds = {name: statistics.median(one for one, _ in runs) for name, runs in found.items()}
    print(f"median: loky {seconds['loky']:.2f} s, dask {seconds['dask']:.2f} s")
    print(f"dask / loky: {seconds['dask'] / seconds['loky']:.3f} (at most 1.05 wanted)")


if __name__ == "__main__":
    main()
