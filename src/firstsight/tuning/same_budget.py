"""`firstsight.tune_all`: the parameters of several estimators, each chosen with the same budget."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.errors import BadInput, InUse
from firstsight.execution.engines import engine_of
from firstsight.execution.entries import Entry, entries_of
from firstsight.records import Record
from firstsight.records.storage import file_stem
from firstsight.terminal import say
from firstsight.tuning.choices import read_choice
from firstsight.tuning.search import Choice, grid_of, tune
from firstsight.tuning.trials import forget_trials

MOST_CANDIDATES = 8


def default_folds(n_classes: int) -> int:
    """The fewer classes there are to hold out, the more often: with few, three folds were seen to choose by chance.

    >>> [default_folds(n) for n in (12, 40, 70, 150)]
    [12, 12, 6, 3]
    """
    return 12 if n_classes <= 40 else 6 if n_classes <= 100 else 3


def tune_all(
    estimators: Any,
    data: ZeroShotDataset | str | Path,
    *,
    out: str | Path,
    objective: str = "both",
    folds: int | None = None,
    engine: Any = "local",
    scheduler: str | None = None,
    processes: int | None = None,
    random_state: int = 0,
    progress: bool | Callable[[list[Record]], None] = True,
) -> list[Choice]:
    """Choose the parameters of several estimators on the same validation folds, each by its own grid of up to 8.

    All have the same budget: every candidate on a third of the folds, the leading ones and the defaults on all of them.
    The defaults stay unless the gain exceeds the noise between folds (`firstsight.tuning.candidates.RULE`). H is the
    calibrated one. What has no grid is left out, and a line says so.

    Parameters
    ----------
    estimators : as for `benchmark`
        Words, classes or instances, in a list or alone.
    data : ZeroShotDataset, str or Path
        A data set, or what `load_dataset` reads.
    out : str or Path
        A folder: one file per estimator, for `benchmark(…, tuned=out)`. Files that are there already are read, not made
        again, and a search that was stopped goes on.
    objective : {"both", "h", "t1"}
        What to maximise.
    folds : int, optional
        Left out, the fewer classes there are, the more: `default_folds`.
    engine, scheduler, processes : as for `tune`
        Where the fits are computed.
    random_state : int
        Everything random follows from it.
    progress : bool or callable
        Whether to log a line per fit; or a function that is told its records.

    Returns
    -------
    list of Choice
        One for each estimator that has something to choose.
    """
    dataset = data if isinstance(data, ZeroShotDataset) else load_dataset(data)
    number = default_folds(len(dataset.seen_classes)) if folds is None else folds
    engine_of(engine, scheduler, processes)  # a mistake here is nobody's grid
    where = {"engine": engine, "scheduler": scheduler, "processes": processes}
    settings = {"objective": objective, "folds": number, "random_state": random_state}
    choices = []
    for entry in entries_of(estimators):
        try:
            choices.append(_one(entry, dataset, Path(out), progress, settings, where))
        except InUse:
            raise
        except BadInput as error:  # it cannot be searched, or not on these data: the others can
            say(f"{entry.name} on {dataset.name} stays as it is: {error}")
    return choices


def _one(
    entry: Entry,
    dataset: ZeroShotDataset,
    folder: Path,
    progress: Any,
    settings: dict[str, Any],
    where: dict[str, Any],
) -> Choice:
    grid = grid_of(entry, None)
    _refuse_large(entry, grid)
    path = folder / f"{file_stem(dataset.name)}-{file_stem(entry.name)}.json"
    if path.exists():
        return _read(path, entry, dataset, grid, settings)
    trials = path.with_name(path.name + ".trials")
    choice = tune(entry, dataset, calibrated=True, race=True, out=trials, progress=progress, **settings, **where)
    choice.save(path)
    forget_trials(trials, dataset.validation_folds(choice.folds))
    return choice


def _refuse_large(entry: Entry, grid: dict[str, list[Any]]) -> None:
    size = 1
    for values in grid.values():
        size *= len(values)
    if size > MOST_CANDIDATES:
        raise BadInput(
            f"its own grid has {size} candidates, and the budget that all share is {MOST_CANDIDATES}; tune it alone."
        )


def _read(
    path: Path, entry: Entry, dataset: ZeroShotDataset, grid: dict[str, list[Any]], settings: dict[str, Any]
) -> Choice:
    file = read_choice(path)
    there = (file.method, file.dataset, file.split, dict(file.grid), file.folds, file.seed, file.calibrated)
    seed = settings["random_state"]
    if there != (entry.name, dataset.name, dataset.split_hash, grid, settings["folds"], seed, True):
        raise BadInput(f"{path} holds another search (other values, folds or data); remove it to search again.")
    return Choice.from_file(file, entry, dataset)
