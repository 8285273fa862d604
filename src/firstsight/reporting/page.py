"""The report page: its sections, its files, and the manifest of what a report wrote."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from string import Template
from typing import NamedTuple

from firstsight._io.files import read_regular, write_atomically
from firstsight.errors import CannotWrite
from firstsight.evaluation import TITLES
from firstsight.experiments.records import FEW_SHOT
from firstsight.reporting import charts, run_tables
from firstsight.reporting.accuracy_tables import (
    accuracy_table,
    calibration_table,
    chosen_note,
    mark_notes,
    rank_table,
    rankings,
    significance_table,
)
from firstsight.reporting.embedding_maps import Maps, map_figure, network_drawing, read_maps
from firstsight.reporting.figure_style import NARROW, WIDE, ReportFigure, png_of, svg_of
from firstsight.reporting.results import Results, published, read_results
from firstsight.reporting.shots_curves import few_shot_chart, few_shot_table
from firstsight.reporting.table import (
    Table,
    csv_table,
    html_notes,
    html_sentence,
    html_table,
    latex_table,
    markdown_table,
)
from firstsight.web import read_style

# The manifest lists what a report wrote, in lines as `sha256sum` writes them. Only what it names, and what still has
# the content that was written, is ever removed or replaced: a file that someone has changed or put there stays.
NAME = ".firstsight-report"
# Names are a report's own: a list that someone has tampered with leads to no other folder.
_LINE = re.compile(r"([0-9a-f]{64})  (index\.html|(?:tables|figures)/[^/\\]+)")
Manifest = set[tuple[str, str]]  # digest and name; of a name with two digests, a kill has left one or the other


@contextmanager
def replacing(folder: Path, contents: Mapping[str, str | bytes]) -> Iterator[None]:
    """While the body writes `contents` into `folder`: afterwards, files of an earlier report are gone.

    The list names old and new files until all are in place, so that after a kill the next report knows of both.
    """
    old, new = _read_manifest(folder), {(_digest(content), name) for name, content in contents.items()}
    for name in contents:
        _check_overwrite(folder, name, old | new)
    _write_manifest(folder, old | new)
    yield
    kept = {name.lower() for name in contents}  # some file systems do not tell A from a
    for name in sorted({name for _, name in old if name.lower() not in kept}):
        try:
            if _is_ours(folder, name, old):
                (folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise CannotWrite(
                f"The report is complete, but {folder / name} of an earlier one could not be removed "
                f"({error.strerror}); remove it."
            ) from None
    _write_manifest(folder, new)


def _check_overwrite(folder: Path, name: str, manifest: Manifest) -> None:
    if os.path.lexists(folder / name) and not _is_ours(folder, name, manifest):
        raise CannotWrite(
            f"{folder / name} is not as a report wrote it, and would be lost; choose another --out, or move it away."
        )


def _is_ours(folder: Path, name: str, manifest: Manifest) -> bool:
    """Whether the file is still what was written, in the folder itself and not behind a link."""
    path = folder / name
    try:
        is_linked = os.path.realpath(path) != os.path.join(os.path.realpath(folder), name)
        return not is_linked and (_digest(read_regular(path)), name) in manifest
    except OSError:
        return False


def _digest(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def _read_manifest(folder: Path) -> Manifest:
    try:
        lines = read_regular(folder / NAME).decode().splitlines()
    except (OSError, UnicodeDecodeError):  # no list, or none of ours: nothing is known to be a report's
        return set()
    return {(match[1], match[2]) for match in map(_LINE.fullmatch, lines) if match}


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    write_atomically(folder / NAME, "".join(f"{digest}  {name}\n" for digest, name in sorted(manifest)))


_TWO_BRANCHES = ("deep-embedding", "transductive-deep-embedding")  # the methods that the drawing of the network shows
Block = Table | ReportFigure


@dataclass(frozen=True)
class Section:
    """A part of the page; `made_by` says how to get its records. Blocks in `folded` open with a click."""

    name: str
    title: str
    blocks: list[Block]
    made_by: str = ""
    folded: tuple[str, ...] = ()


def all_sections(results: Results, maps: Maps) -> list[Section]:
    """Every section in reading order, those without blocks included; beneath a block, what the project says of it."""
    notes, found = results.settings.notes, rankings(results)

    def section(
        name: str, title: str, blocks: Iterable[Block | None], made_by: str = "", folded: tuple[str, ...] = ()
    ) -> Section:
        noted = [replace(block, notes=[*block.notes, *notes.get(block.name, [])]) for block in blocks if block]
        return Section(name, title, noted, made_by, folded)

    names = sorted({r.study for r in results.studies} - {"", run_tables.STUDY, FEW_SHOT})
    ranks = [*(charts.rank_chart(results, ranking) for ranking in found), rank_table(results, found)]
    trade_offs = [*_each(charts.trade_off_chart, results), calibration_table(results)]
    studies = [charts.study_chart(results, dataset, study) for study in names for dataset in results.datasets]
    few_shot = [*(few_shot_chart(results, d) for d in results.few_shot_datasets), few_shot_table(results)]
    confusions = [*_each(charts.confusion_chart, results), run_tables.confusion_table(results)]
    runs = [run_tables.cost_table(results), run_tables.parameter_table(results), run_tables.warning_table(results)]
    sections = [
        section("failures", "Failed cells", [run_tables.failure_table(results)]),
        section("overview", "At a glance", [charts.overview_chart(results)], _run()),
        section("ranks", "Over all data sets", ranks, f"{_run()} with three data sets and three methods or more"),
        section("conventional", "Conventional setting", [accuracy_table(results, "zsl")], _run("--setting zsl")),
        section("generalized", "Generalized setting", [accuracy_table(results, "gzsl")], _run("--setting gzsl")),
        section("few-shot", "With labelled samples", few_shot, _run("--shots 0,1,5")),
        section("tradeoff", "Seen against unseen classes", trade_offs, _run("--setting gzsl --calibrated-h")),
        section("tuning", "Tuned against default", [run_tables.tuning_table(results)], _run("--tuned TUNED")),
        section("significance", "Significance", [significance_table(results)], _run("--seeds 5")),
        section("maps", "Maps of the embedding", [map_figure(*arrays) for arrays in maps], _run("--study map")),
        section("spaces", "Embedding spaces", [run_tables.space_table(results)], _run()),
        section("rounds", "Pseudo-labels, round by round", _each(charts.rounds_chart, results), _run("--setting zsl")),
        section("studies", "Sensitivity to parameters", studies, _run("--study separation")),
        section("classes", "Classes", [*_each(charts.class_chart, results), run_tables.class_table(results)], _run()),
        section("confusion", "Confusion of unseen classes", confusions, _run("--setting zsl")),
        section("architecture", "The network", [_network(results)]),
        section("audit", "Leakage audit", [run_tables.audit_table(results)], _run(), ("audit",)),
        section("runs", "The runs", runs, _run(), ("costs", "parameters", "warnings")),
    ]
    return [s for s in sections if s.blocks or s.made_by]


def _run(words: str = "--methods all") -> str:
    return f"`firstsight benchmark DATA… {words} --out RESULTS`"


def _network(results: Results) -> ReportFigure | None:
    """The drawing of the two-branch network where it is among the methods, its size where the records agree on one."""
    records = [r for r in results.records if r.method in _TWO_BRANCHES]
    sizes = {size for r in records if isinstance(size := r.parameters.get("embedding_dim"), int)}
    return network_drawing(joint=sizes.pop() if len(sizes) == 1 else None) if records else None


class Leader(NamedTuple):
    """Who is best in one figure of one data set."""

    metric: str
    value: str
    by: str


def headlines(results: Results) -> dict[str, list[Leader]]:
    """Return the leaders of each data set."""
    found = {d: [leader for m in ("t1", "h") if (leader := _leader(results, d, m))] for d in results.datasets}
    return {dataset: leaders for dataset, leaders in found.items() if leaders}


def _leader(results: Results, dataset: str, metric: str) -> Leader | None:
    means = {m: v for m in results.methods if (v := results.mean_of(dataset, m, metric)) is not None}
    ranked = [m for m in results.ranked() if m in means]
    if not ranked:
        return None
    best = max(round(means[m], 1) for m in ranked)
    first, *others = (m for m in ranked if round(means[m], 1) == best)  # equal as printed
    names = [results.label(m) for m in (first, *others)]
    by = " and ".join(names if len(names) < 3 else [names[0], f"{len(others)} more"])
    paper = None if others else published(dataset, first, metric)
    beside = f", paper {paper.value:.1f}" if paper else ""
    above = [f"{results.label(m)} {means[m]:.1f}" for m in means if m not in ranked and round(means[m], 1) > best]
    beside += f" (extra supervision, not ranked: {', '.join(above)})" if above else ""
    return Leader(TITLES[metric], f"{best:.1f}", by + beside)


def _each(draw: Callable[[Results, str], ReportFigure | None], results: Results) -> list[ReportFigure | None]:
    return [draw(results, dataset) for dataset in results.datasets]


Files = dict[str, str | bytes]  # name in the report's folder → content


def report(
    records: str | Path, out: str | Path, on_block: Callable[[int, int], None] = lambda done, total: None
) -> Path:
    """Make a page of benchmark records, with every table and figure as a file; runs no method.

    Records and maps are validated before the folder is made, and all is drawn before the first file is written: bad
    ones leave an older report as it was. Files of an older report that this one does not have are removed at the end.

    Parameters
    ----------
    records : str or Path
        The folder that `firstsight benchmark` wrote, or one `.jsonl` file.
    out : str or Path
        The folder for `index.html`, `tables/` and `figures/`, created if it does not exist.
    on_block : callable
        Called after each table and figure with how many are done, and how many there are.

    Returns
    -------
    Path
        The page.
    """
    results, out = read_results(records), Path(out)
    maps = read_maps(results.folder, results.splits)
    _check_writable(out)
    _check_overwrite(out, "index.html", _read_manifest(out))  # before the drawing begins
    sections = all_sections(results, maps)
    blocks = [block for section in sections for block in section.blocks]
    contents: Files = {}
    shown: dict[int, str] = {}
    for number, block in enumerate(blocks, start=1):
        written = _files_of(block, contents)
        contents |= written
        shown[id(block)] = _block(block, written)
        on_block(number, len(blocks))
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


def _files_of(block: Block, taken: Files) -> Files:
    if isinstance(block, ReportFigure):
        return {_free("figures", block.name, "png", taken): png_of(block)}
    formats = {"csv": csv_table, "tex": latex_table, "md": markdown_table}
    return {_free("tables", block.name, end, taken): make(block) for end, make in formats.items()}


def _free(folder: str, stem: str, end: str, taken: Files) -> str:
    """A file's name that no other has: names of two data sets may look alike once they are files."""
    names = [f"{folder}/{stem}.{end}", *(f"{folder}/{stem}-{n}.{end}" for n in range(2, len(taken) + 3))]
    return next(name for name in names if name.lower() not in {other.lower() for other in taken})


