"""Put the table of modules into docs/architecture.md, from their docstrings: `python tools/module_table.py`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = PROJECT / "src" / "firstsight"
DOCUMENT = PROJECT / "docs" / "architecture.md"
# Packages from the inside out: each imports only those before it (tests/test_imports.py).
RINGS = {
    "Core": ("", "_io", "data", "evaluation", "methods", "persistence", "contract"),
    "Lab": ("experiments", "reporting"),
    "App": ("encoders", "recognition", "web", "serving"),
    "Command line": ("cli",),
}
_REGION = re.compile(r"(<!-- modules: begin[^\n]*-->\n).*?(<!-- modules: end -->)", re.DOTALL)


def summary(file: Path) -> str:
    """Return the first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", r"\|")


def defines_something(file: Path) -> bool:
    """Whether a module defines functions or classes, and does more than import."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return any(isinstance(node, kinds) for node in ast.parse(file.read_text(encoding="utf-8")).body)


def module_table() -> str:
    """Return one Markdown table per package, with a row per module."""
    lines: list[str] = []
    for ring, packages in RINGS.items():
        lines += [f"### {ring}", ""]
        for package in packages:
            folder = PACKAGE / package
            lines += [f"**`{package}/`** {summary(folder / '__init__.py')}" if package else "**`firstsight/`**", ""]
            lines += ["| module | what it does |", "|---|---|"]
            files = [file for file in sorted(folder.rglob("*.py") if package else folder.glob("*.py")) if summary(file)]
            lines += [
                f"| `{file.relative_to(PACKAGE).as_posix()}` | {summary(file)} |"
                for file in files
                if file != folder / "__init__.py" or defines_something(file)
            ]
            lines.append("")
    return "\n".join(lines)


def documented(text: str) -> str:
    """Return the document with the table as the code says it now."""
    text, count = _REGION.subn(lambda match: f"{match[1]}\n{module_table()}\n{match[2]}", text)
    assert count == 1, f"{DOCUMENT.name} has {count} regions for the table of modules"
    return text


if __name__ == "__main__":
    DOCUMENT.write_text(documented(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
