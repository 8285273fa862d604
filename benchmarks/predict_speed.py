"""Naming a million rows among 200 and among 20,000 classes: time above the bare matrix products, and memory.

    python benchmarks/predict_speed.py [--rows 1000000] [--features 2048]

The bare products (φ of every row, and every row against every class) are timed on a twentieth of the rows, in the same
process and the same block size, before and after; memory is the peak above what the rows themselves take.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import pandas as pd
import torch

from firstsight.methods import DeepEmbedding

BLOCK_BYTES = 24 * 2**20  # as in methods/_scoring.py


def bare_products(X: np.ndarray, model, classes: int) -> float:
    W = torch.from_numpy(model.weights_["visual.weight"])
    E = torch.rand(classes, len(W))
    step = max(64, BLOCK_BYTES // (4 * (X.shape[1] + classes)))
    began = time.perf_counter()
    for start in range(0, len(X), step):
        (torch.from_numpy(X[start : start + step]) @ W.T) @ E.T
    return time.perf_counter() - began


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=2048)
    parser.add_argument("--classes", type=int, nargs="+", default=[200, 20_000])
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    few = rng.random((400, arguments.features), dtype=np.float32)
    model = DeepEmbedding(iterations=1, semantic_steps=1, random_state=0)
    model.fit(few, np.arange(400) % 50, rng.random((50, 312), dtype=np.float32))
    X = np.empty((arguments.rows, arguments.features), dtype=np.float32)
    block = rng.random((min(10_000, len(X)), arguments.features), dtype=np.float32)
    for start in range(0, len(X), len(block)):
        X[start : start + len(block)] = block[: len(X) - start]
    part = X[: max(1, len(X) // 20)]
    print(f"{len(X):,} rows × {X.shape[1]} features ({X.nbytes / 2**30:.1f} GiB), {torch.get_num_threads()} threads")
    for classes in arguments.classes:
        table = pd.DataFrame(rng.random((classes, 312), dtype=np.float32))
        bare_products(part, model, classes)  # warm up
        first = bare_products(part, model, classes)
        before, began = peak_bytes(), time.perf_counter()
        model.predict(X, classes=table)
        seconds = time.perf_counter() - began
        bare = (first + bare_products(part, model, classes)) / 2 * len(X) / len(part)
        print(
            f"{classes:6,} classes: {seconds:7.1f} s, {len(X) / seconds:9,.0f} rows/s, {seconds / bare:.2f} × the bare "
            f"products ({bare:.1f} s), {(peak_bytes() - before) / 2**20:.0f} MiB more memory at the peak",
            flush=True,
        )


if __name__ == "__main__":
    main()
