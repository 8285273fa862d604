from __future__ import annotations

import os
import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import firstsight
from firstsight._io.disk_samples import ChangedSamples, DiskSamples, blocks_of
from firstsight._io.identity import same_data
from firstsight.errors import BadInput, UnreadableFile
from firstsight.evaluation import fit_on
from firstsight.methods import ESZSL, GFZSL, SAE, DeepEmbedding, KernelPrototypes, all_methods
from firstsight.methods.deep_embedding.alternating import SamplesOnDisk

pytest.importorskip("torch")

import torch

LITTLE = 2**20  # the least that may be allowed: of wide rows, a few dozen at once


@pytest.fixture
def wide(tmp_path):
    """Rows of which some 20 fit into the least memory, as an array and as a file of them."""
    X = np.random.default_rng(0).normal(size=(101, 1000)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    return X, DiskSamples(tmp_path / "x.npy", memory=LITTLE)


@pytest.fixture
def on_disk(small, tmp_path):
    """The small data set with its features in a file."""
    np.save(tmp_path / "features.npy", small.features)
    return replace(small, features=DiskSamples(tmp_path / "features.npy"))


@pytest.mark.parametrize(
    "key",
    [slice(None), slice(3, 9), slice(90, 500), slice(0, 0), slice(1, 60, 7), [5, 3, 3, 100], np.arange(0, 101, 9)],
)
def test_rows_of_a_file_are_those_of_the_array(wide, key):
    X, rows = wide
    assert np.array_equal(rows[key], X[key])
    some = np.array([100, 7, 7, 50, 0, 99, 98])
    assert np.array_equal(rows.take(some)[1:5], X[some][1:5])
    assert np.array_equal(rows.take(some).take([6, 0])[:], X[some][[6, 0]])


def test_blocks_are_no_larger_than_memory_allows_and_hold_every_row_once(wide):
    X, rows = wide
    assert 1 < rows.block < 30
    for one, there in ((rows, X), (rows.take(np.arange(100, -1, -2)), X[::-2])):
        found = list(one.blocks())
        assert max(len(block) for _, block in found) == rows.block
        assert np.array_equal(np.concatenate([block for _, block in found]), there)
        assert all(np.array_equal(there[part], block) for part, block in found)
    assert [len(block) for _, block in blocks_of(X, 60)] == [60, 41]


@pytest.mark.parametrize("kind", ["f2", "f8", ">f4"])
def test_other_kinds_of_floating_point_numbers_are_read_as_float32(tmp_path, kind):
    X = np.arange(6, dtype=kind).reshape(3, 2)
    np.save(tmp_path / "x.npy", X)
    found = DiskSamples(tmp_path / "x.npy")[1:]
    assert found.dtype == np.float32
    assert np.array_equal(found, X[1:])


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros(3, "f4"), "must hold a matrix"),
        (np.zeros((2, 2), int), "type int64"),
        (np.asfortranarray(np.zeros((2, 3), "f4")), "column after column"),
    ],
)
def test_what_is_no_matrix_of_rows_is_refused(tmp_path, array, said):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(BadInput, match=said):
        DiskSamples(tmp_path / "x.npy")


def test_a_file_that_is_missing_foreign_cut_off_or_not_finite_is_one_sentence(tmp_path):
    path = tmp_path / "x.npy"
    with pytest.raises(UnreadableFile, match="No such file"):
        DiskSamples(path)
    path.write_text("class,split\n")
    with pytest.raises(UnreadableFile, match=r"is not a \.npy file"):
        DiskSamples(path)
    X = np.zeros((5, 4), "f4")
    X[3, 1] = np.inf
    np.save(path, X)
    rows = DiskSamples(path)
    for one, number in ((rows, 3), (rows.take([4, 3, 2]), 3)):
        with pytest.raises(BadInput, match=f"infinite values in row {number};"):
            list(one.blocks())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UnreadableFile, match="shorter than its header claims"):
        DiskSamples(path)
    with pytest.raises(UnreadableFile, match="changed or replaced"):
        rows[:]


