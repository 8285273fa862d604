"""`firstsight tune`: choose a method's parameters on validation classes, then train on all training rows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
)
from firstsight.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from firstsight.experiments.choices import ScoredCandidate
    from firstsight.experiments.plan import Entry
    from firstsight.experiments.records import Record
    from firstsight.experiments.tune import Choice


class Search(StrEnum):
    """Every combination of the grid, or proposals by Optuna within its limits."""

    grid = "grid"
    optuna = "optuna"


ObjectiveOption = Annotated[Setting, typer.Option(help="zsl maximises T1, gzsl maximises H; both chooses for each.")]
SearchOption = Annotated[Search, typer.Option(help="Every combination, or Optuna's proposals.")]
TrialsOption = Annotated[int | None, typer.Option(min=1, help="How many proposals (optuna only; 20 if left out).")]
FoldsOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="Validation folds of the training classes: 3; with --methods 12, 6 or 3, by their number."
    ),
]
MethodsOption = Annotated[
    str | None,
    typer.Option(
        help="Several methods (all, or names separated by commas), each with the same budget; --json is a folder."
    ),
]
CalibratedOption = Annotated[
    bool,
    typer.Option(
        "--calibrated-h",
        help="Maximise H with the best constant of each fold taken off seen scores. With --methods, always.",
    ),
]
GridOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=V1,V2,…",
        help="Values to try instead of the method's own grid; may be repeated. Optuna searches between the "
        "smallest and the largest.",
    ),
]
JsonOption = Annotated[Path | None, typer.Option(help="Write the choice here; `benchmark --tuned` reads it.")]
OutOption = Annotated[Path | None, typer.Option(help="Save the model, trained on all training rows, here.")]


def tune(
    data: Data,
    method: Method = None,
    methods: MethodsOption = None,
    objective: ObjectiveOption = Setting.both,
    search: SearchOption = Search.grid,
    trials: TrialsOption = None,
    folds: FoldsOption = None,
    grid: GridOption = None,
    calibrated: CalibratedOption = False,
    set: Set = None,
    preset: Preset = None,
    features: Features = None,
    seed: Seed = 0,
    engine: EngineOption = Where.local,
    scheduler: SchedulerOption = None,
    processes: ProcessesOption = None,
    json: JsonOption = None,
    out: OutOption = None,
) -> None:
    """Try parameters on validation classes, cut from the training rows alone, and keep the best.

    Test rows and the descriptions of unseen classes are out of reach. With --json, finished fits are kept in the folder
    FILE.trials, and the same command goes on from there when it was killed.
    """
    from firstsight.data import load_dataset
    from firstsight.experiments.choices import check_overwrite
    from firstsight.experiments.tune import remove_trials
    from firstsight.experiments.tune import tune as run

    _check_contradictions(objective, search, trials, out)
    where: dict[str, Any] = {"engine": engine.value, "scheduler": scheduler, "processes": processes}
    if methods is not None:
        alone = {"--grid": grid, "--set": set, "--preset": preset, "--trials": trials, "--out": out}
        _tune_all(data, features, methods, objective, folds, where, seed, _folder_for_several(alone, json))
        return
    fixed = read_assignments(set, preset)
    entry = _entry(method or _tunable_default(fixed, grid), fixed)
    values = read_grid(grid, entry.given)
    dataset = load_dataset(data, features)
    trials_folder = None if json is None else json.with_name(json.name + ".trials")
    if json is not None:
        check_overwrite(json, entry.name, dataset.name, list(settings_of(objective)))
    if trials_folder is not None and trials_folder.is_dir():
        _console().print(f"Going on from {trials_folder}.", style="dim")
    choice = run(
        entry, dataset, objective=objective.value, grid=values, folds=folds or 3, search=search.value,
        trials=trials, calibrated=calibrated, **where, out=trials_folder, random_state=seed, progress=_print_fit,
    )  # fmt: skip
    show_choice(choice)
    if out is not None:
        _save_model(choice, out)
    if json is not None and trials_folder is not None:
        choice.save(json)
        remove_trials(trials_folder, dataset.validation_folds(choice.result.folds))


def _print_fit(records: list[Record]) -> None:
    from firstsight.experiments.tune import format_fit

    _console().print(format_fit(records))


def _tunable_default(fixed: dict[str, Any], grid: list[str] | None) -> str:
    """The default method, if there is anything to tune."""
    from firstsight.methods import DEFAULT_METHOD, default_method

    method = default_method(fixed)
    if method == DEFAULT_METHOD and not grid:
        raise BadInput(
            f"{DEFAULT_METHOD}, the default method, chooses its own settings in every fit: there is nothing to tune; "
            "give --method NAME, --methods all, or values to try with --grid."
        )
    return method


def _entry(method: str, fixed: dict[str, Any]) -> Entry:
    """A method with the parameters that every candidate has, judged before the data are read."""
    from firstsight.experiments.plan import Entry
    from firstsight.methods import make_estimator, method_name

    word = method_name(type(make_estimator(method, fixed)))
    return Entry(word, word, fixed)


def _check_contradictions(objective: Setting, search: Search, trials: int | None, out: Path | None) -> None:
    if out is not None and out.exists() and not (out / "model.json").is_file():
        raise BadInput(f"{out} exists and is not a model folder; choose another place or remove it first.")
    if objective == Setting.both and (out is not None or search == Search.optuna):
        what = "--out saves one model" if out is not None else "--search optuna maximises one figure"
        raise BadInput(f"{what}, and two objectives may choose two; add --objective zsl (T1) or --objective gzsl (H).")
    if trials is not None and search == Search.grid:
        raise BadInput("--trials belongs to --search optuna; a grid is tried as a whole: leave it out.")


def show_choice(choice: Choice) -> None:
    """The table of candidates, and what was chosen for each objective."""
    from firstsight.evaluation import TITLES
    from firstsight.experiments.choices import METRICS, parameters_at_edge
    from firstsight.experiments.plan import format_params

    console, result = _console(), choice.result
    best = {o: choice.winner(o) for o in choice.chosen}
    console.print(f"On {result.folds} {'fold' if result.folds == 1 else 'folds'} of validation classes:")
    console.print(_table(result.candidates, best), soft_wrap=False)
    for objective, winner in best.items():
        ends = parameters_at_edge(winner, result.grid) if result.search == "grid" else []
        hint = f"  (the end of what was tried for {' and '.join(ends)}: --grid can go further)" if ends else ""
        kept = " (the defaults: no gain beyond the noise between folds)" if winner.parameters == result.default else ""
        console.print(f"chosen for {TITLES[METRICS[objective]]}: {format_params(winner.parameters)}{kept}{hint}")


def _folder_for_several(others: dict[str, Any], json: Path | None) -> Path:
    """Where several methods' choices go; options that are about one method are refused."""
    if given := [name for name, value in others.items() if value]:
        raise BadInput(f"{given[0]} is about one method, and --methods about several with one budget; leave one out.")
    if json is None or json.is_file() or json.suffix == ".json":
        raise BadInput("--methods writes one file per method: give --json FOLDER, for example --json tuned.")
    return json


