"""`firstsight benchmark`: every method on every data set, one record per cell, safe against being killed."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firstsight.cli.options import Features, Setting, make_estimator
from firstsight.errors import BadInput

if TYPE_CHECKING:
    from firstsight.data import ZeroShotDataset


class Study(StrEnum):
    """What to run instead of the tables."""

    none = "none"
    separation = "separation"
    map = "map"


def benchmark(
    data: Annotated[
        list[str],
        typer.Argument(metavar="DATA…", help="Data sets, as for `firstsight evaluate`: glyphs, folders, .npz files."),
    ],
    out: Annotated[Path, typer.Option(help="The folder of records: RESULTS/<data set>.jsonl.")],
    methods: Annotated[str, typer.Option(help="all, or names with commas between them.")] = "all",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds: 0, 1, …; one for methods without chance.")] = 1,
    setting: Annotated[Setting, typer.Option(help="Conventional, generalized, or both.")] = Setting.both,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="METHOD.NAME=VALUE", help="A parameter of one method; may be repeated."),
    ] = None,
    features: Features = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Worker processes; cores ÷ processes threads each. Default: all cores.")
    ] = None,
    tuned: Annotated[
        Path | None, typer.Option(help="Parameters that `firstsight tune --json` chose: a file, or a folder of them.")
    ] = None,
    study: Annotated[
        Study,
        typer.Option(help="separation: λ of both deep embeddings at several values; map: their spaces in the plane."),
    ] = Study.none,
    values: Annotated[str | None, typer.Option(help="Values for --study separation, with commas between them.")] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Also H with a constant from a validation fold (one more fit each).")
    ] = False,
) -> None:
    """Fit and judge methods on data sets; killed and started again, it does only what is missing.

    An inductive method is fitted once per seed for both settings, a transductive one once per setting. A cell that
    fails is recorded with its error, the rest goes on, and the next start tries it again.
    """
    from firstsight.cli.benchmark_table import Display
    from firstsight.data import load_dataset
    from firstsight.evaluation import SETTINGS
    from firstsight.execution.plan import STUDIED, choose_methods, make_plan
    from firstsight.execution.runner import cores
    from firstsight.execution.session import prepare
    from firstsight.tuning.choices import read_tuned

    chosen = list(STUDIED) if study != Study.none and methods == "all" else choose_methods(methods)
    if study != Study.none and (strange := [name for name in chosen if name not in STUDIED]):
        raise BadInput(f"--study {study} is about {' and '.join(STUDIED)}; leave {strange[0]} out of --methods.")
    given = read_parameters(set, chosen)
    variants = read_values(values, study)
    settings = SETTINGS if setting == Setting.both else (setting.value,)
    datasets: list[ZeroShotDataset] = [load_dataset(path, features if _has_choice(path) else None) for path in data]
    choices = {} if tuned is None else read_tuned(tuned, datasets)
    for line in untuned(choices, chosen, settings):
        typer.echo(line, err=True)
    if study == Study.map:
        _make_maps(datasets, out, {d.name: _for_maps(choices.get(d.name, {}), given) for d in datasets})
        return
    word = "" if study == Study.none else study.value
    plans = {
        d.name: make_plan(d.name, chosen, settings, seeds, given, choices.get(d.name), word, variants) for d in datasets
    }
    with prepare(out, datasets, plans, calibrate) as session, Display(plans, session, out) as display:
        session.run(processes or cores(), display.show)
    if display.failures:
        raise typer.Exit(1)


def untuned(choices: dict[str, Any], methods: list[str], settings: tuple[str, ...]) -> list[str]:
    """What --tuned does not cover, in sentences: nobody should take defaults for a choice."""
    lines = []
    for dataset, found in choices.items():
        if without := [method for method in methods if method not in found]:
            lines.append(f"Not tuned on {dataset}, and run with their defaults: {', '.join(without)}.")
        for setting in settings:
            objectives = {m: found[m][setting]["tuned"]["objective"].split("+") for m in methods if m in found}
            if other := [method for method, own in objectives.items() if setting not in own]:
                lines.append(f"Tuned on {dataset} for the other setting than {setting} only: {', '.join(other)}.")
    return lines


def read_values(words: str | None, study: Study) -> list[dict[str, float]]:
    """The variants of a study; the tables have one, without changes."""
    from firstsight.execution.plan import SEPARATIONS

    if study != Study.separation:
        if words is not None:
            raise BadInput("--values belongs to --study separation; leave it out.")
        return [{}]
    try:
        numbers = [float(word) for word in words.split(",")] if words is not None else list(SEPARATIONS)
    except ValueError:
        raise BadInput(f"--values must be numbers with commas between them, such as 0,10,100; got {words!r}.") from None
    if any(not 0 <= number < float("inf") for number in numbers):
        raise BadInput(f"--values must be numbers from 0 upwards; got {words!r}.")
    return [{"separation": number} for number in dict.fromkeys(numbers)]


def _make_maps(datasets: list[ZeroShotDataset], out: Path, given: dict[str, dict[str, dict[str, Any]]]) -> None:
    from rich.console import Console

    from firstsight.benchmarking.map_study import is_current, make_map, map_file

    console = Console(soft_wrap=True, highlight=False, markup=False)
    for dataset in datasets:
        path = map_file(out, dataset.name)
        if is_current(path, dataset):
            console.print(f"{path} is there already; remove it to have it made again.")
            continue
        make_map(dataset, out, given[dataset.name], tell=console.print)
        console.print(f"map: {path}")


def _for_maps(choices: dict[str, Any], given: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Parameters by method; a map shows the generalized setting."""
    names = {*choices, *given}
    return {n: {**choices.get(n, {}).get("gzsl", {}).get("parameters", {}), **given.get(n, {})} for n in names}


def read_parameters(words: list[str] | None, methods: list[str]) -> dict[str, dict[str, Any]]:
    """Parameters by method, from `METHOD.NAME=VALUE`; each is judged before anything runs."""
    from firstsight.methods import find_method, word_of

    by_method: dict[str, list[str]] = {}
    for word in words or []:
        method, dot, assignment = word.partition(".")
        if not dot or "=" in method:
            raise BadInput(f"--set {word!r} must have the form METHOD.NAME=VALUE, for example --set dem.hidden=800.")
        by_method.setdefault(word_of(find_method(method)), []).append(assignment)
    found = {}
    for method, assignments in by_method.items():
        if method not in methods:
            raise BadInput(f"--set {method}.… was given, but {method} is not among --methods; add it or leave it out.")
        parameters = make_estimator(method, assignments).get_params()
        found[method] = {name: parameters[name] for name in (a.partition("=")[0] for a in assignments)}
    return found


def _has_choice(path: str) -> bool:
    """Only a folder with att_splits.mat has feature files to choose from; --features is for those among DATA."""
    return (Path(path) / "att_splits.mat").exists()
