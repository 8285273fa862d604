"""Two ways to run a command: in this process, and in one that can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from firstsight.cli.main import main
from firstsight.data import ZeroShotDataset, write_npz

# The paper's method, which a preset asks for where no --method does; seconds suffice for the small data set.
QUICK = [
    "preset=validated", "embedding_dim=16", "learning_rate=0.01", "iterations=8", "batch_size=16", "semantic_steps=10",
]  # fmt: skip


class Done(NamedTuple):
    code: int
    out: str
    err: str

    def is_refused_with(self, *words: str) -> None:
        """Exit code 2, nothing on stdout, one sentence on stderr that says all these words, no traceback."""
        assert self.code == 2, self
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert line.startswith("error: ")
        assert "Traceback" not in line
        for word in words:
            assert word in line


@pytest.fixture
def cli(monkeypatch, capsys) -> Callable[..., Done]:
    """Run a command in this process: `cli("fit", path, "--out", path)`."""

    def run(*words) -> Done:
        monkeypatch.setattr(sys, "argv", ["firstsight", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stopped:
            code = stopped.code or 0
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return run


@pytest.fixture(scope="session")
def quick() -> list[str]:
    return [word for pair in QUICK for word in ("--set", pair)]


@pytest.fixture(scope="session")
def npz(small, tmp_path_factory) -> Path:
    """The small data set as a file."""
    return write_npz(small, tmp_path_factory.mktemp("data") / "small.npz")


@pytest.fixture(scope="session")
def harder(small) -> ZeroShotDataset:
    """The small data set with other features: the same shapes, so only the content tells."""
    return replace(small, features=small.features[::-1])


# A process that has imported everything once and then forks a child for each command: a child is a process like any
# other, with its own id, memory and output, but starts in milliseconds instead of the seconds that torch takes.
FORKING = """
import json, os, resource, signal, sys, traceback
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job, as tests may be, ignores Ctrl-C
import firstsight.cli.main, firstsight.data, firstsight.evaluation, firstsight.persistence
from firstsight.devices import torch_is_installed
from firstsight.methods import all_methods
if torch_is_installed():
    import torch
    torch.set_num_threads(1)
    all_methods()["deep-embedding"](iterations=1, separation=1e4).fit([[0.0], [1.0]] * 9, ["a", "b"] * 9)
print("ready", flush=True)
for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        os.environ.update(job["env"])
        for number, name in ((0, os.devnull), (1, job["out"]), (2, job["err"])):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
        if job["largest_file"]:
            resource.setrlimit(resource.RLIMIT_FSIZE, (job["largest_file"],) * 2)
        sys.argv = ["firstsight", *job["words"]]
        code = 0
        try:
            exec(job["before"], {})
            firstsight.cli.main.main()
        except SystemExit as stopped:
            code = stopped.code or 0
        except BaseException:  # what the interpreter does with what nobody catches
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Running:
    """A command that runs in a process of its own."""

    def __init__(self, server: subprocess.Popen, folder: Path):
        self._server, self._folder, self._code = server, folder, None
        self.pid = int(server.stdout.readline())

    def send(self, signal: int) -> None:
        os.kill(self.pid, signal)

    def wait(self) -> Done:
        if self._code is None:
            self._code = int(self._server.stdout.readline())
        return Done(self._code, *((self._folder / name).read_text() for name in ("out", "err")))


class Processes:
    def __init__(self, folder: Path):
        self._folder = folder
        self._server = subprocess.Popen(
            [sys.executable, "-c", FORKING],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self._server.stdout.readline() == "ready\n"

    def start(self, *words, largest_file: int = 0, before: str = "", **env: str) -> Running:
        """Begin a command; `largest_file` makes the system refuse longer ones, as a full disk would.

        `before` is code that the process runs first, for one that sends a signal to itself: a signal from here comes
        when this process has its turn, and by then a quick command on a busy machine may have ended.
        """
        names = {name: str(self._folder / name) for name in ("out", "err")}
        limits = {"largest_file": largest_file, "before": before}
        job = {"words": [str(w) for w in words], "env": env, **limits, **names}
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        return Running(self._server, self._folder)

    def run(self, *words, **more) -> Done:
        return self.start(*words, **more).wait()

    def close(self) -> None:
        self._server.stdin.close()
        self._server.wait(timeout=300)
        self._server.stdout.close()


@pytest.fixture(scope="session")
def processes(tmp_path_factory) -> Iterator[Processes]:
    """Commands in processes of their own, one at a time."""
    made = Processes(tmp_path_factory.mktemp("processes"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def few(small, tmp_path_factory) -> Path:
    """A data set with three seen classes: too few to cut validation classes from."""
    seen = np.unique(small.labels[small.train])[:3]
    parts = {name: getattr(small, name) for name in ("train", "test_seen")}
    cut = {name: rows[np.isin(small.labels[rows], seen)] for name, rows in parts.items()}
    return write_npz(replace(small, name="few", **cut), tmp_path_factory.mktemp("data") / "few.npz")
