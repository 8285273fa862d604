"""`firstsight.tune` and `firstsight.tune_all`: choose parameters on validation classes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from firstsight._io.files import write_atomically
from firstsight._io.terminal import in_one_line, say
from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.errors import BadInput, InUse, UnknownName
from firstsight.evaluation import TITLES, fit_on
from firstsight.experiments.candidates import (
    FIGURE,
    RULE,
    Candidate,
    Trials,
    best_of,
    beyond_noise,
    forget_trials,
    grid_candidates,
    independent_folds,
    search_optuna,
)
from firstsight.experiments.choices import ChoiceFile, read_choice, refuse_to_lose
from firstsight.experiments.entries import Entry, entries_of, entry_of, plain
from firstsight.experiments.plan import in_words
from firstsight.experiments.records import Record, file_stem
from firstsight.experiments.session import records_folder
from firstsight.experiments.workers import engine_of, keep_workers
from firstsight.methods import ZeroShotClassifier, validate_params

if TYPE_CHECKING:
    import pandas as pd


# `firstsight.tune`: choose an estimator's parameters on validation classes, cut from the training rows alone.

Objective = Literal["h", "t1", "both"]
Grid = Mapping[str, Sequence[Any]]
_SETTINGS = {"t1": ("zsl",), "h": ("gzsl",), "both": ("zsl", "gzsl"), "zsl": ("zsl",), "gzsl": ("gzsl",)}


@dataclass(frozen=True, eq=False)
class Choice:
    """The outcome of a search: `best` are the parameters to use, `table` every candidate and its scores.

    Attributes
    ----------
    dataset : ZeroShotDataset
        What was searched on.
    entry : Entry
        The estimator that was searched.
    objectives : list of {"zsl", "gzsl"}
        What was maximised: T1, H.
    candidates : list of Candidate
        What was tried, with its scores on the folds.
    grid : dict
        The values by parameter.
    folds : int
        How many times some training classes played the unseen ones.
    search : {"grid", "optuna"}
        How candidates were proposed.
    seed : int
        What everything random followed from.
    default : dict or None
        The candidate with the estimator's own values, if it was tried.
    independent : float
        Folds, those that share classes counted as fewer.
    calibrated : bool
        Whether H is with the best constant of each fold.
    race : bool
        Whether only the leading candidates were tried on all folds.
    """

    dataset: ZeroShotDataset = field(repr=False)
    entry: Entry
    objectives: list[str]  # settings: "zsl" for T1, "gzsl" for H
    candidates: list[Candidate] = field(repr=False)
    grid: dict[str, list[Any]]
    folds: int
    search: str
    seed: int
    default: dict[str, Any] | None = None  # the candidate that holds the estimator's own values, if it was tried
    independent: float = 1.0  # folds, those that share classes counted as fewer
    calibrated: bool = False  # whether H is with the best constant of each fold
    race: bool = False

    @property
    def rule(self) -> str:
        """How it was chosen, in words; empty: the highest mean."""
        return RULE if self.default is not None and self.folds > 1 else ""

    def winner(self, objective: str) -> Candidate:
        """The candidate that was chosen, of those that were tried on every fold."""
        tried = [c for c in self.candidates if not c.scores or len(c.scores[objective]) == self.folds]
        if not self.rule:
            return best_of(tried, objective)
        default = next(c for c in tried if c.parameters == self.default)
        return beyond_noise(tried, default, objective, self.independent)

    @property
    def chosen(self) -> dict[str, dict[str, Any]]:
        """By objective ("zsl": T1, "gzsl": H), the parameters: those that were fixed, and the best candidate's."""
        best = {o: self.winner(o).parameters for o in self.objectives}
        return {o: {**self.entry.given, **parameters} for o, parameters in best.items()}

    @property
    def best(self) -> dict[str, Any]:
        """The parameters of the best candidate; where two objectives disagree, `chosen` has both."""
        winners = [self.winner(o).parameters for o in self.objectives]
        if any(parameters != winners[0] for parameters in winners):
            raise BadInput(
                f"T1 is best with {in_words(winners[0])} and H with {in_words(winners[1])}; take choice.chosen['zsl'] "
                'or choice.chosen[\'gzsl\'], or tune with objective="t1" or "h".'
            )
        return winners[0]

    @property
    def table(self) -> pd.DataFrame:
        """One row per candidate: its parameters, mean and deviation of each objective, its folds, its error."""
        import pandas as pd

        return pd.DataFrame([{**c.parameters, **self._scores(c), "error": c.error or None} for c in self.candidates])

    def _scores(self, candidate: Candidate) -> dict[str, float | None]:
        columns: dict[str, float | None] = {}
        for objective in self.objectives if candidate.scores else []:
            title, scores = TITLES[FIGURE[objective]], candidate.scores[objective]
            columns |= {title: candidate.mean(objective), f"{title} deviation": candidate.deviation(objective)}
            columns |= {f"{title} fold {n}": score for n, score in enumerate(scores, start=1)}
        return columns

    @property
    def estimator(self) -> Any:
        """An unfitted estimator with the best parameters."""
        return self.entry.make(self.best, self.seed, self.objectives[-1])

    def fit(self, verbose: bool = False) -> Any:
        """The estimator with the best parameters, fitted on all training rows."""
        made = self.estimator
        if "verbose" in made.get_params():
            made.set_params(verbose=verbose)
        return fit_on(made, self.dataset)

    @cached_property
    def model(self) -> Any:
        """As `fit`, once."""
        return self.fit()

    def to_file(self) -> ChoiceFile:
        """What `save` writes."""
        scored = [
            {"parameters": c.parameters, "error": c.error}
            | {TITLES[FIGURE[o]]: of_folds for o, of_folds in c.scores.items()}
            for c in self.candidates
        ]
        about = {
            "method": self.entry.name, "dataset": self.dataset.name, "split": self.dataset.split_hash,
            "objectives": self.objectives, "search": self.search, "folds": self.folds, "seed": self.seed,
            "grid": self.grid, "fixed": self.entry.given, "chosen": self.chosen, "candidates": scored,
            "independent_folds": round(self.independent, 2), "calibrated": self.calibrated, "race": self.race,
            "fits": sum(len(c.scores.get(self.objectives[0], [])) for c in self.candidates),
            "rule": self.rule, "default": self.default,
        }  # fmt: skip
        return ChoiceFile.model_validate_json(json.dumps(about))

    @classmethod
    def from_file(cls, file: ChoiceFile, entry: Entry, dataset: ZeroShotDataset) -> Choice:
        """What `to_file` told, of an estimator and a data set that are at hand."""
        of = {"zsl": "t1", "gzsl": "h"}
        scored = [
            Candidate(c.parameters, {o: getattr(c, of[o]) for o in file.objectives if not c.error}, c.error)
            for c in file.candidates
        ]
        return cls(
            dataset, entry, list(file.objectives), scored, dict(file.grid), file.folds, file.search, file.seed,
            file.default, file.independent_folds or 1.0, file.calibrated, file.race,
        )  # fmt: skip

    def save(self, path: str | Path) -> Path:
        """Write the choice to a .json file, for `benchmark(…, tuned=path)`; one that answers more is not replaced."""
        path = Path(path)
        refuse_to_lose(path, self.entry.name, self.dataset.name, self.objectives)
        text = json.dumps(self.to_file().as_json(), indent=1, ensure_ascii=False)
        write_atomically(path, text + "\n")
        return path


