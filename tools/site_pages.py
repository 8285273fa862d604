"""The pages of the site that nobody writes: the API by room, a page per method, and what the records say of choosing.

`docs/conf.py` calls `write_pages` before Sphinx reads the folder; what it writes is not kept in the repository.
Names come from the public face (`firstsight.__all__`), figures from `results/*.jsonl` and `published.csv`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import readme

import firstsight
from firstsight._io.files import write_atomically
from firstsight.evaluation import SETTINGS, TITLES
from firstsight.methods import ZeroShotClassifier, all_methods
from firstsight.reporting.accuracy_tables import chosen_note, figure_cell
from firstsight.reporting.figure_style import png_of
from firstsight.reporting.results import CALIBRATED_H, Results, dataset_order, published_figures, read_results
from firstsight.reporting.shots_curves import few_shot_chart, few_shot_table
from firstsight.reporting.table import markdown_table

PROJECT = Path(__file__).resolve().parents[1]
# Rooms in the order in which somebody meets them; one that is not named here comes after them.
ORDER = ("data", "methods", "recognition", "evaluation", "persistence", "encoders", "experiments")
# What documents show beyond the public face, and the types that public functions give and take.
BESIDE_THE_FACE = {
    "contract": ["firstsight.contract.check_method"],
    "data": [
        "firstsight.data.Finding",
        "firstsight.data.propose_splits",
        "firstsight.data.Proposal",
        "firstsight.data.write_npz",
        "firstsight.data.write_xlsa17",
        "firstsight.data.feature_files.FeatureFile",
    ],
    "evaluation": [
        "firstsight.evaluation.scorers.t1_scorer",
        "firstsight.evaluation.scorers.h_scorer",
        "firstsight.evaluation.scorers.ClassWiseSplit",
        "firstsight.evaluation.calibration.Scale",
        "firstsight.evaluation.novelty.NoveltyDetector",
    ],
    "encoders": ["firstsight.encoders.ImageFolder"],
    "methods": [
        "firstsight.methods.Range",
        "firstsight.methods.OneOf",
        "firstsight.methods.Candidates",
        "firstsight.methods.ScoreBlocks",
    ],
    "experiments": ["firstsight.experiments.records.Record"],
    "persistence": [
        "firstsight.persistence.Provenance",
        "firstsight.persistence.AddedSamples",
        "firstsight.persistence.BackboneUsed",
        "firstsight.persistence.TextEncoderUsed",
        "firstsight.persistence.PictureCounts",
    ],
    "recognition": ["firstsight.recognition.Score"],
}
# The gallery, from the first example to the last; one that is not named here comes after them.
EXAMPLES = ("first_steps", "own_method", "grid_search", "pipeline", "bias_and_cures", "reliability", "adding_a_class")


def reading_order(file: str) -> tuple[int, str]:
    """Where an example of the gallery stands."""
    stem = Path(file).stem.removeprefix("plot_")
    return (EXAMPLES.index(stem) if stem in EXAMPLES else len(EXAMPLES), stem)


def public_names() -> dict[str, Any]:
    """What the public face offers, without its version."""
    return {name: getattr(firstsight, name) for name in firstsight.__all__ if not name.startswith("__")}


def is_method(value: Any) -> bool:
    """Whether a public name is a method, which has a page of its own."""
    return isinstance(value, type) and value in all_methods().values()


def rooms() -> dict[str, list[str]]:
    """The public names of every room that has any, methods left out."""
    homes: dict[str, list[str]] = {}
    for name, value in sorted(public_names().items(), key=lambda item: (isinstance(item[1], type), item[0])):
        if not is_method(value):
            homes.setdefault(value.__module__.split(".")[1], []).append(f"firstsight.{name}")
    for room, names in BESIDE_THE_FACE.items():
        homes.setdefault(room, []).extend(names)
    return dict(sorted(homes.items(), key=lambda item: (*ORDER, item[0]).index(item[0])))


def api_page(room: str, names: list[str]) -> str:
    """A room's page: what it is for, then its public names, one after the other."""
    about = (importlib.import_module(f"firstsight.{room}").__doc__ or "").split("\n")[0]
    return "\n".join([_title(room), about, "", *(line for name in names for line in _directive(name))])


def api_index(homes: dict[str, list[str]]) -> str:
    """The table of contents of the reference: every name with the first sentence of its docstring."""
    lines = [
        _title("API reference"),
        "Everything that ``import firstsight`` offers, by the room that it lives in, and a few names beside it. "
        "Each method has :doc:`a page of its own </methods/index>`.",
        "",
        ".. toctree::",
        "   :hidden:",
        "",
        *(f"   {room}" for room in homes),
        "",
    ]
    for room, names in homes.items():
        lines += [f":doc:`{room}`", "-" * (len(room) + 7), "", ".. list-table::", "   :widths: 35 65", ""]
        for name in names:
            lines += [f"   * - :py:obj:`{name}`", f"     - {_first_sentence(_value(name))}"]
        lines.append("")
    return "\n".join(lines)


