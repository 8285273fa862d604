"""The plan of an experiment: its entries (methods, estimators and their names), and the jobs that run them.

A method that is registered under a name (firstsight's, and those of installed packages) is constructed in a worker
process from that name and its parameters. Everything else (a pipeline, a class of a notebook) is known to this process
alone and runs here, one after the other: no process ever takes code from a file or a stream.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import sysconfig
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.pipeline import Pipeline

import firstsight
from firstsight.devices import torch_is_installed
from firstsight.errors import BadInput, FirstsightWarning
from firstsight.evaluation import SETTINGS, core_of
from firstsight.evaluation.protocol import is_transductive, parameter_prefix
from firstsight.experiments.few_shot import BASELINES
from firstsight.experiments.records import FEW_SHOT, CellKey, OtherRecords, Record, file_stem, key_of
from firstsight.methods import (
    IncrementalClassifier,
    ZeroShotClassifier,
    all_methods,
    find_method,
    make_estimator,
    method_name,
)

# Entries: methods, estimators and their names.

# Set by the benchmark: the seed of the cell, its setting, the path of its checkpoint.
_SUPPLIED = ("random_state", "setting", "checkpoint")


@dataclass(frozen=True)
class Entry:
    """An estimator and the name that its records bear."""

    name: str
    word: str = ""  # the name that every process finds the method by; empty: only this process knows the estimator
    given: dict[str, Any] = field(default_factory=dict)  # its parameters other than defaults, as JSON can hold them
    estimator: Any = field(default=None, repr=False)  # where there is no word: copies of it are fitted

    @property
    def kind(self) -> Any:
        """The class of the method inside."""
        if self.estimator is not None:
            return type(core_of(self.estimator))
        return BASELINES.get(self.word) or all_methods()[self.word]

    @property
    def is_incremental(self) -> bool:
        """Whether a fitted one learns from more samples by `add_samples`; a pipeline around it does not."""
        kind = self.kind if self.estimator is None else type(self.estimator)
        return issubclass(kind, IncrementalClassifier)

    @property
    def is_random(self) -> bool:
        """Whether any part takes a `random_state`; else every seed gives the same."""
        if self.estimator is None:
            return "random_state" in inspect.signature(self.kind).parameters
        return any(name.rpartition("__")[2] == "random_state" for name in self.estimator.get_params())

    def make(self, parameters: Mapping[str, Any], seed: int, setting: str, checkpoint: str | None = None) -> Any:
        """Return an unfitted estimator; seed, setting and checkpoint go where a parameter of that name is."""
        estimator = self.kind(**self.given) if self.estimator is None else clone(self.estimator)
        estimator.set_params(**parameters)
        prefix, names = parameter_prefix(estimator), estimator.get_params()
        supplied: dict[str, Any] = {f"{prefix}setting": setting, f"{prefix}checkpoint": checkpoint}
        supplied |= dict.fromkeys((name for name in names if name.rpartition("__")[2] == "random_state"), seed)
        return estimator.set_params(**{name: value for name, value in supplied.items() if name in names})

    def with_parameters(self, parameters: Mapping[str, Any]) -> Entry:
        """Return the same with other parameters, under the same name."""
        if self.estimator is None:
            if not parameters and self.word in BASELINES:
                return self
            given = {**self.given, **parameters}
            make_estimator(self.word, given)  # validates parameters that a file may have named, and that torch is there
            return Entry(self.name, self.word, given)
        try:
            estimator = clone(self.estimator).set_params(**parameters)
        except ValueError as error:  # scikit-learn's message, with a list of the parameters
            raise BadInput(" ".join(str(error).split())) from error
        return Entry(self.name, "", to_json_values(given_of(estimator)), estimator)


def entries_of(estimators: Any) -> list[Entry]:
    """Return entries of method names, classes, instances, (name, estimator) pairs or a dictionary."""
    if isinstance(estimators, Mapping):
        entries = [entry_of(estimator, name) for name, estimator in estimators.items()]
    else:
        is_pair = _is_pair(estimators) and not isinstance(estimators[1], str)  # two names are two methods
        listed = estimators if isinstance(estimators, list | tuple) and not is_pair else [estimators]
        entries = [entry_of(item[1], item[0]) if _is_pair(item) else entry_of(item) for item in listed]
    if not entries:
        raise BadInput("No estimator was named; give a method's name, a class, an instance, or a list of these.")
    names = [entry.name for entry in entries]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise BadInput(f"Two estimators would be called {twice!r} in the records; name them: [('one', …), ('two', …)].")
    return entries


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def entry_of(estimator: Any, name: str | None = None) -> Entry:
    """Return the entry of an estimator; without a name it is called after its method or its classes."""
    if isinstance(estimator, Entry):
        return estimator
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise BadInput(f"The name of an estimator must be a text that is not empty; got {name!r}.")
    if isinstance(estimator, str):
        estimator = find_method(estimator)
    if isinstance(estimator, type):
        estimator = estimator()
    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        raise BadInput(
            "An estimator must be a method's name, or a class or an instance with `fit` and `get_params` (as "
            f"scikit-learn has them); got {type(estimator).__name__}."
        )
    word = next((word for word, cls in all_methods().items() if cls is type(estimator)), "")
    if name is not None and name in all_methods() and name != word:
        raise BadInput(f"{name!r} is the name of another method; records would mix them up: choose another name.")
    given = given_of(estimator)
    if word and to_json_values(given) == given:
        return Entry(name or word, word, given)
    return Entry(name or word or description_of(estimator), "", to_json_values(given), estimator)


def _ignored_parameters(cls: type) -> set[str]:
    return {*_SUPPLIED, *getattr(cls, "non_result_params", ())}


def given_of(estimator: Any, prefix: str = "") -> dict[str, Any]:
    """Return the parameters that are not defaults, those of inner estimators as `step__name`; none that is supplied."""
    defaults = inspect.signature(type(estimator).__init__).parameters
    # A method's own additions to `non_result_params`, such as `search`, are in no record but change what a fit does.
    ignored = {*_SUPPLIED, *ZeroShotClassifier.non_result_params}
    inner = dict(estimator.steps) if isinstance(estimator, Pipeline) else {}
    given: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if hasattr(value, "get_params") and not isinstance(value, type):
            inner[name] = value
        elif name not in ignored and name != "steps" and not _is_default(value, defaults[name].default):
            given[f"{prefix}{name}"] = value
    for name, step in inner.items():
        if hasattr(step, "get_params"):
            given |= given_of(step, f"{prefix}{name}__")
    return given


def description_of(estimator: Any) -> str:
    """Return its class, or the classes of its steps: `StandardScaler+SJE`."""
    if isinstance(estimator, Pipeline):
        return "+".join(description_of(step) for _, step in estimator.steps)
    if isinstance(estimator, str):  # a step that is "passthrough"
        return estimator
    core = core_of(estimator)
    return type(estimator).__name__ + ("" if core is estimator else f"({description_of(core)})")


def parameters_of(estimator: Any) -> dict[str, Any]:
    """Return all parameters as JSON can hold them, presets resolved, without those that do not change results."""
    if isinstance(estimator, ZeroShotClassifier):
        return to_json_values(estimator.resolved_parameters())
    core, prefix = core_of(estimator), parameter_prefix(estimator)
    ignored = {*_ignored_parameters(type(core)), "steps"}
    values = {name: value for name, value in estimator.get_params().items() if not hasattr(value, "get_params")}
    if isinstance(core, ZeroShotClassifier):
        values |= {f"{prefix}{name}": value for name, value in core.resolved_parameters().items()}
    values |= {f"best__{name}": value for name, value in getattr(estimator, "best_params_", {}).items()}
    return to_json_values({name: v for name, v in values.items() if name.rpartition("__")[2] not in ignored})


def with_fixed_settings(fitted: Any) -> Any:
    """Return an unfitted copy that does not search: it has the settings that a fit of it has chosen."""
    if hasattr(fitted, "best_estimator_"):  # of GridSearchCV
        return clone(fitted.best_estimator_)
    copy = clone(fitted)
    if isinstance(fitted, ZeroShotClassifier) and "search" in fitted.diagnostics_:
        settings = {**fitted.resolved_parameters(), "search": False}
        copy.set_params(**{name: value for name, value in settings.items() if name in copy.get_params(deep=False)})
    return copy


def identity_of(estimator: Any) -> Any:
    """Return what a fit begins with: classes, all code in it that is not installed, and parameters."""
    return [description_of(estimator), _code_digest(estimator), parameters_of(estimator)]


def to_json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON holds them; what it cannot hold, as its `repr` without addresses in memory."""
    held: dict[str, Any] = json.loads(
        json.dumps(dict(values), default=lambda value: re.sub(r" at 0x[0-9a-f]+", "", repr(value)))
    )
    return held


