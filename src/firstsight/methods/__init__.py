"""Every method, found by looking into this folder: one file, one class; there is no list to keep."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from firstsight.errors import UnknownName
from firstsight.methods.base import TransductiveClassifier, ZeroShotClassifier


@cache
def all_methods() -> dict[str, type[ZeroShotClassifier]]:
    """The command-line word of each method (its file's name, with hyphens) and its class."""
    found = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name not in ("base", "parts")):
        members = vars(importlib.import_module(f"{__name__}.{module}")).values()
        own = [m for m in members if isinstance(m, type) and m.__module__ == f"{__name__}.{module}"]
        (found[module.replace("_", "-")],) = (m for m in own if issubclass(m, ZeroShotClassifier))
    return found


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


def __getattr__(name: str):
    # `from firstsight.methods import ESZSL` without a second list of names.
    for method in all_methods().values():
        if method.__name__ == name:
            return method
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *(method.__name__ for method in all_methods().values())]


__all__ = ["TransductiveClassifier", "ZeroShotClassifier", "all_methods", "find_method", "word_of"]
