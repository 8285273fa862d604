"""Mutation testing, by hand: change one operator or number at a time, and see whether the related tests notice.

    python tools/mutate.py src/firstsight/evaluation tests/evaluation --count 40 --seed 0

Works on a copy. Prints each mutant that no test noticed (a survivor), and the survival rate. What is raised, text,
types, default values and grids of parameters stay as they are: no test should repeat them.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import os
import random
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SWAPS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Div,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.MatMult: ast.Mult,
}  # fmt: skip
SKIPPED = {"annotation", "returns", "decorator_list", "defaults", "kw_defaults"}
CHOICES = ("grid", "quick")  # of parameters: no test should repeat them


def places(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that may be changed."""
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
        return
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.Assign | ast.AnnAssign) and ast.unparse(node).startswith(CHOICES):
        return
    number = isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float)
    if number or isinstance(node, ast.Compare | ast.BoolOp) or type(getattr(node, "op", None)) in SWAPS:
        yield node
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if name not in SKIPPED and isinstance(child, ast.AST):
                yield from places(child)


def change(node: Any) -> None:
    """Change a node in place."""
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif not isinstance(node, ast.Constant):
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node.value, bool):
        node.value = not node.value
    else:
        node.value += 1 if isinstance(node.value, int) else 0.5 * node.value + 0.1


def notices(tests: list[str], folder: Path, seconds: int) -> bool:
    """Whether a test fails (or takes for ever) in a process that imports the package anew."""
    child = os.fork()
    if child == 0:
        silence = os.open(os.devnull, os.O_RDWR)
        for number in (1, 2):
            os.dup2(silence, number)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        os.chdir(folder)
        sys.dont_write_bytecode = True  # a file of the same second and size would pass for the one before
        sys.path.insert(0, str(folder / "src"))
        os.environ["PYTHONPATH"] = str(folder / "src")
        import pytest

        os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def _related(file: Path, tests: list[str]) -> list[str]:
    """Of the tests, the files that are called like the source file; all if there is none."""
    found = [path for place in tests for path in (ROOT / place).rglob(f"test_{file.stem}.py")]
    return [str(path.relative_to(ROOT)) for path in found] or tests


def _import_what_others_made(folder: Path) -> None:
    """Import libraries once for all children; of the package itself, each imports its own."""
    sys.path.insert(0, str(folder / "src"))
    for name in ("models", "recognition", "evaluation", "calibration", "methods.deep_embedding"):
        importlib.import_module(f"firstsight.{name}")
    for name in [name for name in sys.modules if name.split(".")[0] == "firstsight"]:
        del sys.modules[name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="a file or a folder in src")
    parser.add_argument("tests", nargs="+", help="the tests that should notice")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--seconds", type=int, default=300, help="of the processor, after which a mutant counts as noticed"
    )
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        for part in ("src", "tests", "pyproject.toml", "results", "README.md", "docs"):
            copied = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            copied(ROOT / part, folder / part)
        _import_what_others_made(folder)
        source = folder / asked.source
        files = sorted(source.rglob("*.py")) if source.is_dir() else [source]
        trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}
        every = [(file, number) for file, tree in trees.items() for number in range(len(list(places(tree))))]
        chosen = random.Random(asked.seed).sample(every, min(asked.count, len(every)))
        related = {file: _related(file, asked.tests) for file, _ in chosen}
        for tests in {tuple(tests) for tests in related.values()}:
            if notices(list(tests), folder, asked.seconds):
                sys.exit(f"Without any change, there are failures in {' '.join(tests)}.")
        made = survived = 0
        for file, number in sorted(chosen):
            tree, text = copy.deepcopy(trees[file]), file.read_text(encoding="utf-8")
            node = list(places(tree))[number]
            before = ast.unparse(node)
            change(node)
            made += 1
            file.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")
            if not notices(related[file], folder, asked.seconds):
                survived += 1
                print(f"{file.relative_to(folder)}:{node.lineno}: {before}  →  {ast.unparse(node)}", flush=True)
            file.write_text(text, encoding="utf-8")
        print(f"{asked.source}: {survived} of {made} mutants survived ({100 * survived / max(made, 1):.0f} %).")


if __name__ == "__main__":
    main()