def tune(
    estimator: Any,
    data: ZeroShotDataset | str | Path,
    *,
    objective: str = "h",
    grid: Grid | None = None,
    folds: int = 3,
    search: str = "grid",
    trials: int | None = None,
    calibrated: bool = False,
    race: bool = False,
    engine: Any = "local",
    scheduler: str | None = None,
    processes: int | None = None,
    out: str | Path | None = None,
    random_state: int = 0,
    progress: bool | Callable[[list[Record]], None] = True,
) -> Choice:
    """Try parameters on validation classes, cut from the training rows alone; test rows are out of reach.

    Parameters
    ----------
    estimator : str, class, estimator or (name, estimator)
        A method's word, class or instance, or a scikit-learn pipeline that ends in one.
    data : ZeroShotDataset, str or Path
        A data set, or what `load_dataset` reads.
    objective : {"h", "t1", "both"}
        What to maximise: H, T1, or each of them with the same fits.
    grid : dict, optional
        Values by parameter; a method's own grid if left out. Parameters of a pipeline's step are `step__name`.
    folds : int
        In each, some training classes play the unseen ones.
    search : {"grid", "optuna"}
        "grid" tries every combination, "optuna" proposes `trials` of them within the grid's limits.
    trials : int, optional
        How many candidates optuna proposes.
    calibrated : bool
        Maximise H with the best constant of each fold taken off seen classes' scores, instead of H as it is.
    race : bool
        Try all candidates on a third of the folds, and only the best for each objective and the defaults on the rest.
    engine : {"local", "dask"} or distributed.Client
        Worker processes here; the workers of a Dask cluster; or those of a client that is connected to one.
    scheduler : str, optional
        The address of the cluster's scheduler, for "dask".
    processes : int, optional
        Worker processes here; all cores if left out.
    out : str or Path, optional
        A folder that keeps finished fits: a search that was stopped goes on there.
    random_state : int
        Everything random follows from it, the estimator's fits, too.
    progress : bool or callable
        Whether to log a line per fit; or a function that is told its records.

    Returns
    -------
    Choice
        The best parameters, and every candidate's scores.
    """
    entry = entry_of(*reversed(estimator)) if isinstance(estimator, tuple) else entry_of(estimator)
    objectives = _objectives(objective)
    if search not in ("grid", "optuna"):
        raise UnknownName("search", search, ("grid", "optuna"))
    if search == "optuna" and len(objectives) > 1:
        raise BadInput('Optuna maximises one figure; give objective="t1" or objective="h".')
    if search == "grid" and trials is not None:
        raise BadInput('`trials` belong to search="optuna"; a grid is tried as a whole: leave it out.')
    where = engine_of(engine, scheduler, processes)
    values = grid_of(entry, grid)
    searched = Entry(entry.name, entry.word, {k: v for k, v in entry.given.items() if k not in values}, entry.estimator)
    dataset = data if isinstance(data, ZeroShotDataset) else load_dataset(data)
    parts = dataset.validation_folds(folds)
    default = _default(searched, values)
    tell = progress if callable(progress) else (tell_fit if progress else _hear_nothing)
    with records_folder(out) as folder, keep_workers(where) as workers:
        fits = Trials(folder, parts, searched, objectives, random_state, workers, tell, calibrated)
        if search == "grid" and race:
            candidates = _race(fits, grid_candidates(values), default)
        elif search == "grid":
            candidates = fits.score(grid_candidates(values))
        else:
            candidates = search_optuna(fits.score, values, objectives[0], trials or 20, random_state)
    tried = default if any(c.parameters == default for c in candidates) else None
    return Choice(
        dataset, searched, objectives, candidates, values, folds, search, random_state, tried,
        independent_folds(parts), calibrated, race,
    )  # fmt: skip


