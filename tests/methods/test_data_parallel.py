"""Two processes fit as one. They are started as torchrun does, but meet in a file: no port can be taken."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from firstsight._io.sandbox import without_current_folder
from firstsight.devices import Team, data_parallel, team
from firstsight.errors import BadInput
from firstsight.methods import DeepEmbedding
from firstsight.methods.deep_embedding.alternating import Checkpoint

SETTINGS = {**DeepEmbedding.quick, "batch_size": 37}  # no batch can be halved
SCRIPT = """
import json, sys
from pathlib import Path
import numpy as np, torch
from firstsight.devices import data_parallel
from firstsight.errors import BadInput
from firstsight.methods import DeepEmbedding

place, rank = Path(sys.argv[1]), int(sys.argv[2])
given = np.load(place / "given.npz")
torch.distributed.init_process_group("gloo", init_method=f"file://{place}/meeting", rank=rank, world_size=2)
def fit(rows, **settings):
    return DeepEmbedding(**settings).fit(given["X"][:rows], given["y"][:rows], given["A"])
with data_parallel() as told:
    assert told == rank
    settings = json.loads(sys.argv[3])
    whole = fit(None, **settings, random_state=0, checkpoint=place / "state")
    drawn = fit(None, **settings)  # without a seed: the first process's draws are everybody's
    try:
        fit(200 + rank, **settings)
    except BadInput as error:
        refused = str(error)
curve = [[step[name] for name in ("loss", "semantic")] for step in whole.history_]
np.savez(place / f"made{rank}.npz", curve=curve, scores=whole.decision_function(given["X"]), refused=refused,
         drawn=drawn.decision_function(given["X"]))
torch.distributed.destroy_process_group()
"""


class Killed(Exception):
    pass


@pytest.fixture(scope="module")
def both(task, tmp_path_factory):
    """One process's model; what both of two processes made, going on from where one process was killed; the place."""
    place = tmp_path_factory.mktemp("data_parallel")
    y = np.searchsorted(task.table.index, task.y)
    np.savez(place / "given.npz", X=task.X, y=y, A=task.A)

    def die(checkpoint, tensors, position):
        save(checkpoint, tensors, position)
        if position["done"] == 3:
            raise Killed

    save = Checkpoint.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "is_due", lambda self: True)
        patch.setattr(Checkpoint, "save", die)
        with pytest.raises(Killed):
            DeepEmbedding(**SETTINGS, random_state=0, checkpoint=place / "state").fit(task.X, y, task.A)
    with without_current_folder():
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        words, settings = [sys.executable, "-c", SCRIPT, str(place)], json.dumps(SETTINGS)
        runs = [
            subprocess.Popen([*words, str(rank), settings], env=environment, stderr=subprocess.PIPE, text=True)
            for rank in range(2)
        ]
    try:
        for run in runs:
            _, said = run.communicate(timeout=300)
            assert run.returncode == 0, said
    finally:
        for run in runs:
            run.kill()
    alone = DeepEmbedding(**SETTINGS, random_state=0).fit(task.X, y, task.A)
    return alone, [np.load(place / f"made{rank}.npz") for rank in range(2)], place


def test_two_processes_have_the_loss_curve_and_the_answers_of_one(both, task):
    alone, (first, second), _ = both
    curve = [[step[name] for name in ("loss", "semantic")] for step in alone.history_]
    np.testing.assert_allclose(first["curve"], curve, rtol=1e-4)  # up to rounding, which Adam carries on
    scores = alone.decision_function(task.X)
    np.testing.assert_allclose(first["scores"], scores, rtol=1e-2, atol=1e-3 * np.abs(scores).max())
    assert (first["scores"].argmax(1) == scores.argmax(1)).mean() > 0.99
    for name in first.files:
        assert np.array_equal(first[name], second[name])  # and with each other they agree bit for bit


def test_the_first_process_writes_the_checkpoint(both, task, monkeypatch):
    alone, (first, _), place = both
    monkeypatch.setattr(
        "firstsight.methods.deep_embedding.two_branch.TwoBranch.visual_pass", None
    )  # nothing is left to do
    y = np.searchsorted(task.table.index, task.y)
    model = DeepEmbedding(**SETTINGS, random_state=0, checkpoint=place / "state").fit(task.X, y, task.A)
    assert len(model.history_) == len(alone.history_)
    np.testing.assert_allclose(model.decision_function(task.X), first["scores"], rtol=1e-6)


def test_processes_with_other_rows_are_refused_instead_of_waited_for(both):
    _, made, _ = both
    for one in made:
        assert "must have the same number of rows, but have from 200 to 201" in str(one["refused"])


def test_a_process_that_was_started_alone_is_told_how_to_start_two(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(BadInput, match="torchrun"), data_parallel():
        pass
    assert team() == Team()


@pytest.mark.parametrize("n", [0, 1, 2, 37])
def test_parts_are_all_rows_once(n):
    parts = [Team(rank, 3).part(n) for rank in range(3)]
    assert [row for part in parts for row in range(n)[part]] == list(range(n))
