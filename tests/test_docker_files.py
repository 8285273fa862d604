"""Dockerfile and compose.yaml name what is there: files, extras, commands and options; Docker itself is not needed."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest
import typer.main

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def steps() -> list[tuple[str, str]]:
    """Instruction and what follows it, in order; lines that go on are joined, comments left out."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest) for word, rest in lines]


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _said(steps, instruction: str) -> list[str]:
    return [rest for word, rest in steps if word == instruction]


def _check_command(words: list[str], project) -> None:
    """That `firstsight serve …` takes these words."""
    from firstsight.cli.main import app

    assert words[0] in project["project"]["scripts"]
    command = typer.main.get_command(app).commands[words[1]]
    context = command.make_context("serve", words[2:])
    assert context.params["host"] == "0.0.0.0"
    assert str(context.params["model"]) == "/data/model"


def test_what_is_copied_and_installed_is_there(steps, project):
    copied = [source for rest in _said(steps, "COPY") if not rest.startswith("--from") for source in rest.split()[:-1]]
    assert copied
    assert all((ROOT / source).exists() for source in copied)
    facts = project["project"]
    assert {facts["readme"], "pyproject.toml", *facts["license-files"], "src"} <= set(copied)
    extras = re.search(r"\.\[([\w,]+)\]", " ".join(_said(steps, "RUN")))[1].split(",")
    assert set(extras) <= set(facts["optional-dependencies"])


def test_it_runs_without_rights_and_what_it_starts_exists(steps, project):
    user = _said(steps, "USER")[-1]
    assert user in " ".join(_said(steps, "RUN"))
    names = [word for word, _ in steps]
    assert names.index("USER") < names.index("ENTRYPOINT")
    entry, command = (json.loads(_said(steps, name)[-1]) for name in ("ENTRYPOINT", "CMD"))
    _check_command(entry + command, project)
    compose = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    _check_command(entry + json.loads(re.search(r"command: (\[.*\])", compose)[1]), project)
    assert "read_only: true" in compose


def test_its_health_check_is_python_that_asks_for_a_route(steps):
    pytest.importorskip("fastapi")
    from firstsight.serving import routes_about
    from firstsight.serving.service_settings import Settings

    *python, code = json.loads(_said(steps, "HEALTHCHECK")[0].split("CMD ")[1])
    assert python == ["python", "-c"]
    ast.parse(code)
    port, path = re.search(r"127\.0\.0\.1:(\d+)(/\w+)", code).groups()
    assert path in {route.path for route in routes_about.router.routes}
    assert [port] == _said(steps, "EXPOSE") == [str(Settings().port)]
