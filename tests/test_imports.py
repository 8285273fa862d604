"""Which way imports go (shared/design.md, "The flow is one sentence"), and what no source file may use."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import firstsight

SOURCE = Path(firstsight.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

# What each package may import besides itself; "firstsight" is the bare package, for its version. A new package must be
# entered here before it is imported anywhere.
BASE = {"errors", "devices", "_io"}
CORE = BASE | {"data", "methods", "evaluation"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "_io": {"errors"},
    "devices": {"errors"},
    "web": set(),
    # core
    "data": BASE,
    "evaluation": BASE | {"data"},
    "methods": BASE | {"evaluation"},
    "persistence": CORE | {"firstsight"},
    "contract": CORE | {"persistence"},
    # lab
    "experiments": CORE | {"firstsight"},
    "reporting": BASE | {"data", "evaluation", "experiments", "web"},
    # app
    "encoders": BASE | {"data"},
    "recognition": CORE | {"firstsight", "persistence", "encoders", "web", "experiments"},
    "serving": CORE | {"firstsight", "persistence", "encoders", "recognition", "reporting", "web"},
}
MAY_IMPORT["cli"] = {"firstsight", *MAY_IMPORT}
MAY_IMPORT["__main__"] = {"cli"}


def _part(module: Path) -> str:
    return module.relative_to(SOURCE).parts[0].removesuffix(".py")


def _run_time_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those of `if TYPE_CHECKING:`, whose imports no program runs."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from _run_time_nodes(node)


def _imported(tree: ast.AST) -> set[str]:
    """Full names of everything imported anywhere in a file, inside functions, too, unless for types alone."""
    names = set()
    for node in _run_time_nodes(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here, so that they can be read"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _parts_imported(tree: ast.AST) -> set[str]:
    ours = [name.split(".") for name in _imported(tree) if name.split(".")[0] == "firstsight"]
    return {words[1] if len(words) > 1 and words[1] in MAY_IMPORT else "firstsight" for words in ours}


def _violations(part: str, text: str) -> set[str]:
    return _parts_imported(ast.parse(text)) - MAY_IMPORT[part] - {part}


def _in_every_file(find: Callable[[str, str], object]) -> dict[str, object]:
    """What is found, from a file's part of the package and its text, in those files in which there is anything."""
    every = {m.relative_to(SOURCE).as_posix(): find(_part(m), m.read_text(encoding="utf-8")) for m in MODULES}
    assert len(every) > 100
    return {file: found for file, found in every.items() if found}


def test_imports_go_one_way():
    parts = {_part(module) for module in MODULES} - {"__init__"}
    assert not parts - set(MAY_IMPORT), "say in MAY_IMPORT what these may know"
    wrong = _in_every_file(lambda part, text: set() if part == "__init__" else _violations(part, text))
    assert not wrong, "these files import what their part may not know"


@pytest.mark.parametrize(
    ("part", "text", "found"),
    [
        ("methods", "from firstsight.data import load_dataset", {"data"}),
        ("data", "def f():\n    import firstsight.methods.base", {"methods"}),
        ("reporting", "from firstsight import methods", {"methods"}),
        ("reporting", "from firstsight.experiments.records import read", set()),
        ("evaluation", "from firstsight.methods.base import BLOCK_BYTES", {"methods"}),
        ("methods", "import firstsight", {"firstsight"}),
        ("data", "if TYPE_CHECKING:\n    from firstsight.methods import ALE", set()),
        ("persistence", "import firstsight\nfrom firstsight.methods import find_method", set()),
    ],
)
def test_the_reading_of_imports_finds_what_is_forbidden(part, text, found):
    assert _violations(part, text) == found


def test_the_table_of_parts_has_no_circle():
    known: set[str] = {"firstsight"}
    waiting = dict(MAY_IMPORT)
    while waiting:
        ready = [part for part, others in waiting.items() if others <= known]
        assert ready, f"these know each other in a circle: {sorted(waiting)}"
        for part in ready:
            known.add(part)
            del waiting[part]


def _loaded_by(code: str) -> set[str]:
    code += "\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    return set(json.loads(done.stdout))


def test_import_firstsight_does_not_wait_for_torch():
    heavy = {"torch", "sklearn", "pandas", "matplotlib", "scipy"}
    assert not heavy & _loaded_by("import firstsight; firstsight.__version__; firstsight.BadInput")


