"""Entries of a benchmark or a search: methods, estimators and their names.

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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

import firstsight
from firstsight.errors import BadInput
from firstsight.evaluation import core_of
from firstsight.evaluation.protocol import parameter_prefix
from firstsight.methods import ZeroShotClassifier, all_methods, find_method, make_estimator

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
        return type(core_of(self.estimator)) if self.estimator is not None else all_methods()[self.word]

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
            given = {**self.given, **parameters}
            make_estimator(self.word, given)  # validates parameters that a file may have named
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
    ignored = _ignored_parameters(type(estimator))
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
