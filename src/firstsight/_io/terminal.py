"""Log lines (logger "firstsight") and progress bars."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import rich.console

logger = logging.getLogger("firstsight")
# Characters that move the cursor, clear the screen or turn the text round: all but the end of a line and the tab.
_CONTROLS = [*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
_VISIBLE = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _CONTROLS}


def visible(text: str) -> str:
    """Text from outside as it may go to a screen: control characters are shown, not obeyed.

    >>> print(visible("red \x1b[31mherring"))
    red \\x1b[31mherring
    """
    return text.translate(_VISIBLE)


def in_one_line(name: str) -> str:
    """A name as it may stand in a line of others: its ends of lines and tabs are shown as well.

    >>> print(in_one_line("two" + chr(10) + "lines"))
    two\\nlines
    """
    return visible(name).replace("\n", "\\n").replace("\t", "\\t")


def screen(**options: Any) -> rich.console.Console:
    """Where a command prints: rich's console, for which names are text and never control sequences."""
    from rich.console import Console
    from rich.text import Text

    class Safe(Console):
        def render_str(self, text: str, **more: Any) -> Text:
            return super().render_str(visible(text), **more)

    return Safe(**{"soft_wrap": True, "highlight": False, "markup": False, **options})


def write_out(text: str) -> None:
    """A command's output, unchanged for a file or another program; a screen is shown control characters."""
    sys.stdout.write(visible(text) if sys.stdout.isatty() else text)


class _ToStderr(logging.Handler):
    """One plain line per message on whatever stderr is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        screen(stderr=True).print(self.format(record))


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
    logger.info("%s", in_one_line(message))


def counted(number: int, noun: str) -> str:
    """A number and its noun in the singular or the plural.

    >>> counted(1, "class"), counted(2, "class"), counted(0, "picture")
    ('1 class', '2 classes', '0 pictures')
    """
    plural = noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")
    return f"{number:,} {noun if number == 1 else plural}"


@contextmanager
def progress(description: str, total: int | None, enabled: bool = True) -> Iterator[Callable[..., None]]:
    """Yields `show(done, note="", of=total)`; silent when not enabled, with --quiet, or without a terminal."""
    if not enabled or logger.level == logging.WARNING or not sys.stderr.isatty():
        yield lambda done, note="", of=None: None
        return
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    note = TextColumn("{task.fields[note]}", markup=False)
    with Progress(
        *columns, TimeRemainingColumn(), note, console=screen(stderr=True, markup=True), transient=True
    ) as bar:
        task = bar.add_task(escape(visible(description)), total=total, note="")
        yield lambda done, note="", of=None: bar.update(task, completed=done, note=visible(note), total=of)
