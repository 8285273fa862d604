"""`firstsight evaluate`, `benchmark` and `report`: one method on a data set, many on many, the records as a page."""

from __future__ import annotations

import threading
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from firstsight._io.terminal import in_one_line, say, screen
from firstsight.cli.options import (
    Data,
    EngineOption,
    Features,
    Method,
    Preset,
    ProcessesOption,
    SchedulerOption,
    Seed,
    Set,
    Setting,
    Where,
    read_assignments,
    settings_of,
    write_json,
)
from firstsight.errors import BadInput
from firstsight.evaluation import TITLES
from firstsight.experiments.benchmark import OnEvent, format_record
from firstsight.experiments.plan import Job, format_params
from firstsight.experiments.records import Key, Record, key_of
from firstsight.experiments.session import Event, Session

if TYPE_CHECKING:
    from firstsight.data import ZeroShotDataset
    from firstsight.evaluation import Result
    from firstsight.experiments.benchmark import Plans


def evaluate(
    data: Data,
    method: Method = None,
    set: Set = None,
    preset: Preset = None,
    features: Features = None,
    setting: Annotated[Setting, typer.Option(help="Conventional, generalized, or both.")] = Setting.both,
    seed: Seed = 0,
    json: Annotated[Path | None, typer.Option(help="Also write the result to this file.")] = None,
) -> None:
    """Fit a method on the training rows and print T1, ts, tr and H: mean per-class accuracies in percent."""
    from firstsight._io.terminal import say
    from firstsight.data import load_dataset
    from firstsight.data.rules import odd_values
    from firstsight.evaluation import evaluate as run
    from firstsight.methods import make_estimator
    from firstsight.recognition.learning import choose_default_method

    parameters = read_assignments(set, preset)
    estimator = None if method is None else make_estimator(method, parameters, random_state=seed, verbose=True)
    dataset = load_dataset(data, features)
    if estimator is None:
        method = choose_default_method(dataset, parameters)
        estimator = make_estimator(method, parameters, random_state=seed, verbose=True)
    for finding in odd_values(dataset):
        if finding.severity == "warning":  # test samples that are copies of training samples
            say(f"{finding.severity}: {finding.message}")
    result = run(estimator, dataset, settings_of(setting))
    record = _record(result, dataset, seed)
    _show(record)
    if json is not None:
        write_json(json, record)


def _record(result: Result, dataset: ZeroShotDataset, seed: int) -> dict[str, Any]:
    from firstsight.evaluation import TITLES, percent
    from firstsight.methods import method_name

    fitted = next(iter(result.models.values()))
    return {
        "method": method_name(type(fitted)),
        "dataset": dataset.name,
        **{name: percent(getattr(result, name)) for name in TITLES},
        "seconds": round(result.seconds, 2),
        "parameters": fitted.resolved_parameters(),
        "seed": seed,
        "split": dataset.split_hash,
        "extra_supervision": fitted.extra_supervision,
    }


def _show(record: dict[str, Any]) -> None:
    from firstsight._io.terminal import in_one_line, screen
    from firstsight.evaluation import TITLES

    figures = "  ".join(f"{title} {record[name]:.1f}" for name, title in TITLES.items() if record[name] is not None)
    console = screen()
    what = f"{in_one_line(record['dataset'])}  {record['method']}"
    console.print(f"{what}  seed {record['seed']}  {figures}  ({record['seconds']:.0f} s)")
    if record["extra_supervision"]:
        console.print(f"extra supervision: {record['extra_supervision']}")


EVERY = 60.0  # seconds between two progress lines where the output is no terminal


