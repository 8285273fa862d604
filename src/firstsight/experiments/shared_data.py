"""A data set that several processes read without each holding a copy: its features as a mapped file."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from firstsight._io.disk_samples import LARGEST_BLOCK, DiskRows, blocks_of
from firstsight._io.files import remove_stale, write_atomically
from firstsight.data import ZeroShotDataset

_FEATURES = "features.npy"
_ARRAYS = ("labels", "description_matrix", "train", "test_seen", "test_unseen")
_NAMES = ("name", "class_names", "attribute_names")


def share(dataset: ZeroShotDataset, folder: Path, twin: Path | None = None) -> None:
    """Write what a fit needs of a data set; `twin` holds one with the same features, which need no second copy."""
    there = twin / _FEATURES if twin is not None else file_of(dataset)
    if there is None or not _linked(there, folder / _FEATURES):
        write_atomically(folder / _FEATURES, lambda path: _save(path, dataset.features))
    rest = rest_of(dataset)
    arrays = {name: rest.pop(name) for name in _ARRAYS}
    write_atomically(folder / "arrays.npz", lambda path: np.savez(path, **arrays))
    memory = dataset.features.memory if isinstance(dataset.features, DiskRows) else None
    names = {"identity": identity_of_data(dataset), "memory": memory, **rest}
    write_atomically(folder / "names.json", json.dumps(names, ensure_ascii=False))


def rest_of(dataset: ZeroShotDataset) -> dict[str, Any]:
    """What a fit needs besides the features."""
    return {name: getattr(dataset, name) for name in (*_ARRAYS, *_NAMES)}


def identity_of_data(dataset: ZeroShotDataset) -> str:
    """Changes when anything does that a fit is shown."""
    return f"{dataset.features_fingerprint}-{dataset.split_hash}"


def unshare(folder: Path) -> None:
    """Remove what `share` has written, and what writes that were killed have left of it; nothing else."""
    for name in (_FEATURES, "arrays.npz", "names.json"):
        remove_stale(folder / name)
        with suppress(OSError):
            (folder / name).unlink()
    with suppress(OSError):  # not there, or not ours alone
        folder.rmdir()


def shared_identity(folder: Path) -> str | None:
    """Which data set a folder holds, or None if it holds none."""
    try:
        identity: str = json.loads((folder / "names.json").read_text(encoding="utf-8"))["identity"]
    except OSError:
        return None
    return identity


def open_shared(folder: Path) -> ZeroShotDataset:
    """The data set that `share` wrote; its features stay on the disk until they are read."""
    names = json.loads((folder / "names.json").read_text(encoding="utf-8"))
    del names["identity"]
    on_disk = names.pop("memory")
    features: Any = np.load(folder / _FEATURES, mmap_mode="r")
    if on_disk is not None:
        features = DiskRows(folder / _FEATURES, memory=on_disk)
    with np.load(folder / "arrays.npz") as arrays:
        return ZeroShotDataset(features=features, **names, **{name: arrays[name] for name in _ARRAYS})


def file_of(dataset: ZeroShotDataset) -> Path | None:
    """The file that holds the features, these alone and all of them, if there is one."""
    features = dataset.features
    return features.path.resolve() if isinstance(features, DiskRows) and features.is_whole_file else None


def features_key(dataset: ZeroShotDataset) -> tuple[Any, ...]:
    """The same for data sets that have their features in common, as the folds of one have."""
    features = dataset.features
    if isinstance(features, DiskRows):
        return str(features.path), features.shape, id(features)
    return features.ctypes.data, features.shape, features.strides


def _save(path: Path, features: Any) -> None:
    out = np.lib.format.open_memmap(path, "w+", np.float32, features.shape)
    for part, rows in blocks_of(features, LARGEST_BLOCK):
        out[part] = rows
    out.flush()


def _linked(there: Path, here: Path) -> bool:
    try:
        here.parent.mkdir(parents=True, exist_ok=True)
        here.unlink(missing_ok=True)
        here.hardlink_to(there)
    except OSError:  # a file system without such links
        return False
    return True