def _default(entry: Entry, values: dict[str, list[Any]]) -> dict[str, Any]:
    """The estimator's own values of what is searched."""
    made = entry.make({}, 0, "gzsl")
    own = {**made.get_params(), **getattr(made, "resolved_parameters", dict)()}  # a preset's, where it says nothing
    return {name: own[name] for name in values}


def _race(fits: Trials, candidates: list[dict[str, Any]], default: dict[str, Any]) -> list[Candidate]:
    """All candidates on the first third of the folds; then on all folds those that lead there, and the defaults."""
    first = replace(fits, folds=fits.folds[: -(-len(fits.folds) // 3)]).score(candidates)
    leading = [default, *(best_of(first, objective).parameters for objective in fits.objectives)]
    ahead = [parameters for parameters in candidates if parameters in leading]
    final = {json.dumps(c.parameters): c for c in fits.score(ahead)}
    return [final.get(json.dumps(c.parameters), c) for c in first]


def grid_of(entry: Entry, grid: Grid | None) -> dict[str, list[Any]]:
    """The values to try, judged before anything is fitted: the caller's, or the method's own that are not set."""
    if grid is None:
        own = getattr(entry.kind, "grid", {}) if entry.estimator is None or not _has_steps(entry) else {}
        tried = {name: list(values) for name, values in own.items() if name not in entry.given}
        if not tried:
            raise BadInput(f"{entry.name} has no grid of its own to search; give one: {{'name': [value, …]}}.")
        return tried
    tried = {name: list(values) for name, values in grid.items()}
    known = entry.make({}, 0, "gzsl").get_params()
    for name, values in tried.items():
        if name not in known:
            raise UnknownName(f"parameter of {entry.name}", name, known)
        if not values:
            raise BadInput(f"The grid has no value for {name!r}; give at least one, or leave it out.")
        if plain({name: values})[name] != values:
            raise BadInput(f"Values of {name!r} in the grid must be numbers, text, true, false or None.")
        for value in values:
            made = entry.make({name: value}, 0, "gzsl")
            if isinstance(made, ZeroShotClassifier):
                validate_params(made)
    return tried


def tell_fit(records: list[Record]) -> None:
    """One logged line per fit that has ended."""
    say(fit_in_a_line(records))


def fit_in_a_line(records: list[Record]) -> str:
    """On which fold, with which parameters, what it scored."""
    first = records[0]
    if first.status == "failed":
        shown = f"failed: {first.error}"
    else:
        figures = ((FIGURE[r.setting], r) for r in records)
        shown = "  ".join(f"{TITLES[name]} {getattr(r, name):.2f}" for name, r in figures)
    return in_one_line(f"{first.dataset}, {in_words(first.variant)}: {shown}  ({first.seconds or 0.0:.1f} s)")


def _has_steps(entry: Entry) -> bool:
    return type(entry.estimator) is not entry.kind


def _hear_nothing(records: list[Record]) -> None:
    pass


def _objectives(objective: str) -> list[str]:
    if objective not in _SETTINGS:
        raise UnknownName("objective", str(objective), ("h", "t1", "both"))
    return list(_SETTINGS[objective])


# `firstsight.tune_all`: the parameters of several estimators, each chosen with the same budget.

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
    The defaults stay unless the gain exceeds the noise between folds (`firstsight.experiments.candidates.RULE`).
    H is the calibrated one. What has no grid is left out, and a line says so.

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
