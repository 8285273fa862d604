from __future__ import annotations

import json
import re

import pytest
from safetensors import safe_open

from firstsight.errors import StaleCheckpoint
from firstsight.methods import DeepEmbedding, TransductiveDeepEmbedding
from firstsight.methods.deep_embedding.alternating import AlternatingTraining, Checkpoint, CheckpointHeader

pytest.importorskip("torch")

import torch
from safetensors.torch import save_file

POSITION = {"round": 2, "iteration": 3, "done": 8, "history": [{"round": 1, "loss": 0.1}, {"loss": float("inf")}]}
TENSORS = {"weights/a": torch.arange(6.0).reshape(2, 3), "step": torch.tensor(7), "none": torch.zeros(0, 3)}


@pytest.fixture
def written(tmp_path):
    Checkpoint(tmp_path / "state", "owner").save(TENSORS, POSITION)
    return tmp_path / "state"


def _loaded(path):
    tensors, header = Checkpoint(path, "owner").load()
    return {name: (t.dtype, t.tolist()) for name, t in tensors.items()}, header


def test_a_checkpoint_comes_back_as_it_was(written):
    tensors, header = _loaded(written)
    assert tensors == {name: (t.dtype, t.tolist()) for name, t in TENSORS.items()}
    assert {name: getattr(header, name) for name in POSITION} == POSITION
    assert type(header.history[0]["round"]) is int


def test_no_fit_resumes_from_a_checkpoint_with_a_byte_changed(written):
    whole, before = written.read_bytes(), _loaded(written)
    refused = []
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        written.write_bytes(damaged)
        try:
            assert _loaded(written) == before, f"byte {place}"
        except StaleCheckpoint as error:
            refused.append(error)
    assert len(refused) > 0.9 * len(whole)
    assert all("\n" not in str(error) and error.path == written for error in refused)


@pytest.mark.parametrize("length", [0, 7, 100, -1])
def test_a_checkpoint_that_was_cut_off_is_stale(written, length):
    written.write_bytes(written.read_bytes()[:length])
    with pytest.raises(StaleCheckpoint, match="not a readable checkpoint"):
        _loaded(written)


def test_a_checkpoint_without_a_header_is_stale(tmp_path):
    save_file(TENSORS, tmp_path / "state", metadata={"format": "pt"})
    with pytest.raises(StaleCheckpoint, match="owner: field required"):
        _loaded(tmp_path / "state")


QUICK = {"embedding_dim": 8, "learning_rate": 1e-2, "stop_below": 0.0, "semantic_steps": 2, "random_state": 0}


class Killed(Exception):
    pass


def fit(task, path, rounds):
    """A fit of one round is inductive; one of several has the task's pool."""
    if rounds == 1:
        return DeepEmbedding(**QUICK, iterations=3, checkpoint=path).fit(task.X, task.y, task.table)
    model = TransductiveDeepEmbedding(**QUICK, iterations=3, rounds=rounds, round_iterations=2, checkpoint=path)
    return model.fit(task.X, task.y, task.table, X_unlabeled=task.pool)


@pytest.fixture(params=[(1, 2), (3, 2), (3, 4), (3, 7), (3, None)], ids=lambda param: f"{param[0]} rounds, {param[1]}")
def interrupted(request, task, tmp_path, monkeypatch):
    """The checkpoint of a fit that was killed after some iteration, or that ended, and its number of rounds."""
    rounds, last = request.param
    save = AlternatingTraining.save

    def save_and_die(training, force=False):
        save(training, force=True)
        if training.done == last:
            raise Killed

    with monkeypatch.context() as patch:
        if last is None:
            fit(task, tmp_path / "state", rounds)
        else:
            patch.setattr(AlternatingTraining, "save", save_and_die)
            with pytest.raises(Killed):
                fit(task, tmp_path / "state", rounds)
    return tmp_path / "state", rounds


def tamper(path, change):
    """Change tensors and header of a checkpoint, and give it the digest that belongs to them."""
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["header"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
    change(tensors, header)
    header["digest"] = CheckpointHeader.model_construct(**header).digest_with(tensors)
    save_file(tensors, path, metadata={"header": json.dumps(header)})
    return tensors


def refused(task, path, rounds) -> str:
    with pytest.raises(StaleCheckpoint, match="delete it to start this fit again") as caught:
        fit(task, path, rounds)
    assert "\n" not in str(caught.value)
    assert caught.value.path == path
    return str(caught.value)


def test_a_state_in_which_any_array_is_missing_or_has_another_shape_or_type_is_refused(task, interrupted):
    path, rounds = interrupted
    whole = path.read_bytes()
    names = sorted(tamper(path, lambda tensors, header: None))
    assert len(names) == 4 * 8 + 1 + 2 * (rounds > 1)  # weights with Adam's state, generator, predictions and selected
    changes = (
        lambda tensor: None,
        lambda tensor: tensor.repeat(2, *[1] * (tensor.ndim - 1)),
        lambda tensor: tensor[None],
        lambda tensor: tensor.double(),
    )
    for name in names:
        for change in changes:

            def apply(tensors, header, name=name, change=change):
                changed = change(tensors.pop(name))
                tensors.update({} if changed is None else {name: changed.contiguous()})

            path.write_bytes(whole)
            tamper(path, apply)
            assert f"({name}: " in refused(task, path, rounds)
    path.write_bytes(whole)
    tamper(path, lambda tensors, header: None)
    assert len(fit(task, path, rounds).history_) == (3 if rounds == 1 else 3 + 2 * 2)  # unchanged, it serves


CHANGES = {
    "other array": (
        lambda t, h: t.update({"adam/a\nb/step": torch.zeros(())}),
        r"adam/a\\nb/step: float32 \(\) inst",
    ),
    "empty generator": (lambda t, h: t["generator"].zero_(), "generator: no state of a random number generator"),
    "no history": (lambda t, h: h.update(history=[]), "its history has 0 iterations instead of"),
    "poor history": (lambda t, h: h["history"][-1].pop("classification"), "its history has other keys than class"),
    "before the beginning": (lambda t, h: h.update(iteration=-1), "iteration: input should be greater than or equal"),
    "nothing done": (lambda t, h: h.update(done=0, history=[]), "done: input should be greater than or equal to 1"),
    "after the end": (lambda t, h: h.update(round=9), "it is in round 9, iteration"),
    "between rounds": (lambda t, h: h.update(round=1, iteration=0), "it is in round 1, iteration 0, of"),
}


@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=CHANGES)
def test_a_state_whose_digest_is_right_but_that_no_fit_writes_is_refused(task, interrupted, change, said):
    path, rounds = interrupted
    tamper(path, change)
    assert re.search(said, refused(task, path, rounds))


@pytest.mark.parametrize("code", [-1, 25])
def test_pseudo_labels_that_are_no_classes_are_refused(task, interrupted, code):
    path, rounds = interrupted
    reached = {}

    def change(tensors, header):
        reached["round"] = header["round"]
        if rounds > 1:
            tensors["selection/predictions"][0, 3] = code

    tamper(path, change)
    if rounds == 1 or reached["round"] == 1:  # none were predicted
        fit(task, path, rounds)
    else:
        assert "selection/predictions: codes of classes outside 0 to 24" in refused(task, path, rounds)
