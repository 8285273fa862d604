"""Readers of other installed packages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import firstsight

SOURCE = Path(firstsight.__file__).parents[1]
DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "data.md").read_text(encoding="utf-8")
READER = re.search(r"```python\n(# jsonl_reader\.py\n.*?)```", DOCUMENT, re.DOTALL)[1]


@pytest.fixture
def run(tmp_path):
    """Run a command in a process where a package with these entry points is installed."""

    def command(points: dict[str, str], *words) -> subprocess.CompletedProcess:
        info = tmp_path / "site" / "other_package-1.0.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
        lines = "".join(f"{name} = {value}\n" for name, value in points.items())
        (info / "entry_points.txt").write_text(f"[firstsight.datasets]\n{lines}")
        (info.parent / "jsonl_reader.py").write_text(READER)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(info.parent), str(SOURCE)])}
        line = [sys.executable, "-c", "from firstsight.cli.main import main; main()", *map(str, words)]
        return subprocess.run(line, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300)

    return command


@pytest.fixture
def animals(tmp_path):
    table = {"lion": {"a": 1, "b": 0}, "ox": {"a": 0, "b": 1}, "gnu": {"a": 1, "b": 2}}
    rows = [{"class": name, "features": [i, len(name)]} for name in table for i in range(5)]
    lines = [*({"class": name, "description": text} for name, text in table.items()), *rows]
    path = tmp_path / "animals.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_the_reader_that_the_documents_show_is_a_reader_like_the_others(run, animals):
    done = run({"jsonl": "jsonl_reader"}, "data", "check", animals)
    assert done.returncode == 0, done.stderr
    assert re.search(r"rows +15", done.stdout)
    unknown = run({"jsonl": "jsonl_reader"}, "data", "check", "nothing.xyz")
    assert "'glyphs' (built in)" in unknown.stderr
    assert "a .jsonl file of animals" in unknown.stderr


def test_what_is_wrong_with_another_package_is_told_and_the_others_go_on_working(run, animals):
    wrong = {
        "npz": "jsonl_reader",
        "gone": "jsonl_reader:Gone",
        "module": "missing_module",
        "text": "jsonl_reader:ACCEPTS",
    }
    done = run({**wrong, "jsonl": "jsonl_reader"}, "data", "check", animals)
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 4, done.stderr
    assert all("is left out" in line for line in done.stderr.splitlines())


def test_every_file_in_the_folder_is_a_reader_and_so_is_the_built_in_data_set():
    from firstsight.data import formats as readers

    files = {path.stem for path in Path(readers.__file__).parent.glob("*.py")} - {"__init__"}
    own = {name: reader for name, reader in readers.all_readers().items() if "firstsight.data.formats" in repr(reader)}
    assert set(own) == {*files, "built_in"}
    assert all(reader.ACCEPTS for reader in own.values())
