"""Which cells there are to run, and which of them one fit answers together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from firstsight.errors import BadInput
from firstsight.evaluation import SETTINGS
from firstsight.methods import all_methods, find_method, word_of
from firstsight.records.schema import Cell, Record, key_of
from firstsight.records.storage import OtherRecords

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
    method: str  # its command-line word
    settings: tuple[str, ...]
    seed: int
    given: dict[str, Any] = field(default_factory=dict)  # parameters other than the method's own defaults
    variant: dict[str, Any] = field(default_factory=dict)  # a study's changes to them
    study: str = ""
    tuned: Any = False  # how `given` was found, as the record says it

    @property
    def name(self) -> str:
        """What a person, or a file of this fit, calls it."""
        return f"{self.method} {'+'.join(self.settings)} seed {self.seed} {in_words(self.variant)}".rstrip()

    def cells(self) -> list[Cell]:
        """One per setting."""
        about = (self.dataset, self.method, self.seed, self.variant, self.study)
        return [Cell(*about, setting) for setting in self.settings]

    def fingerprint(self) -> str:
        """Names the files of this fit while it runs; an inductive one is the same for every setting."""
        settings = self.settings if all_methods()[self.method].transductive else ()
        same = {**asdict(self), "settings": settings, "tuned": None}
        digest = hashlib.sha256(json.dumps(same, sort_keys=True).encode())
        return f"{self.method}-{self.seed}-{digest.hexdigest()[:12]}"


def parameters_hash(job: Job) -> str:
    """12 hexadecimal digits of all parameters that a job begins with: they change when a method's defaults do."""
    resolved = all_methods()[job.method](**{**job.given, **job.variant}).resolved_parameters()
    return hashlib.sha256(json.dumps(resolved, sort_keys=True, default=repr).encode()).hexdigest()[:12]


def in_words(parameters: dict[str, Any]) -> str:
    """Parameters as a person reads them: `separation=100, penalty=0.001`."""
    return ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in parameters.items())


def choose_methods(words: str) -> list[str]:
    """Command-line words of "all", or of names with commas between them."""
    if words.strip() == "all":
        return list(all_methods())
    chosen = [word_of(find_method(word.strip())) for word in words.split(",") if word.strip()]
    if not chosen:
        raise BadInput("No method was named; give --methods all, or names with commas between them.")
    return list(dict.fromkeys(chosen))


def make_plan(
    dataset: str,
    methods: Iterable[str],
    settings: Iterable[str] = SETTINGS,
    seeds: int = 1,
    given: dict[str, dict[str, Any]] | None = None,
    tuned: dict[str, dict[str, Any]] | None = None,
    study: str = "",
    variants: Iterable[dict[str, Any]] = ({},),
) -> list[Job]:
    """One job per fit. `given` holds parameters by method; `tuned`, by method and setting, what tuning wrote."""
    jobs: list[Job] = []
    for method in methods:
        cls = all_methods()[method]
        for variant in variants:
            for seed in range(seeds if "random_state" in cls._get_param_names() else 1):
                together: dict[str, Job] = {}
                for setting in settings:
                    found = (tuned or {}).get(method, {}).get(setting)
                    by_hand = (given or {}).get(method, {})
                    parameters = {**(found["parameters"] if found else {}), **by_hand}
                    about: Any = found["tuned"] if found else False
                    if found and by_hand:
                        about = {**found["tuned"], "set_by_hand": sorted(by_hand)}
                    # The same parameters mean the same fit, unless the setting changes what a fit is shown.
                    mark = json.dumps([parameters, about, setting if cls.transductive else ""], sort_keys=True)
                    before = together[mark].settings if mark in together else ()
                    together[mark] = Job(
                        dataset, method, (*before, setting), seed, parameters, dict(variant), study, about
                    )
                jobs += together.values()
    return jobs


def missing(jobs: Iterable[Job], records: Iterable[Record], calibrate: bool = False) -> list[Job]:
    """The jobs, or the settings of jobs, without a finished record; failed cells are tried again.

    So are, with `calibrate`, cells that were finished without it: the constant needs all scores of the test rows, which
    no record keeps.
    A finished record of the same cell with other parameters is refused: skipping it would report the wrong ones.
    """
    done = {key_of(record): record for record in records if record.status == "done"}
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
                    f"{_words(record.given)}, and now it is asked for with {_words(job.given)}"
                )
            if (record.parameters_hash or now) != now:
                raise OtherRecords(
                    f"The records of {job.dataset} hold {job.method} ({cell.setting}, seed {job.seed}) from when "
                    "its default parameters were others"
                )
            if calibrate and cell.setting == "gzsl" and not (record.seen_unseen and record.seen_unseen.calibrated):
                settings.append(cell.setting)
        if settings:
            left.append(replace(job, settings=tuple(settings)))
    return left


def longest_first(jobs: list[Job], records: Iterable[Record]) -> list[Job]:
    """Long jobs first, so that no processor waits at the end for one that began last.

    How long is known from earlier records of the same method, else guessed: the slowest, then those with a pool, then
    those with a random start, then closed forms.
    """
    known: dict[tuple[str, str, str], float] = {
        (r.dataset, r.method, r.setting): r.seconds or 0.0 for r in records if r.status == "done"
    }

    def cost(job: Job) -> float:
        cls = all_methods()[job.method]
        guess = (
            1e5 * (job.method in SLOWEST) + 1e4 * cls.transductive + 1e3 * ("random_state" in cls._get_param_names())
        )
        return max(known.get((job.dataset, job.method, setting), guess) for setting in job.settings)

    return sorted(jobs, key=cost, reverse=True)


def _words(parameters: dict[str, Any]) -> str:
    return in_words(parameters) or "its default parameters"
