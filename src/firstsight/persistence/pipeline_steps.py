"""What stands before a method in a scikit-learn pipeline, as plain values and arrays: a closed list of transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler

from firstsight._io.schemas import Schema
from firstsight.errors import BadInput
from firstsight.methods import ZeroShotClassifier

# Their fitted state is numbers and arrays, all of it; a folder can name these and no other code.
TRANSFORMERS = {kind.__name__: kind for kind in (StandardScaler, MinMaxScaler, MaxAbsScaler, Normalizer, PCA)}
PREFIX = "steps/"


class Step(Schema):
    """One transformer of a pipeline."""

    name: str
    transformer: str
    parameters: dict[str, Any]
    values: dict[str, Any]


class Steps(Schema):
    """A pipeline without its arrays; `last` is the name of the method's step."""

    before: list[Step] = Field(description="the transformers, in order")
    last: str = Field(description="the name of the method's step")


def take_apart(pipeline: Pipeline) -> tuple[ZeroShotClassifier, Steps, dict[str, np.ndarray]]:
    """The method at the end, what stands before it, and the arrays of that."""
    *before, (last, core) = pipeline.steps
    if not isinstance(core, ZeroShotClassifier):
        raise BadInput(f"A pipeline that is saved must end in a method, but this one ends in {type(core).__name__}.")
    steps: list[Step] = []
    arrays: dict[str, np.ndarray] = {}
    for number, (name, one) in enumerate(before):
        if type(one).__name__ not in TRANSFORMERS or type(one) is not TRANSFORMERS[type(one).__name__]:
            raise BadInput(
                f"The step {name!r} is a {type(one).__name__}, which cannot be saved without pickle; these can: "
                f"{', '.join(TRANSFORMERS)}."
            )
        values: dict[str, Any] = {}
        for attribute, value in vars(one).items():
            if not _is_fitted(attribute):
                continue
            if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
                arrays[f"{PREFIX}{number}/{attribute}"] = np.ascontiguousarray(value)
            else:
                values[attribute] = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in one.get_params().items()}
        steps.append(Step(name=name, transformer=type(one).__name__, parameters=plain, values=values))
    return core, Steps(before=steps, last=last), arrays


def put_together(core: ZeroShotClassifier, steps: Steps, arrays: dict[str, np.ndarray]) -> Pipeline:
    """The reverse of `take_apart`."""
    made: list[tuple[str, Any]] = []
    for number, step in enumerate(steps.before):
        kind = TRANSFORMERS[step.transformer]
        given = {k: tuple(v) if isinstance(v, list) else v for k, v in step.parameters.items()}
        one = kind(**given)
        own = f"{PREFIX}{number}/"
        own_arrays = {name.removeprefix(own): array for name, array in arrays.items() if name.startswith(own)}
        for attribute, value in {**step.values, **own_arrays}.items():
            if not _is_fitted(attribute):
                raise ValueError(f"{attribute!r} is not a fitted attribute")
            setattr(one, attribute, np.array(value) if attribute == "feature_names_in_" else value)
        made.append((step.name, one))
    return Pipeline([*made, (steps.last, core)])


def _is_fitted(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")
