"""The jobs of an experiment: which cells are to be run, and which of them one fit answers together."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from firstsight.devices import torch_is_installed
from firstsight.errors import BadInput, FirstsightWarning
from firstsight.evaluation import SETTINGS
from firstsight.evaluation.protocol import is_transductive
from firstsight.experiments.entries import Entry, identity_of
from firstsight.experiments.records import CellKey, OtherRecords, Record, file_stem, key_of
from firstsight.methods import all_methods, find_method, method_name

STUDIED = ("deep-embedding", "transductive-deep-embedding")
SLOWEST = ("transductive-deep-embedding", "rn", "deep-embedding")  # on every data set so far; only the order follows
SEPARATIONS = (0.0, 1.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


@dataclass(frozen=True)
class Job:
    """One fit and the cells it answers: one per setting.

    An inductive method's fit answers both settings; a transductive one is trained for each. A method without a
    `random_state` gives the same result for every seed, so seed 0 alone is run.
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
        return f"{self.method} {'+'.join(self.settings)} seed {self.seed} {format_params(self.variant)}".rstrip()

    def cells(self) -> list[CellKey]:
        """Return one cell per setting."""
        return [
            CellKey(self.dataset, self.method, self.seed, self.variant, self.study, setting)
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
    if entry.estimator is None:
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
    default = "its default parameters"
    left = []
    for job in jobs:
        settings, now = [], parameters_hash(job)
        for cell in job.cells():
            record = done.get(key_of(cell))
            if record is None:
                settings.append(cell.setting)
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
                settings.append(cell.setting)
        if settings:
            left.append(replace(job, settings=tuple(settings)))
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
