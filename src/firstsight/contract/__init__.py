"""What every method promises, as functions that check it: `check_method(MyMethod)` runs them all.

A promise is a function `check_…(trial)` with one sentence that says it; it raises AssertionError when the
promise is broken. One alone, for whoever is mending a method:

>>> from firstsight.contract import Trial, score_checks
>>> from firstsight.methods import DeepEmbedding
>>> score_checks.check_rows_are_independent(Trial(DeepEmbedding, iterations=2))
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from firstsight.contract import fit_checks, input_checks, score_checks
from firstsight.contract.trial import Trial, exemptions
from firstsight.methods import ZeroShotClassifier


class ContractViolation(AssertionError):
    """A method breaks some of its promises; the message lists them with what was found."""


def _checks_of(module: ModuleType) -> dict[str, Callable[[Trial], None]]:
    members = vars(module).items()
    return {k: v for k, v in members if k.startswith("check_") and v.__module__ == module.__name__}


# Every function named check_… in these modules, in the order of the files.
CHECKS = {
    name: check for module in (fit_checks, score_checks, input_checks) for name, check in _checks_of(module).items()
}


def check_method(method: type[ZeroShotClassifier] | ZeroShotClassifier, **parameters: Any) -> list[str]:
    """Try a method against the whole contract.

    What the table of exemptions frees the method from is not tried.

    Parameters
    ----------
    method : class or estimator
        A method's class, or an estimator that has not been fitted.
    **parameters
        Parameters to make estimators with, such as few epochs.

    Returns
    -------
    list of str
        The names of the checks that it passed.

    Raises
    ------
    ContractViolation
        Lists every broken promise.
    """
    trial = Trial(method, **parameters)
    exempt = exemptions(trial.cls)
    passed, broken = [], []
    for name, check in CHECKS.items():
        if name in exempt:
            continue
        try:
            check(trial)
        except Exception as error:
            why = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            broken.append(f"- {name}: {why}\n  Promised: {(check.__doc__ or '').strip()}")
        else:
            passed.append(name)
    if broken:
        raise ContractViolation(
            f"{trial.cls.__name__} breaks {len(broken)} of {len(passed) + len(broken)} promises:\n" + "\n".join(broken)
        )
    return passed


__all__ = ["CHECKS", "ContractViolation", "Trial", "check_method", "exemptions"]
