"""`firstsight benchmark`: every method on every data set, one record per cell, safe against being killed."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firstsight.cli.options import (
    EngineOption,
    Features,
    ProcessesOption,
    SchedulerOption,
    Setting,
    Where,
    read_assignments,
    settings_of,
)
from firstsight.errors import BadInput

if TYPE_CHECKING:
    from firstsight.benchmarking.comparison import Plans
    from firstsight.data import ZeroShotDataset
    from firstsight.execution.session import Session


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
    int, typer.Option(min=1, help="How many seeds: 0, 1, …; a method without randomness runs once.")
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
ValuesOption = Annotated[str | None, typer.Option(help="Values for --study separation, separated by commas.")]
CalibrateOption = Annotated[
    bool,
    typer.Option(
        "--calibrated-h", "--calibrate", help="Also H with a constant from a validation fold (one more fit each)."
    ),
]


def benchmark(
    data: DataSets,
    out: OutOption,
    methods: MethodsOption = "all",
    seeds: SeedsOption = 1,
    setting: SettingOption = Setting.both,
    set: SetOption = None,
    features: Features = None,
    engine: EngineOption = Where.local,
    scheduler: SchedulerOption = None,
    processes: ProcessesOption = None,
    tuned: TunedOption = None,
    study: StudyOption = Study.none,
    values: ValuesOption = None,
    calibrate: CalibrateOption = False,
) -> None:
    """Fit and judge methods on data sets; killed and started again, it does only what is missing.

    An inductive method is fitted once per seed for both settings, a transductive one once per setting. A cell that
    fails is recorded with its error, the rest goes on, and the next start tries it again.
    """
    from firstsight.benchmarking import benchmark as run
    from firstsight.cli.benchmark_table import Display
    from firstsight.data import load_dataset
    from firstsight.execution.entries import Entry

    chosen = _methods(methods, study)
    given = read_parameters(set, chosen)
    numbers = read_values(values, study)
    datasets = [load_dataset(path, features if _has_choice(path) else None) for path in data]
    if study == Study.map:
        _make_maps(datasets, out, tuned, given)
        return
    shown: list[Display] = []

    def follow(plans: Plans, session: Session) -> Display:
        shown.append(Display(plans, session, out))
        return shown[0]

    entries = [Entry(word, word, given.get(word, {})) for word in chosen]
    word = "" if study == Study.none else study.value
    run(
        entries, datasets, seeds=seeds, settings=settings_of(setting), out=out, tuned=tuned, calibrate=calibrate,
        study=word, values=numbers, engine=engine.value, scheduler=scheduler, processes=processes,
        progress=follow,
    )  # fmt: skip
    if shown[0].failures:
        raise typer.Exit(1)


def _methods(words: str, study: Study) -> list[str]:
    from firstsight.execution.plan import STUDIED, choose_methods

    if study in (Study.none, Study.defaults):
        return choose_methods(words)
    chosen = list(STUDIED) if words == "all" else choose_methods(words)
    if strange := [name for name in chosen if name not in STUDIED]:
        raise BadInput(f"--study {study} is about {' and '.join(STUDIED)}; leave {strange[0]} out of --methods.")
    return chosen


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
    from firstsight.benchmarking.comparison import choices_for
    from firstsight.benchmarking.map_study import is_current, make_map, map_file
    from firstsight.execution.plan import STUDIED
    from firstsight.terminal import logger, screen
    from firstsight.tuning.choices import untuned

    console = screen()
    choices = choices_for(tuned, datasets)
    for line in untuned(choices, list(STUDIED), ("gzsl",)):
        logger.warning("%s", line)
    for dataset in datasets:
        path = map_file(out, dataset.name)
        if is_current(path, dataset):
            console.print(f"{path} exists already; remove it to make it again.")
            continue
        make_map(dataset, out, _for_maps(choices.get(dataset.name, {}), given), tell=console.print)
        console.print(f"map: {path}")


def _for_maps(choices: dict[str, Any], given: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Parameters by method; a map shows the generalized setting."""
    names = {*choices, *given}
    return {n: {**choices.get(n, {}).get("gzsl", {}).get("parameters", {}), **given.get(n, {})} for n in names}


def read_parameters(words: list[str] | None, methods: list[str]) -> dict[str, dict[str, Any]]:
    """Parameters by method, from `METHOD.NAME=VALUE`; each is judged before anything runs."""
    from firstsight.methods import find_method, make_estimator, word_of

    by_method: dict[str, list[str]] = {}
    for word in words or []:
        method, dot, assignment = word.partition(".")
        if not dot or "=" in method:
            raise BadInput(f"--set {word!r} must have the form METHOD.NAME=VALUE, for example --set dem.hidden=800.")
        by_method.setdefault(word_of(find_method(method)), []).append(assignment)
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
