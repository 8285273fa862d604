"""Methods of other installed packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

MODULE = """
from firstsight.methods import ESZSL

class Mine(ESZSL):
    space = "semantic"

not_a_method = 3
"""


@pytest.fixture
def run(tmp_path):
    """Run a command in a process where a package with these entry points is installed."""

    def command(points: dict[str, str], *words) -> subprocess.CompletedProcess:
        info = tmp_path / "site" / "other_package-1.0.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
        lines = "".join(f"{name} = {value}\n" for name, value in points.items())
        (info / "entry_points.txt").write_text(f"[firstsight.methods]\n{lines}")
        (info.parent / "other_package.py").write_text(MODULE)
        path = os.pathsep.join([str(info.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path}
        line = [sys.executable, "-c", "from firstsight.cli.main import main; main()", *map(str, words)]
        return subprocess.run(line, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300)

    return command


def test_a_method_of_another_package_is_a_method_like_the_others(run, tmp_path, small):
    from firstsight.data import write_npz

    data = write_npz(small, tmp_path / "small.npz")
    done = run({"Mine_too": "other_package:Mine"}, "benchmark", data, "--methods", "mine-too", "--out", "records")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "records" / "small.jsonl").read_text().splitlines()]
    assert [(r["method"], r["setting"], r["status"], r["space"]) for r in records] == [
        ("mine-too", "zsl", "done", "semantic"),
        ("mine-too", "gzsl", "done", "semantic"),
    ]


def test_what_is_wrong_with_another_package_is_told_and_the_others_go_on_working(run):
    wrong = {"eszsl": "other_package:Mine", "gone": "other_package:Gone", "number": "other_package:not_a_method"}
    done = run({**wrong, "mine": "other_package:Mine"}, "methods", "--json")
    assert done.returncode == 0
    found = {row["name"]: row["class"] for row in json.loads(done.stdout)}
    assert (found["eszsl"], found["mine"]) == ("ESZSL", "Mine")
    assert not {"gone", "number"} & set(found)
    assert len(done.stderr.splitlines()) == 3, done.stderr
    first, second, third = sorted(done.stderr.splitlines())
    assert first.startswith("warning: The method 'eszsl' (other_package:Mine) is left out: there is a method eszsl")
    assert "'gone'" in second
    assert "must be a subclass of ZeroShotClassifier" in third
