"""`firstsight.tune` and `firstsight.tune_all`: choose parameters on validation classes."""

from __future__ import annotations

import json
import math
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
from firstsight.experiments.choices import (
    METRICS,
    RULE,
    ChoiceFile,
    ScoredCandidate,
    check_overwrite,
    choose,
    grid_candidates,
    independent_folds,
    is_numeric,
    read_choice,
)
from firstsight.experiments.executors import Workers, open_workers
from firstsight.experiments.plan import Entry, entries_of, entry_of, format_params, make_plan, to_json_values
from firstsight.experiments.records import CellKey, Key, Record, file_stem, key_of, read_records
from firstsight.experiments.session import (
    CHECKPOINTS,
    Event,
    prepare,
    records_folder,
    remove_checkpoints,
    remove_if_empty,
)
from firstsight.methods import ZeroShotClassifier, validate_params

if TYPE_CHECKING:
    import pandas as pd

Objective = Literal["h", "t1", "both"]
Grid = Mapping[str, Sequence[Any]]
OnFit = Callable[[list[Record]], None]
_SETTINGS = {"t1": ["zsl"], "h": ["gzsl"], "both": ["zsl", "gzsl"], "zsl": ["zsl"], "gzsl": ["gzsl"]}
MOST_CANDIDATES = 8  # of each estimator in `tune_all`
STUDY = "tune"


