from __future__ import annotations

import pytest

from firstsight.errors import StaleCheckpoint
from firstsight.methods.deep_embedding.alternating import Checkpoint

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


def test_no_fit_goes_on_from_a_checkpoint_with_a_byte_changed(written):
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


def test_a_checkpoint_of_the_first_format_is_stale(tmp_path):
    save_file(TENSORS, tmp_path / "state", metadata={"facts": '{"owner": "owner", "round": 1}'})
    with pytest.raises(StaleCheckpoint, match="format: field required"):
        _loaded(tmp_path / "state")
