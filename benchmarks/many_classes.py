"""The five best of 100,000 classes for every row: rate beside the bare matrix product, memory, and an index instead.

    python benchmarks/many_classes.py [--classes 100000] [--features 512] [--rows 2000] [--index]

Classes are scored by ESZSL, so that the bare product is that of the mapped rows and of the descriptions; it is timed
twice in the same process. `--index` builds an HNSW graph over the same vectors (pip install usearch), and prints how
long this takes, its rate, and its recall: how many of the five best it finds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

from firstsight.methods import ESZSL
from firstsight.methods.base import scale

TOP, ATTRIBUTES = 5, 85


def peak_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10


def bare(X: np.ndarray, E: np.ndarray) -> float:
    """Seconds of the product alone, in blocks of 4096 classes."""
    began = time.perf_counter()
    for start in range(0, len(E), 4096):
        X @ E[start : start + 4096].T
    return time.perf_counter() - began


def try_index(X: np.ndarray, E: np.ndarray, names: np.ndarray) -> None:
    from usearch.index import Index

    began = time.perf_counter()
    index = Index(ndim=E.shape[1], metric="ip", dtype="f32")
    index.add(np.arange(len(E)), E)
    built = time.perf_counter() - began
    print(f"index: built in {built:.1f} s", flush=True)
    for breadth in (64, 512, 4096):
        index.expansion_search = breadth
        began = time.perf_counter()
        keys = index.search(X, TOP).keys.reshape(len(X), -1)
        seconds = time.perf_counter() - began
        recall = np.mean([len(np.intersect1d(a, b)) for a, b in zip(keys, names, strict=True)]) / TOP
        first = np.mean(keys[:, 0] == names[:, 0])
        found = f"recall of {TOP} {recall:.3f}, of the best one {first:.3f}"
        print(f"index, breadth {breadth}: {len(X) / seconds:,.0f} rows/s, {found}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--index", action="store_true")
    words = parser.parse_args()
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.uniform(size=(words.classes, ATTRIBUTES)).astype(np.float32))
    mixing = random.normal(size=(ATTRIBUTES, words.features)).astype(np.float32)

    def rows_of(classes: np.ndarray) -> np.ndarray:
        noise = random.normal(size=(len(classes), words.features))
        return (table.to_numpy()[classes] @ mixing + noise).astype(np.float32)

    y = random.integers(0, 200, 4000)
    model = ESZSL().fit(rows_of(y), y, table.iloc[:200])
    X = rows_of(random.integers(0, words.classes, words.rows))
    before = peak_mib()
    began = time.perf_counter()
    names, _ = model.top_k(X, TOP, classes=table)
    seconds, more = time.perf_counter() - began, peak_mib() - before
    E = np.ascontiguousarray(scale("unit", {}, table.to_numpy()))  # ESZSL's own scaling
    mapped = X @ model.weights_
    product = (bare(mapped, E) + bare(mapped, E)) / 2
    whole = words.rows * words.classes * 4 / 2**20
    print(f"{words.rows:,} rows, {words.classes:,} classes, {words.features} features", flush=True)
    print(f"top_k: {len(X) / seconds:,.0f} rows/s, {seconds:.1f} s, {seconds / product:.2f} × the bare product")
    print(f"memory: {more:,.0f} MiB more; the table of scores would take {whole:,.0f} MiB", flush=True)
    if words.index:
        try_index(mapped, E, names)


if __name__ == "__main__":
    main()
