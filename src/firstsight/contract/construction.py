"""Promises about an estimator that has not been fitted yet."""

from __future__ import annotations

import re

from sklearn.base import clone

from firstsight.contract.trial import Trial

SPACES = ("semantic", "visual", "latent")
SECTIONS = ("Score", "Parameters", "Attributes", "Reference", "Examples", ">>> ")


def check_constructor_only_stores(trial: Trial) -> None:
    """The constructor stores every parameter under its name and does nothing else; `fit` judges."""
    names = trial.cls._get_param_names()
    given = {name: object() for name in names}
    model = trial.cls(**given)
    for name, value in given.items():
        assert getattr(model, name, None) is value, f"parameter `{name}` is not stored as it was given"
    more = sorted(set(vars(model)) - set(names))
    assert not more, f"the constructor also sets {', '.join(more)}"
    for name in ("feature_scaling", "attribute_scaling"):
        assert name in names, f"there is no parameter `{name}`, which every method has"


def check_clone_and_repr(trial: Trial) -> None:
    """Every parameter has a default, and `get_params`, `clone` and `repr` work."""
    assert repr(trial.cls()).startswith(trial.cls.__name__)
    model = trial.new()
    copy = clone(model)
    assert copy.get_params() == model.get_params(), "clone changes parameters"


def check_it_describes_itself(trial: Trial) -> None:
    """Class variables and docstring say what readers and tuners need to know; grids hold legal values."""
    cls, names, text = trial.cls, trial.cls._get_param_names(), trial.cls.__doc__ or ""
    assert cls.space in SPACES, f"space is {cls.space!r}; expected one of {', '.join(SPACES)}"
    assert re.search(r"(19|20)\d\d", cls.reference), f"reference {cls.reference!r} does not name a paper with its year"
    assert isinstance(cls.extra_supervision, str), "extra_supervision is a sentence, or empty"
    for kind in ("grid", "quick"):
        strangers = sorted(set(getattr(cls, kind)) - set(names))
        assert not strangers, f"{kind} names {', '.join(strangers)}, which is not a parameter"
    for name, values in cls.grid.items():
        assert len(values) >= 2, f"the grid of `{name}` has only one value to choose from"
        for value in values:
            trial.new(**{name: value})._validate_params()
    missing = [word for word in SECTIONS if word not in text]
    assert not missing, f"the docstring has no {missing[0]!r}"
    assert re.search(r"[‖Σ∑ᵀ·⟨]|::\n", text), "the docstring states no formula"
    silent = [name for name in names if not re.search(rf"\b{name}\b", text)]
    assert not silent, f"the docstring does not explain the parameter `{silent[0] if silent else ''}`"
