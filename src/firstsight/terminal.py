"""What a person sees beside a command's output: lines (through `logging`, logger "firstsight") and progress bars."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger = logging.getLogger("firstsight")


class _ToStderr(logging.Handler):
    """One plain line per message on whatever stderr is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        from rich.console import Console

        console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
        console.print(self.format(record))


@contextmanager
def shown_on_screen() -> Iterator[None]:
    """Lines of the logger "firstsight" go to stderr, as a command wants it; a library's user decides for himself."""
    handler, propagate, level = _ToStderr(), logger.propagate, logger.level
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
        logger.setLevel(level)


def set_volume(quiet: bool, verbose: bool) -> None:
    """`--quiet`: warnings only, and no bars; `--verbose`: everything."""
    logger.setLevel(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)


def say(message: str) -> None:
    """One line for a person, apart from a command's output."""
    logger.info("%s", message)


def counted(number: int, noun: str) -> str:
    """A number and its noun in the singular or the plural.

    >>> counted(1, "class"), counted(2, "class"), counted(0, "picture")
    ('1 class', '2 classes', '0 pictures')
    """
    plural = noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")
    return f"{number:,} {noun if number == 1 else plural}"


@contextmanager
def progress(description: str, total: int, enabled: bool = True) -> Iterator[Callable[[int, str], None]]:
    """Yields `show(done, note)`; silent when not enabled, with --quiet, or when nobody watches (no terminal)."""
    if not enabled or logger.level == logging.WARNING or not sys.stderr.isatty():
        yield lambda done, note: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    note = TextColumn("{task.fields[note]}", markup=False)
    with Progress(*columns, TimeRemainingColumn(), note, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(description), total=total, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)
