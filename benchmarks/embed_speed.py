"""How much faster ONNX Runtime encodes pictures than PyTorch, measured in turns in one process.

    python benchmarks/embed_speed.py PICTURES BACKBONE [--repeats 5] [--batch-size 32]

Prints seconds per picture (median over the repeats) of the model alone and of the whole way from files to features, the
largest difference between the two runtimes' features, and the ratio that `runtime="auto"` relies on. Times are CPU
seconds beside wall-clock ones, because the former hardly depend on what else the machine is doing.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from firstsight.encoders import ImageEncoder, find_images
from firstsight.encoders.backbone import Backbone, open_runtime
from firstsight.encoders.decoding import decode_image

RUNTIMES = ("torch", "onnx")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", type=Path)
    parser.add_argument("backbone")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    arguments = parser.parse_args()
    paths = find_images(arguments.pictures)[0]

    backbone = Backbone(arguments.backbone)
    batch = np.stack([backbone.prepare(decode_image(p.read_bytes())) for p in paths[: arguments.batch_size]])
    models = {r: open_runtime(r, backbone, batch[0], len(paths))[1] for r in RUNTIMES}
    compare(f"the model alone, {len(batch)} pictures at once", models, batch, len(batch), arguments.repeats)

    encoders = {
        r: ImageEncoder(arguments.backbone, runtime=r, cache=False, batch_size=arguments.batch_size) for r in RUNTIMES
    }
    whole = {r: lambda given, encoder=encoder: encoder.encode(given).features for r, encoder in encoders.items()}
    compare(f"files to features, {len(paths)} pictures", whole, paths, len(paths), arguments.repeats)


def compare(what: str, runs: dict[str, Callable], given, count: int, repeats: int) -> None:
    """Run each in turn, after one run that does not count; print medians, the ratio and the largest difference."""
    features = {name: run(given) for name, run in runs.items()}
    cpu: dict[str, list[float]] = {name: [] for name in runs}
    wall: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            began, began_cpu = time.perf_counter(), time.process_time()
            run(given)
            wall[name].append((time.perf_counter() - began) / count)
            cpu[name].append((time.process_time() - began_cpu) / count)
    print(what)
    for name in runs:
        print(f"  {name:5}  {statistics.median(wall[name]):.4f} s a picture, CPU {statistics.median(cpu[name]):.4f} s")
    for kind, times in (("wall-clock", wall), ("CPU", cpu)):
        ratios = [slow / fast for slow, fast in zip(times["torch"], times["onnx"], strict=True)]
        print(f"  torch / onnx, {kind}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    print(f"  largest difference between features: {np.abs(features['torch'] - features['onnx']).max():.1e}")


if __name__ == "__main__":
    main()
