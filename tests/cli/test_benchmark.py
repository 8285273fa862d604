from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from firstsight.data import write_npz
from least_record import LEAST_CHOICE

QUICK = ["embedding_dim=16", "learning_rate=0.01", "batch_size=16", "semantic_steps=10"]
OFTEN = {"FIRSTSIGHT_CHECKPOINT_SECONDS": "0"}
CHEAP = "eszsl,sae,deep-embedding,transductive-deep-embedding"
# Durations, and what depends on them; and whether a kill came between.
PASSING = ("seconds", "fit_seconds", "cpu_seconds", "peak_mib", "resumed")


def _command(npz, out, *more, methods=CHEAP, long=1):
    """A benchmark of a few seconds; `long` stretches the deep methods, so that there is time to kill them."""
    sizes = {"deep-embedding": [f"iterations={8 * long}"]}
    sizes["transductive-deep-embedding"] = [f"iterations={8 * long}", "rounds=3", f"round_iterations={3 * long}"]
    words = []
    for method, extra in sizes.items():
        if method in methods.split(","):
            words += [w for pair in (*QUICK, *extra) for w in ("--set", f"{method}.{pair}")]
    return ["benchmark", npz, "--methods", methods, "--out", out, "--processes", "1", *words, *more]


def _records(out, name="small"):
    return [json.loads(line) for line in (out / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def _checkpoints(out):
    return list((out / ".checkpoints").glob("small/[!.]*"))


def _lasting(records):
    kept = [{k: v for k, v in r.items() if k not in PASSING} for r in records]
    return sorted(kept, key=lambda r: (r["method"], r["setting"], r["seed"]))


@pytest.fixture(scope="module")
def undisturbed(processes, npz, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    done = processes.run(*_command(npz, out, "--seeds", 2, long=5))
    assert done.code == 0, done
    return out, done


def test_every_cell_has_a_record_and_a_line_and_the_table_its_row(undisturbed):
    out, done = undisturbed
    records = _records(out)
    cells = {(r["method"], r["setting"], r["seed"]) for r in records}
    both = {(m, s) for m in CHEAP.split(",") for s in ("zsl", "gzsl")}
    seeds = {"eszsl": [0], "sae": [0]}  # nothing random in these
    assert cells == {(m, s, seed) for m, s in both for seed in seeds.get(m, [0, 1])}
    assert len(records) == 12
    assert {r["status"] for r in records} == {"done"}
    assert {r["threads"] for r in records} == {1}  # as tests/conftest.py has it: a limit that is set already holds
    assert sum(line.startswith("[") for line in done.out.splitlines()) == 12
    assert "12 of 12 cells are done" in done.out
    assert all(" after " in line for line in done.err.splitlines())  # a busy machine: what is under way is told
    assert [path.name for path in out.iterdir()] == ["small.jsonl"]  # nothing hidden is left


def _wait_for(condition, running):
    deadline = time.monotonic() + 300  # a crowded machine is slow, not wrong
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)
    return running


def _processes_of(parent: int) -> list[int]:
    """Its workers. Beside these, Python and loky keep a process each that removes what a killed one has left."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    found = {int(pid): Path(f"/proc/{pid}/cmdline") for pid in children}
    return [pid for pid, line in found.items() if line.exists() and b"popen_loky" in line.read_bytes()]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow  # a crash at many points of a benchmark is in the short campaign
def test_killed_twice_it_ends_with_the_records_of_an_undisturbed_run(processes, npz, tmp_path, undisturbed):
    out = tmp_path / "killed"
    command = _command(npz, out, "--seeds", 2, long=5)
    file = out / "small.jsonl"

    def lines():
        return file.read_bytes().count(b"\n") if file.exists() else 0

    # Once inside the first fit, once somewhere later.
    for ready in (lambda: _checkpoints(out), lambda: lines() >= 3):
        running = processes.start(*command, **OFTEN)
        _wait_for(ready, running)
        workers = _processes_of(running.pid)
        running.send(signal.SIGKILL)
        assert running.wait().code == -signal.SIGKILL
        assert workers
        _wait_for(lambda pids=workers: not any(map(_is_alive, pids)), running)  # none goes on alone
    assert 3 <= lines() < 12
    before = _records(out)
    with file.open("ab") as end:  # and as if the second kill had come in the middle of a line
        end.write(json.dumps(before[0]).encode()[:100])

    done = processes.run(*command, **OFTEN)
    assert done.code == 0, done
    assert f"{len(before)} of 12 cells are in {out} already" in done.out
    assert _lasting(_records(out)) == _lasting(_records(undisturbed[0]))
    assert any(r["resumed"] for r in _records(out))
    assert [path.name for path in out.iterdir()] == ["small.jsonl"]

    done = processes.run(*command)
    assert (done.code, sum(line.startswith("[") for line in done.out.splitlines())) == (0, 0)


def test_ctrl_c_ends_the_workers_and_is_one_sentence(processes, npz, tmp_path):
    pytest.importorskip("torch")
    out = tmp_path / "out"
    running = processes.start(*_command(npz, out, methods="deep-embedding", long=5000), **OFTEN)
    _wait_for(lambda: _checkpoints(out), running)  # in the middle of a fit
    workers = _processes_of(running.pid)
    assert workers
    running.send(signal.SIGINT)
    done = running.wait()
    assert done.code == 130
    *told, line = done.err.splitlines()
    assert all(" after " in one for one in told)  # a busy machine: what is under way is told
    assert line.startswith("error: Interrupted; nothing that was there before is lost.")
    assert not any(map(_is_alive, workers))
    assert (out / "small.jsonl").read_text() == ""


def test_a_failed_cell_is_recorded_the_rest_goes_on_and_the_next_start_tries_again(cli, npz, tmp_path, in_process):
    out = tmp_path / "out"
    # More units than any machine has memory for: only the fit can find out.
    command = ["benchmark", npz, "--methods", "dem,eszsl", "--out", out, "--processes", "1", "--set", "dem.epochs=1"]
    done = cli(*command, "--set", "dem.hidden=1000000000000")
    assert done.code == 1
    by_method = {r["method"]: r for r in _records(out)}
    assert by_method["eszsl"]["status"] == "done"
    assert by_method["dem"]["status"] == "failed"
    assert by_method["dem"]["t1"] is None
    assert by_method["dem"]["error"] in done.out
    assert "2 of 4 cells are done" in done.out

    done = cli(*command, "--set", "dem.hidden=8")
    assert done.code == 0, done
    records = _records(out)
    assert len(records) == 4  # the failed lines are gone
    assert {r["status"] for r in records} == {"done"}
    assert sum(line.startswith("[") for line in done.out.splitlines()) == 2


def test_shots_have_a_row_per_number_and_baselines_run_along(cli, npz, tmp_path, in_process):
    command = ["benchmark", npz, "--methods", "eszsl", "--out", tmp_path / "out", "--processes", "1"]
    done = cli(*command, "--shots", "0,2", "--seeds", "2")
    assert done.code == 0, done
    rows = {
        " ".join(line.split()[:2]): line.split()[2:]
        for line in done.out.splitlines()
        if "shots=" in line and "small" not in line
    }
    assert set(rows) == {
        "eszsl shots=0", "eszsl shots=2", "nearest-mean shots=2", "logistic-regression shots=2",
    }  # fmt: skip
    assert all(row[4] == "2" for row in rows.values())  # draws
    assert "16 of 16 cells are done" in done.out
    assert "16 of 16 cells are in" in cli(*command, "--shots", "0,2", "--seeds", "2").out


def test_a_cell_that_failed_is_named_with_its_shots(cli, npz, tmp_path, in_process):
    done = cli("benchmark", npz, "--methods", "cosine", "--shots", "2", "--seeds", "1", "--out", tmp_path / "results")
    *_, last = done.out.split("seconds", 1)  # below the table
    assert "small cosine shots=2 zsl seed 0: failed: Cosine compares rows with descriptions" in last


def test_a_cell_whose_workers_die_twice_is_a_failed_cell_and_another_worker_takes_over(processes, npz, tmp_path):
    pytest.importorskip("torch")
    out = tmp_path / "out"
    running = processes.start(*_command(npz, out, methods="deep-embedding,eszsl", long=5000), **OFTEN)
    _wait_for(lambda: _checkpoints(out), running)
    (worker,) = _processes_of(running.pid)
    os.kill(worker, signal.SIGKILL)
    _wait_for(lambda: set(_processes_of(running.pid)) - {worker}, running)  # the fit is tried once more
    (again,) = set(_processes_of(running.pid)) - {worker}
    os.kill(again, signal.SIGKILL)
    done = running.wait()
    assert done.code == 1, done
    by_method = {r["method"]: r for r in _records(out)}
    assert by_method["eszsl"]["status"] == "done"
    assert by_method["deep-embedding"]["error"].startswith("The process that ran this cell was ended by signal 9")


@pytest.fixture
def some(tmp_path, npz):
    """A folder with a record of the small data set, and its bytes."""
    from firstsight.data import read_npz
    from firstsight.experiments.jobs import failed_records
    from firstsight.experiments.plan import Job

    data = read_npz(npz)
    (record,) = failed_records(Job("small", "eszsl", ("zsl",), 0), "", 1.0, data.split_hash, data.features_fingerprint)
    out = tmp_path / "some"
    out.mkdir()
    done = {**record.as_json(), "status": "done", "error": None}
    (out / "small.jsonl").write_text(json.dumps(done) + "\n")
    return out, (out / "small.jsonl").read_bytes()


def test_another_split_or_other_features_under_the_same_name_are_refused(cli, small, some, tmp_path):
    out, before = some
    split = replace(small, test_seen=small.test_seen[1:])
    features = replace(small, features=small.features + 1)
    for data, said in ((split, "another split that is also called 'small'"), (features, "other features")):
        path = write_npz(data, tmp_path / "other.npz")
        cli("benchmark", path, "--methods", "eszsl", "--out", out).is_refused_with(said, "choose another folder")
        assert (out / "small.jsonl").read_bytes() == before
        assert len(list(out.iterdir())) == 1


def test_records_of_another_version_are_refused(cli, npz, some):
    out, before = some
    newer = before.replace(b'"schema": 1', b'"schema": 7')
    (out / "small.jsonl").write_bytes(newer)
    cli("benchmark", npz, "--methods", "eszsl", "--out", out).is_refused_with("records of version 7")
    assert (out / "small.jsonl").read_bytes() == newer


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--methods", "eszls"], "did you mean 'eszsl'?"),
        (["--methods", ","], "No method was named"),
        (["--methods", "eszsl", "--set", "feature_penalty=3"], "METHOD.NAME=VALUE"),
        (["--methods", "eszsl", "--set", "eszsl.feature_penlty=3"], "did you mean 'feature_penalty'?"),
        (["--methods", "eszsl", "--set", "eszsl.feature_penalty=-3"], "feature_penalty"),
        (["--methods", "eszsl", "--set", "sae.penalty=3"], "sae is not among --methods"),
        (["--methods", "eszsl", "--set", "eszsl.feature_penalty=3"], "choose another folder, or remove those lines"),
        (["--methods", "dem", "--set", "dem.random_state=3"], "--seed"),
        (["--methods", "eszsl", "--study", "separation"], "leave eszsl out of --methods"),
        (["--study", "separation", "--values", "1,many"], "--values must be numbers"),
        (["--methods", "eszsl", "--values", "1,2"], "--values belongs to --study separation"),
        (["--methods", "eszsl", "--shots", "one"], "--shots must be whole numbers"),
        (["--methods", "eszsl", "--shots", "0,12"], "has 12 test samples: ask for at most 11"),
        (["--methods", "eszsl", "--tuned", "nowhere.json"], "There is no nowhere.json"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_changes(cli, npz, some, words, said):
    out, before = some
    cli("benchmark", npz, *words, "--out", out).is_refused_with(said)
    assert (out / "small.jsonl").read_bytes() == before
    assert len(list(out.iterdir())) == 1


@pytest.mark.parametrize("data", [["no/such/data"], ["{npz}", "{npz}"]])
def test_an_unknown_data_set_or_one_given_twice_is_refused_and_no_folder_is_made(cli, npz, tmp_path, data):
    words = [word.format(npz=npz) for word in data]
    cli("benchmark", *words, "--methods", "eszsl", "--out", tmp_path / "new").is_refused_with("data set")
    assert not (tmp_path / "new").exists()


def test_a_study_has_a_record_for_each_value(cli, npz, tmp_path, in_process):
    command = _command(npz, tmp_path, "--study", "separation", "--values", "0,30", methods="deep-embedding")
    assert cli(*command).code == 0
    found = {(r["setting"], r["variant"]["separation"]): r for r in _records(tmp_path)}
    assert set(found) == {(s, v) for s in ("zsl", "gzsl") for v in (0.0, 30.0)}
    assert all(r["study"] == "separation" for r in found.values())
    assert [found["zsl", v]["parameters"]["separation"] for v in (0.0, 30.0)] == [0.0, 30.0]
    assert found["zsl", 0.0]["collapsed"]


def test_a_benchmark_uses_what_was_tuned_and_says_so(cli, npz, tmp_path, in_process):
    file = tmp_path / "eszsl.json"
    tune = ["tune", npz, "--method", "eszsl", "--grid", "feature_penalty=0.001,1", "--folds", 2, "--json", file]
    assert cli(*tune).code == 0
    chosen = json.loads(file.read_text(encoding="utf-8"))["chosen"]
    same = chosen["zsl"] == chosen["gzsl"]
    out = tmp_path / "results"
    command = ["benchmark", npz, "--methods", "eszsl,sae", "--out", out, "--processes", 1]
    assert cli(*command, "--tuned", file).code == 0
    for record in _records(out):
        if record["method"] == "sae":
            assert record["tuned"] is False
            continue
        objective = "zsl+gzsl" if same else record["setting"]
        tuned = {"objective": objective, "folds": 2, "candidates": 2, "search": "grid"}
        assert record["tuned"] == {**tuned, "kept_defaults": False, "set_by_hand": []}
        assert record["given"] == chosen[record["setting"]]
        assert record["parameters"] | chosen[record["setting"]] == record["parameters"]
    cli(*command).is_refused_with("its default parameters")  # and never mixes the two


def test_what_was_tuned_on_another_split_is_refused(cli, npz, tmp_path):
    about = {**LEAST_CHOICE, "split": "another"}
    (tmp_path / "eszsl.json").write_text(json.dumps(about))
    command = ["benchmark", npz, "--methods", "eszsl", "--out", tmp_path / "out", "--tuned", tmp_path]
    cli(*command).is_refused_with("tuned on another split")
    (tmp_path / "eszsl.json").write_text(json.dumps({**about, "dataset": "CUB"}))
    cli(*command).is_refused_with("holds nothing that was tuned on small")
    (tmp_path / "eszsl.json").write_text("{}")
    cli(*command).is_refused_with("is not what `firstsight tune --json` writes")


def test_calibration_of_a_finished_benchmark_runs_generalized_cells_again_and_changes_no_figure(
    cli, npz, tmp_path, in_process
):
    command = ["benchmark", npz, "--methods", "eszsl,sae", "--out", tmp_path, "--processes", 1]
    assert cli(*command).code == 0
    before = {(r["method"], r["setting"]): r for r in _records(tmp_path)}
    done = cli(*command, "--calibrated-h")
    assert "2 of 4 cells are in" in done.out
    after = {(r["method"], r["setting"]): r for r in _records(tmp_path)}
    assert after.keys() == before.keys()
    for cell, record in after.items():
        assert [record[name] for name in ("t1", "ts", "tr", "h")] == [before[cell][n] for n in ("t1", "ts", "tr", "h")]
        if cell[1] == "gzsl":
            assert 0 < record["seen_unseen"]["calibrated"]["h"] <= 100
    assert "4 of 4 cells are in" in cli(*command, "--calibrated-h").out  # and only once


def test_what_tuning_does_not_cover_is_printed_and_what_is_set_by_hand_recorded(cli, npz, tmp_path, in_process):
    tune = ["tune", npz, "--method", "eszsl", "--grid", "feature_penalty=0.001,1", "--folds", 1, "--objective", "gzsl"]
    assert cli(*tune, "--json", tmp_path / "eszsl.json").code == 0
    command = ["benchmark", npz, "--methods", "eszsl,sae", "--processes", 1, "--tuned", tmp_path / "eszsl.json"]
    done = cli(*command, "--set", "eszsl.attribute_penalty=2", "--out", tmp_path / "out")
    assert done.code == 0
    assert "Not tuned on small, and run with their defaults: sae." in done.err
    assert "Tuned on small for the other setting than zsl only: eszsl." in done.err
    found = [record for record in _records(tmp_path / "out") if record["method"] == "eszsl"]
    assert [record["tuned"]["set_by_hand"] for record in found] == [["attribute_penalty"]] * 2
    assert [record["given"]["attribute_penalty"] for record in found] == [2, 2]


def test_where_calibration_is_impossible_the_figures_stand_without_it(cli, tmp_path, few, in_process):
    command = ["benchmark", few, "--methods", "eszsl", "--processes", 1, "--calibrated-h", "--out", tmp_path]
    assert cli(*command).code == 0
    zsl, gzsl = _records(tmp_path, "few")
    assert (zsl["status"], gzsl["status"], gzsl["seen_unseen"]["calibrated"]) == ("done", "done", None)
    assert "at least 4 classes" in gzsl["warnings"][-1]


def test_a_minute_without_a_finished_cell_is_not_silent(cli, npz, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr("firstsight.cli.benchmark.EVERY", 0.01)  # a worker takes longer to start
    monkeypatch.setattr("firstsight.cli.benchmark.say", said.append)
    assert cli("benchmark", npz, "--methods", "eszsl", "--processes", 1, "--out", tmp_path).code == 0
    assert any("[0/2]" in line and "under way: small eszsl" in line for line in said)


def test_a_data_set_whose_name_has_two_lines_has_one_line_everywhere(cli, small, tmp_path, in_process):
    data = write_npz(replace(small, name="two\nlines\x1b[31m"), tmp_path / "data.npz")
    for words in (
        ("benchmark", data, "--methods", "eszsl", "--out", tmp_path / "out"),
        ("evaluate", data, "--method", "eszsl"),
        ("data", "check", data),
    ):
        done = cli(*words)
        assert done.code == 0
        assert "two\\nlines\\x1b[31m" in done.out
        assert not [line for line in done.out.splitlines() if line.startswith("lines") or "\x1b[31m" in line]
