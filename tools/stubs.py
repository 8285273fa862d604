"""Write the methods' names where type checkers look for them: `python tools/stubs.py`, with --check only compare.

At run time methods are found by looking into their folder; a type checker cannot do that and needs names in a file.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "firstsight"
REGION = re.compile(r"^( *)# methods: begin[^\n]*\n(.*?)^ *# methods: end", re.MULTILINE | re.DOTALL)


def methods() -> dict[str, str]:
    """The class of each method by the name of its file, read without importing anything."""
    found = {}
    files = {file.stem: file for file in (PACKAGE / "methods").glob("*.py")}
    files |= {file.parent.name: file for file in (PACKAGE / "methods").glob("*/__init__.py")}
    for stem, file in sorted(files.items()):
        if stem == "base" or stem[0] == "_":
            continue
        classes = [
            node.name for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)
        ]
        # Beside the method a file may have private classes, and its name is that of the method without underscores.
        (found[stem],) = (name for name in classes if name.lower() == stem.replace("_", ""))
    return found


def filled(text: str, home: str) -> str:
    """`text` with the lines between its marks written anew."""

    def lines(match: re.Match[str]) -> str:
        begin, indent = match[0].split("\n", 1)[0], match[1]
        names = [_line(indent, f"{home}.{stem}", f"{name} as {name}") for stem, name in methods().items()]
        return "\n".join([begin, *names, f"{indent}# methods: end"])

    return REGION.sub(lines, text)


def _line(indent: str, module: str, names: str) -> str:
    line = f"{indent}from {module} import {names}"
    return line if len(line) <= 120 else f"{indent}from {module} import (\n{indent}    {names},\n{indent})"


def main() -> int:
    """Write, or with --check say what would be written."""
    stale = []
    for file, home in (("__init__.pyi", ".methods"), ("methods/__init__.py", "firstsight.methods")):
        path = PACKAGE / file
        text = path.read_text(encoding="utf-8")
        if filled(text, home) != text:
            stale.append(file)
            if "--check" not in sys.argv:
                path.write_text(filled(text, home), encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"{' and '.join(stale)} do not name every method; run make format.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
