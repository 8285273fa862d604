"""What `firstsight tune --json` writes: a search, what it scored and what it chose."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from firstsight.schemas import Dictionary, List, Schema


class Scored(Schema):
    parameters: dict[str, Any] = Field(description="the candidate")
    error: str = Field("", description="why it has no score; empty where it has one")
    t1: List[float] = Field([], alias="T1", description="one figure per fold, percent")
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
    seed: int = Field(0, description="everything random follows from it")
    grid: Dictionary[list[Any]] = Field({}, description="the values that were tried")
    fixed: Dictionary[Any] = Field({}, description="parameters that were set and not searched")
    chosen: dict[Literal["zsl", "gzsl"], dict[str, Any]] = Field(description="objective → parameters")
    candidates: list[Scored] = Field(description="every candidate and what it scored")
