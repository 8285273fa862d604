"""What a record holds: one JSON object per cell. docs/benchmark.md has this list as a table, made from it."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Field, Strict

from firstsight.schemas import Dictionary, Figure, List, Schema

SCHEMA = 1
Key = tuple[str, str, str, int, str, str]
Point = Annotated[tuple[float, float], Strict(False)]  # JSON has lists only
Confusion = Annotated[tuple[str, str, int], Strict(False)]


class Touched(Schema):
    labelled_rows: int = Field(0, description="rows that came with a label")
    labelled_classes: int = Field(0, description="classes among those labels")
    unlabelled_rows: int = Field(0, description="rows of the pool")
    test_rows_labelled: int = Field(0, description="test rows that came with a label; must be 0")
    unseen_classes_labelled: int = Field(0, description="unseen classes among the labels; must be 0")
    unseen_descriptions_in_fit: bool = Field(
        False, description="whether a description of an unseen class reached the method itself"
    )
    note: str = Field("", description="what else was noticed")


class Calibrated(Schema):
    constant: float = Field(description="what was taken off the seen classes' scores, chosen on a validation fold")
    ts: Figure = Field(None, description="with it")
    tr: Figure = Field(None, description="with it")
    h: Figure = Field(None, description="with it")


class SeenUnseen(Schema):
    ausuc: Figure = Field(None, description="area under the curve, percent of the square")
    best_h: Figure = Field(
        None, description="highest H on the curve: on test rows a bound, on validation classes a score"
    )
    curve: List[Point] = Field([], description="(ts, tr) over a constant taken off seen scores")
    calibrated: Calibrated | None = Field(None, description="figures with a constant; null without `--calibrated-h`")


class Space(Schema):
    compactness: Figure = Field(None, description="lower: tighter classes")
    separability: Figure = Field(None, description="from −1 to 1: classes far apart")


class SpaceFacts(Space):
    hubness: Figure = Field(None, description="0: no class is everybody's neighbour")
    embedding: Space | None = Field(None, description="the same of the method's own space, where it shows it")


class Round(Schema):
    round: int = Field(description="from 1")
    t1: Figure = Field(None, description="of the pool, conventional setting")
    ts: Figure = Field(None, description="of the pool, generalized setting")
    tr: Figure = Field(None, description="of the pool, generalized setting")
    h: Figure = Field(None, description="of the pool, generalized setting")
    selected: int = Field(0, description="rows of the pool that the round trained on")
    pseudo_label_accuracy: Figure = Field(None, description="how many of their labels were right, percent")


class Tuned(Schema):
    objective: str = Field(description="`zsl`, `gzsl`, or `zsl+gzsl` where both chose the same")
    folds: int = Field(description="validation folds")
    candidates: int = Field(description="how many were tried")
    search: str = Field(description="`grid` or `optuna`")
    kept_defaults: bool = Field(False, description="whether validation chose the method's own defaults")
    set_by_hand: List[str] = Field([], description="parameters that were given over the choice")


class Record(Schema):
    """One cell of a benchmark: a data set, a method, a setting, a seed; accuracies are percentages."""

    schema_version: int = Field(alias="schema", description="version of this list: 1")
    status: Literal["done", "failed"] = Field(description="whether there is a result")
    error: str | None = Field(None, description="why there is no result")
    dataset: str = Field(description="the name of the data set")
    method: str = Field(description="the method's word, or the name that the caller gave to an estimator")
    seed: int = Field(description="everything random follows from it")
    variant: dict[str, Any] = Field(description="what a study changes of the parameters")
    study: str = Field(description="the study; empty for the tables")
    setting: Literal["zsl", "gzsl"] = Field(description="conventional or generalized")
    t1: Figure = Field(None, description="conventional: mean per-class accuracy, unseen classes to choose from")
    ts: Figure = Field(None, description="generalized: of unseen classes' rows, all classes to choose from")
    tr: Figure = Field(None, description="generalized: of seen classes' test rows, all classes to choose from")
    h: Figure = Field(None, description="generalized: harmonic mean of ts and tr")
    per_class: Dictionary[Dictionary[Figure]] = Field({}, description="`t1`, `ts`, `tr` → class → accuracy")
    confusion: List[Confusion] = Field([], description="conventional: the 200 most frequent [true, predicted, count]")
    parameters: Dictionary[Any] = Field({}, description="all parameters, presets resolved")
    extra_supervision: str = Field("", description="what a fit is given beyond seen labels and descriptions")
    transductive: bool = Field(False, description="whether the method learns from unlabelled rows")
    space: str = Field("", description="semantic, visual or latent")
    versions: Dictionary[str] = Field({}, description="of Python, firstsight and the libraries that ran")
    seconds: Figure = Field(None, description="wall clock")
    fit_seconds: Figure = Field(None, description="of the fit; a resumed one counts from its checkpoint")
    cpu_seconds: Figure = Field(None, description="processor time of the fit")
    peak_mib: int | None = Field(None, description="memory")
    threads: int | None = Field(None, description="of the process that ran it")
    touched: Touched | None = Field(None, description="the leakage audit, below")
    seen_unseen: SeenUnseen | None = Field(None, description="generalized: the seen–unseen trade-off")
    space_facts: SpaceFacts | None = Field(None, description="what the scores say of the space")
    rounds: list[Round] | None = Field(None, description="transductive methods with rounds: what each achieved")
    collapsed: bool = Field(False, description="whether the fit found that its embedding has collapsed")
    warnings: List[str] = Field([], description="what the fit said")
    resumed: bool = Field(False, description="whether it went on from a checkpoint")
    estimator: str | None = Field(
        None, description="the class (and steps) of an estimator that is not a method known by name"
    )
    parameters_hash: str | None = Field(None, description="of what the fit began with")
    split: str = Field("", description="hash of classes, labels and parts; two under one name are refused")
    features: str | None = Field(
        None,
        description="fingerprint of features and descriptions (firstsight.identity); two under one name are refused",
    )
    given: Dictionary[Any] = Field({}, description="the parameters that were not defaults")
    tuned: Tuned | Literal[False] = Field(False, description="how they were found")


class Cell(NamedTuple):
    """What makes a cell the same cell, before there is a record of it."""

    dataset: str
    method: str
    seed: int
    variant: dict[str, Any]
    study: str
    setting: str


class _Named(Protocol):
    @property
    def dataset(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def variant(self) -> dict[str, Any]: ...
    @property
    def study(self) -> str: ...
    @property
    def setting(self) -> str: ...


def key_of(cell: _Named) -> Key:
    """The identity of a cell or of its record: a newer record with this key replaces an older one."""
    variant = json.dumps(cell.variant, sort_keys=True)
    return (cell.dataset, cell.method, cell.setting, cell.seed, variant, cell.study)