def _code_digest(estimator: Any) -> str:
    """Return a digest of classes, their bases and functions of all steps that no package brought; empty without any.

    In a notebook, a class that was edited is another one under the same name.
    """
    parts = [estimator, *estimator.get_params().values()]
    classes = {cls for part in parts if hasattr(part, "get_params") for cls in type(part).__mro__}
    code = [c for c in classes | {part for part in parts if inspect.isroutine(part)} if not _is_installed(c)]
    sources = sorted(f"{c.__qualname__} {_source_of(c)}" for c in code)
    return hashlib.sha256("\n".join(sources).encode()).hexdigest()[:12] if code else ""


def _is_installed(code: Any) -> bool:
    """Whether it is Python's, firstsight's, or of a package in a folder of installed packages."""
    if getattr(code, "__module__", None) == "__main__":
        return False
    try:
        file = Path(inspect.getfile(code))
    except (OSError, TypeError):  # written in C
        return True
    if {"site-packages", "dist-packages"} & set(file.parts):
        return True
    return any(file.is_relative_to(folder) for folder in (sysconfig.get_path("stdlib"), *firstsight.__path__))


def _source_of(code: Any) -> Any:
    try:
        return inspect.getsource(code)
    except (OSError, TypeError):  # typed in at a prompt: what it was compiled to
        return _compiled(code)


