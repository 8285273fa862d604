"""Real photographs and a real backbone: the runtimes agree, and birds that nobody labelled are recognised."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from firstsight.encoders import ImageEncoder, find_images

pytestmark = pytest.mark.slow


def test_features_of_real_photographs_agree_between_pytorch_and_onnx_runtime(shared):
    paths, classes = find_images(shared / "data" / "cub-sample" / "images")
    assert len(set(classes)) == 12
    torch, onnx = (
        ImageEncoder(shared / "backbones" / "resnet50", runtime=runtime, cache=False).encode(paths)
        for runtime in ("torch", "onnx")
    )
    assert torch.features.shape == onnx.features.shape == (96, 2048)
    assert not torch.skipped
    assert np.abs(torch.features - onnx.features).max() < 1e-3


def test_unseen_birds_are_recognised_from_a_shell_in_three_minutes(shared, tmp_path):
    sample, backbone = shared / "data" / "cub-sample", shared / "backbones" / "resnet50"
    for name, part in pd.read_csv(sample / "split.csv").itertuples(index=False):
        (tmp_path / part).mkdir(exist_ok=True)
        (tmp_path / part / name).symlink_to(sample / "images" / name)

    def run(*words):
        command = [sys.executable, "-c", "from firstsight.cli.main import main; main()", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr

    before = os.times()
    run("embed", "seen", "--backbone", backbone, "--out", "features.npz")
    said = run("learn", "seen", "--classes", sample / "attributes.csv", "--backbone", backbone, "--out", "model")
    words = ["predict", "model", "unseen", "--classes", "unseen", "--backbone", backbone, "--csv", "named.csv"]
    run(*words)
    after = os.times()
    # On one processor; others may use the machine, too.
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    assert "8 from 64 pictures, 4 from their description alone" in said
    named = pd.read_csv(tmp_path / "named.csv")
    right = [name == file.split("/")[-2] for file, name in zip(named.iloc[:, 0], named["class"], strict=True)]
    assert len(right) == 32
    assert np.mean(right) >= 0.6  # chance is 0.25
    assert seconds < 180
