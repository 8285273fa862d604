"""docs/architecture.md has every module, with the first sentence of its docstring."""

from __future__ import annotations

import runpy
from pathlib import Path

TOOL = runpy.run_path(str(Path(__file__).resolve().parents[2] / "tools" / "module_table.py"))


def test_the_table_of_modules_is_current():
    text = TOOL["DOCUMENT"].read_text(encoding="utf-8")
    assert TOOL["documented"](text) == text, "run python tools/module_table.py"


def test_the_table_has_every_module_but_package_inits():
    modules = [file for file in TOOL["PACKAGE"].rglob("*.py") if file.name != "__init__.py"]
    missing = [
        file.name
        for file in modules
        if f"`{file.relative_to(TOOL['PACKAGE']).as_posix()}`" not in TOOL["module_table"]()
    ]
    assert not missing
