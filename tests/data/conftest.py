"""A small data set, as arrays and as the files of every format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io

NAMES = ["ant", "bee", "cow", "dog", "elk", "fox", "gnu", "hen"]


@pytest.fixture
def arrays() -> dict:
    """Eight classes of ten rows; the last two are unseen. Shuffled, so that no order helps by luck."""
    random = np.random.default_rng(3)
    labels = random.permutation(np.repeat(np.arange(8), 10))
    of_seen = [np.flatnonzero(labels == code) for code in range(6)]
    attributes = random.normal(size=(8, 5))
    return {
        "name": "small",
        "features": random.normal(size=(80, 7)).astype(np.float32),
        "labels": labels,
        "class_names": tuple(NAMES),
        "description_matrix": (attributes / np.linalg.norm(attributes, axis=1, keepdims=True)).astype("f4"),
        "train": np.concatenate([rows[2:] for rows in of_seen]),
        "test_seen": np.concatenate([rows[:2] for rows in of_seen]),
        "test_unseen": np.flatnonzero(labels >= 6),
    }


@pytest.fixture
def att_splits(arrays) -> dict:
    """The variables of att_splits.mat, as MATLAB would hold them."""
    cells = np.empty((8, 1), dtype=object)
    cells[:, 0] = NAMES
    return {
        "allclasses_names": cells,
        "att": arrays["description_matrix"].T.astype(float),
        "original_att": arrays["description_matrix"].T * 3.0,
        "trainval_loc": (arrays["train"] + 1).astype(np.uint16)[:, None],
        "test_seen_loc": (arrays["test_seen"] + 1.0)[:, None],
        "test_unseen_loc": (arrays["test_unseen"] + 1.0)[:, None],
    }


@pytest.fixture
def res101(arrays) -> dict:
    return {
        "image_files": np.array([[f"{i}.jpg"] for i in range(80)], dtype=object),
        "features": arrays["features"].T.astype(float),
        "labels": (arrays["labels"] + 1.0)[:, None],
    }


@pytest.fixture
def folder(tmp_path, att_splits, res101) -> Path:
    """An xlsa17 folder in MATLAB v5."""
    place = tmp_path / "SMALL"
    place.mkdir()
    scipy.io.savemat(place / "att_splits.mat", att_splits, do_compression=True)
    scipy.io.savemat(place / "res101.mat", res101, do_compression=True)
    return place


@pytest.fixture
def save_hdf5() -> Callable[[Path, dict], None]:
    """Write variables the way MATLAB's -v7.3 does: text first, arrays transposed, cells as references."""

    def save(path: Path, variables: dict) -> None:
        with h5py.File(path, "w", userblock_size=512) as file:
            for name, value in variables.items():
                if value.dtype != object:
                    stored = file.create_dataset(name, data=value.T, chunks=True, compression="gzip")
                    stored.attrs["MATLAB_class"] = np.bytes_("double")
                    continue
                references = np.empty((1, value.size), dtype=h5py.ref_dtype)
                for i, text in enumerate(value.ravel()):
                    codes = np.array([[ord(letter)] for letter in text], dtype=np.uint16)
                    references[0, i] = file.create_dataset(f"#refs#/{name}{i}", data=codes).ref
                file.create_dataset(name, data=references, dtype=h5py.ref_dtype)
        with path.open("r+b") as file:
            file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")

    return save
