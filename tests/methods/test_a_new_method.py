"""A method of one's own changes no list and no test: the file is put in its place, and the tests as they are pass."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import firstsight

ROOT = Path(__file__).resolve().parents[2]


def test_a_new_file_is_a_method_for_every_test_that_looks_at_all_of_them(tmp_path):
    document = (ROOT / "docs" / "own_method.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(# my_package\.py\n.*?)```", document, flags=re.DOTALL)
    shutil.copytree(Path(firstsight.__file__).parent, tmp_path / "firstsight")
    (tmp_path / "firstsight" / "methods" / "ridge_to_attributes.py").write_text(code, encoding="utf-8")

    of_all = [ROOT / "tests" / "contract", *(ROOT / "tests").rglob("test_published.py"), ROOT / "tests" / "cli"]
    chosen = "ridge or test_count or test_published or (test_methods and not shown)"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rN", "-p", "no:cacheprovider", *map(str, of_all), "-k", chosen],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])
    from firstsight.contract import CHECKS

    assert passed > len(CHECKS)  # the whole contract, and what counts or lists methods
