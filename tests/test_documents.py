"""Whatever the documents show works: Python blocks run, commands parse, docstring examples give what they say."""

from __future__ import annotations

import doctest
import importlib.util
import pkgutil
import re
import runpy
import shlex
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import typer.main

import firstsight
from firstsight.cli.main import app
from firstsight.cli.options import read_assignments
from firstsight.data import ZeroShotDataset
from firstsight.data.glyphs import load_glyphs
from firstsight.data.rules import PARTS
from firstsight.methods import make_estimator

ROOT = Path(__file__).resolve().parents[1]
# What their Python needs beside the core; `make lowest` has no extras. Without torch, conftest.py skips what needs it.
NEEDED = {
    "commands": "onnx",
    "pictures": "torch transformers",
    "scale": "distributed",
    "service": "fastapi",
    "serving": "onnxruntime",
}
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
# `make docs` runs the gallery and shows what it draws; running it here as well would be once too often.
SCRIPTS = [
    pytest.param(path, id=path.name, marks=pytest.mark.slow) for path in sorted((ROOT / "examples").glob("plot_*.py"))
]
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(firstsight.__path__, "firstsight.")
    if re.search(r"^\s*>>> ", Path(importlib.util.find_spec(module.name).origin).read_text(encoding="utf-8"), re.M)
)
UsageError = typer.BadParameter.__mro__[1]  # click's, which newer releases of typer bring along under another name


class Block(NamedTuple):
    tag: str
    line: int  # of its first line of code, counting from 1
    code: str


def _blocks(text: str) -> list[Block]:
    """Fenced blocks; the tag is the first word after the fence."""
    found, open_block = [], None
    for number, line in enumerate(text.splitlines(), start=1):
        fence = re.match(r"\s*```\s*(\S*)", line)
        if open_block is None and fence:
            open_block = Block(fence[1], number + 1, "")
        elif open_block is not None and fence and not fence[1]:
            found.append(open_block)
            open_block = None
        elif open_block is not None:
            open_block = open_block._replace(code=open_block.code + line + "\n")
    assert open_block is None, f"the block of line {open_block.line} is never closed"
    return found


def _commands(text: str) -> list[tuple[int, list[str]]]:
    """Line numbers and words of the commands in blocks tagged sh, bash, shell or console, comments left out."""
    found = []
    for block in _blocks(text):
        if block.tag not in ("sh", "bash", "shell", "console"):
            continue
        joined = block.code.replace("\\\n", "  ")  # a command may go on in the next line
        for offset, line in enumerate(joined.splitlines()):
            if block.tag == "console" and not line.startswith("$ "):
                continue  # what the command printed
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if words:
                found.append((block.line + offset, words))
    return found


def _parse(words: list[str]) -> dict:
    """What a `firstsight` command would be called with; raises where it would complain."""
    for stop in ("|", ">", ">>", "&&", ";"):
        words = words[: words.index(stop)] if stop in words else words
    command, context, rest, values = typer.main.get_command(app), None, words[1:], {}
    while True:
        context = command.make_context(command.name or "firstsight", list(rest), parent=context)
        values |= context.params
        if not hasattr(command, "resolve_command"):
            return values
        left = [*getattr(context, "_protected_args", []), *context.args]
        if not left:
            return values
        _, command, rest = command.resolve_command(context, left)


