"""The runner of campaigns sees every way in which an input can end."""

from __future__ import annotations

import os
import signal
import time

import pytest

from campaigns.children import run_in_children, worrying
from firstsight.errors import BadInput


def behave(word: str) -> None:
    if word == "refused":
        raise BadInput("no")
    if word == "traceback":
        raise KeyError(word)
    if word == "died":
        os.kill(os.getpid(), signal.SIGSEGV)
    if word == "timeout":
        while True:
            pass
    if word == "sleeping":
        time.sleep(600)
    if word == "memory":
        bytearray(2**28)


def test_every_end_is_told_and_the_next_input_goes_on(monkeypatch):
    monkeypatch.setattr("campaigns.children.WAIT", 600.0)  # a busy machine is slow, not wrong
    words = ["ok", "refused", "traceback", "ok", "died", "ok", "memory", "timeout", "ok"]
    outcomes = run_in_children(behave, words, memory=2**27, cpu_seconds=0.5)
    assert [outcome.kind for outcome in outcomes] == words
    assert [outcome.place for outcome in outcomes] == list(range(len(words)))
    assert "KeyError" in outcomes[2].detail
    assert outcomes[4].detail == "SIGSEGV"
    assert [outcome.place for outcome in worrying(outcomes)] == [2, 4, 6, 7]


def test_an_input_that_waits_for_ever_is_a_timeout_though_it_takes_no_time_of_the_processor(monkeypatch):
    monkeypatch.setattr("campaigns.children.WAIT", 1.0)
    (outcome,) = run_in_children(behave, ["sleeping"], cpu_seconds=0.5)
    assert (outcome.kind, outcome.detail) == ("timeout", "no answer in 0.5 s")


# More than 32: smaller blocks may come from memory that the process was given earlier and has not returned.
@pytest.mark.parametrize("megabytes", [40, 80])
def test_the_memory_that_an_input_took_is_measured(megabytes):
    def take(size):
        bytearray(b"x") * size

    (outcome,) = run_in_children(take, [megabytes * 2**20])
    assert 0.9 * megabytes < outcome.grown / 2**20 < megabytes + 8
