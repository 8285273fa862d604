"""A function over many inputs, in a child process with limits: the test hears what became of each, whatever it does.

    outcomes = run_in_children(read_a_table, files, memory=2**30, cpu_seconds=10)
    tell("tables", outcomes)            # one line of counts, kept for the report of a campaign
    assert not worrying(outcomes)

Children are forked, so that any function will do and nothing is imported twice; the function should keep away from
threads that the parent has started. A child that an input takes down is replaced, and the next input goes on.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import multiprocessing
import os
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from firstsight.errors import FirstsightError

OK, REFUSED, TRACEBACK, DIED, TIMEOUT, MEMORY = "ok", "refused", "traceback", "died", "timeout", "memory"
FINE = (OK, REFUSED)
TOLD: list[tuple[str, Counter[str]]] = []  # campaigns of this session and their counts, for the table at its end
WAIT = 6.0  # seconds on the clock for each second of the processor's time: others use this machine, too


@dataclass(frozen=True)
class Outcome:
    """What became of one input: `kind`, the sentence or traceback, CPU seconds, and bytes that its memory grew by."""

    place: int
    kind: str
    detail: str = ""
    seconds: float = 0.0
    grown: int = 0


def run_in_children(
    work: Callable[[Any], object],
    inputs: Sequence[Any],
    *,
    memory: int = 2 * 2**30,
    cpu_seconds: float = 20.0,
    refused: tuple[type[BaseException], ...] = (FirstsightError,),
) -> list[Outcome]:
    """`work(input)` for every input; `memory` is what it may take on top of what the process has at the start.

    An exception of `refused` is a sentence for a person, MemoryError a limit that was met, any other a traceback.
    """
    outcomes: list[Outcome] = []
    while len(outcomes) < len(inputs):
        outcomes += _one_child(work, inputs, len(outcomes), memory, cpu_seconds, refused)
    return outcomes


def worrying(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """All that neither went well nor was refused with a sentence."""
    return [outcome for outcome in outcomes if outcome.kind not in FINE]


def tell(campaign: str, outcomes: Sequence[Outcome]) -> str:
    """One line of counts: printed, and added to the file $FIRSTSIGHT_CAMPAIGN_REPORT where there is one."""
    counts = Counter(outcome.kind for outcome in outcomes)
    line = (
        f"{campaign}: {len(outcomes)} inputs, {', '.join(f'{n} {kind}' for kind, n in counts.most_common())}; slowest "
        f"{max((o.seconds for o in outcomes), default=0):.1f} s, most memory "
        f"{max((o.grown for o in outcomes), default=0) / 2**20:.0f} MiB"
    )
    print(line)
    TOLD.append((campaign, counts))
    if report := os.environ.get("FIRSTSIGHT_CAMPAIGN_REPORT"):
        with Path(report).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"campaign": campaign, "inputs": len(outcomes), **counts, "line": line}) + "\n")
    return line


def _one_child(
    work: Callable[[Any], object],
    inputs: Sequence[Any],
    first: int,
    memory: int,
    cpu_seconds: float,
    refused: tuple[type[BaseException], ...],
) -> list[Outcome]:
    """Outcomes from input `first` on, until the last one or the one that ended the child."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(work, inputs, first, memory, cpu_seconds, refused, theirs))
    child.start()
    theirs.close()
    outcomes: list[Outcome] = []
    try:
        for place in range(first, len(inputs)):
            if not ours.poll(cpu_seconds * WAIT):
                child.kill()
                outcomes.append(Outcome(place, TIMEOUT, f"no answer in {cpu_seconds * WAIT:g} s"))
                break
            try:
                outcomes.append(ours.recv())
            except (EOFError, OSError):
                child.join()
                outcomes.append(_end_of(place, child.exitcode or 0, cpu_seconds))
                break
    finally:
        child.join()
        ours.close()
    return outcomes


def _end_of(place: int, code: int, cpu_seconds: float) -> Outcome:
    if code == -signal.SIGXCPU:
        return Outcome(place, TIMEOUT, f"more than {cpu_seconds:g} s of the processor", cpu_seconds)
    return Outcome(place, DIED, signal.Signals(-code).name if code < 0 else f"exit {code}")


def _child(
    work: Callable[[Any], object],
    inputs: Sequence[Any],
    first: int,
    memory: int,
    cpu_seconds: float,
    refused: tuple[type[BaseException], ...],
    answers: Connection,
) -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    faulthandler.disable()  # pytest's would write about every child that an input takes down
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit(resource.RLIMIT_AS, _field("VmSize") + memory)
    for place in range(first, len(inputs)):
        _limit(resource.RLIMIT_CPU, int(time.process_time() + cpu_seconds) + 1)
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
        before, began = _field("VmRSS"), time.process_time()
        kind, detail = OK, ""
        try:
            work(inputs[place])
        except refused as error:
            kind, detail = REFUSED, str(error)
        except MemoryError as error:
            kind, detail = MEMORY, str(error)
        except BaseException:
            kind, detail = TRACEBACK, traceback.format_exc(limit=-6)
        grown = max(0, _field("VmHWM") - before)
        answers.send(Outcome(place, kind, detail, time.process_time() - began, grown))
    answers.close()
    os._exit(0)  # the parent's own business at exit (pytest, torch) is not the child's


def _limit(what: int, soft: int) -> None:
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _field(name: str) -> int:
    """A figure of this process in bytes, as Linux tells it; 0 elsewhere."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    return 0
