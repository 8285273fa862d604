"""`firstsight.benchmark`: estimators on data sets, one record per cell, one row per estimator, data set and seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firstsight._io.files import write_atomically
from firstsight._io.terminal import in_one_line, logger, say
from firstsight._io.terminal import progress as bar
from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.data.feature_files import read_arrays
from firstsight.errors import BadInput, UnknownName, UnreadableFile
from firstsight.evaluation import SETTINGS, TITLES, fit_on
from firstsight.evaluation.spaces import lay_out
from firstsight.experiments.choices import ChoiceFile, Choices, describe_untuned, gather_choices, read_choices
from firstsight.experiments.executors import open_workers
from firstsight.experiments.few_shot import BASELINES, DRAWS, check_shots
from firstsight.experiments.jobs import estimator_of
from firstsight.experiments.plan import (
    SEPARATIONS,
    STUDIED,
    Entry,
    Job,
    entries_of,
    few_shot_plan,
    format_params,
    make_plan,
)
from firstsight.experiments.records import Record, file_stem, key_of, records_file
from firstsight.experiments.session import CHECKPOINTS, Event, Session, prepare, records_folder, remove_checkpoints
from firstsight.experiments.tune import Choice

if TYPE_CHECKING:
    import pandas as pd

DEFAULTS = "defaults"  # the study that runs what tuning has changed, as it would be without
Plans = dict[str, list[Job]]  # by data set
OnEvent = Callable[[Event], None]
Follower = Callable[[Plans, Session], AbstractContextManager[OnEvent]]
Data = ZeroShotDataset | str | Path


def benchmark(
    estimators: Any,
    datasets: Data | Sequence[Data],
    *,
    seeds: int | None = None,
    settings: str | Sequence[str] = SETTINGS,
    out: str | Path | None = None,
    tuned: str | Path | Choice | Sequence[Choice] | None = None,
    calibrate: bool = False,
    study: str = "",
    values: Sequence[float] | None = None,
    shots: Sequence[int] | None = None,
    engine: Any = "local",
    scheduler: str | None = None,
    processes: int | None = None,
    progress: bool | Follower = True,
) -> pd.DataFrame:
    """Fit and evaluate estimators on data sets.

    Registered methods run in worker processes; a pipeline, or a class of a notebook, runs in this
    process, because no code is ever sent or read. `random_state` and `setting` of an instance are set by `seeds` and
    `settings`.

    Parameters
    ----------
    estimators : names, classes or instances, in a list or alone
        (name, estimator) pairs or a dictionary for several variants of one method.
    datasets : data sets, or what `load_dataset` reads, in a list or alone
        What to fit and evaluate them on.
    seeds : int, optional
        How many: 0, 1, …; one for what has nothing random. With `shots`, the number of draws: five if left out.
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
        defaults instead, for the table that compares them.
    values : sequence of float, optional
        Those of the study.
    shots : sequence of int, optional
        Few-shot cells instead, such as [0, 1, 5]: so many samples of every unseen class are labelled, drawn from its
        test samples; the seed is the draw. All methods get the same samples, and smaller numbers are parts of larger
        ones. The largest number is held out of the test for all. Methods with `add_samples` are fitted once, others
        again for each cell, with the settings that their fit without these samples chose. Two baselines run along:
        "nearest-mean" and "logistic-regression".
    engine : {"local", "dask"} or distributed.Client
        Worker processes here; the workers of a Dask cluster; or those of a client that is connected to one.
    scheduler : str, optional
        The address of the cluster's scheduler, for "dask".
    processes : int, optional
        Worker processes here; all cores if left out.
    progress : bool or callable
        A bar on a terminal and a logged line per cell; or a context manager, called with the plans and the session,
        that gives a function to be called with each `Event`.

    Returns
    -------
    DataFrame
        T1, ts, tr and H in percent, one row per estimator, data set and seed (and number of shots).
    """
    listed: Sequence[Data] = datasets if isinstance(datasets, list | tuple) else [datasets]  # type: ignore[list-item]
    loaded = [data if isinstance(data, ZeroShotDataset) else load_dataset(data) for data in listed]
    entries = entries_of(estimators)
    chosen = _settings(settings)
    variants = _variants(study, values)
    if study and study != DEFAULTS and (others := [entry.name for entry in entries if entry.word not in STUDIED]):
        raise BadInput(f"The study {study!r} is about {' and '.join(STUDIED)}; leave {others[0]} out.")
    if not loaded or not chosen:
        raise BadInput("There is nothing to run; give at least one data set and one setting.")
    if shots is not None:
        shots, seeds = check_shots(shots, loaded), DRAWS if seeds is None else seeds
        _check_few_shot(study, calibrate)
        entries = entries_of([*entries, *(Entry(name, name) for name in BASELINES)])
    seeds = 1 if seeds is None else seeds
    if seeds < 1:
        raise BadInput(f"`seeds` must be at least 1, but is {seeds}; it says how many: 0, 1, ….")
    workers = open_workers(engine, scheduler, processes)
    choices = choices_for(tuned, loaded, [entry.name for entry in entries], chosen)
    used = {} if study == DEFAULTS else choices
    plans = {d.name: make_plan(d.name, entries, chosen, seeds, None, used.get(d.name), study, variants) for d in loaded}
    if study == DEFAULTS and choices:
        plans = {name: _changed_by_tuning(jobs, choices[name]) for name, jobs in plans.items()}
        if not any(plans.values()):
            logger.warning("Tuning has kept every default, so there is nothing to compare.")
    if shots is not None:
        plans = {name: few_shot_plan(jobs, shots, seeds) for name, jobs in plans.items()}
    follow = progress if callable(progress) else _lines if progress else _silence
    with workers, records_folder(out) as folder, prepare(folder, loaded, plans, calibrate) as session:
        finished = list(session.finished)
        with follow(plans, session) as on_event:

            def collect(event: Event) -> None:
                finished.extend(event.records or [])
                on_event(event)

            session.run(workers, collect)
    return table_of(finished, plans)


def _check_few_shot(study: str, calibrate: bool) -> None:
    if study:
        raise BadInput(f"`shots` make a study of their own; leave the study {study!r} out, or run it by itself.")
    if calibrate:
        raise BadInput("H with a constant from a validation fold is not measured with `shots`; leave `calibrate` out.")


def choices_for(
    tuned: str | Path | Choice | Sequence[Choice] | None,
    datasets: list[ZeroShotDataset],
    methods: list[str],
    settings: Sequence[str],
) -> dict[str, Choices]:
    """Return what tuning chose by data set, method and setting; what it does not cover is logged."""
    if tuned is None:
        return {}
    if isinstance(tuned, str | Path):
        choices = gather_choices(read_choices(Path(tuned)), datasets, str(tuned))
    else:
        listed = [tuned] if isinstance(tuned, Choice) else tuned
        files: list[tuple[str, ChoiceFile]] = [(f"choice {n}", c.result) for n, c in enumerate(listed, start=1)]
        choices = gather_choices(files, datasets, "`tuned`")
    for line in describe_untuned(choices, methods, settings):
        logger.warning("%s", line)
    return choices


def table_of(records: list[Record], plans: Plans) -> pd.DataFrame:
    """Return one row per estimator, data set and seed of a plan (and value of a study), in the order of the plan."""
    import pandas as pd

    newest = {key_of(record): record for record in records}
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for job in (job for jobs in plans.values() for job in jobs):
        for record in (newest[key_of(cell)] for cell in job.cells() if key_of(cell) in newest):
            names = {"dataset": job.dataset, "method": job.method, **record.variant, "seed": record.seed}
            row = rows.setdefault(tuple(names.values()), {**names, **dict.fromkeys(TITLES.values()), "seconds": 0.0})
            row |= {TITLES[n]: value for n in TITLES if (value := getattr(record, n)) is not None}
            row["seconds"] += record.seconds or 0.0
            row["error"] = record.error or row.get("error")
    table = pd.DataFrame(list(rows.values()), columns=None if rows else ["dataset", "method", "seed", *TITLES.values()])
    return table.astype(dict.fromkeys(TITLES.values(), float))


def _settings(settings: str | Sequence[str]) -> tuple[str, ...]:
    names = SETTINGS if settings == "both" else (settings,) if isinstance(settings, str) else tuple(settings)
    for name in names:
        if name not in SETTINGS:
            raise UnknownName("setting", str(name), SETTINGS)
    return names


def _variants(study: str, values: Sequence[float] | None) -> list[dict[str, Any]]:
    if study == "separation":
        numbers = SEPARATIONS if values is None else [float(value) for value in values]
        return [{"separation": number} for number in dict.fromkeys(numbers)]
    if study not in ("", DEFAULTS):
        raise UnknownName("study", study, ("separation", DEFAULTS))
    if values is not None:
        raise BadInput('`values` belong to study="separation"; leave them out.')
    return [{}]


def _changed_by_tuning(jobs: list[Job], choices: Choices) -> list[Job]:
    """Return the cells for which tuning has chosen other values than the defaults; the tables have the others."""
    changed = []
    for job in jobs:
        by_setting = choices.get(job.method, {})
        settings = tuple(s for s in job.settings if s in by_setting and not by_setting[s].source["kept_defaults"])
        changed += [replace(job, settings=settings)] if settings else []
    return changed


@contextmanager
def _lines(plans: Plans, session: Session) -> Iterator[OnEvent]:
    total, done = sum(len(job.cells()) for job in session.jobs), 0
    with bar("Benchmark", total) as advance:

        def on_event(event: Event) -> None:
            nonlocal done
            done += len(event.records or [])
            for record in event.records or []:
                say(f"[{done}/{total}] {format_record(record)}")
            advance(done, f"{event.job.dataset} {event.job.name}")

        yield on_event


@contextmanager
def _silence(plans: Plans, session: Session) -> Iterator[OnEvent]:
    yield lambda event: None


def format_record(record: Record) -> str:
    """Return a finished cell as one line: which cell, its metrics, how long it took."""
    method = f"{record.method} {format_params(record.variant)}".rstrip()
    cell = f"{record.dataset} {method} {record.setting} seed {record.seed}:"
    if record.status == "failed":
        return in_one_line(f"{cell} failed: {record.error}")
    values = ((title, getattr(record, name)) for name, title in TITLES.items())
    metrics = "  ".join(f"{title} {value:.1f}" for title, value in values if value is not None)
    if record.seen_unseen is not None and record.seen_unseen.calibrated is not None:
        metrics += f"  H calibrated {record.seen_unseen.calibrated.h:.1f}"
    if record.collapsed:
        metrics += "  collapsed, or hardly trained"
    return in_one_line(f"{cell} {metrics}  ({record.seconds or 0.0:.1f} s, {record.peak_mib} MiB)")


# The paper's embedding map: test samples and class embeddings of three spaces, laid out in the plane by t-SNE.

POINTS = 1500
CLASSES = {"all": 20, "unseen": 8}
SPACES = {"inductive": "deep-embedding", "transductive": "transductive-deep-embedding"}


def map_file(folder: Path, dataset: str) -> Path:
    """Return the path of a data set's map."""
    return folder / "maps" / records_file(folder, dataset).with_suffix(".npz").name