def _directive(name: str) -> Iterator[str]:
    value = _value(name)
    yield f".. {'autoclass' if isinstance(value, type) else 'autofunction'}:: {name}"
    if isinstance(value, type):
        yield "   :members:"
        if issubclass(value, Exception):
            yield "   :show-inheritance:"
    yield ""


def method_page(word: str, method: type[ZeroShotClassifier], results: Results) -> str:
    """A method's page: its docstring, what the records say of it, and what was published."""
    facts = [
        f"**Command line**: ``firstsight evaluate DATA --method {word}``",
        f"**Rows and classes meet in**: {method.space} space",
        "**Learns from**: "
        + ("labelled and unlabelled rows (transductive)" if method.transductive else "labelled rows"),
    ]
    if method.extra_supervision:
        facts.append(f"**Extra supervision**: {method.extra_supervision}")
    lines = [_title(method.__name__), *(f"| {fact}" for fact in facts), ""]
    lines += [f".. autoclass:: firstsight.{method.__name__}", ""]
    base = "TransductiveClassifier" if method.transductive else "ZeroShotClassifier"
    lines += [f"``fit``, ``predict`` and the rest are those of :py:class:`firstsight.{base}`.", ""]
    return "\n".join([*lines, *_recorded(word, results), *_published(word)])


def _recorded(word: str, results: Results) -> Iterator[str]:
    yield from ("On this project's records", "-" * 30, "")
    datasets = [d for d in results.datasets if any(results.runs(d, word, s) for s in SETTINGS)]
    if not datasets:
        yield from ("There is no record of it yet.", "")
        return
    head = ["data set", *TITLES.values(), "calibrated H", "seeds", "CPU seconds of a fit"]
    rows = []
    for dataset in datasets:
        figures = [_cell(results, dataset, word, metric) for metric in (*TITLES, CALIBRATED_H)]
        runs = [run for setting in SETTINGS for run in results.runs(dataset, word, setting)]
        seconds = [run.cpu_seconds for run in runs if run.cpu_seconds]
        cost = f"{sum(seconds) / len(seconds):.1f}" if seconds else "–"
        rows.append([dataset, *figures, str(len({run.seed for run in runs})), cost])
    yield from _list_table(head, rows)
    yield from (
        "Percent; mean ± standard deviation over seeds. T1: unseen classes, only these as candidates; ts and tr: "
        "unseen and seen classes, all as candidates; H: their harmonic mean; calibrated H: with a constant taken off "
        f"seen classes, chosen on validation classes. {chosen_note(results)} :doc:`/benchmark` has the protocol.",
        "",
    )


def _cell(results: Results, dataset: str, word: str, metric: str) -> str:
    cell = figure_cell(results, dataset, word, metric, {})
    return f"{cell.text} {cell.sign}".strip()


def _published(word: str) -> Iterator[str]:
    figures = {(d, metric): figure for (d, method, metric), figure in published_figures().items() if method == word}
    yield from ("Published figures", "-" * 30, "")
    if not figures:
        yield from ("The paper has no figures for it.", "")
        return
    datasets = sorted({d for d, _ in figures}, key=dataset_order)
    rows = [[d, *(f"{figures[d, m].value:.1f}" if (d, m) in figures else "–" for m in TITLES)] for d in datasets]
    yield from _list_table(["data set", *TITLES.values()], rows)
    sources = sorted({figure.source for figure in figures.values()})
    notes = sorted({f"{d} {TITLES[m]}: {figure.note}" for (d, m), figure in figures.items() if figure.note})
    yield from (f"Source: {'; '.join(sources)}." + "".join(f" {note}." for note in notes), "")


def methods_index(results: Results) -> str:
    """All methods in one table, and their pages."""
    lines = [
        _title("Methods"),
        f"{len(all_methods())} methods, one page each: what it learns, its formula, its figures. "
        ":doc:`/choosing` says which to try first.",
        "",
        ".. toctree::",
        "   :hidden:",
        "",
        *(f"   {word}" for word in all_methods()),
        "",
    ]
    head = ["method", "space", "in a sentence", "reference"]
    rows = []
    for word, method in all_methods().items():
        marks = " †" * method.transductive + r" \*" * bool(method.extra_supervision)
        rows.append([f":doc:`{word}`{marks}", method.space, _first_sentence(method), method.reference])
    lines += _list_table(head, rows, widths="18 10 42 30")
    lines += ["† transductive: also learns from unlabelled rows. \\* gets extra supervision.", ""]
    return "\n".join(lines)


