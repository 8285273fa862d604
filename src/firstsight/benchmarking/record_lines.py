"""A finished cell in one line, for a screen or a log."""

from __future__ import annotations

from firstsight.evaluation import TITLES
from firstsight.execution.plan import in_words
from firstsight.records import Record
from firstsight.terminal import in_one_line


def in_a_line(record: Record) -> str:
    """Which cell, what it found, how long it took."""
    method = f"{record.method} {in_words(record.variant)}".rstrip()
    what = f"{record.dataset} {method} {record.setting} seed {record.seed}:"
    if record.status == "failed":
        return in_one_line(f"{what} failed: {record.error}")
    shown = ((title, getattr(record, name)) for name, title in TITLES.items())
    figures = "  ".join(f"{title} {value:.1f}" for title, value in shown if value is not None)
    if record.seen_unseen is not None and record.seen_unseen.calibrated is not None:
        figures += f"  H calibrated {record.seen_unseen.calibrated.h:.1f}"
    if record.collapsed:
        figures += "  collapsed, or hardly trained"
    return in_one_line(f"{what} {figures}  ({record.seconds or 0.0:.1f} s, {record.peak_mib} MiB)")