def is_map_current(path: Path, dataset: ZeroShotDataset) -> bool:
    """Whether the map exists and is of this split."""
    try:
        return str(read_arrays(path, ("split",)).get("split")) == dataset.split_hash
    except UnreadableFile:  # it does not exist, or is damaged
        return False


def make_map(
    dataset: ZeroShotDataset,
    folder: Path,
    given: dict[str, dict[str, Any]],
    seed: int = 0,
    on_step: Callable[[str], None] = lambda step: None,
) -> Path:
    """Fit both deep embeddings (generalized setting) and write the coordinates.

    For `all` (half of the classes seen, half unseen) and `unseen`: `<which>_labels` (n,) positions in
    `<which>_names` (k,), `<which>_seen` (k,), and for each space `<space>_<which>_points` (n, 2) and
    `<space>_<which>_classes` (k, 2), which is (0, 2) for the visual space, where no class has a point.
    """
    checkpoints = folder / CHECKPOINTS / f"{file_stem(dataset.name)}~maps"
    models = {}
    for space, method in SPACES.items():
        on_step(f"{dataset.name}: fitting {method}")
        job = Job(dataset.name, method, ("gzsl",), seed, given.get(method, {}), study="map")
        checkpoint = checkpoints / f"{job.fingerprint()}.safetensors"
        models[space] = fit_on(estimator_of(job, checkpoint).set_params(verbose=True), dataset)
    arrays: dict[str, Any] = {"split": dataset.split_hash, "dataset": dataset.name}
    random = np.random.default_rng(seed)
    for which in CLASSES:
        rows, names = _draw_samples(dataset, which, random)
        arrays[f"{which}_names"] = np.array(names)
        arrays[f"{which}_seen"] = np.isin(names, dataset.seen_classes)
        arrays[f"{which}_labels"] = np.array([names.index(name) for name in dataset.names_of(rows)])
        X = dataset.features[rows]
        spaces = {"visual": (X, None)}
        spaces |= {space: (model.embed(X), model.embed_classes(names)) for space, model in models.items()}
        for space, (samples, classes) in spaces.items():
            on_step(f"{dataset.name}: laying out the {space} space, {which} classes")
            points, squares = lay_out(samples, classes, seed)
            arrays |= {f"{space}_{which}_points": points, f"{space}_{which}_classes": squares}
    path = map_file(folder, dataset.name)
    write_atomically(path, lambda temporary: np.savez(temporary, **arrays))
    remove_checkpoints(checkpoints)
    return path


def _draw_samples(dataset: ZeroShotDataset, which: str, random: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    """Draw some classes and some of their test samples, the same for the same seed."""
    groups = [dataset.unseen_classes]
    if which == "all":
        groups.append(np.unique(dataset.names_of(dataset.test_seen)).tolist())
    names: list[str] = []
    for group in groups:
        size = min(CLASSES[which] // len(groups), len(group))
        names += [group[i] for i in np.sort(random.permutation(len(group))[:size])]
    rows = np.sort(np.concatenate([dataset.test_seen, dataset.test_unseen]))
    rows = rows[np.isin(dataset.names_of(rows), names)]
    return np.sort(random.permutation(rows)[:POINTS]), names