def _compiled(code: Any) -> Any:
    """Return bytecode, names and constants, without addresses in memory."""
    if isinstance(code, type):
        return {name: _compiled(value) for name, value in vars(code).items() if name not in ("__dict__", "__weakref__")}
    code = getattr(code, "__func__", getattr(code, "fget", code))  # of a class method, of a property
    if inspect.isfunction(code):
        return [_compiled(code.__code__), to_json_values({"defaults": code.__defaults__, "named": code.__kwdefaults__})]
    if inspect.iscode(code):
        return [code.co_code, code.co_names, [_compiled(constant) for constant in code.co_consts]]
    return to_json_values({"": code})


def _is_default(value: Any, default: Any) -> bool:
    try:
        return type(value) is type(default) and bool(value == default)
    except (TypeError, ValueError):  # arrays compare to arrays
        return False


# Jobs: which cells are to be run, and which of them one fit answers together.

STUDIED = ("deep-embedding", "transductive-deep-embedding")
SLOWEST = ("transductive-deep-embedding", "rn", "deep-embedding")  # on every data set so far; only the order follows
SEPARATIONS = (0.0, 1.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


@dataclass(frozen=True)
class Job:
    """One fit and the cells it answers: one per setting.

    An inductive method's fit answers both settings; a transductive one is trained for each. A method without a
    `random_state` gives the same result for every seed, so seed 0 alone is run.

    A few-shot job answers, in each setting, a cell for each of its numbers of shots and draws; the draw is the cell's
    seed.
    """

    dataset: str
    method: str  # the name that its records bear: the method's, or one that the caller chose
    settings: tuple[str, ...]
    seed: int
    given: dict[str, Any] = field(default_factory=dict)  # parameters other than the method's defaults
    variant: dict[str, Any] = field(default_factory=dict)  # a study's changes to them
    study: str = ""
    tuned: Any = False  # how `given` was found, as the record has it
    word: str = ""  # the method's name, where it enters under another one
    estimator: Any = field(default=None, repr=False)  # what only this process knows; it runs here
    shots: tuple[tuple[int, int], ...] = ()  # of few-shot cells: labelled samples per unseen class, and the draw
    held_out: int = 0  # of few-shot cells: samples of each unseen class that no cell is tested on

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Job:
        """Return the job that `to_json` describes."""
        return cls(**{**values, "settings": tuple(values["settings"]), "shots": tuple(map(tuple, values["shots"]))})

    @property
    def entry(self) -> Entry:
        """What is fitted."""
        word = "" if self.estimator is not None else self.word or self.method
        return Entry(self.method, word, self.given, self.estimator)

    def to_json(self) -> dict[str, Any]:
        """Return what a worker process needs; it finds the method by its name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "estimator"}

    @property
    def name(self) -> str:
        """The method, settings, seed and variant as text."""
        seeds = ",".join(str(seed) for seed in dict.fromkeys(draw for _, draw in self.shots)) or self.seed
        shots = {"shots": "/".join(str(k) for k in dict.fromkeys(k for k, _ in self.shots))} if self.shots else {}
        return f"{self.method} {'+'.join(self.settings)} seed {seeds} {format_params(self.variant | shots)}".rstrip()

    def cells(self) -> list[CellKey]:
        """Return one cell per setting, and of a few-shot job per number of shots and draw."""
        runs = [({"shots": shots}, draw) for shots, draw in self.shots] or [(self.variant, self.seed)]
        return [
            CellKey(self.dataset, self.method, seed, variant, self.study, setting)
            for variant, seed in runs
            for setting in self.settings
        ]

    def fingerprint(self) -> str:
        """Return the stem of this fit's files while it runs; an inductive one is the same for every setting."""
        settings = self.settings if is_transductive(self.entry.kind) else ()
        same = {**self.to_json(), "settings": settings, "tuned": None}
        if not self.word:
            del same["word"]
        digest = hashlib.sha256(json.dumps(same, sort_keys=True).encode())
        return f"{file_stem(self.method)}-{self.seed}-{digest.hexdigest()[:12]}"


def parameters_hash(job: Job) -> str:
    """Return 12 hexadecimal digits of all parameters of a job: they change when a method's defaults do."""
    entry = job.entry
    if entry.estimator is None and issubclass(entry.kind, ZeroShotClassifier):
        resolved: Any = entry.kind(**{**job.given, **job.variant}).resolved_parameters()
    else:
        resolved = identity_of(entry.make(job.variant, job.seed, job.settings[0]))
    return hashlib.sha256(json.dumps(resolved, sort_keys=True, default=repr).encode()).hexdigest()[:12]


def format_params(parameters: dict[str, Any]) -> str:
    """Return parameters as text: `separation=100, penalty=0.001`."""
    return ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in parameters.items())