@pytest.mark.parametrize(
    "shape", ["(-1, -4)", "(-4, 1)", "(5, 0)", f"({10**30}, 0)", f"(0, {10**30})", f"({2**62}, 16)"]
)
def test_a_shape_that_no_file_can_hold_is_refused(tmp_path, shape):
    path = tmp_path / "x.npy"
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(80))
    with pytest.raises(BadInput, match=r"must hold a matrix|shorter than its header"):
        DiskSamples(path)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.npy")
    with pytest.raises(UnreadableFile, match="not a regular file"):
        DiskSamples(tmp_path / "x.npy")


def test_rows_of_a_file_that_is_replaced_or_written_to_in_the_middle_are_refused(wide, tmp_path):
    X, rows = wide
    blocks = rows.blocks()
    next(blocks)
    np.save(tmp_path / "new.npy", X + 1)
    (tmp_path / "new.npy").replace(rows.path)
    assert np.array_equal(np.concatenate([block for _, block in blocks]), X[rows.block :])  # the file that was opened
    with pytest.raises(UnreadableFile, match="changed or replaced"):
        rows[:3]
    rows = DiskSamples(rows.path, memory=LITTLE)
    blocks = rows.blocks()
    next(blocks)
    with rows.path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(bytes(4))
    os.utime(rows.path, ns=(0, 0))  # a clock may be coarser than this test is slow
    with pytest.raises(UnreadableFile, match="changed or replaced"):
        list(blocks)


@pytest.mark.parametrize("scaling", [None, "unit", "standard"])
@pytest.mark.parametrize("method", [ESZSL, SAE, GFZSL])
def test_a_fit_from_the_disk_or_in_parts_is_the_fit_in_memory(small, on_disk, method, scaling):
    shifted = small.features + np.float32(30)  # far from zero, where sums of squares lose digits
    shifted[:, 3] = 7.0  # and a column that never changes
    np.save(on_disk.features.path, shifted)
    in_memory, on_disk = replace(small, features=shifted), replace(small, features=DiskSamples(on_disk.features.path))
    model = fit_on(method(feature_scaling=scaling), in_memory)
    read = fit_on(method(feature_scaling=scaling), on_disk)
    parts = method(feature_scaling=scaling)
    X, y = in_memory.part("train")
    for rows in np.array_split(np.random.default_rng(0).permutation(len(X)), 5):
        parts.partial_fit(X[rows], y[rows], small.descriptions)
    test, _ = in_memory.part("test_unseen")
    wanted = model.decision_function(test)
    for other in (read, parts):
        found = other.decision_function(test)
        assert np.abs(found - wanted).max() < 2e-4 * np.ptp(wanted)
        assert np.array_equal(other.predict(test), model.predict(test))
        assert sorted(other.seen_classes_) == sorted(model.seen_classes_)
    assert np.array_equal(read.predict(DiskSamples(on_disk.features.path)), read.predict(shifted))


def test_changed_rows_are_changed_whenever_they_are_read(wide):
    X, rows = wide
    twice = ChangedSamples(ChangedSamples(rows, lambda read: 2 * read, 1000), lambda read: read[:, :3], 3)
    assert (len(twice), twice.shape) == (101, (101, 3))
    assert np.array_equal(twice[[5, 3]], 2 * X[[5, 3], :3])
    found = list(blocks_of(twice, 8))
    assert max(len(block) for _, block in found) == 8
    assert all(np.array_equal(block, 2 * X[part, :3]) for part, block in found)


def same_scores(one, other, rows):
    wanted = other.decision_function(rows)
    return np.abs(one.decision_function(rows) - wanted).max() < 2e-4 * np.ptp(wanted)


@pytest.mark.parametrize("scaling", [None, "unit", "standard"])
@pytest.mark.parametrize("components", [6, 512])
def test_kernel_prototypes_without_a_sample_are_those_of_a_fit_in_memory(small, on_disk, components, scaling):
    on_disk.features.memory = 2**13  # less than anybody may allow, for blocks of a few rows
    assert on_disk.features.block < 20
    made = KernelPrototypes(search=False, refinement=0, components=components, feature_scaling=scaling)
    model, read = (fit_on(made, data) for data in (small, on_disk))
    test, _ = small.part("test_unseen")
    assert same_scores(read, model, test)
    assert np.array_equal(read.predict(on_disk.features), model.predict(small.features))


