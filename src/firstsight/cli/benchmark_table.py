"""What a benchmark shows: a live table where somebody watches, else one line per finished cell."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from firstsight.benchmarking.comparison import Show
from firstsight.benchmarking.record_lines import in_a_line
from firstsight.evaluation import TITLES
from firstsight.execution.plan import Job, in_words
from firstsight.execution.runner import Event
from firstsight.execution.session import Session
from firstsight.records.record_schema import Key, Record, key_of
from firstsight.terminal import in_one_line, say, screen

EVERY = 60.0  # seconds between two signs of life where nobody watches


class Display:
    """Follows a session; `show` hears of every job that begins or ends."""

    def __init__(self, plans: dict[str, list[Job]], session: Session, out: Path):
        self.console = screen()
        self.plans, self.out = plans, out
        cells = {key_of(cell) for jobs in plans.values() for job in jobs for cell in job.cells()}
        self.total = len(cells)
        self.records: dict[Key, Record] = {key_of(r): r for r in session.there if key_of(r) in cells}
        self.failures = 0
        self._there = len(self.records)
        self._running: list[tuple[Job, float]] = []
        self._began = time.monotonic()
        self._live: Live | None = None
        self._ended = threading.Event()

    def __enter__(self) -> Show:
        if self._there:
            self.console.print(f"{self._there} of {self.total} cells are in {self.out} already.")
        if self.console.is_terminal and self._there < self.total:
            self._live = Live(get_renderable=self._view, console=self.console, refresh_per_second=2, transient=True)
            self._live.start()
        if self._live is None:
            threading.Thread(target=self._give_signs, daemon=True).start()
        return self.show

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        if self._live is not None:
            self._live.stop()
        if kind is not None:
            return
        for name in self.plans:
            self.console.print(self._table(name), soft_wrap=False)
        for record in self.records.values():
            if record.status == "failed":
                what = f"failed: {record.dataset} {record.method} {record.setting} seed {record.seed}: {record.error}"
                self.console.print(in_one_line(what))
        self.console.print(f"{len(self.records) - self.failures} of {self.total} cells are done; records: {self.out}")

    def show(self, event: Event) -> None:
        """A job began or ended."""
        self._running = event.running
        for record in event.records or []:
            self.records[key_of(record)] = record
            self.failures += record.status == "failed"
            if self._live is None:
                self.console.print(f"[{len(self.records)}/{self.total}] {in_a_line(record)}")

    def _give_signs(self) -> None:
        while not self._ended.wait(EVERY):
            now = time.monotonic()
            under_way = ", ".join(f"{job.dataset} {job.name} ({now - began:.0f} s)" for job, began in self._running)
            done = f"[{len(self.records)}/{self.total}] after {now - self._began:.0f} s"
            say(f"{done}; under way: {under_way or 'nothing'}")

    def _view(self) -> Group:
        now = time.monotonic()
        busy = {job.dataset for job, _ in self._running}
        tables = [self._table(name) for name in self.plans if name in busy]
        under_way = [f"  {in_one_line(job.dataset)} {job.name}: {now - began:.0f} s" for job, began in self._running]
        done = f"{len(self.records)} of {self.total} cells, {self.failures} failed, {now - self._began:.0f} s"
        return Group(*tables, Text("\n".join([done, *under_way])))

    def _table(self, dataset: str) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(in_one_line(dataset))
        for title in (*TITLES.values(), "seeds", "seconds"):
            table.add_column(title, justify="right")
        rows: dict[str, list[Record]] = {}
        for job in self.plans[dataset]:
            title = f"{job.method} {in_words(job.variant)}".rstrip()
            cells = [self.records.get(key_of(cell)) for cell in job.cells()]
            rows.setdefault(title, []).extend(r for r in cells if r is not None)
        for title, records in rows.items():
            seeds = len({r.seed for r in records if r.status == "done"})
            failed = sum(r.status == "failed" for r in records)
            state = str(seeds or "") + (f" ({failed} failed)" if failed else "")
            seconds = sum(r.seconds or 0.0 for r in records) / len(records) if records else None
            figures = [_mean(records, name) for name in TITLES]
            table.add_row(title, *figures, state, "" if seconds is None else f"{seconds:.1f}")
        return table


def _mean(records: list[Record], name: str) -> str:
    values = [value for r in records if (value := getattr(r, name)) is not None]
    return f"{sum(values) / len(values):.1f}" if values else ""
