"""A fit that is killed (kill -9) goes on from its checkpoint and ends with the same model, bit for bit."""

from __future__ import annotations

import json
import signal

import pytest
from safetensors import safe_open

from firstsight.data import write_npz
from firstsight.errors import CannotWrite
from firstsight.methods.deep_embedding.two_branch import TwoBranch
from firstsight.persistence.model_folder import load

pytest.importorskip("torch")

LONG = {
    "deep-embedding": ["iterations=80", "schedule=cosine", "stop_below=0"],
    "transductive-deep-embedding": ["iterations=20", "rounds=4", "round_iterations=20"],
}
SETTINGS = ["embedding_dim=32", "learning_rate=0.01", "batch_size=16", "semantic_steps=10"]
OFTEN = {"FIRSTSIGHT_CHECKPOINT_SECONDS": "0"}  # after every iteration
STOPPING = """
import os
from firstsight.methods.deep_embedding.alternating import Checkpoint

def save_and_stop(checkpoint, tensors, position, save=Checkpoint.save):
    save(checkpoint, tensors, position)
    if position["done"] == {iterations}:
        os.kill(os.getpid(), {how})

Checkpoint.save = save_and_stop
"""


def _command(method, npz, out, *more):
    words = [word for pair in (*SETTINGS, *LONG[method]) for word in ("--set", pair)]
    return ["fit", npz, "--method", method, "--out", out, *words, *more]


def _done(checkpoint) -> int:
    """Iterations that a checkpoint has behind it; 0 if there is none yet."""
    if not checkpoint.exists():
        return 0
    with safe_open(checkpoint, framework="np") as file:  # it is replaced in one step: always readable
        return json.loads(file.metadata()["header"])["done"]


def _stopped_after(processes, command, iterations: int, how: int):
    """What became of a fit that got a signal after so many iterations."""
    return processes.run(*command, before=STOPPING.format(iterations=iterations, how=int(how)), **OFTEN)


@pytest.mark.parametrize("method", LONG)
def test_a_fit_killed_twice_ends_with_the_same_model(processes, npz, tmp_path, method):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    checkpoint = tmp_path / "killed.checkpoint"
    assert processes.run(*_command(method, npz, whole)).code == 0  # as a user's: no checkpoint in ten seconds

    for iterations in (5, 30):  # in the first round, and (transductive) in the second
        ended = _stopped_after(processes, _command(method, npz, killed), iterations, signal.SIGKILL)
        assert ended.code == -signal.SIGKILL, ended
        assert ("Going on from" in ended.err) == (iterations == 30)
        assert not killed.exists()  # no half of a model
        assert _done(checkpoint) == iterations

    ended = processes.run(*_command(method, npz, killed), **OFTEN)
    assert ended.code == 0, ended
    assert f"Going on from {checkpoint}" in ended.err
    assert not checkpoint.exists()
    assert (killed / "arrays.safetensors").read_bytes() == (whole / "arrays.safetensors").read_bytes()
    one, other = (load(folder) for folder in (killed, whole))
    assert len(one.history_) == len(other.history_) == 80
    strip = [[{k: v for k, v in step.items() if k != "seconds"} for step in m.history_] for m in (one, other)]
    assert strip[0] == strip[1]


@pytest.mark.parametrize("method", LONG)
def test_a_fit_that_could_not_be_saved_does_not_train_again(cli, npz, quick, tmp_path, monkeypatch, method):
    words = [*quick, "--set", "rounds=2", "--set", "round_iterations=2"] if method.startswith("trans") else quick
    command = ["fit", npz, "--method", method, *words, "--out"]
    assert cli(*command, tmp_path / "whole").code == 0

    def full(*_, **__):
        raise CannotWrite("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr("firstsight.recognition.learning.save", full)
        cli(*command, tmp_path / "late").is_refused_with("The disk is full.")
    with monkeypatch.context() as patch:
        patch.setattr(TwoBranch, "visual_pass", lambda *_: pytest.fail("trained again"))
        assert cli(*command, tmp_path / "late").code == 0
    one, other = ((tmp_path / name / "arrays.safetensors").read_bytes() for name in ("whole", "late"))
    assert one == other


@pytest.fixture
def interrupted(processes, npz, tmp_path):
    """A checkpoint of a fit that was killed, and its bytes."""
    checkpoint = tmp_path / "model.checkpoint"
    _stopped_after(processes, _command("deep-embedding", npz, tmp_path / "model"), 1, signal.SIGKILL)
    return checkpoint, checkpoint.read_bytes()


def test_a_checkpoint_of_another_fit_is_refused_and_kept(cli, npz, harder, tmp_path, interrupted):
    checkpoint, before = interrupted
    other_data = write_npz(harder, tmp_path / "harder.npz")
    model = tmp_path / "model"
    for command in (
        _command("deep-embedding", npz, model, "--set", "separation=7"),
        _command("deep-embedding", npz, model, "--seed", "1"),
        _command("deep-embedding", other_data, model),
        _command("transductive-deep-embedding", npz, model),
    ):
        done = cli(*command)
        assert done.code == 2
        last = done.err.splitlines()[-1]
        assert last.startswith("error: ")
        assert "checkpoint of a fit with other data or parameters; delete it to start again" in last
        assert "Traceback" not in done.err
        assert checkpoint.read_bytes() == before
        assert not model.exists()


@pytest.mark.parametrize("spoil", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"x" * 99])
def test_a_spoiled_checkpoint_is_told(cli, npz, tmp_path, interrupted, spoil):
    checkpoint, before = interrupted
    checkpoint.write_bytes(spoil(before))
    done = cli(*_command("deep-embedding", npz, tmp_path / "model"))
    assert done.code == 2
    assert "is not a readable checkpoint" in done.err.splitlines()[-1]
    assert "delete it" in done.err
    assert "Traceback" not in done.err


def test_ctrl_c_is_one_sentence_and_the_fit_can_go_on(processes, npz, tmp_path):
    checkpoint = tmp_path / "model.checkpoint"
    done = _stopped_after(processes, _command("deep-embedding", npz, tmp_path / "model"), 3, signal.SIGINT)
    assert done.code == 130
    (line,) = done.err.splitlines()
    assert line.startswith("error: Interrupted; nothing that was there before is lost.")
    assert "serves when the same command runs again" in line
    assert checkpoint.exists()
    assert not (tmp_path / "model").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.checkpoint"]
