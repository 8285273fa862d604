"""Every method, found by looking into this folder: one file, one class; there is no list to keep.

Installed packages add theirs with an entry point in the group "firstsight.methods" (docs/own_method.md).
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from firstsight.errors import FirstsightWarning, UnknownName
from firstsight.methods.base import TransductiveClassifier, ZeroShotClassifier


@cache
def own_methods() -> dict[str, type[ZeroShotClassifier]]:
    """The command-line word of each method here (its file's name, with hyphens) and its class."""
    found = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name not in ("base", "parts")):
        members = vars(importlib.import_module(f"{__name__}.{module}")).values()
        own = [m for m in members if isinstance(m, type) and m.__module__ == f"{__name__}.{module}"]
        (found[module.replace("_", "-")],) = (m for m in own if issubclass(m, ZeroShotClassifier))
    return found


@cache
def all_methods() -> dict[str, type[ZeroShotClassifier]]:
    """Own methods and, after them, those of other installed packages."""
    found = dict(own_methods())
    for point in sorted(entry_points(group=__name__), key=lambda point: point.name):
        try:
            found[_free_word(point, found)] = _loaded(point)
        except Exception as error:  # whatever another package does wrong, the methods here go on working
            reason = " ".join(str(error).split())
            warnings.warn(f"The method {point.name!r} ({point.value}) is left out: {reason}", FirstsightWarning, 2)
    return found


def _free_word(point: EntryPoint, taken: dict[str, type[ZeroShotClassifier]]) -> str:
    word = point.name.lower().replace("_", "-")
    if word.replace("-", "") in {other.replace("-", "") for other in taken}:
        raise ValueError(f"there is a method {word} already; give its entry point another name.")
    return word


def _loaded(point: EntryPoint) -> type[ZeroShotClassifier]:
    method = point.load()
    if not (isinstance(method, type) and issubclass(method, ZeroShotClassifier)):
        raise TypeError(f"it must be a subclass of {ZeroShotClassifier.__name__}, and is {method!r}.")
    return method


def find_method(name: str) -> type[ZeroShotClassifier]:
    """The class of a method by its command-line word or class name, in any case."""
    methods = all_methods()
    plain = {word.replace("-", ""): word for word in methods}
    word = plain.get(name.lower().replace("-", "").replace("_", ""))
    if word is None:
        raise UnknownName("method", name, methods)
    return methods[word]


def word_of(method: type[ZeroShotClassifier]) -> str:
    """The command-line word of a method's class."""
    return next(word for word, cls in all_methods().items() if cls is method)


def __getattr__(name: str) -> type[ZeroShotClassifier]:
    # `from firstsight.methods import ESZSL` without a second list of names; other packages import from here, too, so
    # that looking among theirs would go round in circles.
    for method in own_methods().values():
        if method.__name__ == name:
            return method
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *(method.__name__ for method in own_methods().values())]


__all__ = ["TransductiveClassifier", "ZeroShotClassifier", "all_methods", "find_method", "own_methods", "word_of"]
