"""Tables of a report and their formats: HTML, LaTeX, Markdown, CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from statistics import mean, stdev
from typing import Any

from firstsight._io.files import csv_text


@dataclass(frozen=True)
class TableCell:
    """What stands in one place: the text, a small sign behind it, a quieter line beneath it, and how it is marked.

    A `share` from 0 to 1 is shown as a bar behind the text where the format has bars.
    """

    text: str
    detail: str = ""
    mark: str = ""  # "best", "second", "failed", "ours" or ""
    sign: str = ""
    share: float | None = None


@dataclass(frozen=True)
class Column:
    """The head of a column; neighbours with the same `group` share a head above their own."""

    title: str
    group: str = ""
    is_number: bool = True


Row = Sequence[TableCell] | str


@dataclass(frozen=True)
class Table:
    """A table; a row that is a string is a heading over all columns.

    `name` is the stem of its files. `tidy` are the same figures for programs, one mapping per CSV line; left out,
    the CSV has the table's own texts.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    tidy: Sequence[Mapping[str, Any]] = field(default=())


def words(*titles: str) -> list[Column]:
    """Columns of words."""
    return [Column(title, is_number=False) for title in titles]


def spread(values: Iterable[float | None], digits: int = 1) -> str:
    """Mean ± standard deviation of the values that there are: no deviation of a single one, a dash without any."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    shown = f"{mean(known):.{digits}f}".replace("-", "−")
    return shown + (f" ± {stdev(known):.{digits}f}" if len(known) > 1 else "")


def signed(value: float, digits: int = 1) -> str:
    """A difference with its sign; what rounds to nothing has none."""
    shown = f"{value:+.{digits}f}"
    return shown[1:] if float(shown) == 0 else shown.replace("-", "−")


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "±": r"$\pm$", "−": "$-$", "–": "--", "×": r"$\times$", "λ": r"$\lambda$", "…": r"\dots{}",
    "✓": r"$\surd$", "↓": r"$\downarrow$", "↑": r"$\uparrow$", "†": r"$\dagger$", "→": r"$\to$",
    "≥": r"$\geq$", "≤": r"$\leq$", "\"": "''",
}  # fmt: skip
_MARKDOWN = set("\\`*_{}[]<>#|~$")


def html_table(table: Table) -> str:
    """The table in a box of its own that scrolls sideways where the screen is narrow."""
    heads = [f'<th scope="col"{_align(column)}>{escape(column.title)}</th>' for column in table.columns]
    head = f"<tr>{''.join(heads)}</tr>"
    if any(column.group for column in table.columns):
        over = (f'<th colspan="{n}" scope="colgroup" class="group">{escape(g)}</th>' for g, n in _groups(table.columns))
        head = f"<tr>{''.join(over)}</tr>{head}"
    body = []
    n_bars = max((sum(c.share is not None for c in row) for row in table.rows if not isinstance(row, str)), default=0)
    bars = f' style="--bars:{n_bars}"' if n_bars else ""
    for row in table.rows:
        if isinstance(row, str):
            body.append(f'<tr class="heading"><th colspan="{len(table.columns)}"><span>{escape(row)}</span></th></tr>')
        else:
            cells = "".join(map(_html_cell, row, table.columns))
            body.append(f'<tr class="ours">{cells}</tr>' if row[0].mark == "ours" else f"<tr>{cells}</tr>")
    return (
        f'<h3>{escape(table.title)}</h3><div class="scroll" tabindex="0" role="region" aria-label="'
        f'{escape(table.title)}"><table{bars}><thead>{head}</thead><tbody>{"".join(body)}</tbody></table></div>'
        + html_notes(table.notes)
    )


def html_notes(notes: Iterable[str]) -> str:
    """Sentences beneath a table or figure; what stands between backticks is code."""
    said = "".join(f'<p class="note">{html_sentence(note)}</p>' for note in notes)
    return f'<div class="notes">{said}</div>' if said else ""


def html_sentence(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def latex_table(table: Table) -> str:
    """A tabular that needs no package."""
    ends = r" \\"
    aligned = "".join("r" if column.is_number else "l" for column in table.columns)
    lines = [f"% {' '.join(table.title.split())}", rf"\begin{{tabular}}{{{aligned}}}", r"\hline"]
    if any(column.group for column in table.columns):
        groups = _groups(table.columns)
        lines.append(" & ".join(rf"\multicolumn{{{n}}}{{c}}{{{latex_text(g)}}}" for g, n in groups) + ends)
    lines += [" & ".join(latex_text(column.title) for column in table.columns) + ends, r"\hline"]
    for row in table.rows:
        if isinstance(row, str):
            lines.append(rf"\multicolumn{{{len(table.columns)}}}{{l}}{{\textit{{{latex_text(row)}}}}}" + ends)
        else:
            lines.append(" & ".join(_latex_cell(cell) for cell in row) + ends)
    lines += [r"\hline", r"\end{tabular}", *(f"% {' '.join(note.split())}" for note in table.notes)]
    return "\n".join(lines) + "\n"


def markdown_table(table: Table) -> str:
    """A pipe table; groups of columns are said in each head."""
    heads = [markdown_text(f"{column.group} {column.title}".strip()) for column in table.columns]
    rules = ["---:" if column.is_number else "---" for column in table.columns]
    lines = [f"**{markdown_text(table.title)}**", "", _piped(heads), _piped(rules)]
    for row in table.rows:
        if isinstance(row, str):
            lines.append(_piped([f"*{markdown_text(row)}*", *[""] * (len(table.columns) - 1)]))
        else:
            lines.append(_piped([_markdown_cell(cell) for cell in row]))
    for note in table.notes:
        lines += ["", markdown_sentence(note)]
    return "\n".join(lines) + "\n"


def csv_table(table: Table) -> str:
    """The figures for programs."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    if table.tidy:
        names = list(dict.fromkeys(name for line in table.tidy for name in line))
        writer.writerow(names)
        values = ([line.get(name) for name in names] for line in table.tidy)
        writer.writerows([csv_text(v) if isinstance(v, str) else v for v in line] for line in values)
    else:
        writer.writerow([f"{column.group} {column.title}".strip() for column in table.columns])
        for row in table.rows:
            assert not isinstance(row, str), f"headings have no place in a CSV file: {table.name} must be told tidily"
            writer.writerow([csv_text(cell.text) for cell in row])
    return file.getvalue()