def choose_methods(names: str) -> list[str]:
    """Return the methods that "all" (that can be trained here) or names separated by commas mean."""
    if names.strip() == "all":
        left_out = [name for name, cls in all_methods().items() if cls.needs_torch and not torch_is_installed()]
        if left_out:
            warnings.warn(
                f"PyTorch is not installed, so the methods that need it are left out: {', '.join(left_out)}; run pip "
                "install 'firstsight[torch]' to include them.",
                FirstsightWarning,
                stacklevel=2,
            )
        return [name for name in all_methods() if name not in left_out]
    chosen = [method_name(find_method(name.strip())) for name in names.split(",") if name.strip()]
    if not chosen:
        raise BadInput("No method was named; give --methods all, or names separated by commas.")
    return list(dict.fromkeys(chosen))


def few_shot_plan(plan: list[Job], shots: Sequence[int], draws: int) -> list[Job]:
    """Return the few-shot jobs of a plan; `shots` ascend.

    One fit of a method with `add_samples` answers every number of shots and every draw, unless its random state or its
    pool differ from draw to draw; other methods are fitted again for each cell, in one job per draw.
    """
    jobs = []
    for job in plan:
        entry, kind = job.entry, job.entry.kind
        if is_transductive(kind) and not entry.is_incremental:
            raise BadInput(
                f"{job.method} learns from unlabelled samples of classes that have no labelled ones, so it cannot be "
                "fitted again once these have some; leave it out of a benchmark with `shots`."
            )
        seeds = (job.seed,) if entry.is_random else range(draws)
        counts = [k for k in shots if k or kind not in BASELINES.values()]
        groups = [seeds] if entry.is_incremental and not is_transductive(kind) else [(seed,) for seed in seeds]
        for group in groups:
            pairs = tuple((k, draw) for draw in group for k in counts)
            jobs.append(replace(job, study=FEW_SHOT, shots=pairs, held_out=max(shots)))
    return jobs


class TunedParameters(NamedTuple):
    """Parameters that tuning has chosen for a method and a setting."""

    parameters: dict[str, Any]
    source: dict[str, Any]  # how they were found, as records have it


