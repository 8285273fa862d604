"""`firstsight.benchmark`: estimators on data sets, one record per cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstsight._io.terminal import in_one_line, logger, say
from firstsight._io.terminal import progress as bar
from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.errors import BadInput, UnknownName
from firstsight.evaluation import SETTINGS, TITLES
from firstsight.experiments.choices import ChoiceFile, Choices, gather_choices, read_choices, untuned
from firstsight.experiments.entries import entries_of
from firstsight.experiments.plan import SEPARATIONS, STUDIED, Job, in_words, make_plan
from firstsight.experiments.records import Record, key_of
from firstsight.experiments.session import Event, Session, prepare, records_folder
from firstsight.experiments.tune import Choice
from firstsight.experiments.workers import engine_of

if TYPE_CHECKING:
    import pandas as pd


# A finished cell in one line, for a screen or a log.


def in_a_line(record: Record) -> str:
    """Which cell, what it found, how long it took."""
    method = f"{record.method} {in_words(record.variant)}".rstrip()
    what = f"{record.dataset} {method} {record.setting} seed {record.seed}:"
    if record.status == "failed":
        return in_one_line(f"{what} failed: {record.error}")
    shown = ((title, getattr(record, name)) for name, title in TITLES.items())
    figures = "  ".join(f"{title} {value:.1f}" for title, value in shown if value is not None)
    if record.seen_unseen is not None and record.seen_unseen.calibrated is not None:
        figures += f"  H calibrated {record.seen_unseen.calibrated.h:.1f}"
    if record.collapsed:
        figures += "  collapsed, or hardly trained"
    return in_one_line(f"{what} {figures}  ({record.seconds or 0.0:.1f} s, {record.peak_mib} MiB)")


# `firstsight.benchmark`: estimators on data sets, one record per cell, one row per estimator, data set and seed.

DEFAULTS = "defaults"  # the study that runs what tuning has changed, as it would be without
Plans = dict[str, list[Job]]  # by data set
Show = Callable[[Event], None]
Follower = Callable[[Plans, Session], AbstractContextManager[Show]]  # whoever wants to show how far it is
Data = ZeroShotDataset | str | Path


def benchmark(
    estimators: Any,
    datasets: Data | Sequence[Data],
    *,
    seeds: int = 1,
    settings: str | Sequence[str] = SETTINGS,
    out: str | Path | None = None,
    tuned: str | Path | Choice | Sequence[Choice] | None = None,
    calibrate: bool = False,
    study: str = "",
    values: Sequence[float] | None = None,
    engine: Any = "local",
    scheduler: str | None = None,
    processes: int | None = None,
    progress: bool | Follower = True,
) -> pd.DataFrame:
    """Fit and judge estimators on data sets.

    Methods that are known by a word run in worker processes; a pipeline, or a class of a notebook, runs in this
    process, because no code is ever sent or read. `random_state` and `setting` of an instance are set by `seeds` and
    `settings`.

    Parameters
    ----------
    estimators : words, classes or instances, in a list or alone
        (name, estimator) pairs or a dictionary for several variants of one method.
    datasets : data sets, or what `load_dataset` reads, in a list or alone
        What to fit and judge them on.
    seeds : int
        How many: 0, 1, …; one for what has nothing random.
    settings : {"zsl", "gzsl"} or both
        Conventional, generalized.
    out : str or Path, optional
        A folder of records; started again with the same, only what is missing is done. None: no records are kept.
    tuned : path or Choice, optional
        What `tune` chose: a file, a folder of them, or choices.
    calibrate : bool
        Also H with a constant taken off seen classes' scores, from a validation fold (one more fit each).
    study : str
        "separation" varies λ of both deep embeddings over `values`; "defaults" runs what `tuned` has changed, with the
        defaults instead, for the table that sets them side by side.
    values : sequence of float, optional
        Those of the study.
    engine : {"local", "dask"} or distributed.Client
        Worker processes here; the workers of a Dask cluster; or those of a client that is connected to one.
    scheduler : str, optional
        The address of the cluster's scheduler, for "dask".
    processes : int, optional
        Worker processes here; all cores if left out.
    progress : bool or callable
        A bar on a terminal and a logged line per cell; or a function that shows it in another way.

    Returns
    -------
    DataFrame
        T1, ts, tr and H in percent, one row per estimator, data set and seed.
    """
    loaded = [one if isinstance(one, ZeroShotDataset) else load_dataset(one) for one in _listed(datasets)]
    entries = entries_of(estimators)
    chosen = _settings(settings)
    variants = _variants(study, values)
    if study and study != DEFAULTS and (strange := [entry.name for entry in entries if entry.word not in STUDIED]):
        raise BadInput(f"The study {study!r} is about {' and '.join(STUDIED)}; leave {strange[0]} out.")
    if not loaded or not chosen:
        raise BadInput("There is nothing to run; give at least one data set and one setting.")
    if seeds < 1:
        raise BadInput(f"`seeds` must be at least 1, but is {seeds}; it says how many: 0, 1, ….")
    where = engine_of(engine, scheduler, processes)
    choices = choices_for(tuned, loaded)
    for line in untuned(choices, [entry.name for entry in entries], chosen):
        logger.warning("%s", line)
    used = {} if study == DEFAULTS else choices
    plans = {d.name: make_plan(d.name, entries, chosen, seeds, None, used.get(d.name), study, variants) for d in loaded}
    if study == DEFAULTS and choices:
        plans = {name: _changed(jobs, choices[name]) for name, jobs in plans.items()}
        if not any(plans.values()):
            logger.warning("Tuning has kept every default, so there is nothing to set beside it.")
    follow = progress if callable(progress) else (_lines if progress else _silence)
    with records_folder(out) as folder, prepare(folder, loaded, plans, calibrate) as session:
        finished: list[Record] = list(session.there)
        with follow(plans, session) as show:

            def hear(event: Event) -> None:
                finished.extend(event.records or [])
                show(event)

            session.run(where, hear)
    return table_of(finished, plans)


def choices_for(
    tuned: str | Path | Choice | Sequence[Choice] | None, datasets: list[ZeroShotDataset]
) -> dict[str, Choices]:
    """By data set, method and setting, what tuning chose."""
    if tuned is None:
        return {}
    if isinstance(tuned, str | Path):
        return gather_choices(read_choices(Path(tuned)), datasets, str(tuned))
    listed = [tuned] if isinstance(tuned, Choice) else tuned
    files: list[tuple[str, ChoiceFile]] = [(f"choice {n}", one.to_file()) for n, one in enumerate(listed, start=1)]
    return gather_choices(files, datasets, "`tuned`")


def table_of(records: list[Record], plans: Plans) -> pd.DataFrame:
    """One row per estimator, data set and seed of a plan (and value of a study), in the order of the plan."""
    import pandas as pd

    newest = {key_of(record): record for record in records}
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for job in (job for jobs in plans.values() for job in jobs):
        for record in (newest[key_of(cell)] for cell in job.cells() if key_of(cell) in newest):
            about = {"dataset": job.dataset, "method": job.method, **job.variant, "seed": job.seed}
            row = rows.setdefault(tuple(about.values()), {**about, **dict.fromkeys(TITLES.values()), "seconds": 0.0})
            row |= {TITLES[n]: value for n in TITLES if (value := getattr(record, n)) is not None}
            row["seconds"] += record.seconds or 0.0
            row["error"] = record.error or row.get("error")
    table = pd.DataFrame(list(rows.values()), columns=None if rows else ["dataset", "method", "seed", *TITLES.values()])
    return table.astype(dict.fromkeys(TITLES.values(), float))


def _settings(settings: str | Sequence[str]) -> tuple[str, ...]:
    named = SETTINGS if settings == "both" else (settings,) if isinstance(settings, str) else tuple(settings)
    for name in named:
        if name not in SETTINGS:
            raise UnknownName("setting", str(name), SETTINGS)
    return named


def _variants(study: str, values: Sequence[float] | None) -> list[dict[str, Any]]:
    if not study:
        if values is not None:
            raise BadInput('`values` belong to study="separation"; leave them out.')
        return [{}]
    if study == DEFAULTS and values is None:
        return [{}]
    if study != "separation":
        raise UnknownName("study", study, ("separation", DEFAULTS))
    numbers = SEPARATIONS if values is None else [float(value) for value in values]
    return [{"separation": number} for number in dict.fromkeys(numbers)]


def _changed(jobs: list[Job], choices: Choices) -> list[Job]:
    """The cells for which tuning has chosen something else than the defaults; of the others, the tables have them."""
    again = []
    for job in jobs:
        own = choices.get(job.method, {})
        settings = tuple(s for s in job.settings if s in own and not own[s]["tuned"].get("kept_defaults"))
        again += [replace(job, settings=settings)] if settings else []
    return again


def _listed(datasets: Data | Sequence[Data]) -> Sequence[Data]:
    return datasets if isinstance(datasets, list | tuple) else [datasets]  # type: ignore[list-item]


@contextmanager
def _lines(plans: Plans, session: Session) -> Iterator[Show]:
    total, done = sum(len(job.cells()) for job in session.jobs), 0
    with bar("Benchmark", total) as advance:

        def show(event: Event) -> None:
            nonlocal done
            done += len(event.records or [])
            for record in event.records or []:
                say(f"[{done}/{total}] {in_a_line(record)}")
            advance(done, f"{event.job.dataset} {event.job.name}")

        yield show


@contextmanager
def _silence(plans: Plans, session: Session) -> Iterator[Show]:
    yield lambda event: None
