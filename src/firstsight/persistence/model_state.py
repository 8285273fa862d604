"""Fitted state of models and pipelines as plain values and arrays, and back; what comes back is validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler

from firstsight.errors import BadInput
from firstsight.methods import IncrementalClassifier, ZeroShotClassifier, all_methods, name_array
from firstsight.persistence.added_samples import check_sample_log
from firstsight.persistence.class_table import check_class_changes
from firstsight.persistence.model_schema import Part, PipelineSteps, Step

Arrays = dict[str, np.ndarray]

# Their fitted state is numbers and arrays, all of it; a folder can name these and no other code.
TRANSFORMERS = {kind.__name__: kind for kind in (StandardScaler, MinMaxScaler, MaxAbsScaler, Normalizer, PCA)}
STEPS_PREFIX, PARTS_PREFIX = "steps/", "parts/"


# Fitted attributes that are written as such nowhere: other functions turn them into JSON and arrays.
SAVED_SEPARATELY = frozenset({"calibration_", "parts_"})
PLAIN = (bool, int, float, str, type(None))


class ArraysDoNotMatch(ValueError):
    """Arrays of a model folder that no fit could have written together."""


def is_fitted_name(name: str) -> bool:
    """Whether an attribute of this name is fitted state, as scikit-learn names it."""
    return name.endswith("_") and not name.startswith("_")


# Models


def split_model(model: ZeroShotClassifier) -> tuple[Arrays, dict[str, Any]]:
    """Fitted attributes as arrays (by name, "attribute/key" for dictionaries of arrays) and as JSON values."""
    arrays: Arrays = {}
    values: dict[str, Any] = {}
    for name, value in vars(model).items():
        if not is_fitted_name(name) or name in SAVED_SEPARATELY:
            continue
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and name != "classes_":
            arrays[name] = np.ascontiguousarray(value)
        elif isinstance(value, dict) and value and all(isinstance(v, np.ndarray) for v in value.values()):
            arrays |= {f"{name}/{key}": np.ascontiguousarray(v) for key, v in value.items()}
        else:
            values[name] = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if not values:
        raise BadInput(f"This {type(model).__name__} has not been fitted; call fit before save.")
    return arrays, values


def plain_parameters(model: ZeroShotClassifier) -> dict[str, Any]:
    """The parameters that JSON can hold; estimators are restored from the fitted parts."""
    # Where it was computed is nothing that was learned: another machine may have no such device.
    params = {name: value for name, value in model.get_params(deep=False).items() if name != "device"}
    params = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in params.items()}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in params.items()
        if all(isinstance(v, PLAIN) for v in (value if isinstance(value, list | tuple) else [value]))
    }


def restore_model(
    cls: type[ZeroShotClassifier],
    parameters: Mapping[str, Any],
    values: Mapping[str, Any],
    arrays: Arrays,
    parts: Mapping[str, ZeroShotClassifier] | None = None,
) -> ZeroShotClassifier:
    """The reverse of `split_model`; ValueError if values or arrays are not those of a fitted `cls`."""
    known = cls._get_param_names()
    model = cls(**{name: value for name, value in parameters.items() if name in known})
    if parts:
        vars(model)["parts_"] = dict(parts)
        if "estimators" in known and "estimators" not in parameters:
            listed = []
            for name, part in parts.items():  # one that is given some columns calls them by their positions
                columns = [int(column) for column in getattr(part, "attribute_names_in_", ())]
                listed.append((name, clone(part), columns) if columns else (name, clone(part)))
            model.set_params(estimators=listed)
    for name in [*values, *arrays]:
        if not is_fitted_name(name.partition("/")[0]) or name in SAVED_SEPARATELY:
            raise ValueError(f"{name!r} is not a fitted attribute")
    for name, value in values.items():
        setattr(model, name, value)
    model.classes_ = _labels(values["classes_"])
    if "attribute_names_in_" in values:
        model.attribute_names_in_ = _labels(values["attribute_names_in_"])
    if "feature_names_in_" in values:  # of the type that scikit-learn gives it, which cuts nothing off
        model.feature_names_in_ = np.array(values["feature_names_in_"], dtype=object)
    for name, array in arrays.items():
        attribute, _, key = name.partition("/")
        if key:
            vars(model).setdefault(attribute, {})[key] = array
        else:
            setattr(model, attribute, array)
    _check_state(model, sum(array.size for array in arrays.values()))
    _check_arrays(model, arrays)
    if isinstance(model, IncrementalClassifier):
        model.check_added_samples()
    check_sample_log(model)
    return model


def _labels(values: Any) -> np.ndarray:
    texts = isinstance(values, list) and any(isinstance(value, str) for value in values)
    labels = name_array(values) if texts else np.asarray(values)
    if labels.dtype.kind == "U":
        "".join(labels.ravel().tolist()).encode()  # JSON can hold half a character, which nothing can write or show
    return labels


def _check_state(model: ZeroShotClassifier, size: int) -> None:
    """One description, one code and one name per class, one name per attribute; `size` numbers serve few features."""
    for name in ("n_features_in_", "described_", "feature_scaler_", "attribute_scaler_"):
        if not hasattr(model, name):
            raise ValueError(f"{name} is missing")
    if type(model.n_features_in_) is not int or not 1 <= model.n_features_in_ <= 100 * size:
        raise ValueError(f"n_features_in_ is {model.n_features_in_!r}")
    (rows, width), n = model.descriptions_.shape, len(model.classes_)
    if model.classes_.ndim != 1 or model.classes_.dtype.kind not in "iuU" or (rows, *model.seen_code_.shape) != (n, n):
        raise ValueError(f"{n} classes_, {rows} descriptions_ and {len(model.seen_code_)} seen_code_ do not match")
    if len(set(model.classes_.tolist())) < n:
        raise ValueError("classes_ names a class twice")
    for name in ("seen_code_", "unseen_code_"):
        codes = getattr(model, name, model.seen_code_)
        if codes.shape != (n,) or codes.dtype.kind not in "iu" or (codes < -1).any():
            raise ValueError(f"{name} is not a whole number for each of {n} classes")
    pool = getattr(model, "pool_predictions_", np.empty(0, dtype=int))
    if pool.dtype.kind not in "iu" or not ((pool >= -1) & (pool < n)).all():
        raise ValueError(f"pool_predictions_ are no indices among {n} classes")
    names = getattr(model, "attribute_names_in_", None)
    if names is not None and (names.shape != (width,) or names.dtype.kind != "U"):
        raise ValueError(f"{len(names)} attribute_names_in_ do not match {width} attributes")
    names = getattr(model, "feature_names_in_", None)
    if names is not None and (names.shape != (model.n_features_in_,) or not all(isinstance(n, str) for n in names)):
        raise ValueError(f"{len(names)} feature_names_in_ do not match {model.n_features_in_} features")
    check_class_changes(model)
    prints = getattr(model, "training_fingerprints_", {})
    for array in prints.values() if isinstance(prints, dict) else [None]:
        if not isinstance(array, np.ndarray) or array.dtype != np.uint64 or array.ndim != 1:
            raise ValueError("training_fingerprints_ are no lists of whole numbers of 64 bits")


def _check_arrays(model: ZeroShotClassifier, arrays: Arrays) -> None:
    """Arrays have the shapes that the method declares in `fitted_arrays`, belong together, and are finite."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} holds NaN or infinity")
    sizes = {"d": model.n_features_in_, "a": model.descriptions_.shape[1]}
    parts = getattr(model, "parts_", {})
    if parts:  # Codes are the same everywhere; parts that do not learn from added samples lack the codes of these.
        sizes["k"] = max(len(part.seen_classes_) for part in parts.values())
    for name, part in parts.items():
        k = sizes["k"] if isinstance(part, IncrementalClassifier) else len(part.seen_classes_)
        n = len(part.classes_) if part.transductive else k  # transductive ones have met unseen classes, too
        # A part that is given some columns of the descriptions calls them by their positions.
        columns = [int(column) for column in getattr(part, "attribute_names_in_", range(sizes["a"]))]
        if not set(columns) <= set(range(sizes["a"])):
            raise ArraysDoNotMatch(f"the part {name!r} has columns {columns[:3]}… of {sizes['a']} attributes")
        if (part.n_features_in_, *part.descriptions_.shape) != (sizes["d"], n, len(columns)):
            raise ArraysDoNotMatch(f"the part {name!r} has other features, attributes or classes")
        if not np.array_equal(part.seen_code_, [*range(k), *[-1] * (n - k)]):
            raise ArraysDoNotMatch(f"seen_code_ of the part {name!r} are not 0 to {k - 1}")
    sizes["p"] = len(parts)
    declared = dict(type(model).fitted_arrays)
    for kind, scaler, letter in (
        (model.feature_scaling, "feature_scaler_", "d"),
        (model.attribute_scaling, "attribute_scaler_", "a"),
    ):
        if kind == "standard":
            declared |= {f"{scaler}/offset": letter, f"{scaler}/spread": letter}
    for key, shape in declared.items():
        name, optional, _ = key.partition("?")
        if name in arrays or not optional:
            _check_shape(name, arrays.get(name), shape.split(), sizes)
    removed = getattr(model, "removed_classes_", [])
    highest = max([int(model.seen_code_.max()), *(row[2] for row in removed)])
    if highest >= sizes.get("k", np.inf):
        raise ArraysDoNotMatch(f"seen_code_ reaches {highest}; expected less than {sizes['k']}")
    highest = max([int(getattr(model, "unseen_code_", model.seen_code_).max()), *(row[3] for row in removed)])
    if highest >= len(model.classes_) + len(removed):
        raise ArraysDoNotMatch(f"unseen_code_ reaches {highest}; expected less than the number of classes")