def _block(block: Block, written: Files) -> str:
    links = " · ".join(f'<a href="{escape(name)}">{escape(Path(name).name)}</a>' for name in written)
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
    template_files = files("firstsight.web") / "report"
    template = Template(template_files.joinpath("page.html").read_text(encoding="utf-8"))
    present, missing = [s for s in sections if s.blocks], [s for s in sections if not s.blocks]
    counts = [
        (len({r.dataset for r in results.records}), "data set"),
        (len(results.example), "method"),
        (len(results.records), "record"),
        (len(results.failed), "failed cell"),
    ]
    settings = results.settings
    links = "".join(f'<a href="{escape(to)}">{escape(words)}</a> ' for words, to in settings.links.items())
    commands = "".join(f"<li>{escape(s.title)}: {html_sentence(s.made_by)}</li>" for s in missing)
    commands = f'<section id="missing"><h2>Not in these records</h2><ul class="missing">{commands}</ul></section>'
    style = re.sub(r"/\*.*?\*/", "", template_files.joinpath("page.css").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(settings.title),
        style=read_style("tokens.css") + style,
        about=f'<p class="about">{html_sentence(settings.about)} {links}</p>' if settings.about or links else "",
        counts=", ".join(f"{n:,} {word}{'' if n == 1 else 's'}" for n, word in counts),
        marks=escape(" ".join([*mark_notes(results, results.methods)[1:], chosen_note(results)])),
        headlines="".join(_headline(dataset, leaders) for dataset, leaders in headlines(results).items()),
        contents="".join(f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in present),
        sections="".join(_section(section, shown) for section in present) + commands * bool(missing),
    )


def _headline(dataset: str, leaders: list[Leader]) -> str:
    """A card: the data set, and each figure large beside who has it."""
    lines = "".join(
        f"<p><b>{leader.value}</b><span><strong>{leader.metric}</strong> by {escape(leader.by)}</span></p>"
        for leader in leaders
    )
    return f"<li><h2>{escape(dataset)}</h2>{lines}</li>"


def _section(section: Section, shown: dict[int, str]) -> str:
    parts = []
    for is_small, blocks in groupby(section.blocks, key=lambda b: isinstance(b, ReportFigure) and b.is_small):
        html = ""
        for block in blocks:
            folded = block.name in section.folded
            opening, end = f"<details><summary>{escape(block.title)}</summary>" * folded, "</details>" * folded
            html += opening + shown[id(block)] + end
        parts.append(f'<div class="grid">{html}</div>' if is_small else html)
    return f'<section id="{section.name}"><h2>{escape(section.title)}</h2>{"".join(parts)}</section>'
