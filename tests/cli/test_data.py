from __future__ import annotations

import numpy as np
import pytest


def _spoil(npz, path, **change):
    with np.load(npz) as file:
        arrays = {key: file[key] for key in file}
    np.savez(path, **{key: change.get(key, lambda x: x)(value) for key, value in arrays.items()})
    return path


def test_a_good_data_set_is_described_with_exit_code_0(cli, npz):
    done = cli("data", "check", npz)
    assert (done.code, done.err) == (0, "")
    words = {line.split()[0]: line.split()[-1] for line in done.out.splitlines() if line.startswith("  ")}
    assert words["rows"] == "288"
    assert words["features"] == "16"
    assert words["attributes"] == "6"
    assert words["train_classes"] == "14"
    assert words["test_unseen_classes"] == "10"
    assert "0 errors" in done.out


def test_a_leak_between_splits_is_an_error_and_exit_code_1(cli, npz, small, tmp_path):
    # Some rows of unseen classes slip into the training rows.
    leaking = _spoil(npz, tmp_path / "leak.npz", train=lambda rows: np.append(rows, small.test_unseen[:5]))
    done = cli("data", "check", leaking)
    assert done.code == 1
    assert done.err == ""
    errors = [line for line in done.out.splitlines() if line.startswith("error:")]
    assert any("in both `train` and `test_unseen` (5 such rows)" in line for line in errors)
    assert f"{len(errors)} error" in done.out.splitlines()[-1]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, ["There is no data set"]),
        (lambda path: path.write_text("hello"), ["could not be read", "damaged, foreign or pickled"]),
        (lambda path: path.mkdir(), ["is not a data set that firstsight can read"]),
        (lambda path: np.savez(path, features=np.zeros((3, 2))), ["lacks labels"]),
    ],
    ids=["nothing", "text", "empty folder", "half of the keys"],
)
def test_nonsense_is_one_sentence_and_exit_code_2(cli, tmp_path, make, words):
    make(tmp_path / "data.npz")
    cli("data", "check", tmp_path / "data.npz").is_refused_with(*words)


def test_features_are_chosen_only_where_there_is_a_choice(cli, npz):
    cli("data", "check", npz, "--features", "res101").is_refused_with("leave it out")
