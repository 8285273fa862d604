"""Dockerfile and compose.yaml name what is there: files, extras, commands and options; Docker itself is not needed."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import time
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


def _health_check(steps) -> str:
    *python, code = json.loads(_said(steps, "HEALTHCHECK")[0].split("CMD ")[1])
    assert python == ["python", "-c"]
    return code


def _compose_command() -> list[str]:
    return json.loads(re.search(r"command: (\[.*\])", (ROOT / "compose.yaml").read_text(encoding="utf-8"))[1])


def _check_command(words: list[str], project) -> None:
    """That `firstsight serve …` takes these words."""
    from firstsight.cli.main import app

    assert words[0] in project["project"]["scripts"]
    command = typer.main.get_command(app).commands[words[1]]
    context = command.make_context("serve", words[2:])
    assert context.params["host"] == "0.0.0.0"
    assert context.params["demo"] or str(context.params["model"]) == "/data/model"


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
    _check_command(entry + _compose_command(), project)
    assert "read_only: true" in compose


def test_its_health_check_is_python_that_asks_for_a_route(steps):
    pytest.importorskip("fastapi")
    from firstsight.serving.routes import ROUTERS
    from firstsight.serving.service import Settings

    code = _health_check(steps)
    ast.parse(code)
    port, path = re.search(r"127\.0\.0\.1:(\d+).*'(/\w+)'", code).groups()
    assert path in {route.path for router in ROUTERS for route in router.routes}
    assert [port] == _said(steps, "EXPOSE") == [str(Settings().port)]


class Container:
    """What the container would run, with its environment and commands; folders of the image are folders of a test."""

    def __init__(self, steps, root: Path, command: list[str]):
        from serving.small_server import Server

        (root / "home").mkdir(exist_ok=True)  # no models in the cache of a home
        said = dict(pair.split("=", 1) for rest in _said(steps, "ENV") for pair in rest.split())
        settings = {name: self._here(value, root) for name, value in said.items() if name != "PATH"}
        settings |= {"HOME": str(root / "home"), "FIRSTSIGHT_TOKEN": "a token of some length"}
        self.check = _health_check(steps)
        _, serve, *options = json.loads(_said(steps, "ENTRYPOINT")[-1])
        assert serve == "serve"
        self.server = Server(*options, *(self._here(word, root) for word in command), **settings)

    @staticmethod
    def _here(word: str, root: Path) -> str:
        return re.sub(r"^/(?=data|cache)", f"{root}/", word)

    def health(self) -> tuple[int, dict]:
        """The exit code of the health check, once the server has loaded its model or knows why it cannot."""
        code = self.check.replace("127.0.0.1:8000", self.server.url.removeprefix("http://"))
        until = time.monotonic() + 300
        while time.monotonic() < until:
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
            said = json.loads(done.stdout)
            if said["ready"] or "being loaded" not in said["error"]:
                break
        return done.returncode, said

    def stop(self) -> str:
        """Stop it; its log."""
        with self.server:
            self.server.stop(close=False)
            return self.server.process.stderr.read()


@pytest.fixture
def mounted(tmp_path) -> Path:
    """`data/model`, a model of pictures that knows its backbone by name, and that backbone, not yet in place."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("fastapi")
    import numpy as np
    import pandas as pd

    from firstsight.encoders.backbone import Backbone
    from firstsight.methods import ESZSL
    from firstsight.persistence.model_schema import BackboneUsed, Provenance
    from firstsight.recognition import Recognizer

    torch.manual_seed(0)
    folder = tmp_path / "downloaded"
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 6], depths=[1, 1], layer_type="basic")
    transformers.ResNetModel(config).save_pretrained(folder)
    about = {"image_processor_type": "ViTImageProcessor", "size": {"height": 16, "width": 16}}
    (folder / "preprocessor_config.json").write_text(json.dumps(about), encoding="utf-8")
    table = pd.DataFrame({"stripes": [1, 0, 1], "horns": [0, 1, 1]}, index=["zebra", "ox", "bongo"])
    model = ESZSL().fit(np.eye(4, 6, dtype=np.float32), ["zebra", "zebra", "ox", "ox"], table)
    used = BackboneUsed(name="somebody/tiny", fingerprint=Backbone(folder).fingerprint, dim=6)
    (tmp_path / "data").mkdir()
    Recognizer(model, Provenance(backbone=used)).save(tmp_path / "data" / "model")
    return folder


def test_the_container_becomes_ready_as_documented_or_says_what_is_missing(steps, mounted, tmp_path):
    container = Container(steps, tmp_path, _compose_command())
    code, said = container.health()
    log = container.stop()
    assert code == 1
    assert "backbone 'somebody/tiny' cannot be loaded" in said["error"]
    assert "--backbone FOLDER" in said["error"]
    assert "Traceback" not in log
    assert f"There is no folder {tmp_path}/data/backbone" in log

    mounted.rename(tmp_path / "data" / "backbone")
    container = Container(steps, tmp_path, _compose_command())
    code, said = container.health()
    log = container.stop()
    assert (code, said) == (0, {"ready": True, "error": None})
    assert "Traceback" not in log


@pytest.mark.slow
def test_the_image_serves_the_demo_without_anything_mounted(steps, tmp_path):
    pytest.importorskip("fastapi")
    (tmp_path / "cache").mkdir()
    container = Container(steps, tmp_path, json.loads(_said(steps, "CMD")[-1]))
    assert container.health() == (0, {"ready": True, "error": None})
    assert "Traceback" not in container.stop()