def choosing(results: Results) -> str:
    """What the records say to somebody who has to choose, as Markdown that `docs/choosing.md` includes."""
    inductive = [m for m in results.methods if results.is_inductive(m)]
    pooled = [m for m in results.ranked() if m not in inductive]
    lines: list[str] = []
    for title, candidates, figures in (
        ("Labelled rows only", inductive, ("t1", CALIBRATED_H)),
        ("With the rows to be named at hand (transductive)", pooled, ("t1", "h")),
    ):
        datasets = _shared(results, candidates, figures)
        ranked = _by_mean(results, candidates, datasets, figures)
        heads = [f"{d} {TITLES.get(f, 'H cal.')}" for d in datasets for f in figures]
        lines += [
            f"### {title}",
            "",
            f"| method | mean | {' | '.join(heads)} | CPU s |",
            "|---|" + "---:|" * (len(heads) + 2),
        ]
        for method, mean in ranked:
            cells = [results.mean_of(d, method, f) for d in datasets for f in figures]
            seconds = [r.cpu_seconds for r in results.tables if r.method == method and r.cpu_seconds]
            shown = " | ".join("–" if value is None else f"{value:.1f}" for value in cells)
            cost = f"{sum(seconds) / len(seconds):.0f}" if seconds else "–"
            lines.append(f"| [{method}](methods/{method}.rst) | {mean:.1f} | {shown} | {cost} |")
        placed = {method for method, _ in ranked}
        if missing := [f"[{m}](methods/{m}.rst)" for m in candidates if m not in placed]:
            lines += ["", f"Not in the table, because a figure is still missing: {', '.join(missing)}."]
        lines.append("")
    return "\n".join(lines)


def _shared(results: Results, methods: list[str], figures: tuple[str, ...]) -> list[str]:
    """The data sets on which at least half as many methods have all figures as on the one with most."""
    counts = {
        d: sum(all(results.mean_of(d, method, f) is not None for f in figures) for method in methods)
        for d in results.datasets
    }
    return [d for d, count in counts.items() if count and 2 * count >= max(counts.values())]


def _by_mean(
    results: Results, methods: list[str], datasets: list[str], figures: tuple[str, ...]
) -> list[tuple[str, float]]:
    """Methods that have every figure on every one of these data sets, best mean first."""
    means = {}
    for method in methods:
        values = [results.mean_of(d, method, f) for d in datasets for f in figures]
        complete = [value for value in values if value is not None]
        if len(complete) == len(values):
            means[method] = sum(complete) / len(complete)
    return sorted(means.items(), key=lambda item: -item[1])


def _list_table(head: list[str], rows: list[list[str]], widths: str = "auto") -> Iterator[str]:
    yield from (".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", "")
    for row in [head, *rows]:
        for number, cell in enumerate(row):
            yield f"   {'* -' if number == 0 else '  -'} {cell}"
    yield ""


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n"


def _value(name: str) -> Any:
    home, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(home), attribute)


def _first_sentence(value: Any) -> str:
    text = " ".join((value.__doc__ or "").split("\n\n")[0].split())
    return text.replace("*", r"\*")


def pages(results: Results) -> dict[str, str]:
    """Every generated page by its path within `docs/`."""
    homes = rooms()
    made = {"api/index.rst": api_index(homes), "methods/index.rst": methods_index(results)}
    made |= {f"api/{room}.rst": api_page(room, names) for room, names in homes.items()}
    made |= {f"methods/{word}.rst": method_page(word, method, results) for word, method in all_methods().items()}
    table = markdown_table(readme.results_table(results))
    few_shot = few_shot_table(results)
    shared_spaces = markdown_table(readme.results_table(read_results(PROJECT / "results" / "shared_spaces")))
    texts = {"choosing": choosing(results), "results": table, "shared_spaces": shared_spaces}
    texts["few_shot"] = markdown_table(few_shot) if few_shot else ""
    return made | {f"generated/{name}.txt": text for name, text in texts.items()}


def figures(results: Results) -> dict[str, bytes]:
    """Figures of the records that pages show, by their path within `docs/`."""
    charts = filter(None, (few_shot_chart(results, dataset) for dataset in results.few_shot_datasets))
    return {f"generated/{chart.name}.png": png_of(chart) for chart in charts}


def write_pages(docs: Path) -> None:
    """Write what changed; a file that is as it should be is left alone, so that Sphinx reads it only once."""
    results = read_results(PROJECT / "results")
    for path, content in (pages(results) | figures(results)).items():
        place = docs / path
        place.parent.mkdir(parents=True, exist_ok=True)
        new = content.encode() if isinstance(content, str) else content
        if not place.exists() or place.read_bytes() != new:
            write_atomically(place, content)


if __name__ == "__main__":
    write_pages(PROJECT / "docs")