def _check_shape(name: str, array: np.ndarray | None, expected: list[str], sizes: dict[str, int]) -> None:
    """Compare an array's shape with that declared; letters that are met for the first time enter `sizes`."""
    if array is None or array.dtype.kind != "f" or array.ndim != len(expected):
        found = "missing" if array is None else f"of {array.dtype} and shape {array.shape}"
        raise ArraysDoNotMatch(f"{name} is {found}; expected real numbers ({', '.join(expected)})")
    for dimension, size in zip(expected, array.shape, strict=True):
        letter, _, more = dimension.partition("+")
        base = size - int(more or 0)
        if base != (int(letter) if letter.isdecimal() else sizes.setdefault(letter, base)):
            known = ", ".join(f"{letter} = {size}" for letter, size in sizes.items())
            raise ArraysDoNotMatch(f"{name} has shape {array.shape}; expected ({', '.join(expected)}) with {known}")


# Models of several fitted methods


def split_parts(model: ZeroShotClassifier) -> tuple[list[Part], Arrays]:
    """The fitted methods that a model consists of, and their arrays."""
    parts: list[Part] = []
    arrays: Arrays = {}
    for number, (name, part) in enumerate(getattr(model, "parts_", {}).items()):
        if type(part) not in all_methods().values():
            raise BadInput(
                f"The part {name!r} is a {type(part).__name__}, which loading would not find: a folder names methods "
                "and holds no code. Register it as an entry point in the group 'firstsight.methods'."
            )
        of_part, values = split_model(part)
        arrays |= {f"{PARTS_PREFIX}{number}/{key}": array for key, array in of_part.items()}
        parameters = plain_parameters(part)
        parts.append(Part(name=name, method=type(part).__name__, parameters=parameters, values=values))
    return parts, arrays


