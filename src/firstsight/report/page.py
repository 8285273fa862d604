"""The report: one self-contained page, and a file of every table and figure on it."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Callable
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from firstsight.errors import CannotWrite
from firstsight.files import write_atomically
from firstsight.report.formats import csv_table, html_notes, html_sentence, html_table, latex_table, markdown_table
from firstsight.report.manifest import replacing
from firstsight.report.maps import read_maps
from firstsight.report.picture import Picture, plain_text, png_of
from firstsight.report.result_tables import mark_notes
from firstsight.report.results import Results, read_results
from firstsight.report.sections import Section, all_sections, headlines
from firstsight.report.table import Table

Show = Callable[[int, int], None]


def write_report(place: str | Path, out: str | Path, show: Show = lambda done, of: None) -> Path:
    """Read the records at `place`, write the report into the folder `out`, and give the page's path.

    Records and maps are judged before the folder is made, and all is drawn before the first file is written: bad
    ones leave an older report as it was. Files of an older report that this one does not have are removed at the end.
    `show` is told how many of how many tables and figures are ready.
    """
    results, out = read_results(place), Path(out)
    maps = read_maps(results.folder, results.splits)
    _check_writable(out)
    with plain_text():
        sections = all_sections(results, maps)
    blocks = [block for section in sections for block in section.blocks]
    contents: dict[str, str | bytes] = {}
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


def _check_writable(out: Path) -> None:
    """Find out before the drawing begins that there is nowhere to put it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        reason = error.strerror or error
        raise CannotWrite(f"Could not write into the folder {out} ({reason}); choose another --out.") from None


def _files_of(block: Table | Picture, taken: dict[str, str | bytes]) -> dict[str, str | bytes]:
    if isinstance(block, Picture):
        return {_free("figures", block.name, "png", taken): png_of(block)}
    formats = {"csv": csv_table, "tex": latex_table, "md": markdown_table}
    return {_free("tables", block.name, end, taken): make(block) for end, make in formats.items()}


def _free(folder: str, stem: str, end: str, taken: dict[str, str | bytes]) -> str:
    """A file's name that no other has: names of two data sets may look alike once they are files."""
    names = [f"{folder}/{stem}.{end}", *(f"{folder}/{stem}-{n}.{end}" for n in range(2, len(taken) + 3))]
    return next(name for name in names if name.lower() not in {other.lower() for other in taken})


def _block(block: Table | Picture, own: dict[str, str | bytes]) -> str:
    links = " · ".join(f'<a href="{escape(name)}">{escape(Path(name).name)}</a>' for name in own)
    links = f'<p class="files">{links}</p>'
    if isinstance(block, Table):
        return html_table(block) + links
    (content,) = own.values()
    assert isinstance(content, bytes)
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))  # of a PNG, from its first chunk
    source = base64.b64encode(content).decode()
    # A drawing of 130 dots per inch is shown at 96, and not much smaller on a phone: there its box scrolls.
    look = f'width="{round(width / 1.35)}" height="{round(height / 1.35)}"'
    least = ' class="wide"' if width > 700 else ""
    return (
        f'<figure><figcaption><h3>{escape(block.title)}</h3></figcaption><div class="scroll" tabindex="0" '
        f'role="region" aria-label="{escape(block.title)}"><img{least} {look} alt="{escape(block.alt)}" '
        f'src="data:image/png;base64,{source}"></div>{html_notes(block.notes)}</figure>{links}'
    )


def _page(results: Results, sections: list[Section], shown: dict[int, str]) -> str:
    own = files("firstsight.report")
    template = Template(own.joinpath("page.html").read_text(encoding="utf-8"))
    counts = [
        (len(results.datasets), "data set"),
        (len(results.methods), "method"),
        (len(results.records), "record"),
        (len(results.failed), "failed cell"),
    ]
    return template.substitute(
        style=own.joinpath("page.css").read_text(encoding="utf-8"),
        counts=", ".join(f"{n:,} {word}{'' if n == 1 else 's'}" for n, word in counts),
        marks=escape(" ".join(mark_notes(results, results.methods)[1:])),
        headlines="".join(f"<li>{escape(line)}</li>" for line in headlines(results)),
        contents="".join(f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in sections),
        sections="".join(_section(section, shown) for section in sections),
    )


def _section(section: Section, shown: dict[int, str]) -> str:
    parts = []
    for block in section.blocks:
        html = shown[id(block)]
        if block.name in section.folded:
            html = f"<details><summary>{escape(block.title)}</summary>{html}</details>"
        parts.append(html)
    body = "".join(parts) or f'<p class="missing">{html_sentence(section.missing)}</p>'
    return f'<section id="{section.name}"><h2>{escape(section.title)}</h2>{body}</section>'
