"""The tables of README.md and results/README.md, written from the records in `results/`: no figure is typed by hand.

Records are the lines of `results/*.jsonl` (`firstsight benchmark`); what the demo printed is in `results/demo.json`.

`python tools/readme.py` in the project's folder writes them again, with what README's Python prints; tests fail where
they differ. `make readme` runs the demo first, and draws the images (`tools/images.py`).
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from statistics import mean
from typing import Any

from firstsight._io.files import write_atomically
from firstsight.cli.demo import NEXT_COMMAND, verdict
from firstsight.errors import BadInput
from firstsight.evaluation import SETTINGS, TITLES
from firstsight.methods import DEFAULT_METHOD, DEFAULT_TRANSDUCTIVE_METHOD
from firstsight.reporting.accuracy_tables import chosen_note, figure_cell, mark_notes, places
from firstsight.reporting.results import Results, read_results
from firstsight.reporting.run_tables import tuning_table
from firstsight.reporting.table import Column, Row, Table, TableCell, markdown_table

_SHOWN = ("t1", "h")  # the figure that each setting is judged by
_SHORT = ("CUB", "SUN397_CLIP")  # attributes by people with ResNet's features, and CLIP's features
TOLERANCE = 1.0  # points by which another CPU may differ from the figures of the demo; README says so in words


def demo_output(records: list[dict[str, Any]]) -> str:
    """What the demo ends with: its table (without ts and tr, for telephones), its verdict and the next command."""
    shown = ("t1", "h", "seconds")
    lines = ["| method | T1 | H | s |", "|---|---:|---:|---:|"]
    lines += [f"| {record['method']} | {' | '.join(f'{record[k]:.1f}' for k in shown)} |" for record in records]
    return "\n".join([*lines, "", f"> {verdict(records)}<br>", f"> Next: `{NEXT_COMMAND}`"])


def short_table(results: Results) -> str:
    """T1 and H of five methods on two data sets: narrow enough for a telephone."""
    ours = ["deep-embedding", DEFAULT_METHOD, "transductive-deep-embedding", DEFAULT_TRANSDUCTIVE_METHOD]
    rivals = [m for m in results.methods if m not in (*ours, "blend") and results.is_inductive(m)]
    shown = [dataset for dataset in _SHORT if dataset in results.datasets]
    strongest = max(rivals, key=lambda method: _mean_t1(results, method), default=None)
    lines = [f"| T1/H, % | {' | '.join(shown)} |", "|---|" + "---:|" * len(shown)]
    for method in filter(None, [strongest, *ours]):
        values = [[results.mean_of(d, method, metric) for metric in _SHOWN] for d in shown]
        cells = ["/".join("–" if value is None else f"{value:.1f}" for value in pair) for pair in values]
        lines.append(f"| {results.label(method) if method in results.example else method} | {' | '.join(cells)} |")
    note = f"† transductive. {strongest} has the highest mean T1, over all data sets, of the other inductive methods."
    return "\n".join([*lines, "", note])


def _mean_t1(results: Results, method: str) -> float:
    return mean(results.mean_of(dataset, method, "t1") or 0.0 for dataset in results.datasets)


def code_output(text: str) -> str:
    """What the first Python block of a document prints."""
    code = re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)
    if code is None:
        raise BadInput("The document must have a block of Python; put one in.")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code[1], "README.md", "exec"), {"__name__": "__main__"})
    return f"```text\n{printed.getvalue().rstrip()}\n```"


def results_table(results: Results) -> Table:
    """T1 and H of every method on every data set, a row per method, in the paper's order."""
    figures = [(dataset, metric) for dataset in results.datasets for metric in _SHOWN]
    marks = {figure: places(results, *figure) for figure in figures}
    columns = [Column("method", is_number=False), Column("seeds")]
    columns += [Column(TITLES[metric], dataset) for dataset, metric in figures]
    rows: list[Row] = []
    tried = {r.method for r in results.tables}
    for heading, methods in results.by_space(tried):
        rows.append(heading)
        for method in methods:
            cells = [figure_cell(results, d, method, metric, marks[d, metric]) for d, metric in figures]
            rows.append([TableCell(results.label(method)), TableCell(_seeds(results, method)), *cells])
    notes = [
        "T1: accuracy on unseen classes when only these are candidates. H: harmonic mean of the accuracies on unseen "
        "and on seen classes when all are candidates. Seeds: the number of runs behind a mean ± standard deviation; a "
        "single run has no deviation.",
        *mark_notes(results, tried),
        *filter(None, [chosen_note(results)]),
        "`firstsight report results --out page` makes a page with the rest: ts and tr, the published figures and the "
        "difference from them, curves, maps, easy and hard classes, and what every run cost.",
    ]
    return Table("readme", "Mean per-class accuracy, %", columns, rows, notes)


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
    results = read_results(project / "results")
    text = filled_in(text, "demo", demo_output(demo))
    return filled_in(text, "results", short_table(results))


def about_records(project: Path) -> str:
    """results/README.md as it should be: with every figure, and the table of what tuning gave."""
    text = (project / "results" / "README.md").read_text(encoding="utf-8")
    results = read_results(project / "results")
    text = filled_in(text, "results", markdown_table(results_table(results)).rstrip())
    table = tuning_table(results)
    return filled_in(text, "tuning", markdown_table(table).rstrip() if table else "Nothing is tuned yet.")


def _seeds(results: Results, method: str) -> str:
    """How many runs the figures of a method are of; two numbers where data sets or settings differ."""
    counts = {len(results.runs(d, method, s)) for d in results.datasets for s in SETTINGS} - {0}
    return "–".join(str(n) for n in sorted({min(counts), max(counts)})) if counts else "0"


if __name__ == "__main__":
    whole = readme(Path())
    write_atomically("README.md", filled_in(whole, "output", code_output(whole)))
    write_atomically(Path("results") / "README.md", about_records(Path()))