def restore_parts(
    parts: list[Part], kinds: list[type[ZeroShotClassifier]], arrays: Arrays
) -> dict[str, ZeroShotClassifier]:
    """The reverse of `split_parts`, with the class of each part."""
    restored: dict[str, ZeroShotClassifier] = {}
    for number, (part, kind) in enumerate(zip(parts, kinds, strict=True)):
        prefix = f"{PARTS_PREFIX}{number}/"
        of_part = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        restored[part.name] = restore_model(kind, part.parameters, part.values, of_part)
    return restored


# Pipelines


def split_pipeline(pipeline: Pipeline) -> tuple[ZeroShotClassifier, PipelineSteps, Arrays]:
    """The method at the end, the transformers before it, and their arrays."""
    *before, (last, core) = pipeline.steps
    if not isinstance(core, ZeroShotClassifier):
        raise BadInput(f"A pipeline that is saved must end in a method, but this one ends in {type(core).__name__}.")
    steps: list[Step] = []
    arrays: Arrays = {}
    for number, (name, transformer) in enumerate(before):
        kind = type(transformer).__name__
        if TRANSFORMERS.get(kind) is not type(transformer):
            raise BadInput(
                f"The step {name!r} is a {kind}, which cannot be saved without pickle; these can: "
                f"{', '.join(TRANSFORMERS)}."
            )
        values: dict[str, Any] = {}
        for attribute, value in vars(transformer).items():
            if not is_fitted_name(attribute):
                continue
            if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
                arrays[f"{STEPS_PREFIX}{number}/{attribute}"] = np.ascontiguousarray(value)
            else:
                values[attribute] = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        params = {k: list(v) if isinstance(v, tuple) else v for k, v in transformer.get_params().items()}
        steps.append(Step(name=name, transformer=kind, parameters=params, values=values))
    return core, PipelineSteps(before=steps, last=last), arrays


def restore_pipeline(core: ZeroShotClassifier, steps: PipelineSteps, arrays: Arrays) -> Pipeline:
    """The reverse of `split_pipeline`."""
    restored: list[tuple[str, Any]] = []
    for number, step in enumerate(steps.before):
        params = {k: tuple(v) if isinstance(v, list) else v for k, v in step.parameters.items()}
        transformer = TRANSFORMERS[step.transformer](**params)
        prefix = f"{STEPS_PREFIX}{number}/"
        step_arrays = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        for attribute, value in {**step.values, **step_arrays}.items():
            if not is_fitted_name(attribute):
                raise ValueError(f"{attribute!r} is not a fitted attribute")
            setattr(transformer, attribute, np.array(value) if attribute == "feature_names_in_" else value)
        restored.append((step.name, transformer))
    return Pipeline([*restored, (steps.last, core)])