def test_data_evaluation_and_report_run_without_any_method_or_torch():
    loaded = _loaded_by("import firstsight.data, firstsight.evaluation, firstsight.reporting")
    assert "firstsight.evaluation.protocol" in loaded
    assert not {name for name in loaded if name.split(".")[0] == "torch" or name.startswith("firstsight.methods")}


# torch takes seconds to import: what computes with it imports it at first use (firstsight.devices).
EVERYTHING = """
import importlib, pkgutil, firstsight
for module in pkgutil.walk_packages(firstsight.__path__, "firstsight."):
    importlib.import_module(module.name)
assert len(firstsight.all_methods()) > 20
assert firstsight.benchmark
"""


def test_no_module_waits_for_torch():
    pytest.importorskip("fastapi")
    loaded = _loaded_by(EVERYTHING)
    assert "firstsight.methods.deep_embedding" in loaded
    assert "torch" not in loaded


def test_no_module_is_a_drawer():
    drawer = re.compile(r"(^|_)(utils?|helpers?|misc|managers?|common|new)$")
    names = [p.stem for p in MODULES] + [p.name for p in SOURCE.rglob("*") if p.is_dir()]
    assert not [name for name in names if drawer.search(name)]
    assert drawer.search("io_utils")  # it would be found


def _twice(modules: list[Path]) -> set[str]:
    counts = Counter(m.stem for m in modules if m.stem != "__init__" and _part(m) != "cli")
    return {stem for stem, count in counts.items() if count > 1}


def test_a_file_is_known_by_its_name_alone():
    """Only commands may be called like what they call."""
    assert not _twice(MODULES)
    assert _twice([*MODULES, SOURCE / "data" / "search.py"]) == {"search"}  # it would be found


def _public_classes(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """The modules that define each public class."""
    found: dict[str, list[str]] = {}
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module)
    return found


def test_a_public_class_is_known_by_its_name_alone():
    trees = {m.relative_to(SOURCE).as_posix(): ast.parse(m.read_text(encoding="utf-8")) for m in MODULES}
    assert not {name: modules for name, modules in _public_classes(trees).items() if len(modules) > 1}
    planted = ast.parse("class TaskScores: ...\nclass _TaskScores: ...")
    assert len(_public_classes({**trees, "planted.py": planted})["TaskScores"]) == 2  # it would be found


def _lengths(text: str) -> dict[str, int]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    return {node.name: (node.end_lineno or node.lineno) - node.lineno + 1 - _told(node) for node in functions}


def _told(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a docstring: a function that explains every parameter is not a long one."""
    return node.body[0].end_lineno - node.body[0].lineno + 1 if ast.get_docstring(node) else 0


# A command reads words, calls one function and prints; elsewhere a few functions tell one long story in order.
def test_no_function_is_long():
    def long(part: str, text: str) -> dict[str, int]:
        return {name: lines for name, lines in _lengths(text).items() if lines > (50 if part == "cli" else 60)}

    assert not _in_every_file(long)


def test_the_length_of_a_function_is_measured_from_its_first_line_to_its_last_without_its_docstring():
    assert _lengths("class A:\n    def f(\n        self,\n    ):\n        x = 1\n\n        return x\n") == {"f": 6}
    assert _lengths('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n') == {"f": 2}


# Loading must never run code that came with a file.
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "torch.load", "joblib.load", "pd.read_pickle"}
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}


def _dangers(text: str) -> set[str]:
    tree = ast.parse(text)
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    modules = {name.split(".")[0] for name in _imported(tree)}
    names = {name for name in _imported(tree) if name in FORBIDDEN_CALLS}
    unpickling = {"allow_pickle=True"} if re.search(r"allow_pickle\s*=\s*True", text) else set()
    return calls & FORBIDDEN_CALLS | modules & FORBIDDEN_MODULES | names | unpickling


def test_no_source_file_runs_code_from_files():
    assert not _in_every_file(lambda part, text: _dangers(text))


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "def f():\n    from joblib import load",
        "torch.load(path)",
        "x = eval(y)",
        "exec(y)",
        "joblib.load(p)",
        "np.load(p, allow_pickle=True)",
    ],
)
def test_the_search_for_dangers_finds_them(text):
    assert _dangers(text)