def make_plan(
    dataset: str,
    methods: Iterable[str | Entry],
    settings: Iterable[str] = SETTINGS,
    seeds: int = 1,
    given: dict[str, dict[str, Any]] | None = None,
    tuned: dict[str, dict[str, TunedParameters]] | None = None,
    study: str = "",
    variants: Iterable[dict[str, Any]] = ({},),
) -> list[Job]:
    """Return one job per fit; `given` holds parameters by method, `tuned` by method and setting."""
    jobs: list[Job] = []
    for method in methods:
        entry = Entry(method, method) if isinstance(method, str) else method
        more = (given or {}).get(entry.name, {})
        by_hand = {**entry.given, **more}
        for variant in variants:
            for seed in range(seeds if entry.is_random else 1):
                by_fit: dict[str, Job] = {}
                for setting in settings:
                    choice = (tuned or {}).get(entry.name, {}).get(setting)
                    chosen = choice.parameters if choice else {}
                    fitted = entry.with_parameters({k: v for k, v in chosen.items() if k not in by_hand} | more)
                    source = {**choice.source, "set_by_hand": sorted(by_hand)} if choice else False
                    # The same parameters mean the same fit, unless the setting changes what a fit is shown.
                    shown = setting if is_transductive(entry.kind) else ""
                    key = json.dumps([fitted.given, source, shown], sort_keys=True)
                    settings_before = by_fit[key].settings if key in by_fit else ()
                    word = fitted.word if fitted.word != entry.name else ""
                    by_fit[key] = Job(
                        dataset, entry.name, (*settings_before, setting), seed, fitted.given, dict(variant), study,
                        source, word, fitted.estimator,
                    )  # fmt: skip
                jobs += by_fit.values()
    return jobs


def missing(jobs: Iterable[Job], records: Iterable[Record], calibrate: bool = False) -> list[Job]:
    """Return the jobs, or the settings of jobs, without a finished record; failed cells are tried again.

    So are, with `calibrate`, cells that were finished without it: the constant needs all scores of the test samples,
    which no record keeps. A finished record of the same cell with other parameters is an error: skipping the cell would
    report the wrong ones.
    """
    done = {key_of(record): record for record in records if record.status == "done"}
    held_out = {record.few_shot.held_out for record in done.values() if record.few_shot}
    default = "its default parameters"
    left = []
    for job in jobs:
        if job.shots and (others := held_out - {job.held_out}):
            raise OtherRecords(
                f"The few-shot records of {job.dataset} hold {max(others)} samples of each unseen class out of the "
                f"test, and now it is {job.held_out}, the largest number of shots"
            )
        open_cells, now = [], parameters_hash(job)
        for cell in job.cells():
            record = done.get(key_of(cell))
            if record is None:
                open_cells.append(cell)
                continue
            if record.given != json.loads(json.dumps(job.given)):
                raise OtherRecords(
                    f"The records of {job.dataset} hold {job.method} ({cell.setting}, seed {job.seed}) with "
                    f"{format_params(record.given) or default}, and now it is asked for with "
                    f"{format_params(job.given) or default}"
                )
            if record.parameters_hash != now:
                raise OtherRecords(
                    f"The records of {job.dataset} hold {job.method} ({cell.setting}, seed {job.seed}) from when "
                    f"its {'default parameters' if job.estimator is None else 'parameters or its code'} were others"
                )
            if calibrate and cell.setting == "gzsl" and not (record.seen_unseen and record.seen_unseen.calibrated):
                open_cells.append(cell)
        if open_cells:
            settings = tuple(s for s in job.settings if any(cell.setting == s for cell in open_cells))
            runs = {(cell.variant.get("shots"), cell.seed) for cell in open_cells}
            left.append(replace(job, settings=settings, shots=tuple(pair for pair in job.shots if pair in runs)))
    return left


def _guess(entry: Entry) -> float:
    """Rank fits by duration: the slowest, those with unlabelled samples, those with a random start, closed forms."""
    return 1e5 * (entry.word in SLOWEST) + 1e4 * is_transductive(entry.kind) + 1e3 * entry.is_random


def cheapest_first(methods: list[str]) -> list[str]:
    """Return methods in the order in which a search that may be stopped gets furthest."""
    return sorted(methods, key=lambda method: _guess(Entry(method, method)))


def longest_first(jobs: list[Job], records: Iterable[Record]) -> list[Job]:
    """Return long jobs first, so that no processor waits at the end for one that began last.

    The duration is that of earlier records of the same method, else a guess by its kind.
    """
    known: dict[tuple[str, str, str], float] = {
        (r.dataset, r.method, r.setting): r.seconds or 0.0 for r in records if r.status == "done"
    }

    def cost(job: Job) -> float:
        return max(known.get((job.dataset, job.method, setting), _guess(job.entry)) for setting in job.settings)

    return sorted(jobs, key=cost, reverse=True)