@pytest.fixture(scope="session", params=["few letters", pytest.param("all letters", marks=pytest.mark.slow)])
def letters(request) -> ZeroShotDataset:
    """glyphs with every fourth drawing of each letter, which is enough to see that the code of a document works."""
    whole = load_glyphs()
    if request.param == "all letters":
        return whole
    kept = np.arange(len(whole.labels)) % 4 == 0
    parts = {part: np.flatnonzero(np.isin(np.flatnonzero(kept), getattr(whole, part))) for part in PARTS}
    return replace(whole, features=whole.features[kept], labels=whole.labels[kept], images=whole.images[kept], **parts)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_the_python_of_a_document_runs_from_top_to_bottom(document, letters, in_process, tmp_path, monkeypatch):
    for package in NEEDED.get(document.stem, "").split():
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)  # it may write files, but not here
    monkeypatch.setenv("FIRSTSIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("firstsight.data.glyphs.load_glyphs", lambda: letters)
    monkeypatch.syspath_prepend(tmp_path)
    namespace = {"__name__": "__main__"}
    for block in _blocks(document.read_text(encoding="utf-8")):
        if block.tag == "python" and (name := re.match(r"# (\w+\.py)\n", block.code)):
            (tmp_path / name[1]).write_text(block.code, encoding="utf-8")  # a file that later blocks import
        elif block.tag == "python":
            padding = "\n" * (block.line - 1)  # so that an error names the document's own line
            exec(compile(padding + block.code, str(document), "exec"), namespace)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_the_commands_of_a_document_exist_with_the_options_it_gives_them(document):
    goals = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for line, words in _commands(document.read_text(encoding="utf-8")):
        where = f"{document.name}, line {line}: {shlex.join(words)}"
        if words[0] == "make":
            unknown = {word for word in words[1:] if "=" not in word} - goals
            assert not unknown, f"{where}: the Makefile has no {unknown}"
        if Path(words[0]).name == "firstsight":
            try:
                values = _parse(words)
            except UsageError as error:
                pytest.fail(f"{where}: {getattr(error, 'message', error)}")
            if values.get("method"):  # `learn` chooses one itself
                make_estimator(values["method"], read_assignments(values.get("set"), values.get("preset")))


def test_the_reading_of_documents_finds_blocks_lines_and_commands():
    text = "A\n```python\nx = 1\ny = 2\n```\n```text\nfirstsight nonsense\n```\n```sh\n# why\n" + (
        "firstsight fit D \\\n  --out M  # there\nmake demo\n```\n```console\n$ firstsight methods\ndem\n```\n"
    )
    assert [(b.tag, b.line) for b in _blocks(text)] == [("python", 3), ("text", 7), ("sh", 10), ("console", 16)]
    assert _blocks(text)[0].code == "x = 1\ny = 2\n"
    fit = ["firstsight", "fit", "D", "--out", "M"]
    assert [words for _, words in _commands(text)] == [fit, ["make", "demo"], ["firstsight", "methods"]]


@pytest.mark.parametrize(
    "command",
    [
        "firstsight fitt DATA --out M",
        "firstsight fit DATA",
        "firstsight evaluate DATA --sede 3",
        "firstsight evaluate DATA --seed three",
        "firstsight evaluate DATA --setting some",
        "firstsight data chekc DATA",
    ],
)
def test_the_parsing_of_commands_refuses_what_the_command_line_would(command):
    with pytest.raises(UsageError):
        _parse(command.split())


def test_the_parsing_of_commands_reads_values():
    values = _parse(shlex.split("firstsight evaluate ../CUB --method dem --set a=1 --set b=2 --seed 3 | head"))
    assert values["data"] == "../CUB"
    assert (values["method"], [*values["set"]], values["seed"]) == ("dem", ["a=1", "b=2"], 3)


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_example_runs(script, monkeypatch):
    monkeypatch.chdir(script.parent)
    monkeypatch.syspath_prepend(script.parent)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_give_what_they_say(name):
    module = importlib.import_module(name)
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)
    assert runner.tries, f"{name} has examples that doctest does not find"


def _steps_of_call_graphs():
    """Every function that docs/architecture.md names next to its file, with that file."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for line in text.splitlines():
        if (file := re.search(r"\s{2,}([a-z_]+/[a-z_/]+\.py)", line)) is not None:
            call = re.sub(r"\(.*?\)", "", line[: file.start()]).split("→")[0]  # what stands after → is returned
            for name in re.findall(r"[A-Za-z_.]+", call):
                yield name.rpartition(".")[2], file[1]


def test_every_step_of_a_call_graph_is_defined_in_the_file_next_to_it():
    steps = list(_steps_of_call_graphs())
    assert len(steps) > 30
    folder = ROOT / "src" / "firstsight"
    code = {file: (folder / file).read_text(encoding="utf-8") for _, file in steps if (folder / file).exists()}
    wrong = [
        f"{name} in {file}" for name, file in steps if not re.search(rf"\b(def|class) {name}\b", code.get(file, ""))
    ]
    assert not wrong


def test_every_symbol_that_the_page_on_the_paper_names_exists():
    names = re.findall(r"\{py:\w+\}`(firstsight\.[\w.]+)`", (ROOT / "docs" / "paper.md").read_text(encoding="utf-8"))
    assert len(names) > 15
    for name in names:
        assert pkgutil.resolve_name(_with_colon(name)) is not None


def _with_colon(name: str) -> str:
    """`a.b.C.d` as `a.b:C.d`: the longest part that is a module, then the rest."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        return ":".join(filter(None, [".".join(parts[:cut]), ".".join(parts[cut:])]))
    raise AssertionError(f"there is no {name}")