def test_kernel_prototypes_look_at_all_rows_that_memory_holds(small, on_disk):
    made = KernelPrototypes(refinement=3, hidden=8, feature_scaling="standard")
    model, read = (fit_on(made, data) for data in (small, on_disk))
    assert read.settings_ == model.settings_
    assert read.search_["tried"] == model.search_["tried"]
    assert same_scores(read, model, small.part("test_unseen")[0])


def test_kernel_prototypes_keep_within_the_memory_that_is_allowed(tmp_path):
    """Measured, with what does not depend on rows: matrices of d and q, and the row numbers."""
    n, d, k, memory = 20_000, 128, 8, 2**21
    random = np.random.default_rng(0)
    A, y = random.uniform(size=(k, 5)), np.arange(n) % k
    X = (A[y] @ random.normal(size=(5, d)) + random.normal(size=(n, d))).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    assert X.nbytes > 4 * memory
    usual = {"nugget": 0.05, "noise": 2.0, "stretch": 1.0}
    for made, matrices in (
        (KernelPrototypes(search=False, refinement=0, components=64), 0),
        (KernelPrototypes(refinement=2, components=64, **usual), 12 * (40 * 64 * 64 + 4 * d * 64)),
    ):
        rows = DiskSamples(tmp_path / "x.npy", memory=memory)
        tracemalloc.start()
        try:
            made.fit(rows, y, A)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < memory + matrices + 4 * 8 * d * d + 6 * 8 * n
        in_memory = KernelPrototypes(**{**made.get_params(), **made.settings_, "search": False}).fit(X, y, A)
        assert (made.predict(rows) == in_memory.predict(X)).mean() > 0.98


def test_evaluate_tune_and_benchmark_take_features_on_the_disk_as_those_in_memory(small, on_disk, in_process, tmp_path):
    for method in ("eszsl", "sae", "conse"):  # the last reads all rows at once: they fit
        here = firstsight.evaluate(all_methods()[method](), small)
        there = firstsight.evaluate(all_methods()[method](), on_disk)
        assert (there.t1, there.h) == (here.t1, here.h)
    grid = {"feature_penalty": [1.0, 300.0]}
    choices = [firstsight.tune("eszsl", d, grid=grid, folds=2, processes=1, progress=False) for d in (small, on_disk)]
    assert choices[0].table.equals(choices[1].table)
    tables = [firstsight.benchmark("eszsl", d, processes=1, progress=False) for d in (small, on_disk)]
    assert tables[0].drop(columns="seconds").equals(tables[1].drop(columns="seconds"))
    assert on_disk.features.path.exists()
    assert same_data(on_disk.features_fingerprint, small.features_fingerprint)


def test_a_method_that_needs_all_rows_refuses_those_that_memory_does_not_hold(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((300, 1000), "f4"))
    rows = DiskSamples(tmp_path / "x.npy", memory=LITTLE)
    said = r"300 rows of .*x\.npy take 0\.0 GiB and must be in memory at once here"
    with pytest.raises(BadInput, match=said):
        all_methods()["sync"]().fit(rows, np.arange(300) % 3, np.eye(3))


@pytest.mark.parametrize("said", ["much", "²", "9" * 5000])
def test_the_environment_may_allow_another_amount_of_memory(wide, monkeypatch, said):
    path = wide[1].path
    monkeypatch.setenv("FIRSTSIGHT_MEMORY_MIB", "3")
    assert DiskSamples(path).memory == 3 * 2**20
    monkeypatch.setenv("FIRSTSIGHT_MEMORY_MIB", said)
    with pytest.raises(BadInput, match=f"must be a whole number of MiB, but is '{said}'"):
        DiskSamples(path)
    with pytest.raises(BadInput, match="at least 2"):
        DiskSamples(path, memory=5)


