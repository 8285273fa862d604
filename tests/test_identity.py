"""The same data are the same on another processor, and other data are not."""

from __future__ import annotations

import numpy as np
import pytest

from firstsight._io.disk_samples import DiskSamples
from firstsight._io.identity import fingerprint, same_data

rng = np.random.default_rng(0)
KINDS = {
    "normal": rng.normal(size=(3000, 64)).astype(np.float32),
    "positive": rng.random((500, 2048), dtype=np.float32),
    "one hot": np.eye(173, 40, dtype=np.float32),
    "constant": np.ones((50, 3), dtype=np.float32),
    "tiny": rng.normal(size=(40, 5)).astype(np.float32) * 1e-30,
    "huge": rng.normal(size=(40, 5)).astype(np.float32) * 1e30,
    "one sample": rng.normal(size=(1, 7)).astype(np.float32),
}


@pytest.fixture(params=KINDS, name="X")
def _X(request):
    return KINDS[request.param]


@pytest.mark.parametrize("seed", range(5))
def test_values_that_differ_in_the_last_places_are_the_same_data(X, seed):
    off = np.random.default_rng(seed).integers(-2, 3, size=X.shape) * np.spacing(X)
    assert same_data(fingerprint("", X), fingerprint("", X + off.astype(np.float32)))


def test_a_vision_model_on_another_runtime_gives_the_same_data():
    X = KINDS["positive"]
    off = 1 + 1e-5 * np.random.default_rng(1).normal(size=X.shape)
    assert same_data(fingerprint("", X), fingerprint("", (X * off).astype(np.float32)))


def test_memory_layout_and_precision_do_not_matter(X):
    assert same_data(fingerprint("", X), fingerprint("", np.asfortranarray(X)))
    assert same_data(fingerprint("", X), fingerprint("", X.astype(np.float64)))


def _other(X, change):
    Z = X.copy()
    if change == "a sample replaced":
        Z[len(Z) // 2] = np.random.default_rng(5).permutation(Z[len(Z) // 2]) + Z.std() + 1e-3 * np.abs(Z).max()
    elif change == "two samples exchanged":
        Z[[0, -1]] = Z[[-1, 0]]
    elif change == "two columns exchanged":
        Z[:, [0, 1]] = Z[:, [1, 0]]
    elif change == "one value":
        Z[0, 0] += 5 * np.abs(Z).max()
    elif change == "scaled":
        Z *= 1.01
    elif change == "a sample less":
        Z = Z[1:]
    return Z


@pytest.mark.parametrize(
    "change",
    [
        *("a sample replaced", "two samples exchanged", "two columns exchanged"),
        *("one value", "scaled", "a sample less"),
    ],
)
@pytest.mark.parametrize("kind", ["normal", "positive", "one hot", "tiny", "huge"])
def test_other_values_are_other_data(kind, change):
    X = KINDS[kind]
    Z = _other(X, change)
    assert not np.array_equal(X, Z)
    assert not same_data(fingerprint("", X), fingerprint("", Z))


def test_a_row_among_a_hundred_thousand_still_counts():
    X = np.random.default_rng(2).normal(size=(100_000, 8)).astype(np.float32)
    Z = X.copy()
    Z[54_321] = -Z[54_321]
    assert not same_data(fingerprint("", X), fingerprint("", Z))


def test_whole_numbers_and_settings_are_compared_exactly():
    y = np.arange(5)
    assert same_data(fingerprint("a", y), fingerprint("a", y.copy()))
    assert not same_data(fingerprint("a", y), fingerprint("b", y))
    assert not same_data(fingerprint("a", y), fingerprint("a", y[::-1].copy()))
    assert not same_data(fingerprint("a", y), fingerprint("a", y.reshape(1, 5)))


def test_values_that_are_not_finite_are_counted_but_no_error():
    X = KINDS["normal"].copy()
    X[3, 4] = np.nan
    assert same_data(fingerprint("", X), fingerprint("", X))
    assert not same_data(fingerprint("", X), fingerprint("", KINDS["normal"]))


def test_samples_on_the_disk_are_the_same_data(tmp_path):
    X = KINDS["normal"]
    np.save(tmp_path / "X.npy", X)
    assert same_data(fingerprint("", X), fingerprint("", DiskSamples(tmp_path / "X.npy", memory=2**20)))


def test_text_that_is_no_fingerprint_equals_only_itself():
    assert same_data("6aeaf0e8cd603834", "6aeaf0e8cd603834")
    assert not same_data("6aeaf0e8cd603834", fingerprint("", KINDS["normal"]))
    assert not same_data("a.b!", "a.c!")