class Display:
    """Progress of a session: a live table on a terminal, else one line per finished cell."""

    def __init__(self, plans: dict[str, list[Job]], session: Session, out: Path):
        self.console = screen()
        self.plans, self.out = plans, out
        cells = {key_of(cell) for jobs in plans.values() for job in jobs for cell in job.cells()}
        self.total = len(cells)
        self.records: dict[Key, Record] = {key_of(r): r for r in session.finished if key_of(r) in cells}
        self.failures = 0
        self._finished_before = len(self.records)
        self._running: list[tuple[Job, float]] = []
        self._began = time.monotonic()
        self._live: Live | None = None
        self._ended = threading.Event()

    def __enter__(self) -> OnEvent:
        if self._finished_before:
            self.console.print(f"{self._finished_before} of {self.total} cells are in {self.out} already.")
        if self.console.is_terminal and self._finished_before < self.total:
            self._live = Live(get_renderable=self._view, console=self.console, refresh_per_second=2, transient=True)
            self._live.start()
        if self._live is None:
            threading.Thread(target=self._print_progress, daemon=True).start()
        return self.on_event

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
                self.console.print(format_record(record))
        self.console.print(f"{len(self.records) - self.failures} of {self.total} cells are done; records: {self.out}")

    def on_event(self, event: Event) -> None:
        """Update the display as a job begins or ends."""
        self._running = event.running
        for record in event.records or []:
            self.records[key_of(record)] = record
            self.failures += record.status == "failed"
            if self._live is None:
                self.console.print(f"[{len(self.records)}/{self.total}] {format_record(record)}")

    def _print_progress(self) -> None:
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
            for cell in job.cells():
                of_cell = rows.setdefault(f"{job.method} {format_params(cell.variant)}".rstrip(), [])
                if (record := self.records.get(key_of(cell))) is not None:
                    of_cell.append(record)
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


class Study(StrEnum):
    """What to run instead of the tables."""

    none = "none"
    separation = "separation"
    defaults = "defaults"
    map = "map"


