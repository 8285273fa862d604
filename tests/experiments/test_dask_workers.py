"""A scheduler and workers on loopback: the same records as here, whatever happens to a worker."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import firstsight
from firstsight.errors import BadInput
from firstsight.experiments import executors
from firstsight.experiments.executors import ClusterProblem
from firstsight.experiments.plan import Entry
from firstsight.experiments.session import Session

pytest.importorskip("distributed")

# Durations, what depends on them, and whether a kill came between.
PASSING = {"seconds", "fit_seconds", "cpu_seconds", "peak_mib", "resumed"}
OLDER = "import firstsight; firstsight.__version__ = '0.0.1'; from distributed.cli.dask_worker import main; main()"


class Cluster:
    """A scheduler and its workers, processes on ports that the system chooses."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.started: list[subprocess.Popen] = []
        words = ["-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        self.scheduler, self.address = self._start(words, r"Scheduler at:\s+(tcp://\S+)")

    def worker(self, *program: str) -> subprocess.Popen:
        words = [*(program or ("-m", "distributed.cli.dask_worker")), self.address, "--no-nanny", "--nthreads", "1"]
        words += ["--no-dashboard", "--host", "127.0.0.1", "--local-directory", str(self.folder)]
        return self._start(words, r"Registered to:\s+(tcp://\S+)")[0]

    def _start(self, words: list[str], sign: str) -> tuple[subprocess.Popen, str]:
        log = self.folder / f"{len(self.started)}.log"
        with log.open("wb") as file:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            self.started.append(
                subprocess.Popen([sys.executable, "-P", *words], stdout=file, stderr=file, env=environment)
            )
        deadline = time.monotonic() + 300  # a crowded machine is slow, not wrong
        while not (found := re.search(sign, log.read_text())):
            assert self.started[-1].poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        return self.started[-1], found[1]

    def stop(self) -> None:
        for process in reversed(self.started):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    made = Cluster(folder)
    yield made
    made.stop()


def _records(folder: Path) -> list[dict]:
    return [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


def _lasting(folder: Path) -> list[dict]:
    kept = [{name: value for name, value in record.items() if name not in PASSING} for record in _records(folder)]
    return sorted(kept, key=lambda r: (r["dataset"], r["method"], r["setting"], r["seed"]))


def _after(count: int, act: Callable[[], object], seconds: float = 0.0) -> Callable:
    """A follower of a benchmark that acts once so many cells have begun or ended."""

    @contextlib.contextmanager
    def follow(plans, session):
        heard = []

        def show(event):
            heard.append(event)
            if len(heard) == count:
                threading.Timer(seconds, act).start()

        yield show

    return follow


def _deep(quick: dict, iterations: int) -> Entry:
    return Entry("deep-embedding", "deep-embedding", {**quick["deep-embedding"], "iterations": iterations})


@pytest.mark.parametrize("disk", [pytest.param("shared", marks=pytest.mark.slow), "none"])
def test_a_worker_that_is_killed_costs_no_cell_and_the_records_are_those_of_this_machine(
    cluster, small, quick, tmp_path, monkeypatch, in_process, disk
):
    entries = [_deep(quick, 20), "eszsl", "sae"]
    firstsight.benchmark(entries, small, seeds=2, out=tmp_path / "here", processes=1, progress=False)
    doomed = cluster.worker()
    cluster.worker()
    if disk == "none":  # the workers do not have the folder of results: they are sent the arrays
        order = Session._order
        monkeypatch.setattr(Session, "_order", lambda *a: json.dumps(json.loads(order(*a)) | {"data": "/nowhere"}))
    kill = _after(3, lambda: doomed.send_signal(signal.SIGKILL))
    about = {"engine": "dask", "scheduler": cluster.address, "progress": kill}
    table = firstsight.benchmark(entries, small, seeds=2, out=tmp_path / "there", **about)
    assert doomed.wait(timeout=60) == -signal.SIGKILL
    assert len(table) == 4
    assert len(_records(tmp_path / "there")) == 8  # none is lost, none is there twice
    assert _lasting(tmp_path / "there") == _lasting(tmp_path / "here")
    assert not (tmp_path / "there" / ".data").exists()


@pytest.mark.slow
def test_a_search_on_a_cluster_chooses_what_a_search_here_does(cluster, small, in_process):
    from distributed import Client

    cluster.worker()
    grid = {"feature_penalty": [1.0, 300.0]}
    with Client(cluster.address, set_as_default=False) as client:
        there = firstsight.tune("eszsl", small, grid=grid, folds=2, engine=client, progress=False)
        assert client.status == "running"  # a client that somebody has connected stays so
    here = firstsight.tune("eszsl", small, grid=grid, folds=2, processes=1, progress=False)
    assert there.table.equals(here.table)


def test_a_worker_with_another_version_is_refused_at_the_start_and_when_it_joins_later(cluster, small, tmp_path):
    cluster.worker("-c", OLDER)
    about = {"out": tmp_path / "out", "engine": "dask", "scheduler": cluster.address, "progress": False}
    said = rf"The worker at tcp://127.0.0.1:\d+ has firstsight 0.0.1, and this is {firstsight.__version__}; install"
    with pytest.raises(ClusterProblem, match=said):
        firstsight.benchmark("eszsl", small, **about)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors.ClusterWorkers, "_check_versions", lambda self: None)
        with pytest.raises(ClusterProblem, match=r"has firstsight 0\.0\.1"):
            firstsight.benchmark("eszsl", small, **about)
    assert _records(tmp_path / "out") == []


def test_a_scheduler_that_goes_away_is_one_sentence_and_finished_cells_are_kept(cluster, small, quick, tmp_path):
    cluster.worker()
    entries = ["eszsl", "sae", _deep(quick, 5000)]
    about = {"out": tmp_path / "out", "engine": "dask", "scheduler": cluster.address}
    with pytest.raises(
        ClusterProblem, match=r"The scheduler at tcp://127.0.0.1:\d+ is gone; what was finished is kept"
    ):
        # The deep one is begun first; the others are waiting behind it on the only worker.
        firstsight.benchmark(entries, small, **about, progress=_after(1, cluster.scheduler.kill, 0.5))
    assert _records(tmp_path / "out") == []
    assert not (tmp_path / "out" / ".data").exists()


@pytest.mark.parametrize(
    ("kind", "address", "said"),
    [
        (
            ClusterProblem,
            "tcp://127.0.0.1:1",
            "answered at tcp://127.0.0.1:1 within 0.3 seconds; check the address",
        ),
        (BadInput, "nonsense://a", "'nonsense://a' is not a scheduler's address"),
    ],
)
def test_a_scheduler_that_does_not_answer_is_one_sentence(small, monkeypatch, kind, address, said):
    monkeypatch.setattr(executors, "ANSWER_SECONDS", 0.3)
    with pytest.raises(kind, match=re.escape(said)):
        firstsight.benchmark("eszsl", small, engine="dask", scheduler=address, progress=False)


def test_a_scheduler_without_workers_is_one_sentence(cluster, small, monkeypatch):
    monkeypatch.setattr(executors, "WORKER_SECONDS", 0.3)
    with pytest.raises(ClusterProblem, match=r"had no workers within 0.3 seconds; start some: `dask worker tcp://"):
        firstsight.benchmark("eszsl", small, engine="dask", scheduler=cluster.address, progress=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"engine": "dusk"}, "Unknown engine 'dusk'; did you mean 'dask'?"),
        ({"engine": "dask"}, "needs the address of a scheduler"),
        ({"scheduler": "tcp://node1:8786"}, "belongs to the engine dask"),
        ({"engine": "dask", "scheduler": "tcp://node1:8786", "processes": 2}, "belongs to the engine local"),
    ],
)
def test_contradictions_are_refused_before_anything_runs(small, words, said):
    for call in (firstsight.benchmark, firstsight.tune):
        with pytest.raises(BadInput, match=re.escape(said)):
            call("eszsl", small, **words)