def _tune_all(
    data: str, features: str | None, methods: str, objective: Setting, folds: int | None, where: dict[str, Any],
    seed: int, folder: Path,
) -> None:  # fmt: skip
    from firstsight.data import load_dataset
    from firstsight.experiments.plan import cheapest_first, choose_methods
    from firstsight.experiments.tune import format_fit, tune_all

    words = choose_methods(methods)
    choices = tune_all(
        cheapest_first(words) if methods.strip() == "all" else words, load_dataset(data, features), out=folder,
        objective=objective.value, folds=folds, **where, random_state=seed,
        progress=lambda records: _console().print(f"{records[0].method}: {format_fit(records)}"),
    )  # fmt: skip
    for choice in choices:
        result = choice.result
        _console().print(f"\n{result.method}: {len(result.candidates)} candidates, {result.fits} fits.", style="bold")
        show_choice(choice)


def _save_model(choice: Choice, out: Path) -> None:
    from firstsight.persistence.model_folder import save
    from firstsight.persistence.model_schema import Provenance

    model, dataset = choice.fit(verbose=True), choice.dataset
    save(model, out, Provenance.of(model, dataset, seed=choice.result.seed, tuned=choice.best))
    _console().print(f"Trained on all {len(dataset.train)} training rows and saved to {out}.")


def _console() -> Console:
    from firstsight._io.terminal import screen

    return screen()


def read_grid(words: list[str] | None, fixed: dict[str, Any]) -> dict[str, list[Any]] | None:
    """`NAME=V1,V2` words as values by parameter; None where there are none: the method's own grid is searched."""
    if not words:
        return None
    grid = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals or not values:
            raise BadInput(f"--grid {word!r} must have the form NAME=V1,V2,…, for example --grid penalty=0.1,1.")
        if name in fixed:
            raise BadInput(f"--set {name}={fixed[name]} and --grid give the same parameter; keep one of them.")
        read = [read_assignments([f"{name}={value}"])[name] for value in values.split(",")]
        grid[name] = [value for i, value in enumerate(read) if value not in read[:i]]
    return grid


def _figure(candidate: ScoredCandidate, objective: str) -> str:
    if candidate.error:
        return "failed"
    deviation = candidate.deviation(objective)
    return f"{candidate.mean(objective):.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")


def _table(candidates: list[ScoredCandidate], best: dict[str, ScoredCandidate]) -> Table:
    from rich.table import Table

    from firstsight.evaluation import TITLES
    from firstsight.experiments.choices import METRICS

    titles = {objective: TITLES[METRICS[objective]] for objective in best}
    table = Table(box=None, pad_edge=False, header_style="bold")
    first = next(iter(best))
    for name in best[first].parameters:
        table.add_column(name, justify="right")
    for title in titles.values():
        table.add_column(title, justify="right")
    table.add_column("")
    for candidate in sorted(candidates, key=lambda c: -c.mean(first)):
        values = [f"{v:g}" if isinstance(v, float) else str(v) for v in candidate.parameters.values()]
        figures = [_figure(candidate, objective) for objective in best]
        won = [title for objective, title in titles.items() if best[objective] is candidate]
        table.add_row(*values, *figures, f"← chosen for {' and '.join(won)}" if won else "")
    return table
