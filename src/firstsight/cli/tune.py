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
from firstsight.errors import BadInput, UnknownName, UnreadableFile

if TYPE_CHECKING:
    from firstsight.evaluation.tuning import Candidate


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
    trials: Annotated[int, typer.Option(min=1, help="How many proposals (optuna only).")] = 20,
    folds: Annotated[int, typer.Option(min=1, help="Validation folds of the training classes.")] = 3,
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=V1,V2,…", help="Values to try instead of the method's own grid; may be repeated."),
    ] = None,
    set: Set = None,
    preset: Preset = None,
    features: Features = None,
    seed: Seed = 0,
    json: Annotated[Path | None, typer.Option(help="Write the choice here; `benchmark --tuned` reads it.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the model, trained on all training rows, here.")] = None,
) -> None:
    """Try parameters on validation classes, cut from the training rows alone, and keep the best.

    Test rows and the descriptions of unseen classes are out of reach. With --json, finished trials are kept in
    FILE.trials.jsonl, and the same command goes on from there when it was killed.
    """
    from rich.console import Console

    from firstsight.data import load_dataset
    from firstsight.evaluation import fit_on, percent
    from firstsight.evaluation.tuning import at_an_end, best_of, search_grid, search_optuna
    from firstsight.methods import find_method, word_of
    from firstsight.serving import save

    if out is not None and out.exists() and not (out / "model.json").is_file():
        raise BadInput(f"{out} exists and is not a model folder; choose another place or remove it first.")
    if objective == Setting.both and (out is not None or search == Search.optuna):
        what = "--out saves one model" if out is not None else "--search optuna maximises one figure"
        raise BadInput(f"{what}, and two objectives may choose two; add --objective zsl (T1) or --objective gzsl (H).")
    objectives = list(FIGURES) if objective == Setting.both else [objective.value]
    method = word_of(find_method(method))
    estimator = make_estimator(method, set, seed, preset=preset)
    values = read_grid(method, grid)
    dataset = load_dataset(data, features)
    parts = dataset.validation_folds(folds)
    about: dict[str, Any] = {
        "method": method, "dataset": dataset.name, "split": dataset.split_hash, "objectives": objectives,
        "search": search.value, "folds": folds, "seed": seed, "grid": values, "fixed": _fixed(set, preset, estimator),
    }  # fmt: skip
    trials_file = None if json is None else json.with_name(json.name + ".trials.jsonl")
    known = [] if trials_file is None else read_trials(trials_file, about)
    console = Console(soft_wrap=True, highlight=False, markup=False)
    if known:
        console.print(f"Going on from {len(known)} trials in {trials_file}.")

    def tell(candidate: Candidate) -> None:
        figures = "  ".join(f"{FIGURES[o]} {_figure(candidate, o)}" for o in objectives if candidate.scores)
        shown = figures or f"failed: {candidate.error}"
        console.print(f"{_words(candidate.parameters)}: {shown}  ({candidate.seconds:.1f} s)")
        if trials_file is not None:
            append_trial(trials_file, about, candidate)

    if search == Search.grid:
        candidates = search_grid(estimator, parts, values, objectives, known, tell)
    else:
        candidates = search_optuna(estimator, parts, values, objectives[0], trials, seed, known, tell)
    best = {o: best_of(candidates, o) for o in objectives}
    console.print(f"On {folds} folds of validation classes:")
    console.print(_table(candidates, best), soft_wrap=False)
    for o in objectives:
        ends = at_an_end(best[o], values) if search == Search.grid else []
        hint = f"  (the end of what was tried for {' and '.join(ends)}: --grid can go further)" if ends else ""
        console.print(f"chosen for {FIGURES[o]}: {_words(best[o].parameters)}{hint}")
    chosen = {o: {**about["fixed"], **best[o].parameters} for o in objectives}
    if json is not None:
        scores = [
            {"parameters": c.parameters, "error": c.error}
            | {FIGURES[o]: [percent(s) for s in of_folds] for o, of_folds in c.scores.items()}
            for c in candidates
        ]
        write_json(json, {**about, "chosen": chosen, "candidates": scores})
    if out is not None:
        parameters = chosen[objective.value]
        final = make_estimator(method, set, seed, preset=preset, setting=objective.value).set_params(**parameters)
        fit_on(final, dataset)
        save(final, out, {"dataset": dataset.name, "split": dataset.split_hash, "seed": seed, "tuned": parameters})
        console.print(f"Trained on all {len(dataset.train)} training rows and saved to {out}.")
    if trials_file is not None:
        trials_file.unlink(missing_ok=True)


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
        found[name] = [getattr(make_estimator(method, [f"{name}={value}"]), name) for value in values.split(",")]
    return found


def read_trials(path: Path, about: dict[str, Any]) -> list[Candidate]:
    """Finished trials of the same search; a cut-off last line is passed over, another search's file is refused."""
    import json

    from firstsight.evaluation.tuning import Candidate

    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            trial = json.loads(line) if line else None
        except ValueError:
            if number == len(lines):
                continue
            raise UnreadableFile(f"{path}, line {number}, is not a trial; remove the file to start anew.") from None
        if trial is None:
            continue
        if trial["search"] != json.loads(json.dumps(about)):
            raise BadInput(f"{path} holds trials of another search; remove it to start anew, or choose another --json.")
        found.append(Candidate(trial["parameters"], trial["scores"], trial["seconds"], trial["error"]))
    return found


def append_trial(path: Path, about: dict[str, Any], candidate: Candidate) -> None:
    """Put a finished trial on the disk."""
    import json
    import os

    from firstsight.errors import CannotWrite

    facts = {name: getattr(candidate, name) for name in ("parameters", "scores", "seconds", "error")}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.exists() else b""
        with path.open("r+b" if before else "wb") as file:
            file.seek(before.rfind(b"\n") + 1)  # over a line that a kill has cut off
            file.truncate()
            file.write(json.dumps({**facts, "search": about}, ensure_ascii=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise CannotWrite(f"Could not write to {path} ({error.strerror}); choose another place for --json.") from error


def _fixed(words: list[str] | None, preset: str | None, estimator) -> dict[str, Any]:
    names = [word.partition("=")[0] for word in words or []]
    return {name: getattr(estimator, name) for name in [*names, *(["preset"] if preset else [])]}


def _words(parameters: dict[str, Any]) -> str:
    return ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in parameters.items())


def _figure(candidate: Candidate, objective: str) -> str:
    if not candidate.scores:
        return "failed"
    return f"{100 * candidate.mean(objective):.2f} ± {100 * candidate.deviation(objective):.2f}"


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
