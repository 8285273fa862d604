"""Pictures of many requests, recognised together: one thread asks the Recognizer, so a batch costs what it costs."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

Work = Callable[[Hashable, list[Any]], Sequence[Any]]  # what is asked, and of what → one answer each


class TooBusy(Exception):
    """More waits than there is room for."""


@dataclass
class _Asked:
    question: Hashable
    things: list[Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[list[Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.answer = self.loop.create_future()

    def settle(self, answers: list[Any], error: BaseException | None) -> None:
        if self.answer.done():  # the client has gone
            return
        if error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(answers)


class Batcher:
    """Gathers what requests ask for until there is a batch, or until a lone one has waited `wait` seconds.

    While the thread is at work, others gather by themselves: nobody waits for company that is not needed.
    """

    def __init__(self, work: Work, *, batch_size: int = 32, wait: float = 0.002, room: int = 256):
        self.work, self.batch_size, self.wait, self.room = work, batch_size, wait, room
        self.batches = 0
        self._waiting = 0
        self._lock = threading.Lock()
        self._asked: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """Things that have been asked for and not answered."""
        return self._waiting

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="recognise", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Answer everything that was asked for, then end."""
        self._asked.put(None)
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    async def ask(self, question: Hashable, things: list[Any]) -> list[Any]:
        """An answer for each thing; things of one question are worked on together, whoever asks."""
        with self._lock:
            if self._waiting and self._waiting + len(things) > self.room:
                raise TooBusy
            self._waiting += len(things)
        asked = _Asked(question, things, asyncio.get_running_loop())
        self._asked.put(asked)
        return await asked.answer

    def _run(self) -> None:
        ending = False
        while not ending:
            gathered, ending = self._gather()
            groups: dict[Hashable, list[_Asked]] = defaultdict(list)
            for asked in gathered:
                groups[asked.question].append(asked)
            for question, group in groups.items():
                self._answer(question, group)

    def _gather(self) -> tuple[list[_Asked], bool]:
        first = self._asked.get()
        if first is None:
            return [], True
        gathered, size, until = [first], len(first.things), time.monotonic() + self.wait
        while size < self.batch_size:
            try:
                more = self._asked.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if more is None:
                return gathered, True
            gathered.append(more)
            size += len(more.things)
        return gathered, False

    def _answer(self, question: Hashable, group: list[_Asked]) -> None:
        things = [thing for asked in group for thing in asked.things]
        self.batches += 1
        try:
            answers = list(self.work(question, things))
            error = None
        except BaseException as caught:  # told to those who asked; the thread must go on for the others
            answers, error = [], caught
        with self._lock:
            self._waiting -= len(things)
        for loop in {asked.loop for asked in group}:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody listens
                loop.call_soon_threadsafe(_tell, loop, group, answers, error)


def _tell(
    loop: asyncio.AbstractEventLoop, group: list[_Asked], answers: list[Any], error: BaseException | None
) -> None:
    """Hand out the answers of a batch to those who wait in this loop: it is woken once for all of them."""
    start = 0
    for asked in group:
        if asked.loop is loop:
            asked.settle(answers[start : start + len(asked.things)], error)
        start += len(asked.things)