@dataclass(frozen=True, eq=False)
class Choice:
    """The outcome of a search: `best` are the parameters to use, `table` every candidate and its scores.

    Attributes
    ----------
    dataset : ZeroShotDataset
        What was searched on.
    entry : Entry
        The estimator that was searched, with the parameters that were fixed.
    result : ChoiceFile
        The search, every candidate's scores, and what was chosen, as `save` writes them.
    """

    dataset: ZeroShotDataset = field(repr=False)
    entry: Entry
    result: ChoiceFile

    @property
    def chosen(self) -> dict[str, dict[str, Any]]:
        """By objective ("zsl": T1, "gzsl": H), the parameters: those that were fixed, and the best candidate's."""
        return {str(objective): parameters for objective, parameters in self.result.chosen.items()}

    def winner(self, objective: str) -> ScoredCandidate:
        """Return the candidate that was chosen for an objective."""
        chosen, fixed = self.chosen[objective], self.result.fixed
        return next(c for c in self.result.candidates if {**fixed, **c.parameters} == chosen)

    @property
    def best(self) -> dict[str, Any]:
        """The parameters of the best candidate; where two objectives disagree, `chosen` has both."""
        winners = [self.winner(o).parameters for o in self.chosen]
        if any(parameters != winners[0] for parameters in winners):
            raise BadInput(
                f"T1 is best with {format_params(winners[0])} and H with {format_params(winners[1])}; take "
                "choice.chosen['zsl'] or choice.chosen['gzsl'], or tune with objective=\"t1\" or \"h\"."
            )
        return winners[0]

    @property
    def table(self) -> pd.DataFrame:
        """One row per candidate: its parameters, mean and deviation of each objective, its folds, its error."""
        import pandas as pd

        return pd.DataFrame([self._row(candidate) for candidate in self.result.candidates])

    def _row(self, candidate: ScoredCandidate) -> dict[str, Any]:
        row = dict(candidate.parameters)
        for objective in self.chosen if not candidate.error else ():
            title = TITLES[METRICS[objective]]
            row |= {title: candidate.mean(objective), f"{title} deviation": candidate.deviation(objective)}
            row |= {f"{title} fold {n}": score for n, score in enumerate(candidate.scores(objective), start=1)}
        return {**row, "error": candidate.error or None}

    @property
    def estimator(self) -> Any:
        """An unfitted estimator with the best parameters."""
        return self.entry.make(self.best, self.result.seed, self.result.objectives[-1])

    def fit(self, verbose: bool = False) -> Any:
        """Return the estimator with the best parameters, fitted on all training samples."""
        estimator = self.estimator
        if "verbose" in estimator.get_params():
            estimator.set_params(verbose=verbose)
        return fit_on(estimator, self.dataset)

    @cached_property
    def model(self) -> Any:
        """As `fit`, once."""
        return self.fit()

    def save(self, path: str | Path) -> Path:
        """Write the choice to a .json file, for `benchmark(…, tuned=path)`; one that answers more is not replaced."""
        path = Path(path)
        check_overwrite(path, self.entry.name, self.dataset.name, self.result.objectives)
        write_atomically(path, json.dumps(self.result.as_json(), indent=1, ensure_ascii=False) + "\n")
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
    progress: bool | OnFit = True,
) -> Choice:
    """Try parameters on validation classes, cut from the training samples alone; test samples are out of reach.

    Parameters
    ----------
    estimator : str, class, estimator or (name, estimator)
        A method's name, class or instance, or a scikit-learn pipeline that ends in one.
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
        A folder that keeps finished fits: a search that was stopped resumes there.
    random_state : int
        Everything random follows from it, the estimator's fits, too.
    progress : bool or callable
        Whether to log a line per fit; or a function that is called with its records.

    Returns
    -------
    Choice
        The best parameters, and every candidate's scores.
    """
    entry = entry_of(*reversed(estimator)) if isinstance(estimator, tuple) else entry_of(estimator)
    if objective not in _SETTINGS:
        raise UnknownName("objective", str(objective), ("h", "t1", "both"))
    objectives = _SETTINGS[objective]
    if search not in ("grid", "optuna"):
        raise UnknownName("search", search, ("grid", "optuna"))
    if search == "optuna" and len(objectives) > 1:
        raise BadInput('Optuna maximises one figure; give objective="t1" or objective="h".')
    if search == "grid" and trials is not None:
        raise BadInput('`trials` belong to search="optuna"; a grid is tried as a whole: leave it out.')
    values = grid_of(entry, grid)
    fixed = Entry(entry.name, entry.word, {k: v for k, v in entry.given.items() if k not in values}, entry.estimator)
    estimator = fixed.make({}, 0, "gzsl")
    # Where a parameter says nothing, a preset's value is the default.
    defaults = {**estimator.get_params(), **getattr(estimator, "resolved_parameters", dict)()}
    default = {name: defaults[name] for name in values}
    on_fit: OnFit = progress if callable(progress) else log_fit if progress else lambda records: None
    with open_workers(engine, scheduler, processes) as workers, records_folder(out) as folder:
        dataset = data if isinstance(data, ZeroShotDataset) else load_dataset(data)
        parts = dataset.validation_folds(folds)
        fits = Trials(folder, parts, fixed, objectives, random_state, workers, on_fit, calibrated)
        if search == "optuna":
            candidates = search_optuna(fits.score, values, objectives[0], trials or 20, random_state)
        else:
            candidates = (fits.race if race else fits.score)(grid_candidates(values), default)
    scored_default = next((c for c in candidates if c.parameters == default), None)
    complete = [c for c in candidates if c.error or len(c.scores(objectives[0])) == folds]
    use_rule = scored_default is not None and folds > 1
    independent = independent_folds(parts)
    winners = {o: choose(complete, o, scored_default if use_rule else None, independent) for o in objectives}
    result = {
        "schema": 1, "method": fixed.name, "dataset": dataset.name, "split": dataset.split_hash,
        "objectives": objectives, "search": search, "folds": folds, "independent_folds": round(independent, 2),
        "calibrated": calibrated, "race": race, "fits": sum(len(c.scores(objectives[0])) for c in candidates),
        "rule": RULE if use_rule else "", "default": default if scored_default else None, "seed": random_state,
        "grid": values, "fixed": fixed.given,
        "chosen": {o: {**fixed.given, **c.parameters} for o, c in winners.items()},
        "candidates": [c.as_json() for c in candidates],
    }  # fmt: skip
    return Choice(dataset, fixed, ChoiceFile.model_validate_json(json.dumps(result)))


def grid_of(entry: Entry, grid: Grid | None) -> dict[str, list[Any]]:
    """Return the values to try, validated: the caller's, or the method's grid without what is set."""
    if grid is None:
        is_method = entry.estimator is None or type(entry.estimator) is entry.kind
        of_method = getattr(entry.kind, "grid", {}) if is_method else {}
        values_of = {name: list(values) for name, values in of_method.items() if name not in entry.given}
        if not values_of:
            raise BadInput(f"{entry.name} has no grid of its own to search; give one: {{'name': [value, …]}}.")
        return values_of
    values_of = {name: list(values) for name, values in grid.items()}
    names = entry.make({}, 0, "gzsl").get_params()
    for name, values in values_of.items():
        if name not in names:
            raise UnknownName(f"parameter of {entry.name}", name, names)
        if not values:
            raise BadInput(f"The grid has no value for {name!r}; give at least one, or leave it out.")
        if to_json_values({name: values})[name] != values:
            raise BadInput(f"Values of {name!r} in the grid must be numbers, text, true, false or None.")
        for value in values:
            estimator = entry.make({name: value}, 0, "gzsl")
            if isinstance(estimator, ZeroShotClassifier):
                validate_params(estimator)
    return values_of