def test_features_beside_a_table_of_samples_are_read_from_the_disk(small, tmp_path):
    names = small.names_of(np.arange(len(small.labels)))
    part = np.full(len(names), "", dtype="U11")
    for which in ("train", "test_seen", "test_unseen"):
        part[getattr(small, which)] = which
    lines = [f"{name},{where}" for name, where in zip(names, part, strict=True)]
    (tmp_path / "samples.csv").write_text("\n".join(["class,split", *lines]) + "\n")
    small.descriptions.to_csv(tmp_path / "classes.csv")
    np.save(tmp_path / "features.npy", small.features)
    data = firstsight.load_dataset(tmp_path)
    assert isinstance(data.features, DiskSamples)
    assert firstsight.evaluate(ESZSL(), data).h == firstsight.evaluate(ESZSL(), small).h
    np.save(tmp_path / "features.npy", small.features[1:])
    with pytest.raises(BadInput, match=re.escape("features.npy has 287 rows and")):
        firstsight.load_dataset(tmp_path)


def test_the_first_part_tells_the_classes_and_later_ones_bring_no_others(small):
    X, y = small.part("train")
    assert list(ESZSL().partial_fit(X, y).classes_) == sorted(set(y))  # an ordinary classifier
    model = ESZSL().partial_fit(X[:40], y[:40], small.descriptions)
    before = model.weights_
    with pytest.raises(BadInput, match="contains class 'stranger'"):
        model.partial_fit(X[:1], ["stranger"])
    assert model.weights_ is before
    model.partial_fit(X[40:], y[40:])
    whole = ESZSL().fit(X, y, small.descriptions)
    assert np.allclose(model.weights_, whole.weights_, rtol=1e-3, atol=1e-6)


def test_a_pass_over_shuffled_windows_sees_every_row_once_and_in_another_order_each_time(wide):
    X, rows = wide
    samples = SamplesOnDisk(rows, lambda read: read, batch_size=16)
    assert samples.window == 64  # so that the samples make two windows
    generator = torch.Generator().manual_seed(0)
    orders = []
    for _ in range(2):
        batches = list(samples.batches(16, generator))
        assert all(np.array_equal(features, X[numbers]) for numbers, features in batches)
        orders.append(torch.cat([numbers for numbers, _ in batches]))
    assert not torch.equal(*orders)
    for order in orders:
        assert sorted(order.tolist()) == list(range(len(X)))
        assert np.ptp(np.sort(order[:64])) > 90  # a window has samples from all over the file
    blocks = list(samples.blocks(30))  # neighbours, as for class means
    assert all(np.array_equal(features, X[part]) for part, features in blocks)
    assert sum(len(features) for _, features in blocks) == len(X)


@pytest.mark.parametrize("scaling", [None, "standard"])
def test_gradient_steps_from_the_disk_end_as_well_as_those_in_memory(small, tmp_path, quick, scaling):
    """Not in the same place: windows are another order of the same rows."""
    features = small.features.copy()
    np.save(tmp_path / "features.npy", features)
    on_disk = replace(small, features=DiskSamples(tmp_path / "features.npy"))
    on_disk.features.memory = 2**13  # less than anybody may allow, for windows of 32 rows
    assert SamplesOnDisk(on_disk.features, lambda read: read, 16).window == 32
    made = DeepEmbedding(**quick["deep-embedding"], stop_below=0, feature_scaling=scaling, random_state=0)
    here, there = (firstsight.evaluate(made, data) for data in (small, on_disk))
    losses = [result.models["zsl"].history_[-1]["loss"] for result in (here, there)]
    assert losses[1] == pytest.approx(losses[0], rel=0.3)
    assert losses[1] < there.models["zsl"].history_[0]["loss"] / 2
    assert there.t1 > here.t1 - 0.1
    again = firstsight.evaluate(made, on_disk)
    assert again.models["zsl"].history_[-1]["loss"] == losses[1]
    features[small.train[3], 1] = np.nan
    np.save(tmp_path / "features.npy", features)
    rows = DiskSamples(tmp_path / "features.npy").take(small.train)
    with pytest.raises(BadInput, match=f"infinite values in row {small.train[3]};"):
        made.fit(rows, small.names_of(small.train), small.descriptions)


def test_a_file_without_rows_has_no_blocks(tmp_path):
    np.save(tmp_path / "x.npy", np.empty((0, 4), "f4"))
    rows = DiskSamples(tmp_path / "x.npy")
    assert list(rows.blocks()) == []
    assert rows[:].shape == (0, 4)
