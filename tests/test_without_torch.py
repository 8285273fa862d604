"""The default journey where torch, an optional extra, is not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from without_torch.journey import STEPS

HERE = Path(__file__).parent / "without_torch"


@pytest.fixture(scope="module")
def journey(tmp_path_factory) -> dict[str, dict[str, str]]:
    """What became of each step, in one process for all: starting it takes longer than most of them."""
    folder = tmp_path_factory.mktemp("without torch")
    path = os.pathsep.join([str(HERE), *(place for place in sys.path if place)])
    env = {**os.environ, "PYTHONPATH": path, "FIRSTSIGHT_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, str(HERE / "journey.py")], capture_output=True, text=True, env=env, cwd=folder, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return {one["step"]: one for one in map(json.loads, done.stdout.splitlines())}


@pytest.mark.xdist_group("without torch")
@pytest.mark.parametrize("step", [step.__name__ for step in STEPS])
def test_works_without_torch(journey, step):
    if reason := journey[step]["skipped"]:
        pytest.skip(reason)
    assert not journey[step]["problem"], journey[step]["problem"]
