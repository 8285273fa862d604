"""What firstsight writes, as operations on a folder that campaigns disturb: what was before, and what must come out."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from firstsight._io import folders as folder_exchange
from firstsight.cli.main import main
from firstsight.data import ZeroShotDataset, write_npz
from firstsight.data.feature_files import FeatureFile, write_feature_file
from firstsight.evaluation import fit_on
from firstsight.experiments import executors
from firstsight.methods import ESZSL, KernelPrototypes
from firstsight.persistence.model_folder import load_saved, save
from jobs_here import Here

DEEP = ["embedding_dim=4", "iterations=2", "batch_size=64", "semantic_steps=1", "separation=1"]
CLOCK = ("seconds", "fit_seconds", "cpu_seconds", "peak_mib", "resumed", "date")


@dataclass(frozen=True)
class Operation:
    """`before(place)` makes the folder as it is, `run(place)` writes to it, `result(place)` is what must be equal."""

    name: str
    run: Callable[[Path], object]
    result: Callable[[Path], object]
    before: Callable[[Path], object] = lambda place: None


class Refused(Exception):
    """A command ended with an error: its output."""


def command(*words: object) -> None:
    """A command in this process; what it says is kept for the case that it fails."""
    said = io.StringIO()
    argv, sys.argv = sys.argv, ["firstsight", *map(str, words)]
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit of a moment has hardly been trained
            main()
    except SystemExit as stopped:
        if stopped.code:
            raise Refused(said.getvalue()) from None
    finally:
        sys.argv = argv


@contextlib.contextmanager
def jobs_here(place: Path) -> Iterator[None]:
    """Jobs of a benchmark run in this process, caches and temporary files are in the folder that is watched."""

    import tempfile

    old, executors._LocalProcess, tempfile.tempdir = executors._LocalProcess, Here, str(place)
    environment = dict(os.environ)
    os.environ |= {"FIRSTSIGHT_CACHE": str(place / "cache"), "FIRSTSIGHT_CHECKPOINT_SECONDS": "0"}
    try:
        yield
    finally:
        executors._LocalProcess, tempfile.tempdir = old, None
        os.environ.clear()
        os.environ |= environment


def model_of(folder: Path) -> object:
    """What a model answers with, and where it says that it comes from; None if there is none."""
    if not folder.exists():
        return None
    saved = load_saved(folder)
    kept = {name: value for name, value in saved.provenance.as_json().items() if name not in CLOCK}
    return saved.model.classes_.tolist(), saved.file.arrays_sha256, json.dumps(kept, sort_keys=True)


def records_of(folder: Path) -> object:
    """Records without what the clock decides."""
    lines = [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    kept = [{name: value for name, value in line.items() if name not in CLOCK} for line in lines]
    return sorted(json.dumps(line, sort_keys=True) for line in kept)


def features_of(path: Path) -> object:
    with np.load(path) as arrays:
        return {
            name: (array.tolist() if array.dtype.kind != "f" else array.tobytes()) for name, array in arrays.items()
        }


def listing(place: Path) -> list[str]:
    """Every file and folder, hidden ones, too; names that are drawn by lot are one name."""
    names = (str(path.relative_to(place)) for path in place.rglob("*"))
    return sorted({re.sub(r"[0-9a-f]{32}", "*", name) for name in names})


def make_operations(inputs: Path, small: ZeroShotDataset) -> dict[str, Operation]:
    """All of them, by name; what they read is in `inputs`."""
    data = write_npz(small, inputs / "small.npz")
    one, other = (fit_on(ESZSL(feature_penalty=penalty), small) for penalty in (10.0, 1.0))
    table = inputs / "new.csv"
    small.descriptions.iloc[:2].rename(index=lambda name: f"new {name}").to_csv(table, index_label="class")
    prototypes = fit_on(KernelPrototypes(search=False, refinement=0, hidden=0), small)
    X, y = small.part("test_unseen")
    more = inputs / "more.npz"
    write_feature_file(more, FeatureFile(X[:4], list("abcd"), y[:4].tolist()))
    found = [
        Operation("save", lambda p: save(other, p / "m"), lambda p: model_of(p / "m"), lambda p: save(one, p / "m")),
        Operation("save in a new place", lambda p: save(other, p / "a" / "m"), lambda p: model_of(p / "a" / "m")),
        Operation(
            "save in two steps",
            lambda p: without_exchange(lambda: save(other, p / "m")),
            lambda p: model_of(p / "m"),
            lambda p: save(one, p / "m"),
        ),
        Operation(
            "classes add in two steps",
            lambda p: without_exchange(lambda: command("classes", "add", p / "m", table, "--replace")),
            lambda p: model_of(p / "m"),
            lambda p: save(one, p / "m"),
        ),
        Operation(
            "classes add",
            lambda p: command("classes", "add", p / "m", table, "--replace"),
            lambda p: model_of(p / "m"),
            lambda p: save(one, p / "m"),
        ),
        Operation(
            "add",
            lambda p: command("add", p / "m", more),
            lambda p: model_of(p / "m"),
            lambda p: save(prototypes, p / "m"),
        ),
        Operation(
            "fit",
            lambda p: command("fit", data, "--method", "eszsl", "--out", p / "m"),
            lambda p: model_of(p / "m"),
            lambda p: save(one, p / "m"),
        ),
        Operation(
            "fit with checkpoints",
            lambda p: command("fit", data, "--method", "deep-embedding", *_set(DEEP), "--confidence", "--out", p / "m"),
            lambda p: model_of(p / "m"),
        ),
        Operation(
            "tune",
            lambda p: command(
                "tune", data, "--method", "eszsl", "--grid", "feature_penalty=1,10", "--folds", 2, "--processes", 1,
                "--json", p / "choice.json",
            ),
            lambda p: json.loads((p / "choice.json").read_text()),
        ),
        Operation(
            "benchmark",
            lambda p: command("benchmark", data, "--methods", "eszsl,sae", "--processes", 1, "--out", p / "results"),
            lambda p: records_of(p / "results"),
        ),
    ]  # fmt: skip
    return {operation.name: operation for operation in found}


def make_picture_operations(inputs: Path, backbone: Path) -> dict[str, Operation]:
    """Those that look at pictures: eight classes of colours, two pictures each, one class without any."""
    random, rows = np.random.default_rng(0), ["class,red,green,blue"]
    for number, name in enumerate(["rose", "leaf", "sea", "sun", "lilac", "ice", "plum"]):
        mix = [number * 40 % 256, number * 90 % 256, 255 - number * 30]
        rows.append(f"{name},{','.join(str(part / 255) for part in mix)}")
        (inputs / "pictures" / name).mkdir(parents=True)
        for copy in range(2):
            pixels = np.clip(np.array(mix) + random.normal(scale=20, size=(40, 40, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(inputs / "pictures" / name / f"{copy}.png")
    (inputs / "classes.csv").write_text("\n".join([*rows, "peach,0.9,0.5,0.2"]) + "\n")
    common = ("--backbone", backbone, "--runtime", "torch")
    found = [
        Operation(
            "embed",
            lambda p: command("embed", inputs / "pictures", "--out", p / "features.npz", *common),
            lambda p: features_of(p / "features.npz"),
        ),
        Operation(
            "learn",
            lambda p: command(
                *("learn", inputs / "pictures", "--classes", inputs / "classes.csv", "--out", p / "m", *common),
                *("--method", "gfzsl"),  # what is disturbed are files; the usual method computes much longer
            ),
            lambda p: model_of(p / "m"),
        ),
    ]
    return {operation.name: operation for operation in found}


def without_exchange(run: Callable[[], object]) -> None:
    """As on a system that cannot swap two folders in one step."""
    kept, folder_exchange._exchange = folder_exchange._exchange, lambda one, other: False
    try:
        run()
    finally:
        folder_exchange._exchange = kept


def fresh(place: Path, template: Path) -> Path:
    """`place`, as `template` is and nothing else."""
    if place.exists():
        shutil.rmtree(place)
    shutil.copytree(template, place)
    return place


def _set(pairs: list[str]) -> list[str]:
    return [word for pair in pairs for word in ("--set", pair)]
