from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firstsight.experiments.benchmark import is_map_current, make_map, map_file


@pytest.fixture(scope="module")
def made(small, quick, tmp_path_factory):
    folder = tmp_path_factory.mktemp("maps")
    path = make_map(small, folder, quick)
    with np.load(path) as arrays:
        return folder, {name: arrays[name] for name in arrays}


def test_every_panel_has_its_points_squares_labels_and_names(made, small):
    _, arrays = made
    for which in ("all", "unseen"):
        names, labels = arrays[f"{which}_names"].tolist(), arrays[f"{which}_labels"]
        assert labels.max() < len(names)
        for space in ("visual", "inductive", "transductive"):
            points = arrays[f"{space}_{which}_points"]
            assert points.shape == (len(labels), 2)
            assert np.isfinite(points).all()
            squares = arrays[f"{space}_{which}_classes"]
            assert squares.shape == ((0, 2) if space == "visual" else (len(names), 2))
    assert set(arrays["unseen_names"]) <= set(small.unseen_classes)
    assert len(arrays["unseen_names"]) == 8
    assert set(arrays["all_names"]) & set(small.seen_classes)
    assert set(arrays["all_names"]) & set(small.unseen_classes)


def test_the_labels_are_those_of_test_rows(made, small):
    _, arrays = made
    names = arrays["unseen_names"]
    counts = dict(zip(*np.unique(names[arrays["unseen_labels"]], return_counts=True), strict=True))
    assert counts == dict.fromkeys(names, 12)  # all rows of these classes: there are fewer than 1,500


def test_a_map_of_another_split_is_not_current(made, small):
    folder, _ = made
    path = map_file(folder, "small")
    assert is_map_current(path, small)
    other = replace(small, test_seen=small.test_seen[1:])
    assert not is_map_current(path, other)
    assert not is_map_current(folder / "nothing.npz", small)
    assert [p.name for p in folder.iterdir()] == ["maps"]  # no checkpoint is left
