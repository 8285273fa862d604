from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from firstsight._io.files import _mark
from firstsight.experiments import executors
from firstsight.experiments.executors import open_workers
from firstsight.experiments.jobs import share
from firstsight.experiments.plan import make_plan
from firstsight.experiments.records import RecordFile, read_records
from firstsight.experiments.session import prepare


def _run(session):
    with open_workers(processes=1) as workers:
        session.run(workers, lambda event: None)


@pytest.mark.parametrize(
    ("processes", "limit", "threads"),
    [(1, "", 8), (2, "", 4), (3, "", 2), (20, "", 1), (1, "3", 3), (4, "3", 2), (1, "²", 8), (2, "9" * 5000, 4)],
)
def test_processes_share_the_cores_and_a_limit_that_is_set_already_holds(monkeypatch, processes, limit, threads):
    monkeypatch.setattr(executors, "cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert executors.threads_per_process(processes) == threads


@pytest.mark.parametrize(("deaths", "message"), [(1, None), (2, "The process that ran this cell ended with code 3")])
def test_a_call_whose_worker_dies_is_submitted_again_once(tmp_path, deaths, message):
    code = f"""
import os, pathlib
attempts = pathlib.Path({str(tmp_path)!r}, "attempts")
attempts.write_text("x" + (attempts.read_text() if attempts.exists() else ""))
if len(attempts.read_text()) <= {deaths}:
    os._exit(3)
"""
    with open_workers(processes=1) as workers:
        results = dict(workers.run(exec, ["pass", code], lambda source: (source,)))
    assert results["pass"] is None
    assert (tmp_path / "attempts").read_text() == "xx"
    if message is None:
        assert results[code] is None
    else:
        assert isinstance(results[code], executors.WorkerDied)
        assert str(results[code]).startswith(message)


def test_a_worker_does_not_import_what_lies_in_the_current_folder(small, tmp_path, monkeypatch):
    for module in ("numpy", "json", "torch", "firstsight"):
        (tmp_path / f"{module}.py").write_text("open('executed', 'w')\nraise SystemExit('I was executed')\n")
    monkeypatch.chdir(tmp_path)
    (job,) = make_plan("small", ["eszsl"])
    with prepare(tmp_path / "out", [small], {"small": [job]}) as session:
        _run(session)
    assert {record.status for record in read_records(tmp_path / "out")} == {"done"}
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("name", ["..", ".", "", "../..", "e" * 300, "é" * 300, "a/b", ".data", ".checkpoints", "a\nb"])
def test_whatever_a_data_set_is_called_only_its_own_file_is_touched(small, tmp_path, in_process, name):
    results = tmp_path / "results"
    (results / ".data" / "mine").mkdir(parents=True)
    mine = [tmp_path / "a.txt", results / "b.txt", results / ".data" / "mine" / "c.txt", results / "other.jsonl"]
    for path in mine:
        path.write_text("mine")
    before = set(tmp_path.rglob("*"))
    data = replace(small, name=name)
    with prepare(results, [data], {name: make_plan(name, ["eszsl"], ("zsl",))}) as session:
        _run(session)
    (made,) = set(tmp_path.rglob("*")) - before
    assert (made.parent, made.suffix) == (results, ".jsonl")
    assert [record.dataset for record in read_records(made)] == [name]
    assert before <= set(tmp_path.rglob("*"))
    assert {path.read_text() for path in mine} == {"mine"}


def test_copies_of_data_that_a_killed_run_left_are_removed_unless_they_are_in_use(small, tmp_path, in_process):
    folder = tmp_path / "results"
    for name in ("left", "busy"):
        share(small, folder / ".data" / name)
    (folder / ".data" / "left" / f"{_mark(Path('features.npy'))}99999999-ab12cd34.npy").write_text("half")
    busy = RecordFile(folder, "busy")
    busy.open()
    with prepare(folder, [small], {"small": make_plan("small", ["eszsl"], ("zsl",))}) as session:
        assert sorted(path.name for path in (folder / ".data").iterdir()) == ["busy", "small"]
        _run(session)
    assert [path.name for path in (folder / ".data").iterdir()] == ["busy"]
    busy.close()
    with prepare(folder, [small], {"small": []}):
        pass
    assert not (folder / ".data").exists()


def test_an_interrupted_run_ends_its_workers_before_files_are_unlocked_and_removed(small, tmp_path, monkeypatch):
    order = []

    def noted(cls, method, event):
        original = getattr(cls, method)
        monkeypatch.setattr(cls, method, lambda self, *arguments: (order.append(event), original(self, *arguments))[1])

    def interrupt(event):
        raise KeyboardInterrupt

    def run():
        with open_workers(processes=1) as workers, prepare(tmp_path / "out", [small], {"small": [job]}) as session:
            noted(type(workers), "__exit__", "ended")
            session.run(workers, interrupt)

    noted(RecordFile, "close", "unlocked")
    (job,) = make_plan("small", ["eszsl"])
    with pytest.raises(KeyboardInterrupt):
        run()
    assert order[:2] == ["ended", "unlocked"]
