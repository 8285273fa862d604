from __future__ import annotations

import pytest

from firstsight.execution import runner


@pytest.mark.parametrize(
    ("processes", "limit", "threads"),
    [(1, "", 8), (2, "", 4), (3, "", 2), (20, "", 1), (1, "3", 3), (4, "3", 2)],
)
def test_processes_share_the_cores_and_a_limit_that_is_set_already_holds(monkeypatch, processes, limit, threads):
    monkeypatch.setattr(runner, "cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", limit)
    assert runner.Runner(processes).threads == threads
