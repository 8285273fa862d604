"""A command and its Python twin: the same figures, bit for bit."""

from __future__ import annotations

import json

import pytest

import firstsight
from firstsight.methods import ESZSL, DeepEmbedding

pytestmark = [
    pytest.mark.usefixtures("in_process"),
    pytest.mark.filterwarnings("ignore:The embedding has collapsed"),  # fits of a moment
]
PASSING = ("seconds", "fit_seconds", "cpu_seconds", "peak_mib")
SMALL = {"iterations": 8, "embedding_dim": 16, "learning_rate": 0.01, "batch_size": 16, "semantic_steps": 10}


def _words(method=""):
    return [word for name, value in SMALL.items() for word in ("--set", f"{method}{name}={value}")]


def test_evaluate(cli, npz, small, tmp_path):
    assert (
        cli(
            "evaluate", npz, "--method", "deep-embedding", "--seed", 3, *_words(), "--json", tmp_path / "record.json"
        ).code
        == 0
    )
    command = json.loads((tmp_path / "record.json").read_text())
    result = firstsight.evaluate(DeepEmbedding(**SMALL, random_state=3), small)
    for name in ("t1", "ts", "tr", "h"):
        assert command[name] == round(100 * getattr(result, name), 2)


def test_benchmark(cli, npz, small, tmp_path):
    words = ["--methods", "eszsl,deep-embedding", "--seeds", 2, "--processes", 1, *_words("deep-embedding.")]
    assert cli("benchmark", npz, *words, "--out", tmp_path / "command").code == 0
    estimators = ["eszsl", DeepEmbedding(**SMALL)]
    table = firstsight.benchmark(estimators, small, seeds=2, out=tmp_path / "call", processes=1, progress=False)
    command, call = (
        [{k: v for k, v in json.loads(line).items() if k not in PASSING} for line in path.read_text().splitlines()]
        for path in (tmp_path / "command" / "small.jsonl", tmp_path / "call" / "small.jsonl")
    )
    assert command == call
    assert len(call) == 6
    cells = [["eszsl", 0], ["deep-embedding", 0], ["deep-embedding", 1]]
    assert table[["method", "seed"]].to_numpy().tolist() == cells


def test_tune(cli, npz, small, tmp_path):
    grid = {"feature_penalty": [1e-3, 1.0, 1e3], "attribute_penalty": [1e-2, 1.0]}
    words = [w for name, values in grid.items() for w in ("--grid", f"{name}={','.join(map(str, values))}")]
    done = cli("tune", npz, "--method", "eszsl", *words, "--processes", 1, "--json", tmp_path / "command.json")
    assert done.code == 0, done
    choice = firstsight.tune(ESZSL(), small, objective="both", grid=grid, processes=1, progress=False)
    choice.save(tmp_path / "call.json")
    assert (tmp_path / "command.json").read_bytes() == (tmp_path / "call.json").read_bytes()
