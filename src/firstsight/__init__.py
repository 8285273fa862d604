"""firstsight: recognise classes nobody has labelled, from their descriptions.

>>> import firstsight
>>> data = firstsight.load_dataset("glyphs")                                  # doctest: +SKIP
>>> model = firstsight.DeepEmbedding().fit(*data.part("train"), data.descriptions)  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from importlib.metadata import version

__version__ = version("firstsight")

# Imported when first asked for: `import firstsight` must not wait for torch.
_HOME = {
    "BadInput": "errors",
    "FirstsightWarning": "errors",
    "ZeroShotDataset": "data",
    "load_dataset": "data",
    "evaluate": "evaluation",
    "tune": "tuning",
    "benchmark": "benchmarking",
    "report": "reporting",
    "save": "models",
    "load": "models",
    "Answers": "recognition",
    "Recognizer": "recognition",
    "fit": "recognition",
    "learn": "recognition",
    "embed": "encoders.embedding",
    "describe": "encoders.describing",
    "all_methods": "methods",
    "find_method": "methods",
}


def __getattr__(name: str):
    if name.startswith("__"):
        raise AttributeError(name)
    home = importlib.import_module(f"firstsight.{_HOME.get(name, 'methods')}")
    try:
        return getattr(home, name)
    except AttributeError:
        raise AttributeError(f"module 'firstsight' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    methods = importlib.import_module("firstsight.methods").own_methods()
    return [*globals(), *_HOME, *(method.__name__ for method in methods.values())]
