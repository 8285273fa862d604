"""What `firstsight tune --json` writes: a search, what it scored and what it chose."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from firstsight.schemas import Dictionary, List, Schema


class Scored(Schema):
    parameters: dict[str, Any] = Field(description="the candidate")
    error: str = Field("", description="why it has no score; empty where it has one")
    t1: List[float] = Field([], alias="T1", description="one figure per fold, percent; fewer folds: it fell behind")
    h: List[float] = Field([], alias="H", description="one figure per fold, percent")


class ChoiceFile(Schema):
    """One search: on which data, among which candidates, and the best of them for each objective."""

    schema_version: Literal[1] = Field(1, alias="schema", description="version of this list; left out means 1")
    method: str = Field(description="the method's word, or the name that the caller gave to an estimator")
    dataset: str = Field(description="the name of the data set")
    split: str = Field(description="hash of its classes, labels and parts")
    objectives: List[Literal["zsl", "gzsl"]] = Field([], description="`zsl` maximises T1, `gzsl` maximises H")
    search: str = Field(description="`grid` or `optuna`")
    folds: int = Field(ge=1, description="validation folds")
    independent_folds: float | None = Field(
        None, description="how many folds without a class in common would know as many classes"
    )
    calibrated: bool = Field(False, description="whether H is with the fold's best constant taken off seen scores")
    race: bool = Field(False, description="whether candidates that fell behind on a third of the folds were dropped")
    fits: int | None = Field(None, description="how many (candidate, fold) pairs were tried")
    rule: str = Field("", description="how the choice was made; empty: the highest mean")
    default: dict[str, Any] | None = Field(None, description="the candidate that holds the method's defaults")
    seed: int = Field(0, description="everything random follows from it")
    grid: Dictionary[list[Any]] = Field({}, description="the values that were tried")
    fixed: Dictionary[Any] = Field({}, description="parameters that were set and not searched")
    chosen: dict[Literal["zsl", "gzsl"], dict[str, Any]] = Field(min_length=1, description="objective → parameters")
    candidates: list[Scored] = Field(description="every candidate and what it scored")
