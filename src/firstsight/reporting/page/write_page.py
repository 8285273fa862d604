"""The report: one self-contained page, and a file of every table and figure on it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from string import Template

from firstsight.errors import CannotWrite
from firstsight.files import write_atomically
from firstsight.page_parts import read_style
from firstsight.reporting.figures.embedding_maps import read_maps
from firstsight.reporting.figures.figure_style import NARROW, WIDE, Picture, png_of, svg_of
from firstsight.reporting.page.page_sections import Leader, Section, all_sections, headlines
from firstsight.reporting.page.report_manifest import refuse_foreign_page, replacing
from firstsight.reporting.recorded_results import Results, read_results
from firstsight.reporting.tables.accuracy_tables import chosen_note, mark_notes
from firstsight.reporting.tables.table import Table
from firstsight.reporting.tables.table_formats import (
    csv_table,
    html_notes,
    html_sentence,
    html_table,
    latex_table,
    markdown_table,
)

Show = Callable[[int, int], None]
Files = dict[str, str | bytes]  # name in the report's folder → content


def report(records: str | Path, out: str | Path, show: Show = lambda done, of: None) -> Path:
    """Make a page of benchmark records, with every table and figure as a file; runs no method.

    Records and maps are judged before the folder is made, and all is drawn before the first file is written: bad
    ones leave an older report as it was. Files of an older report that this one does not have are removed at the end.

    Parameters
    ----------
    records : str or Path
        The folder that `firstsight benchmark` wrote, or one `.jsonl` file.
    out : str or Path
        The folder for `index.html`, `tables/` and `figures/`, made where it is not there.
    show : callable
        Is told how many of how many tables and figures are ready.

    Returns
    -------
    Path
        The page.
    """
    results, out = read_results(records), Path(out)
    maps = read_maps(results.folder, results.splits)
    _check_writable(out)
    refuse_foreign_page(out)
    sections = [_with_notes(section, results) for section in all_sections(results, maps)]
    blocks = [block for section in sections for block in section.blocks]
    contents: Files = {}
    shown: dict[int, str] = {}
    for number, block in enumerate(blocks, start=1):
        own = _files_of(block, contents)
        contents |= own
        shown[id(block)] = _block(block, own)
        show(number, len(blocks))
    contents["index.html"] = _page(results, sections, shown)
    with replacing(out, contents):
        for name, content in contents.items():  # the page comes last: until then, the older one is whole
            write_atomically(out / name, content)
    return out / "index.html"


def _with_notes(section: Section, results: Results) -> Section:
    """With what the project says of its own records beneath the tables and figures that it names."""
    own = results.settings.notes
    blocks = [replace(b, notes=[*b.notes, *own[b.name]]) if b.name in own else b for b in section.blocks]
    return replace(section, blocks=blocks)


def _check_writable(out: Path) -> None:
    """Find out before the drawing begins that there is nowhere to put it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        reason = error.strerror or error
        raise CannotWrite(f"Could not write into the folder {out} ({reason}); choose another --out.") from None


def _files_of(block: Table | Picture, taken: Files) -> Files:
    if isinstance(block, Picture):
        return {_free("figures", block.name, "png", taken): png_of(block)}
    formats = {"csv": csv_table, "tex": latex_table, "md": markdown_table}
    return {_free("tables", block.name, end, taken): make(block) for end, make in formats.items()}


def _free(folder: str, stem: str, end: str, taken: Files) -> str:
    """A file's name that no other has: names of two data sets may look alike once they are files."""
    names = [f"{folder}/{stem}.{end}", *(f"{folder}/{stem}-{n}.{end}" for n in range(2, len(taken) + 3))]
    return next(name for name in names if name.lower() not in {other.lower() for other in taken})


def _block(block: Table | Picture, own: Files) -> str:
    links = " · ".join(f'<a href="{escape(name)}">{escape(Path(name).name)}</a>' for name in own)
    links = f'<p class="files">{links}</p>'
    if isinstance(block, Table):
        return html_table(block) + links
    widths = {"small": NARROW} if block.is_small else {"wide": WIDE, "narrow": NARROW}
    drawn = "".join(
        f'<div class="{name}" role="img" aria-label="{escape(block.alt)}">{svg_of(block, width)}</div>'
        for name, width in widths.items()
    )
    title = f"<figcaption><h3>{escape(block.title)}</h3></figcaption>"
    return f"<figure>{title}{drawn}{html_notes(block.notes)}{links}</figure>"


def _page(results: Results, sections: list[Section], shown: dict[int, str]) -> str:
    own = files("firstsight.reporting.page")
    template = Template(own.joinpath("page.html").read_text(encoding="utf-8"))
    there, missing = [s for s in sections if s.blocks], [s for s in sections if not s.blocks]
    counts = [
        (len(results.datasets), "data set"),
        (len(results.methods), "method"),
        (len(results.records), "record"),
        (len(results.failed), "failed cell"),
    ]
    settings = results.settings
    links = "".join(f'<a href="{escape(to)}">{escape(words)}</a> ' for words, to in settings.links.items())
    return template.substitute(
        title=escape(settings.title),
        style=read_style("tokens.css") + re.sub(r"/\*.*?\*/", "", own.joinpath("page.css").read_text(encoding="utf-8")),
        about=f'<p class="about">{html_sentence(settings.about)} {links}</p>' if settings.about or links else "",
        counts=", ".join(f"{n:,} {word}{'' if n == 1 else 's'}" for n, word in counts),
        marks=escape(" ".join([*mark_notes(results, results.methods)[1:], chosen_note(results)])),
        headlines="".join(_headline(dataset, leaders) for dataset, leaders in headlines(results).items()),
        contents="".join(f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in there),
        sections="".join(_section(section, shown) for section in there) + _missing(missing),
    )


def _headline(dataset: str, leaders: list[Leader]) -> str:
    """A card: the data set, and each figure large beside who has it."""
    lines = "".join(
        f"<p><b>{one.value}</b><span><strong>{one.metric}</strong> by {escape(one.by)}</span></p>" for one in leaders
    )
    return f"<li><h2>{escape(dataset)}</h2>{lines}</li>"


def _section(section: Section, shown: dict[int, str]) -> str:
    parts = []
    for is_small, blocks in groupby(section.blocks, key=lambda block: isinstance(block, Picture) and block.is_small):
        html = ""
        for block in blocks:
            folded = block.name in section.folded
            opening, end = f"<details><summary>{escape(block.title)}</summary>" * folded, "</details>" * folded
            html += opening + shown[id(block)] + end
        parts.append(f'<div class="grid">{html}</div>' if is_small else html)
    return f'<section id="{section.name}"><h2>{escape(section.title)}</h2>{"".join(parts)}</section>'


def _missing(sections: list[Section]) -> str:
    """What these records do not show, and the commands that make such records."""
    if not sections:
        return ""
    lines = "".join(f"<li>{escape(s.title)}: {html_sentence(s.made_by)}</li>" for s in sections)
    return f'<section id="missing"><h2>Not in these records</h2><ul class="missing">{lines}</ul></section>'
