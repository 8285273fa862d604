"""Fits on features that are not loaded: rate against the same fit in memory, peak memory, and the bare costs.

    python benchmarks/rows_beyond_memory.py [--rows 2000000] [--features 2048] [--in-memory 100000] [--allowed-gib 1]

A file of simulated features is written to the temporary folder (16 GB by default; `--rows` for less) and removed at the
end; with `--keep FILE` it is written there, if it is not there yet, and left for another run. Every measurement runs in
a process of its own, so that its peak memory is its own. Rows per second from the disk are compared with those in
memory (on the first `--in-memory` rows) and with the bare costs of closed forms, the slower one of two: reading the
file, dropped from the system's cache before, as often as the method does; and its matrix products, if it has any for
each row. Rates per CPU second tell more where other programs are running. What a fit does after it has seen all rows
counts in both rates, and weighs more on few rows: the more `--in-memory`, the fairer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

CLASSES, ATTRIBUTES, BLOCK = 100, 85, 8192
METHODS = {
    "eszsl": {},
    "sae": {},
    "gfzsl": {},
    "kernel-prototypes": {"search": False, "refinement": 0},
    "deep-embedding": {"iterations": 1, "preset": "fast"},
}
PASSES = {"eszsl": 1, "sae": 1, "gfzsl": 1, "kernel-prototypes": 3}  # of closed forms
COMPONENTS = 512  # of kernel prototypes


def write(path: Path, rows: int, width: int) -> None:
    """Rows about one centre per class, block by block; row i is of class i mod CLASSES."""
    random = np.random.default_rng(0)
    centres = np.abs(random.normal(size=(CLASSES, width))).astype(np.float32)
    noise = random.normal(size=(BLOCK, width)).astype(np.float32)  # one block of it, shifted: drawing would take hours
    unfinished = path.with_suffix(".part")  # a file that is kept is whole
    out = np.lib.format.open_memmap(unfinished, "w+", np.float32, (rows, width))
    for start in range(0, rows, BLOCK):
        numbers = np.arange(start, min(start + BLOCK, rows))
        out[numbers] = centres[numbers % CLASSES] + np.roll(noise, start // BLOCK, axis=1)[: len(numbers)]
    out.flush()
    unfinished.replace(path)


def forget(path: Path) -> None:
    """Let the system drop the file from its cache, so that it is read from the disk."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(what: str, path: Path, rows: int, allowed: int) -> None:
    """Print seconds, rows and the peak of memory of one measurement, as JSON."""
    from firstsight._io.disk_samples import DiskSamples

    X = DiskSamples(path, memory=allowed)
    kind, _, method = what.partition(" ")
    if kind == "read":
        forget(path)
        began, used = time.perf_counter(), time.process_time()
        with path.open("rb", buffering=0) as file:
            into = memoryview(bytearray(2**24))
            while file.readinto(into):
                pass
        seconds, cpu, rows = time.perf_counter() - began, time.process_time() - used, len(X)
    elif kind == "products":
        block = X[:BLOCK]
        began, used = time.perf_counter(), time.process_time()
        for _ in range(3):
            products(method, block)
        seconds, cpu, rows = time.perf_counter() - began, time.process_time() - used, 3 * len(block)
    else:
        from firstsight.methods import make_estimator

        model = make_estimator(method, METHODS[method], random_state=0)
        descriptions = np.random.default_rng(1).uniform(size=(CLASSES, ATTRIBUTES))
        rows = len(X) if kind == "disk" else min(rows, len(X))
        given = X if kind == "disk" else X[:rows]
        if kind == "disk":
            forget(path)
        began, used = time.perf_counter(), time.process_time()
        model.fit(given, np.arange(rows) % CLASSES, descriptions)
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
    print(json.dumps({"seconds": seconds, "cpu": cpu, "rows": rows, "peak_gib": peak_gib()}))


def products(method: str, rows: np.ndarray) -> None:
    """All matrix products that the method makes of rows."""
    if method != "kernel-prototypes":
        exact = rows.astype(np.float64)
        exact.T @ exact
        return
    basis = np.ones((rows.shape[1], min(rows.shape[1], COMPONENTS)), np.float32)
    rows.T @ rows
    turned = (rows @ basis).astype(np.float64)
    turned.T @ turned
    (rows @ basis) @ basis[: basis.shape[1]]


def peak_gib() -> float:
    """The most that this process had resident; getrusage would count what its parent had when it was started."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--features", type=int, default=2048)
    parser.add_argument("--in-memory", type=int, default=100_000)
    parser.add_argument("--allowed-gib", type=float, default=1.0)
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "FILE"), help=argparse.SUPPRESS)
    words = parser.parse_args()
    allowed = int(words.allowed_gib * 2**30)
    if words.measure:
        measure(words.measure[0], Path(words.measure[1]), words.in_memory, allowed)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = words.keep or Path(folder) / "features.npy"
        if not path.exists():
            write(path, words.rows, words.features)
        shape = np.load(path, mmap_mode="r").shape
        print(f"{shape[0]:,} × {shape[1]} float32: {path.stat().st_size / 2**30:.1f} GiB", flush=True)

        def run(what: str) -> dict[str, float]:
            command = [sys.executable, __file__, *sys.argv[1:], "--measure", what, str(path)]
            found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
            found["rate"] = found["rows"] / found["seconds"]
            each = f"{found['cpu'] / found['rows'] * 1e6:.1f} CPU µs per row"
            print(
                f"{what}: {found['rate']:,.0f} rows/s, {found['seconds']:.1f} s, {each}, {found['peak_gib']:.2f} GiB",
                flush=True,
            )
            return found

        read = run("read")["rate"]
        for method in filter(None, words.methods.split(",")):
            memory, disk = run(f"memory {method}"), run(f"disk {method}")
            per_cpu = memory["cpu"] / memory["rows"] * disk["rows"] / disk["cpu"]
            told = f"  {method}: {disk['rate'] / memory['rate']:.2f} of memory's rate, {per_cpu:.2f} per CPU second"
            if method in PASSES:
                bare = {"disk": read / PASSES[method]}
                if method != "gfzsl":  # which has sums alone
                    bare["products"] = run(f"products {method}")["rate"]
                slower = min(bare, key=lambda what: bare[what])
                told += f", {disk['rate'] / bare[slower]:.2f} of that of the bare {slower}"
            print(f"{told}, {disk['peak_gib']:.2f} GiB", flush=True)


if __name__ == "__main__":
    main()
