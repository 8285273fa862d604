"""A progress bar on the terminal for what takes longer than a moment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(description: str, total: int, enabled: bool) -> Iterator[Callable[[int, str], None]]:
    """Yields `show(done, note)`; silent when not enabled or when nobody watches (no terminal)."""
    if not enabled or not sys.stderr.isatty():
        yield lambda done, note: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)