@pytest.mark.slow
def test_all_methods_on_glyphs_on_three_workers_one_of_them_killed(cluster, tmp_path):
    from firstsight.methods import all_methods

    whole = firstsight.load_dataset("glyphs")
    parts = {name: getattr(whole, name)[::8] for name in ("train", "test_seen", "test_unseen")}
    data = replace(whole, features=whole.features[:, ::8], images=None, **parts)
    # What a few hundred rows need: by their defaults the deep methods would take this test half an hour.
    entries = [Entry(word, word, dict(kind.quick)) for word, kind in all_methods().items()]
    firstsight.benchmark(entries, data, out=tmp_path / "here", processes=1, progress=False)
    doomed, *_ = [cluster.worker() for _ in range(3)]
    kill = _after(12, lambda: doomed.send_signal(signal.SIGKILL))
    about = {"engine": "dask", "scheduler": cluster.address, "progress": kill}
    firstsight.benchmark(entries, data, out=tmp_path / "there", **about)
    assert doomed.wait(timeout=60) == -signal.SIGKILL
    assert len(_records(tmp_path / "there")) == 2 * len(all_methods())
    assert _lasting(tmp_path / "there") == _lasting(tmp_path / "here")


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_no_shard_and_the_answers_are_those_of_this_machine(
    cluster, eszsl, small, tmp_path
):
    parquet = pytest.importorskip("pyarrow.parquet")
    shards = [tmp_path / f"{number}.npy" for number in range(12)]
    for number, shard in enumerate(shards):
        np.save(shard, np.tile(small.features[24 * number : 24 * (number + 1)], (1000, 1)))
    recognise = firstsight.Recognizer(eszsl)
    here = recognise.predict_shards(shards, tmp_path / "here")
    doomed, *_ = [cluster.worker() for _ in range(3)]
    told: list[str] = []

    def kill_after_two(file: Path, *_: object) -> None:
        told.append(file.name)
        if len(told) == 2:
            doomed.send_signal(signal.SIGKILL)

    about = {"engine": "dask", "scheduler": cluster.address, "on_shard_done": kill_after_two}
    there = recognise.predict_shards(shards, tmp_path / "there", **about)
    assert doomed.wait(timeout=60) == -signal.SIGKILL
    assert sorted(told) == sorted(file.name for file in there)  # none is lost, none told of twice
    assert [parquet.read_table(file).to_pydict() for file in there] == [
        parquet.read_table(file).to_pydict() for file in here
    ]
    assert len(list((tmp_path / "there").iterdir())) == 12  # neither the model nor half a file is left
