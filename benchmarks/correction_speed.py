"""What a correction costs in a running server: until it is acknowledged, and until the next answer has it.

    python benchmarks/correction_speed.py --backbone ../shared/backbones/resnet50 [--corrections 30] [--added 0 900]

200 classes, 150 of them with samples; a calibrated model of the backbone's features. Each picture is recognised first,
so that its features are known. `--added` samples are in the model before. What adding, writing the folder and reading
it take is measured in this process, without a server.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
from serve_load import Server, pictures

from firstsight.data.feature_files import FeatureFile
from firstsight.encoders import ImageEncoder
from firstsight.methods import IncrementalClassifier
from firstsight.recognition import Recognizer, learn

CLASSES, SEEN, ATTRIBUTES, EACH = 200, 150, 312, 8


def make_model(backbone: str, folder: Path) -> Recognizer:
    """A model with as many classes, attributes and features as one of birds; its samples are drawn at random."""
    encoder, random = ImageEncoder(backbone, cache=False), np.random.default_rng(0)
    names = [f"class {number:03d}" for number in range(CLASSES)]
    table = pd.DataFrame(random.random((CLASSES, ATTRIBUTES)), index=names).add_prefix("trait ")
    means = table.to_numpy() @ random.normal(size=(ATTRIBUTES, encoder.dim))
    labels = np.repeat(np.arange(SEEN), EACH)
    rows = (means[labels] + random.normal(scale=5, size=(len(labels), encoder.dim))).astype(np.float32)
    facts = {**encoder.facts, "path": str(Path(backbone).resolve())}
    file = FeatureFile(rows, [str(n) for n in range(len(rows))], [names[n] for n in labels], facts)
    return learn(file, table, parameters={"search": False}, out=folder)


def add_rows(folder: Path, count: int) -> None:
    with Recognizer.changing(folder) as changed:
        rows = np.random.default_rng(2).normal(size=(count, changed.model.n_features_in_)).astype(np.float32)
        changed.add_images(rows, [f"class {n % SEEN:03d}" for n in range(count)])


def milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


def describe(values: list[float]) -> str:
    return f"median {statistics.median(values):.0f} ms, largest {max(values):.0f} ms"


def in_process(folder: Path, times: int = 10) -> None:
    recognizer = Recognizer.load(folder)
    model = recognizer.model
    assert isinstance(model, IncrementalClassifier)
    row = np.random.default_rng(3).normal(size=(1, model.n_features_in_)).astype(np.float32)
    adding = [milliseconds(lambda: copy.copy(model).add_samples(row, ["class 199"])) for _ in range(times)]
    size = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
    print(f"  adding one sample: {describe(adding)}")
    writing = [milliseconds(lambda: recognizer.save(folder)) for _ in range(times)]
    print(f"  writing the folder ({size:.1f} MiB): {describe(writing)}")
    print(f"  reading it: {describe([milliseconds(lambda: Recognizer.load(folder)) for _ in range(times)])}")


def through_the_server(folder: Path, files: list[bytes]) -> None:
    server, changed = Server(folder, remember=256), 0
    acknowledged, effective = [], []
    try:
        with httpx.Client(base_url=server.url, headers={"X-Firstsight": "1"}, timeout=300) as client:
            for number, content in enumerate(files):
                upload = {"pictures": ("x.jpg", content)}
                options = {"why": "false", "reject_far": "false"}
                before = client.post("/api/predict", files=upload, data=options).json()["answers"][0]
                label = f"class {SEEN + number % (CLASSES - SEEN):03d}"
                began = time.perf_counter()
                answer = client.post("/api/corrections", files={"picture": ("x.jpg", content)}, data={"class": label})
                acknowledged.append(1000 * (time.perf_counter() - began))
                after = client.post("/api/predict", files=upload, data=options).json()["answers"][0]
                effective.append(1000 * (time.perf_counter() - began))
                assert answer.status_code == 201, answer.text
                assert after["in_training"] == "labelled"
                changed += after["top"] != before["top"]
    finally:
        server.stop()
    print(f"  {len(files)} corrections, acknowledged: {describe(acknowledged)}")
    print(f"  {len(files)} corrections, in the next answer: {describe(effective)}; {changed} answers differ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", required=True, help="a folder with a vision model")
    parser.add_argument("--corrections", type=int, default=30)
    parser.add_argument("--added", type=int, nargs="*", default=[0, 900])
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for added in given.added:
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            make_model(given.backbone, model)
            if added:
                add_rows(model, added)
            print(f"{CLASSES} classes, {added} samples added before")
            in_process(model)
            through_the_server(model, pictures(given.corrections, 320))


if __name__ == "__main__":
    main()
