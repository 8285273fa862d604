from __future__ import annotations

import json
import re
import signal
import time

import pytest

from firstsight.persistence.model_folder import load

pytestmark = pytest.mark.usefixtures("in_process")  # but for `processes`, which are real

GRID = ["--grid", "feature_penalty=0.001,1,1000", "--grid", "attribute_penalty=0.01,1"]


def _tune(npz, tmp_path, *more):
    return ["tune", npz, "--method", "eszsl", *GRID, "--json", tmp_path / "eszsl.json", *more]


@pytest.fixture
def choice(tmp_path):
    return lambda: json.loads((tmp_path / "eszsl.json").read_text(encoding="utf-8"))


def test_the_table_the_choice_and_the_model_agree(cli, npz, small, tmp_path, choice):
    done = cli(*_tune(npz, tmp_path, "--objective", "zsl", "--out", tmp_path / "model"))
    assert (done.code, done.err) == (0, "")
    found = choice()
    means = {json.dumps(c["parameters"]): sum(c["T1"]) / 3 for c in found["candidates"]}
    assert len(means) == 6
    best = max(means.values())
    assert list(found["chosen"]) == ["zsl"]
    parameters = found["chosen"]["zsl"]
    assert means[json.dumps(parameters)] == pytest.approx(best, abs=0.01)
    assert (found["dataset"], found["split"], found["method"]) == ("small", small.split_hash, "eszsl")
    shown = re.search(r"(\d+\.\d+) ± \d+\.\d+ +← chosen for T1", done.out)
    assert float(shown[1]) == pytest.approx(best, abs=0.02)
    model = load(tmp_path / "model")
    assert {name: getattr(model, name) for name in parameters} == parameters
    assert len(model.seen_classes_) == 14  # retrained on all of them
    assert sorted(path.name for path in tmp_path.iterdir()) == ["eszsl.json", "model"]


def test_one_search_chooses_for_each_objective(cli, npz, tmp_path, choice):
    done = cli(*_tune(npz, tmp_path))
    assert done.code == 0
    assert re.search(r" T1 +H ", done.out)
    both = choice()
    for objective, figure in (("zsl", "T1"), ("gzsl", "H")):
        best = max(both["candidates"], key=lambda c, figure=figure: sum(c[figure]))
        assert both["chosen"][objective] == best["parameters"]
        (tmp_path / "eszsl.json").unlink()
        assert cli(*_tune(npz, tmp_path, "--objective", objective)).code == 0
        assert choice()["chosen"] == {objective: both["chosen"][objective]}
        assert [c[figure] for c in choice()["candidates"]] == [c[figure] for c in both["candidates"]]


def test_what_needs_one_objective_says_so_before_anything_is_fitted(cli, npz, tmp_path):
    cli(*_tune(npz, tmp_path, "--out", tmp_path / "model")).is_refused_with("--out saves one model", "--objective gzsl")
    cli(*_tune(npz, tmp_path, "--search", "optuna")).is_refused_with("maximises one figure", "--objective zsl")
    assert not list(tmp_path.iterdir())


def test_the_methods_own_grid_is_the_default(cli, npz, tmp_path, choice):
    from firstsight.methods import ESZSL

    done = cli("tune", npz, "--method", "ESZSL", "--folds", 1, "--json", tmp_path / "eszsl.json")
    assert done.code == 0
    assert choice()["grid"] == ESZSL.grid
    assert choice()["method"] == "eszsl"


def test_lambda_and_eta_of_the_papers_methods_are_chosen_this_way():
    from firstsight.methods import all_methods

    for name in ("deep-embedding", "transductive-deep-embedding"):
        assert {"separation", "penalty"} <= set(all_methods()[name].grid)


