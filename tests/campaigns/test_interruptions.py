"""A crash or an error at every operation on files: the right result the next time, nothing lost, nothing left."""

from __future__ import annotations

import errno
import os
import signal
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from campaigns.children import Outcome, run_in_children, tell, worrying
from campaigns.disturbing import disturb
from campaigns.operations import Operation, Refused, fresh, jobs_here, listing
from firstsight.errors import CannotWrite

SAVES = ["save", "save in a new place", "save in two steps", "classes add", "classes add in two steps", "add"]
LONGER = ["fit", "fit with checkpoints", "tune", "benchmark", "embed", "learn"]
# Disturbances of an operation in the normal tests, spread evenly: enough to notice, little enough to wait for.
SHORT = {"save": 22, "learn": 2}
FEW = 5
ERRORS = [errno.ENOSPC, errno.EIO, errno.EACCES]


@dataclass
class Stage:
    """An operation, the folder before it, and what an undisturbed run makes of it."""

    operation: Operation
    template: Path
    place: Path
    before: list[str]
    old: Any
    after: list[str]
    new: Any

    def run(self) -> None:
        with jobs_here(self.place):
            self.operation.run(self.place)

    def check_finished(self, but: str = "") -> None:
        assert self.operation.result(self.place) == self.new, "another result than that of an undisturbed run"
        other = set(listing(self.place)) ^ set(self.after)
        assert not [name for name in other if not but or not name.startswith(but)], f"left behind: {sorted(other)}"


@pytest.fixture
def stage(operations, in_memory, request) -> Stage:
    operation = operations[request.param]
    template, place = in_memory / "template", in_memory / "place"
    template.mkdir()
    operation.before(template)
    made = Stage(operation, template, fresh(place, template), listing(template), None, [], None)
    made.old = _result_or_none(made)
    made.run()
    made.after, made.new = listing(place), operation.result(place)
    made.check_finished()
    return made


def _result_or_none(stage: Stage) -> Any:
    try:
        return stage.operation.result(stage.place)
    except FileNotFoundError:
        return None


def count_operations(stage: Stage, error: int | None) -> int:
    """How many operations on files an undisturbed run does."""
    fresh(stage.place, stage.template)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        found = disturb(stage.place, 0, error)
        stage.run()
        os.write(writer, str(found.seen.total()).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    os.close(writer)
    with os.fdopen(reader) as answer:
        return int(answer.read())


def disturbed(stage: Stage, at: int, error: int | None) -> tuple[int, str]:
    """How a run ended that was disturbed at one operation: its exit code (negative: a signal), and what it said."""
    said = stage.place.with_name("said")
    said.write_text("")
    child = os.fork()
    if child == 0:
        code = 0
        try:
            disturb(stage.place, at, error)
            stage.run()
        except (Refused, CannotWrite) as refusal:
            code = 2
            said.write_text(str(refusal))
        except BaseException:
            code = 1
            said.write_text(traceback.format_exc(limit=-8))
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.read_text()


def crash(stage: Stage, at: int) -> None:
    fresh(stage.place, stage.template)
    code, said = disturbed(stage, at, None)
    assert code in (-signal.SIGKILL, 0), f"{code}: {said}"
    if code and stage.operation.name in SAVES[:2]:
        assert stage.operation.result(stage.place) in (stage.old, stage.new), "neither the old nor the new, whole"
    stage.run()
    stage.check_finished()


def fail(stage: Stage, at: int, error: int) -> None:
    """One sentence and everything as before, or the whole result; then, once the disk is well, the right result."""
    fresh(stage.place, stage.template)
    code, said = disturbed(stage, at, error)
    assert code in (0, 2), f"{code}: {said}"
    assert "Traceback" not in said, said
    if code == 0:
        stage.check_finished(but="cache")  # which only saves time: what cannot be written there is made again
        return
    found = listing(stage.place)
    half_done = [name for name in found if name not in stage.before and not _serves_later(name)]
    assert not half_done or found == stage.after, f"left behind: {half_done}, after {said}"
    if stage.old:
        assert stage.operation.result(stage.place) in (stage.old, stage.new), "what was there is lost"
    stage.run()
    stage.check_finished()


def _serves_later(name: str) -> bool:
    """Finished parts, by which the same command goes on when it runs again."""
    top = Path(name).parts[0]
    return (top in ("cache", "results", "a") and "/." not in name) or "checkpoint" in name or top.endswith(".trials")


def spread(count: int, wanted: int | None) -> list[int]:
    """Numbers from 1 to `count`: all, or some at even distances."""
    if wanted is None or wanted >= count:
        return list(range(1, count + 1))
    return sorted({1 + round(place * (count - 1) / (wanted - 1)) for place in range(wanted)})


def hunt_crashes(stage: Stage, wanted: int | None) -> None:
    points = spread(count_operations(stage, None), wanted)
    report(f"crashes in {stage.operation.name}", run_in_children(lambda at: crash(stage, at), points), points)


def hunt_errors(stage: Stage, wanted: int | None) -> None:
    places = spread(count_operations(stage, errno.EIO), wanted)
    if stage.operation.name in LONGER:  # every place once, the errors in turn
        points = [(at, ERRORS[at % 3]) for at in places]
    else:
        points = [(at, error) for error in ERRORS for at in places]
    report(f"errors in {stage.operation.name}", run_in_children(lambda one: fail(stage, *one), points), points)


def report(campaign: str, outcomes: list[Outcome], points: list[Any]) -> None:
    line = tell(campaign, outcomes)
    wrong = worrying(outcomes)
    assert not wrong, "\n".join([line, *(f"at {points[o.place]}: {o.kind} {o.detail}" for o in wrong[:5])])


@pytest.mark.parametrize("stage", SAVES + LONGER, indirect=True)
def test_a_crash_is_made_good_by_the_same_command(stage):
    hunt_crashes(stage, SHORT.get(stage.operation.name, FEW))


@pytest.mark.parametrize("stage", SAVES + LONGER, indirect=True)
def test_an_error_of_the_disk_is_one_sentence(stage):
    hunt_errors(stage, 2)


@pytest.mark.campaign
@pytest.mark.parametrize("stage", SAVES + LONGER, indirect=True)
def test_a_crash_anywhere_is_made_good_by_the_same_command(stage):
    hunt_crashes(stage, None)


@pytest.mark.campaign
@pytest.mark.parametrize("stage", SAVES + LONGER, indirect=True)
def test_an_error_of_the_disk_anywhere_is_one_sentence(stage):
    hunt_errors(stage, None)