@dataclass(frozen=True)
class Trials:
    """The fits of a search on validation folds; records of finished ones are kept in `folder` and not fitted again."""

    folder: Path
    folds: list[ZeroShotDataset]
    entry: Entry  # with the parameters that are not searched
    objectives: list[str]
    seed: int
    workers: Workers
    on_fit: OnFit = lambda records: None
    calibrated: bool = False  # H is the one with the fold's best constant taken off seen classes' scores

    def score(self, candidates: list[dict[str, Any]], default: dict[str, Any] | None = None) -> list[ScoredCandidate]:
        """Fit with each candidate on every fold's training samples and evaluate on the classes that it holds out.

        One fit of an inductive method serves both objectives; a transductive one is fitted for each.
        """
        plans = {
            fold.name: [
                replace(job, seed=self.seed)
                for job in make_plan(fold.name, [self.entry], self.objectives, study=STUDY, variants=candidates)
            ]
            for fold in self.folds
        }
        records: dict[Key, Record] = {}

        def on_event(event: Event) -> None:
            if event.records is not None:
                records.update({key_of(record): record for record in event.records})
                self.on_fit(event.records)

        advice = f"those are trials of another search: remove {self.folder} to start again"
        with prepare(self.folder, self.folds, plans, advice=advice) as session:
            records.update({key_of(record): record for record in session.finished})
            session.run(self.workers, on_event)
        return [self._candidate(parameters, records) for parameters in candidates]

    def race(self, candidates: list[dict[str, Any]], default: dict[str, Any]) -> list[ScoredCandidate]:
        """Score all candidates on the first third of the folds, then the leading ones and the defaults on all."""
        first = replace(self, folds=self.folds[: -(-len(self.folds) // 3)]).score(candidates)
        leading = [default, *(choose(first, objective).parameters for objective in self.objectives)]
        final = {json.dumps(c.parameters): c for c in self.score([c for c in candidates if c in leading])}
        return [final.get(json.dumps(c.parameters), c) for c in first]

    def _candidate(self, parameters: dict[str, Any], records: dict[Key, Record]) -> ScoredCandidate:
        scores: dict[str, list[float]] = {}
        for objective in self.objectives:
            cells = [CellKey(f.name, self.entry.name, self.seed, parameters, STUDY, objective) for f in self.folds]
            of_folds = [records[key_of(cell)] for cell in cells]
            if failed := next((record for record in of_folds if record.status == "failed"), None):
                return ScoredCandidate.model_validate({"parameters": parameters, "error": failed.error})
            scores[TITLES[METRICS[objective]]] = [self._metric(record) for record in of_folds]
        return ScoredCandidate.model_validate({"parameters": parameters, "error": "", **scores})

    def _metric(self, record: Record) -> float:
        if record.setting == "gzsl" and self.calibrated:
            value = record.seen_unseen.best_h if record.seen_unseen else None
        else:
            value = record.t1 if record.setting == "zsl" else record.h
        return value or 0.0


def remove_trials(folder: Path, folds: list[ZeroShotDataset]) -> None:
    """Remove what a search has left in a folder, and the folder if nothing else is in it."""
    for path in folder.glob("*.jsonl"):
        if all(record.study == STUDY for record in read_records(path)):
            path.unlink()
    for fold in folds:  # checkpoints are those of fits that failed
        remove_checkpoints(folder / CHECKPOINTS / file_stem(fold.name))
    remove_if_empty(folder)


def search_optuna(
    score: Callable[[list[dict[str, Any]]], list[ScoredCandidate]],
    grid: dict[str, list[Any]],
    objective: str,
    trials: int = 20,
    seed: int = 0,
) -> list[ScoredCandidate]:
    """Let Optuna propose values between the grid's smallest and largest numbers, one candidate after the other.

    Positive numbers are searched on a logarithmic scale. The same seed and the same scores lead to the same proposals:
    a search that was killed proposes the same again, and `score` need not fit again what it has recorded.
    """
    try:
        import optuna
    except ImportError:
        raise BadInput(
            "--search optuna needs Optuna, which is not installed; run pip install 'firstsight[optuna]'."
        ) from None

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = {name: _distribution(values) for name, values in grid.items()}
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    candidates = []
    for _ in range(trials):
        trial = study.ask(space)
        (candidate,) = score([dict(trial.params)])
        study.tell(trial, 0.0 if candidate.error else candidate.mean(objective))
        candidates.append(candidate)
    return candidates


def _distribution(values: list[Any]) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not is_numeric(values):
        return CategoricalDistribution(values)
    kind = IntDistribution if all(isinstance(v, int) for v in values) else FloatDistribution
    return kind(min(values), max(values), log=min(values) > 0)


def log_fit(records: list[Record]) -> None:
    """Log one line per fit that has ended."""
    say(format_fit(records))


def format_fit(records: list[Record]) -> str:
    """Return on which fold, with which parameters, what a fit scored."""
    first = records[0]
    if first.status == "failed":
        outcome = f"failed: {first.error}"
    else:
        outcome = "  ".join(f"{TITLES[m]} {getattr(r, m):.2f}" for r in records for m in [METRICS[r.setting]])
    return in_one_line(f"{first.dataset}, {format_params(first.variant)}: {outcome}  ({first.seconds or 0.0:.1f} s)")


def default_folds(n_classes: int) -> int:
    """Return how many folds `tune_all` makes: the fewer classes, the more, since three were seen to choose by chance.

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
    progress: bool | OnFit = True,
) -> list[Choice]:
    """Choose the parameters of several estimators on the same validation folds, each by its own grid of up to 8.

    All have the same budget: every candidate on a third of the folds, the leading ones and the defaults on all of them.
    The defaults stay unless the gain exceeds the noise between folds (`firstsight.experiments.choices.RULE`).
    H is the calibrated one. What has no grid is left out, and a line says so.

    Parameters
    ----------
    estimators : as for `benchmark`
        Names, classes or instances, in a list or alone.
    data : ZeroShotDataset, str or Path
        A data set, or what `load_dataset` reads.
    out : str or Path
        A folder: one file per estimator, for `benchmark(…, tuned=out)`. Existing files are read, not made again, and a
        search that was stopped resumes.
    objective : {"both", "h", "t1"}
        What to maximise.
    folds : int, optional
        Left out, the fewer classes there are, the more: `default_folds`.
    engine, scheduler, processes : as for `tune`
        Where the fits are computed.
    random_state : int
        Everything random follows from it.
    progress : bool or callable
        Whether to log a line per fit; or a function that is called with its records.

    Returns
    -------
    list of Choice
        One for each estimator that has something to choose.
    """
    dataset = data if isinstance(data, ZeroShotDataset) else load_dataset(data)
    open_workers(engine, scheduler, processes)  # a mistake here concerns all estimators
    options = {
        "objective": objective, "folds": folds or default_folds(len(dataset.seen_classes)),
        "random_state": random_state, "engine": engine, "scheduler": scheduler, "processes": processes,
        "progress": progress,
    }  # fmt: skip
    choices = []
    for entry in entries_of(estimators):
        try:
            choices.append(_tune_or_read(entry, dataset, Path(out), options))
        except InUse:
            raise
        except BadInput as error:  # it cannot be searched, or not on these data: the others can
            say(f"{entry.name} on {dataset.name} stays as it is: {error}")
    return choices


def _tune_or_read(entry: Entry, dataset: ZeroShotDataset, folder: Path, options: dict[str, Any]) -> Choice:
    grid = grid_of(entry, None)
    size = math.prod(map(len, grid.values()))
    if size > MOST_CANDIDATES:
        raise BadInput(
            f"its own grid has {size} candidates, and the budget that all share is {MOST_CANDIDATES}; tune it alone."
        )
    path = folder / f"{file_stem(dataset.name)}-{file_stem(entry.name)}.json"
    if not path.exists():
        trials = path.with_name(path.name + ".trials")
        choice = tune(entry, dataset, calibrated=True, race=True, out=trials, **options)
        choice.save(path)
        remove_trials(trials, dataset.validation_folds(choice.result.folds))
        return choice
    file = read_choice(path)
    found = (file.method, file.dataset, file.split, file.grid, file.folds, file.seed, file.calibrated)
    seed = options["random_state"]
    if found != (entry.name, dataset.name, dataset.split_hash, grid, options["folds"], seed, True):
        raise BadInput(f"{path} holds another search (other values, folds or data); remove it to search again.")
    return Choice(dataset, entry, file)
