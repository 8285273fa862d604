"""`firstsight tune`: choose a method's parameters on validation classes, then train on all training rows."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firstsight.cli.options import (
    Data,
    Features,
    Method,
    Preset,
    Seed,
    Set,
    Setting,
    make_estimator,
    write_json,
)
from firstsight.errors import BadInput, UnknownName

if TYPE_CHECKING:
    from rich.console import Console

    from firstsight.records import Record
    from firstsight.tuning.candidates import Candidate


FIGURES = {"zsl": "T1", "gzsl": "H"}  # what each objective maximises


class Search(StrEnum):
    """Every combination of the grid, or proposals by Optuna within its limits."""

    grid = "grid"
    optuna = "optuna"


def tune(
    data: Data,
    method: Method = "deep-embedding",
    objective: Annotated[
        Setting, typer.Option(help="zsl maximises T1, gzsl maximises H; both chooses for each.")
    ] = Setting.both,
    search: Annotated[Search, typer.Option(help="Every combination, or Optuna's proposals.")] = Search.grid,
    trials: Annotated[int | None, typer.Option(min=1, help="How many proposals (optuna only; 20 if left out).")] = None,
    folds: Annotated[int, typer.Option(min=1, help="Validation folds of the training classes.")] = 3,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=V1,V2,…",
            help="Values to try instead of the method's own grid; may be repeated. Optuna searches between the "
            "smallest and the largest.",
        ),
    ] = None,
    set: Set = None,
    preset: Preset = None,
    features: Features = None,
    seed: Seed = 0,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Worker processes; cores ÷ processes threads each. Default: all cores.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the choice here; `benchmark --tuned` reads it.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the model, trained on all training rows, here.")] = None,
) -> None:
    """Try parameters on validation classes, cut from the training rows alone, and keep the best.

    Test rows and the descriptions of unseen classes are out of reach. With --json, finished fits are kept in the folder
    FILE.trials, and the same command goes on from there when it was killed.
    """
    import tempfile

    from rich.console import Console

    from firstsight.data import load_dataset
    from firstsight.evaluation import fit_on
    from firstsight.execution.plan import in_words
    from firstsight.execution.runner import cores
    from firstsight.methods import find_method, word_of
    from firstsight.models import save
    from firstsight.tuning.candidates import at_an_end, best_of, grid_candidates, search_optuna
    from firstsight.tuning.trials import Trials

    if out is not None and out.exists() and not (out / "model.json").is_file():
        raise BadInput(f"{out} exists and is not a model folder; choose another place or remove it first.")
    if objective == Setting.both and (out is not None or search == Search.optuna):
        what = "--out saves one model" if out is not None else "--search optuna maximises one figure"
        raise BadInput(f"{what}, and two objectives may choose two; add --objective zsl (T1) or --objective gzsl (H).")
    if trials is not None and search == Search.grid:
        raise BadInput("--trials belongs to --search optuna; a grid is tried as a whole: leave it out.")
    objectives = list(FIGURES) if objective == Setting.both else [objective.value]
    method = word_of(find_method(method))
    estimator = make_estimator(method, set, seed, preset=preset)
    values = read_grid(method, grid)
    if twice := [word for word in set or [] if word.partition("=")[0] in values and grid]:
        raise BadInput(f"--set {twice[0]} and --grid give the same parameter; keep one of them.")
    dataset = load_dataset(data, features)
    parts = dataset.validation_folds(folds)
    if json is not None:
        _refuse_to_lose(json, method, dataset.name, objectives)
    about: dict[str, Any] = {
        "method": method, "dataset": dataset.name, "split": dataset.split_hash, "objectives": objectives,
        "search": search.value, "folds": folds, "seed": seed, "grid": values, "fixed": _fixed(set, preset, estimator),
    }  # fmt: skip
    console = Console(soft_wrap=True, highlight=False, markup=False)
    kept = None if json is None else json.with_name(json.name + ".trials")
    if kept is not None and kept.is_dir():
        console.print(f"Going on from {kept}.", style="dim")
    with tempfile.TemporaryDirectory(prefix="firstsight-tune-") as scratch:
        fits = Trials(
            kept or Path(scratch), parts, method, objectives, about["fixed"], seed, processes or cores(),
            tell=lambda records: tell(console, records),
        )  # fmt: skip
        if search == Search.grid:
            candidates = fits.score(grid_candidates(values))
        else:
            candidates = search_optuna(fits.score, values, objectives[0], trials or 20, seed)
    best = {o: best_of(candidates, o) for o in objectives}
    console.print(f"On {folds} {'fold' if folds == 1 else 'folds'} of validation classes:")
    console.print(_table(candidates, best), soft_wrap=False)
    for o in objectives:
        ends = at_an_end(best[o], values) if search == Search.grid else []
        hint = f"  (the end of what was tried for {' and '.join(ends)}: --grid can go further)" if ends else ""
        console.print(f"chosen for {FIGURES[o]}: {in_words(best[o].parameters)}{hint}")
    chosen = {o: {**about["fixed"], **best[o].parameters} for o in objectives}
    if json is not None:
        scores = [
            {"parameters": c.parameters, "error": c.error} | {FIGURES[o]: of_folds for o, of_folds in c.scores.items()}
            for c in candidates
        ]
        write_json(json, {**about, "chosen": chosen, "candidates": scores})
    if out is not None:
        parameters = chosen[objective.value]
        final = make_estimator(method, set, seed, preset=preset, setting=objective.value).set_params(**parameters)
        fit_on(final, dataset)
        save(final, out, {"dataset": dataset.name, "split": dataset.split_hash, "seed": seed, "tuned": parameters})
        console.print(f"Trained on all {len(dataset.train)} training rows and saved to {out}.")
    if kept is not None:
        fits.forget()


def read_grid(method: str, words: list[str] | None) -> dict[str, list[Any]]:
    """The method's own grid, or `NAME=V1,V2` words; every value is judged before anything is fitted."""
    from firstsight.methods import find_method

    cls = find_method(method)
    if not words:
        if not cls.grid:
            raise BadInput(f"{method} has no grid of its own; give --grid NAME=V1,V2,….")
        return cls.grid
    found: dict[str, list[Any]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals or not values:
            raise BadInput(f"--grid {word!r} must have the form NAME=V1,V2,…, for example --grid penalty=0.1,1.")
        if name not in cls._get_param_names():
            raise UnknownName(f"parameter of {method}", name, cls._get_param_names())
        read = [getattr(make_estimator(method, [f"{name}={value}"]), name) for value in values.split(",")]
        found[name] = list(dict.fromkeys(read))
    return found


def _refuse_to_lose(path: Path, method: str, dataset: str, objectives: list[str]) -> None:
    """A file is written over by a search that answers all that it answered."""
    from firstsight.tuning.choices import read_choice

    if not path.exists():
        return
    before = read_choice(path)
    same = (before.method, before.dataset) == (method, dataset)
    lost = [objective for objective in before.chosen if not same or objective not in objectives]
    if lost:
        raise BadInput(
            f"{path} holds what was chosen for {before.method} on {before.dataset} ({', '.join(lost)}), which "
            "would be lost; choose another --json, or remove it."
        )


def tell(console: Console, records: list[Record]) -> None:
    """One line per fit that has ended: on which fold, with which parameters, what it scored."""
    from firstsight.execution.plan import in_words
    from firstsight.tuning.candidates import FIGURE

    first = records[0]
    if first.status == "failed":
        shown = f"failed: {first.error}"
    else:
        shown = "  ".join(f"{FIGURES[r.setting]} {getattr(r, FIGURE[r.setting]):.2f}" for r in records)
    console.print(f"{first.dataset}, {in_words(first.variant)}: {shown}  ({first.seconds:.1f} s)")


def _fixed(words: list[str] | None, preset: str | None, estimator) -> dict[str, Any]:
    names = [word.partition("=")[0] for word in words or []]
    return {name: getattr(estimator, name) for name in [*names, *(["preset"] if preset else [])]}


def _figure(candidate: Candidate, objective: str) -> str:
    if not candidate.scores:
        return "failed"
    deviation = candidate.deviation(objective)
    return f"{candidate.mean(objective):.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")


def _table(candidates: list[Candidate], best: dict[str, Candidate]):
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    first = next(iter(best))
    for name in best[first].parameters:
        table.add_column(name, justify="right")
    for objective in best:
        table.add_column(FIGURES[objective], justify="right")
    table.add_column("")
    for candidate in sorted(candidates, key=lambda c: -c.mean(first)):
        values = [f"{v:g}" if isinstance(v, float) else str(v) for v in candidate.parameters.values()]
        figures = [_figure(candidate, objective) for objective in best]
        won = [FIGURES[objective] for objective in best if best[objective] is candidate]
        table.add_row(*values, *figures, f"← best {' and '.join(won)}" if won else "")
    return table