def latex_text(text: str) -> str:
    """Text as LaTeX prints it."""
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(text.split()))


def markdown_text(text: str) -> str:
    """Text as Markdown shows it."""
    return _escaped(" ".join(text.split()))


def markdown_sentence(text: str) -> str:
    """Text as Markdown shows it; what stands between backticks is code, in which nothing is escaped."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))  # every second one is code
    return "".join(part if number % 2 else _escaped(part) for number, part in enumerate(parts))


def _escaped(text: str) -> str:
    return "".join(f"\\{letter}" if letter in _MARKDOWN else letter for letter in text)


def _groups(columns: Sequence[Column]) -> list[tuple[str, int]]:
    return [(group, len(list(neighbours))) for group, neighbours in groupby(columns, key=lambda column: column.group)]


def _html_cell(cell: TableCell, column: Column) -> str:
    text = re.sub(r"(?<=[a-z][_.])(?=[A-Za-z])", "<wbr>", escape(cell.text))  # names of classes may break there
    wrap = {"best": "<strong>%s</strong>", "second": "<u>%s</u>", "failed": '<span class="failed">%s</span>'}
    text = wrap.get(cell.mark, "%s") % text
    text += f"<sup>{escape(cell.sign)}</sup>" if cell.sign else ""
    detail = f"<small>{escape(cell.detail)}</small>" if cell.detail else ""
    long = not column.is_number and max(len(cell.text), len(cell.detail)) > 36
    look = ' class="long"' if long else _align(column)
    if cell.share is not None and not long:
        look = f' class="number bar" style="--share:{cell.share:.3f}"'
    return f"<td{look}>{text}{detail}</td>"


def _align(column: Column) -> str:
    return ' class="number"' if column.is_number else ""


def _latex_cell(cell: TableCell) -> str:
    wrap = {"best": r"\textbf{%s}", "second": r"\underline{%s}", "failed": r"\textit{%s}"}.get(cell.mark, "%s")
    sign = rf"$^{{\mathrm{{{latex_text(cell.sign)}}}}}$" if cell.sign else ""
    detail = r" {\scriptsize (" + latex_text(cell.detail) + ")}" if cell.detail else ""
    return wrap % latex_text(cell.text) + sign + detail


def _markdown_cell(cell: TableCell) -> str:
    # Markdown cannot underline, and GitHub lets <ins> through but not <u>.
    wrap = {"best": "**%s**", "second": "<ins>%s</ins>", "failed": "*%s*"}.get(cell.mark, "%s")
    sign = f"<sup>{markdown_text(cell.sign)}</sup>" if cell.sign else ""
    return wrap % markdown_text(cell.text) + sign + (f" ({markdown_text(cell.detail)})" if cell.detail else "")


def _piped(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
