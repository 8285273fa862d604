"""The paper's embedding map: test rows and class embeddings of three spaces, laid out in the plane by t-SNE."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from firstsight._io.files import write_atomically
from firstsight.data import ZeroShotDataset
from firstsight.data.array_files import read_arrays
from firstsight.errors import UnreadableFile
from firstsight.evaluation import fit_on
from firstsight.evaluation.spaces import lay_out
from firstsight.experiments.jobs import estimator_of
from firstsight.experiments.plan import Job
from firstsight.experiments.records import records_file
from firstsight.experiments.session import CHECKPOINTS, remove_if_empty

POINTS = 1500
CLASSES = {"all": 20, "unseen": 8}
SPACES = {"inductive": "deep-embedding", "transductive": "transductive-deep-embedding"}


def map_file(folder: Path, dataset: str) -> Path:
    """Where the map of a data set is."""
    return folder / "maps" / records_file(folder, dataset).with_suffix(".npz").name


def is_current(path: Path, dataset: ZeroShotDataset) -> bool:
    """Whether the map is there, and of this split."""
    try:
        return str(read_arrays(path, ("split",)).get("split")) == dataset.split_hash
    except UnreadableFile:  # not there, or damaged
        return False


def make_map(
    dataset: ZeroShotDataset,
    folder: Path,
    given: dict[str, dict[str, Any]],
    seed: int = 0,
    tell: Callable[[str], None] = lambda words: None,
) -> Path:
    """Fit both deep embeddings (generalized setting) and write the coordinates.

    For `all` (half of the classes seen, half unseen) and `unseen`: `<which>_labels` (n,) positions in
    `<which>_names` (k,), `<which>_seen` (k,), and for each space `<space>_<which>_points` (n, 2) and
    `<space>_<which>_classes` (k, 2), which is (0, 2) for the visual space, where no class has a place.
    """
    checkpoints = folder / CHECKPOINTS / "maps"
    models, used = {}, []
    for space, method in SPACES.items():
        tell(f"{dataset.name}: fitting {method}")
        job = Job(dataset.name, method, ("gzsl",), seed, given.get(method, {}), study="map")
        used.append(checkpoints / f"{job.fingerprint()}.safetensors")
        models[space] = fit_on(estimator_of(job, used[-1]).set_params(verbose=True), dataset)
    arrays: dict[str, Any] = {"split": dataset.split_hash, "dataset": dataset.name}
    random = np.random.default_rng(seed)
    for which in CLASSES:
        rows, names = _choose(dataset, which, random)
        arrays[f"{which}_names"] = np.array(names)
        arrays[f"{which}_seen"] = np.isin(names, dataset.seen_classes)
        arrays[f"{which}_labels"] = np.array([names.index(name) for name in dataset.names_of(rows)])
        X = dataset.features[rows]
        spaces = {"visual": (X, None)}
        spaces |= {space: (model.embed(X), model.embed_classes(names)) for space, model in models.items()}
        for space, (samples, classes) in spaces.items():
            tell(f"{dataset.name}: laying out the {space} space, {which} classes")
            points, squares = lay_out(samples, classes, seed)
            arrays |= {f"{space}_{which}_points": points, f"{space}_{which}_classes": squares}
    path = map_file(folder, dataset.name)
    write_atomically(path, lambda place: np.savez(place, **arrays))
    for checkpoint in used:
        checkpoint.unlink(missing_ok=True)
    remove_if_empty(checkpoints)
    remove_if_empty(checkpoints.parent)
    return path


def _choose(dataset: ZeroShotDataset, which: str, random: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    """Some classes and some of their test rows, the same for everybody who gives the same seed."""
    groups = [dataset.unseen_classes]
    if which == "all":
        groups.append(np.unique(dataset.names_of(dataset.test_seen)).tolist())
    names: list[str] = []
    for group in groups:
        size = min(CLASSES[which] // len(groups), len(group))
        names += [group[i] for i in np.sort(random.permutation(len(group))[:size])]
    rows = np.sort(np.concatenate([dataset.test_seen, dataset.test_unseen]))
    rows = rows[np.isin(dataset.names_of(rows), names)]
    return np.sort(random.permutation(rows)[:POINTS]), names
