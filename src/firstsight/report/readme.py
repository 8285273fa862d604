"""The README's tables, written from the records in `results/`: no figure there is typed by hand.

Records are lines of `results/*.jsonl` (`firstsight benchmark`), or files `results/*/*.json` (`firstsight evaluate`).

`python -m firstsight.report.readme` in the project's folder writes them anew; a test fails where they differ.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from firstsight.errors import BadInput
from firstsight.files import write_atomically
from firstsight.report.results import SETTINGS, Results, read_results
from firstsight.report.table import spread

FIGURES = {"t1": "T1", "ts": "ts", "tr": "tr", "h": "H"}


def demo_table(records: list[dict[str, Any]]) -> str:
    """What the demo found, as Markdown."""
    lines = ["| method | T1 | ts | tr | H |", "|---|---:|---:|---:|---:|"]
    for record in records:
        lines.append(f"| {record['method']} | " + " | ".join(f"{record[k]:.1f}" for k in FIGURES) + " |")
    return "\n".join(lines)


def results_table(records: list[dict[str, Any]]) -> str:
    """Mean ± standard deviation over seeds of every data set and method, as Markdown."""
    cells = defaultdict(list)
    for record in records:
        cells[record["dataset"], record["method"]].append(record)
    lines = ["| data set | method | seeds | T1 | ts | tr | H |", "|---|---|---:|---:|---:|---:|---:|"]
    for (dataset, method), runs in sorted(cells.items()):
        if len({run["split"] for run in runs}) > 1:
            raise BadInput(f"The records of {dataset} come from different splits; keep those of one.")
        shown = [_spread([run[name] for run in runs]) for name in FIGURES]
        name = f"{method} *" if any(run.get("extra_supervision") for run in runs) else method
        lines.append(f"| {dataset} | {name} | {len(runs)} | " + " | ".join(shown) + " |")
    if any(record.get("extra_supervision") for record in records):
        lines += ["", "\\* is told more than the others: which unlabelled rows belong to unseen classes."]
    return "\n".join(lines)


def both_settings(results: Results) -> list[dict[str, Any]]:
    """Benchmark records of a data set, method and seed in one: T1 of the one setting, ts, tr and H of the other."""
    joined: dict[tuple[str, str, int], dict[str, Any]] = {}
    for record in results.tables:
        names = ("dataset", "method", "seed", "split", "extra_supervision")
        start = {**{name: record[name] for name in names}, **dict.fromkeys(FIGURES)}
        row = joined.setdefault((record["dataset"], record["method"], record["seed"]), start)
        for name in SETTINGS[record["setting"]]:
            row[name] = "failed" if record["status"] == "failed" else record[name]
    return list(joined.values())


def filled_in(text: str, name: str, content: str) -> str:
    """`text` with `content` between its markers `<!-- name: begin -->` and `<!-- name: end -->`."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise BadInput(f"The document must have the markers {begin} and {end} once each; put them in.")
    pattern = re.escape(begin) + r".*?" + re.escape(end)
    return re.sub(pattern, lambda _: f"{begin}\n{content}\n{end}", text, flags=re.DOTALL)


def readme(project: Path) -> str:
    """The README as it should be, given the records."""
    text = (project / "README.md").read_text(encoding="utf-8")
    demo = json.loads((project / "results" / "demo.json").read_text(encoding="utf-8"))
    records = both_settings(read_results(project / "results"))
    text = filled_in(text, "demo", demo_table(demo))
    return filled_in(text, "results", results_table(records))


def _spread(values: list[float | str | None]) -> str:
    known = [value for value in values if isinstance(value, int | float)]
    failed = values.count("failed")
    if not known:
        return "failed" if failed else "–"
    return spread(known) + (f" ({failed} failed)" if failed else "")


if __name__ == "__main__":
    write_atomically("README.md", readme(Path()))
