"""A benchmark that costs little: cheap methods on the small data set, run in this process or in workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firstsight.benchmark.plan import Job
from firstsight.benchmark.records import records_file

QUICK = {"embedding_dim": 16, "learning_rate": 0.01, "iterations": 8, "batch_size": 16, "semantic_steps": 10}


@pytest.fixture(scope="session")
def quick() -> dict:
    """Parameters by method that make the deep ones a matter of a moment."""
    return {"deep-embedding": QUICK, "transductive-deep-embedding": {**QUICK, "rounds": 3, "round_iterations": 3}}


@pytest.fixture
def record():
    """A record as short as the reading of records allows."""

    def make(**more) -> dict:
        base = {"schema": 1, "status": "done", "error": None, "dataset": "small", "method": "eszsl", "setting": "zsl",
                "seed": 0, "variant": {}, "study": "", "given": {}, "split": "s", "t1": 50.0}  # fmt: skip
        return {**base, **more}

    return make


@pytest.fixture
def write(tmp_path):
    """Write records, or lines as they are, to small.jsonl of the test's folder."""

    def lines(*records, end="\n") -> Path:
        path = records_file(tmp_path, "small")
        text = "\n".join(r if isinstance(r, str) else json.dumps(r) for r in records)
        path.write_text(text + end, encoding="utf-8")
        return path

    return lines


@pytest.fixture
def job() -> Job:
    return Job("small", "eszsl", ("zsl", "gzsl"), 0)
