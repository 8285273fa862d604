"""Requests become batches, answers find their way back, and nothing that was accepted is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from firstsight.serving.batching import Batcher, TooBusy


def run(asked):
    """What a coroutine gives, from a thread of its own: a browser of other tests may keep a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, asked).result()


def test_requests_that_come_together_are_worked_on_together_by_question():
    calls = []

    def work(question, things):
        calls.append((question, list(things)))
        return [f"{question} {thing}" for thing in things]

    async def many():
        asked = [batcher.ask("double" if n % 3 else "other", [n, n + 100]) for n in range(9)]
        return await asyncio.gather(*asked)

    batcher = Batcher(work, batch_size=64, wait=0.5)
    batcher.start()
    try:
        found = run(many())
    finally:
        batcher.stop()
    questions = ["double" if n % 3 else "other" for n in range(9)]
    assert found == [[f"{question} {n}", f"{question} {n + 100}"] for n, question in enumerate(questions)]
    assert len(calls) < 9
    assert batcher.waiting == 0


def test_a_lone_request_waits_no_longer_than_it_was_told():
    batcher = Batcher(lambda question, things: things, wait=0.05)
    batcher.start()
    assert run(asyncio.wait_for(batcher.ask("x", [1]), timeout=300)) == [1]
    batcher.stop()


def test_an_error_is_told_to_those_who_asked_and_the_next_are_answered():
    def work(question, things):
        if question == "bad":
            raise ValueError("no")
        return things

    async def both():
        return await asyncio.gather(batcher.ask("bad", [1]), batcher.ask("good", [2]), return_exceptions=True)

    batcher = Batcher(work, wait=0.1)
    batcher.start()
    bad, good = run(both())
    assert isinstance(bad, ValueError)
    assert good == [2]
    assert run(batcher.ask("good", [3])) == [3]
    batcher.stop()


def test_when_the_room_is_full_the_next_is_refused_but_never_one_alone():
    free = threading.Event()

    def work(question, things):
        assert free.wait(300)
        return things

    async def crowd():
        first = asyncio.ensure_future(batcher.ask("x", [1, 2, 3]))  # more than the room, but nobody else is there
        await asyncio.sleep(0)  # it has been asked for
        with pytest.raises(TooBusy):
            await batcher.ask("x", [4])
        free.set()
        return await first

    batcher = Batcher(work, room=2)
    batcher.start()
    assert run(crowd()) == [1, 2, 3]
    batcher.stop()


def test_stopping_answers_what_was_accepted():
    def work(question, things):
        time.sleep(0.05)
        return things

    async def stopped():
        asked = [asyncio.ensure_future(batcher.ask(n, [n])) for n in range(5)]
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, batcher.stop)
        return await asyncio.gather(*asked)

    batcher = Batcher(work, batch_size=1)
    batcher.start()
    assert run(stopped()) == [[n] for n in range(5)]