@pytest.mark.slow  # the short campaign of crashes has a search, too
def test_a_killed_search_goes_on_and_chooses_the_same(processes, npz, quick, tmp_path):
    def command(name):
        grid = ["--grid", "separation=10,100,300,1000", "--folds", 2, "--processes", 2]
        return ["tune", npz, *quick, "--set", "iterations=120", *grid, "--json", tmp_path / name]

    assert processes.run(*command("whole.json")).code == 0
    trials = tmp_path / "killed.json.trials"
    running = processes.start(*command("killed.json"))
    deadline = time.monotonic() + 300  # a crowded machine is slow, not wrong
    while not any(path.read_bytes().count(b"\n") for path in trials.glob("*.jsonl")):
        assert time.monotonic() < deadline, "no trial was ever finished"
        time.sleep(0.005)
    running.send(signal.SIGKILL)
    running.wait()
    assert not (tmp_path / "killed.json").exists()
    done = processes.run(*command("killed.json"))
    assert done.code == 0, done
    assert f"Going on from {trials}." in done.out
    assert 0 < done.out.count(" s)\n") < 8  # of the eight fits, only what was missing
    whole, killed = (json.loads((tmp_path / name).read_text()) for name in ("whole.json", "killed.json"))
    assert killed == whole
    assert len(whole["candidates"]) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed.json", "whole.json"]


def test_trials_of_another_search_are_refused_and_kept(cli, npz, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(
            "firstsight.experiments.tune.remove_trials", lambda *_: None
        )  # as if it had been killed at the end
        assert cli(*_tune(npz, tmp_path)).code == 0
    kept = {path: path.read_bytes() for path in (tmp_path / "eszsl.json.trials").glob("*.jsonl")}
    assert len(kept) == 3
    other = _tune(npz, tmp_path, "--set", "attribute_scaling=standard")
    done = cli(*other)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert f"remove {tmp_path / 'eszsl.json.trials'} to start again" in done.err
    assert {path: path.read_bytes() for path in kept} == kept


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "eszls"], "did you mean 'eszsl'?"),
        (["--method", "eszsl", "--grid", "feature_penlty=1"], "did you mean 'feature_penalty'?"),
        (["--method", "eszsl", "--grid", "feature_penalty"], "NAME=V1,V2"),
        (["--method", "eszsl", "--grid", "feature_penalty=1,-1"], "feature_penalty"),
    ],
)
def test_a_mistake_is_one_sentence(cli, npz, words, said):
    cli("tune", npz, *words).is_refused_with(said)


def test_the_default_method_chooses_its_own_settings_so_there_is_nothing_to_tune(cli, npz):
    cli("tune", npz).is_refused_with("nothing to tune", "--methods all", "--grid")


def test_options_that_contradict_each_other_are_refused(cli, npz, tmp_path):
    cli(*_tune(npz, tmp_path, "--trials", 3)).is_refused_with("--trials belongs to --search optuna")
    cli(*_tune(npz, tmp_path, "--set", "feature_penalty=3")).is_refused_with("feature_penalty=3 and --grid")


def test_a_choice_is_not_written_over_by_a_search_that_answers_less(cli, npz, tmp_path, choice):
    assert cli(*_tune(npz, tmp_path)).code == 0
    both = choice()
    cli(*_tune(npz, tmp_path, "--objective", "gzsl")).is_refused_with("eszsl on small (zsl), which would be lost")
    assert choice() == both
    assert cli(*_tune(npz, tmp_path)).code == 0  # the same question may be asked again


def test_too_few_classes_for_validation_are_told_before_anything_is_fitted(cli, few):
    cli("tune", few, "--method", "eszsl").is_refused_with("at least 4 classes with training rows", "'few' has 3")


def test_the_command_writes_what_the_call_writes(cli, npz, small, tmp_path):
    import firstsight

    made = tmp_path / "call"
    firstsight.tune_all(["gfzsl", "eszsl"], small, out=made, folds=3, processes=1, progress=False)
    words = ["--methods", "gfzsl,eszsl", "--folds", 3, "--processes", 1]
    done = cli("tune", npz, *words, "--json", tmp_path / "command")
    assert done.code == 0, done
    assert "eszsl: 6 candidates" in done.out
    one, other = (
        {path.name: json.loads(path.read_text()) for path in folder.iterdir()}
        for folder in (made, tmp_path / "command")
    )
    assert len(one) == 2
    assert one == other


def test_options_of_one_method_do_not_go_with_several(cli, npz, tmp_path):
    words = ["tune", npz, "--methods", "eszsl,gfzsl"]
    cli(*words, "--grid", "penalty=1", "--json", tmp_path / "tuned").is_refused_with("--grid is about one method")
    cli(*words).is_refused_with("give --json FOLDER")
    cli(*words, "--json", tmp_path / "one.json").is_refused_with("give --json FOLDER")