DataSets = Annotated[
    list[str],
    typer.Argument(metavar="DATA…", help="Data sets, as for `firstsight evaluate`: glyphs, folders, .npz files."),
]
OutOption = Annotated[Path, typer.Option(help="The folder of records: RESULTS/<data set>.jsonl.")]
MethodsOption = Annotated[str, typer.Option(help="all, or names separated by commas.")]
SeedsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="How many seeds: 0, 1, …; a method without randomness runs once. With --shots, how many draws.",
        show_default="1, with --shots 5",
    ),
]
SettingOption = Annotated[Setting, typer.Option(help="Conventional, generalized, or both.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="METHOD.NAME=VALUE", help="A parameter of one method; may be repeated."),
]
TunedOption = Annotated[
    Path | None, typer.Option(help="Parameters that `firstsight tune --json` chose: a file, or a folder of them.")
]
StudyOption = Annotated[
    Study,
    typer.Option(
        help="separation: λ of both deep embeddings at several values; map: their spaces in the plane; defaults: what "
        "--tuned has changed, with the methods' defaults instead."
    ),
]
ShotsOption = Annotated[
    str | None,
    typer.Option(
        metavar="K,K,…",
        help="Instead, accuracy once so many samples of every unseen class are labelled, such as 0,1,2,5,10.",
    ),
]
ValuesOption = Annotated[str | None, typer.Option(help="Values for --study separation, separated by commas.")]
CalibrateOption = Annotated[
    bool,
    typer.Option("--calibrated-h", help="Also H with a constant from a validation fold (one more fit each)."),
]


def benchmark(
    data: DataSets,
    out: OutOption,
    methods: MethodsOption = "all",
    seeds: SeedsOption = None,
    setting: SettingOption = Setting.both,
    set: SetOption = None,
    features: Features = None,
    engine: EngineOption = Where.local,
    scheduler: SchedulerOption = None,
    processes: ProcessesOption = None,
    tuned: TunedOption = None,
    study: StudyOption = Study.none,
    values: ValuesOption = None,
    shots: ShotsOption = None,
    calibrate: CalibrateOption = False,
) -> None:
    """Fit and evaluate methods on data sets; killed and started again, it does only what is missing.

    An inductive method is fitted once per seed for both settings, a transductive one once per setting. A cell that
    fails is recorded with its error, the rest goes on, and the next start tries it again.
    """
    from firstsight.data import load_dataset
    from firstsight.experiments.benchmark import benchmark as run
    from firstsight.experiments.plan import Entry

    chosen = _methods(methods, study)
    given = read_parameters(set, chosen)
    numbers = read_values(values, study)
    datasets = [load_dataset(path, features if _has_choice(path) else None) for path in data]
    if study == Study.map:
        _make_maps(datasets, out, tuned, given)
        return
    displays: list[Display] = []

    def follow(plans: Plans, session: Session) -> Display:
        displays.append(Display(plans, session, out))
        return displays[0]

    entries = [Entry(name, name, given.get(name, {})) for name in chosen]
    run(
        entries, datasets, seeds=seeds, settings=settings_of(setting), out=out, tuned=tuned, calibrate=calibrate,
        study="" if study == Study.none else study.value, values=numbers, shots=read_shots(shots),
        engine=engine.value, scheduler=scheduler, processes=processes, progress=follow,
    )  # fmt: skip
    if displays[0].failures:
        raise typer.Exit(1)


def _methods(names: str, study: Study) -> list[str]:
    from firstsight.experiments.plan import STUDIED, choose_methods

    if study in (Study.none, Study.defaults):
        return choose_methods(names)
    chosen = list(STUDIED) if names == "all" else choose_methods(names)
    if strange := [name for name in chosen if name not in STUDIED]:
        raise BadInput(f"--study {study} is about {' and '.join(STUDIED)}; leave {strange[0]} out of --methods.")
    return chosen


def read_shots(words: str | None) -> list[int] | None:
    """Numbers of labelled samples, separated by commas."""
    if words is None:
        return None
    try:
        return [int(word) for word in words.split(",")]
    except ValueError:
        raise BadInput(f"--shots must be whole numbers separated by commas, such as 0,1,5; got {words!r}.") from None


def read_values(words: str | None, study: Study) -> list[float] | None:
    """The values of a study; None: its own."""
    if words is None:
        return None
    if study != Study.separation:
        raise BadInput("--values belongs to --study separation; leave it out.")
    try:
        numbers = [float(word) for word in words.split(",")]
    except ValueError:
        raise BadInput(f"--values must be numbers separated by commas, such as 0,10,100; got {words!r}.") from None
    if any(not 0 <= number < float("inf") for number in numbers):
        raise BadInput(f"--values must be numbers from 0 upwards; got {words!r}.")
    return numbers


def _make_maps(
    datasets: list[ZeroShotDataset], out: Path, tuned: Path | None, given: dict[str, dict[str, Any]]
) -> None:
    from firstsight.experiments.benchmark import choices_for, is_map_current, make_map, map_file
    from firstsight.experiments.plan import STUDIED

    console = screen()
    choices = choices_for(tuned, datasets, list(STUDIED), ("gzsl",))
    for dataset in datasets:
        path = map_file(out, dataset.name)
        if is_map_current(path, dataset):
            console.print(f"{path} exists already; remove it to make it again.")
            continue
        # A map shows the generalized setting.
        chosen = {method: c["gzsl"].parameters for method, c in choices.get(dataset.name, {}).items()}
        parameters = {method: {**chosen.get(method, {}), **given.get(method, {})} for method in STUDIED}
        make_map(dataset, out, parameters, on_step=console.print)
        console.print(f"map: {path}")


def read_parameters(words: list[str] | None, methods: list[str]) -> dict[str, dict[str, Any]]:
    """Parameters by method, from `METHOD.NAME=VALUE`; each is judged before anything runs."""
    from firstsight.methods import find_method, make_estimator, method_name

    by_method: dict[str, list[str]] = {}
    for word in words or []:
        method, dot, assignment = word.partition(".")
        if not dot or "=" in method:
            raise BadInput(f"--set {word!r} must have the form METHOD.NAME=VALUE, for example --set dem.hidden=800.")
        by_method.setdefault(method_name(find_method(method)), []).append(assignment)
    parameters = {}
    for method, assignments in by_method.items():
        if method not in methods:
            raise BadInput(f"--set {method}.… was given, but {method} is not among --methods; add it or leave it out.")
        parameters[method] = read_assignments(assignments)
        make_estimator(method, parameters[method])  # judges them
    return parameters


def _has_choice(path: str) -> bool:
    """Only a folder with att_splits.mat has feature files to choose from; --features is for those among DATA."""
    return (Path(path) / "att_splits.mat").exists()


class Open(StrEnum):
    """Whether to open the page when it is ready."""

    yes = "yes"
    no = "no"


def report(
    results: Annotated[
        Path,
        typer.Argument(metavar="RESULTS", help="The folder that `firstsight benchmark` wrote, or one .jsonl file."),
    ],
    out: Annotated[Path, typer.Option(help="The folder for index.html, tables/ and figures/.")],
    open: Annotated[Open, typer.Option(help="Open the page in the browser when it is ready.")] = Open.no,
) -> None:
    """Make a self-contained page (and CSV, LaTeX, Markdown and PNG files) from benchmark records; runs no method."""
    from firstsight._io.terminal import progress, screen
    from firstsight.reporting import report as make_report

    with progress("tables and figures", total=None) as show:
        page = make_report(results, out, lambda done, total: show(done, of=total))
    screen().print(f"{page}")
    if open == Open.yes:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
