"""Every method, found by looking into this folder: one file, one class; there is no list to keep.

Installed packages add theirs with an entry point in the group "firstsight.methods" (docs/own_method.md).
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from firstsight.errors import BadInput, FirstsightWarning, UnknownName
from firstsight.methods._transductive import TransductiveClassifier
from firstsight.methods.base import ZeroShotClassifier

Method = str | type[ZeroShotClassifier] | ZeroShotClassifier

# What every command and `learn` take if no method is asked for; the second where there are unlabelled samples. Chosen
# on small tasks from the training classes of five data sets: benchmarks/few_pictures.py, results/few_pictures.csv.
DEFAULT_METHOD, DEFAULT_TRANSDUCTIVE_METHOD = "kernel-prototypes", "transductive-kernel-prototypes"


def default_method(parameters: Mapping[str, Any], transductive: bool = False) -> str:
    """Name the default method; a preset asks for the deep embedding, which alone has any."""
    if "preset" in parameters:
        return "transductive-deep-embedding" if transductive else "deep-embedding"
    return DEFAULT_TRANSDUCTIVE_METHOD if transductive else DEFAULT_METHOD


@cache
def own_methods() -> dict[str, type[ZeroShotClassifier]]:
    """The command-line word of each method here (its file's name, with hyphens) and its class."""
    return {module.replace("_", "-"): _method_in(module) for module in _own_files().values()}


@cache
def _own_files() -> dict[str, str]:
    """The files of the methods here, by their names without signs: a method's word and class without signs, too."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name != "base" and m.name[0] != "_")
    return {name.replace("_", ""): name for name in names}


def _method_in(module: str) -> type[ZeroShotClassifier]:
    members = vars(importlib.import_module(f"{__name__}.{module}")).values()
    own = [m for m in members if isinstance(m, type) and m.__module__ == f"{__name__}.{module}"]
    (method,) = (m for m in own if issubclass(m, ZeroShotClassifier))
    return method


@cache
def all_methods() -> dict[str, type[ZeroShotClassifier]]:
    """List every method by its word: this package's own and, after them, those of other installed packages.

    Returns
    -------
    dict
        The class of each method by its command-line word.
    """
    methods = dict(own_methods())
    for point in sorted(entry_points(group=__name__), key=lambda point: point.name):
        try:
            methods[_free_word(point, methods)] = _loaded(point)
        except Exception as error:  # whatever another package does wrong, the methods here go on working
            reason = " ".join(str(error).split())
            warnings.warn(f"The method {point.name!r} ({point.value}) is left out: {reason}", FirstsightWarning, 2)
    return methods


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
    """Find a method by its command-line word or class name, in any case.

    Parameters
    ----------
    name : str
        Such as "eszsl" or "ESZSL".

    Returns
    -------
    type
        The method's class; an unknown name raises `UnknownName`, which offers the nearest one.
    """
    plain_name = name.lower().replace("-", "").replace("_", "")
    if plain_name in _own_files():  # without importing the others
        return _method_in(_own_files()[plain_name])
    methods = all_methods()
    plain = {word.replace("-", ""): word for word in methods}
    word = plain.get(plain_name)
    if word is None:
        raise UnknownName("method", name, methods)
    return methods[word]


def make_estimator(
    method: Method, parameters: Mapping[str, Any] | None = None, /, **supplied: Any
) -> ZeroShotClassifier:
    """An unfitted estimator from a method's word or class, its parameters judged at once; or a copy of an estimator.

    `supplied` goes to methods that know such a parameter, where it is not None and `parameters` say nothing of it: a
    seed, a checkpoint or a progress bar is not something that every method has.
    """
    if isinstance(method, ZeroShotClassifier):
        if parameters:
            raise BadInput("`parameters` belong to a method's name; set those of an estimator on it.")
        copy: ZeroShotClassifier = clone(method)
        known = copy._get_param_names()
        copy.set_params(**{k: v for k, v in supplied.items() if k in known and v is not None})
        return judge(copy)
    if not isinstance(method, str | type):
        raise BadInput(
            f"`method` must be a method's word, its class or an instance, but is a {type(method).__name__}; a pipeline "
            "or a search is fitted by its own `fit`."
        )
    cls, name = (find_method(method), method) if isinstance(method, str) else (method, method.__name__)
    known, chosen = cls._get_param_names(), dict(parameters or {})
    for parameter in chosen:
        if parameter == "preset" and parameter not in known:
            raise BadInput(f"Presets belong to the paper's own methods; {name} has no presets: leave it out.")
        if parameter not in known:
            raise UnknownName(f"parameter of {name}", parameter, known)
    return judge(cls(**{k: v for k, v in supplied.items() if k in known and v is not None} | chosen))


def judge(estimator: ZeroShotClassifier) -> ZeroShotClassifier:
    """The estimator, if its parameters are what they may be; `fit` would find out, but late."""
    try:
        estimator._validate_params()
    except ValueError as error:  # scikit-learn's own sentence: which parameter, what is allowed, what came
        raise BadInput(str(error)) from error
    estimator._require_packages()
    return estimator


def word_of(method: type[ZeroShotClassifier]) -> str:
    """The command-line word of a method's class."""
    here, _, module = method.__module__.rpartition(".")
    if here == __name__:
        return module.replace("_", "-")
    return next(word for word, cls in all_methods().items() if cls is method)


if TYPE_CHECKING:
    # methods: begin (tools/stubs.py writes these lines; `make format` runs it)
    from firstsight.methods.ale import ALE as ALE
    from firstsight.methods.cmt import CMT as CMT
    from firstsight.methods.conse import ConSE as ConSE
    from firstsight.methods.cosine import Cosine as Cosine
    from firstsight.methods.dap import DAP as DAP
    from firstsight.methods.deep_embedding import DeepEmbedding as DeepEmbedding
    from firstsight.methods.dem import DEM as DEM
    from firstsight.methods.devise import DeViSE as DeViSE
    from firstsight.methods.eszsl import ESZSL as ESZSL
    from firstsight.methods.gfzsl import GFZSL as GFZSL
    from firstsight.methods.iap import IAP as IAP
    from firstsight.methods.kernel_prototypes import KernelPrototypes as KernelPrototypes
    from firstsight.methods.latem import LatEm as LatEm
    from firstsight.methods.psr import PSR as PSR
    from firstsight.methods.qfsl import QFSL as QFSL
    from firstsight.methods.rn import RN as RN
    from firstsight.methods.sae import SAE as SAE
    from firstsight.methods.sje import SJE as SJE
    from firstsight.methods.sse import SSE as SSE
    from firstsight.methods.sync import SynC as SynC
    from firstsight.methods.transductive_deep_embedding import TransductiveDeepEmbedding as TransductiveDeepEmbedding
    from firstsight.methods.transductive_kernel_prototypes import (
        TransductiveKernelPrototypes as TransductiveKernelPrototypes,
    )
    # methods: end
else:
    # `from firstsight.methods import ESZSL` without a second list of names; other packages import from here, too, so
    # that looking among theirs would go round in circles.
    def __getattr__(name):
        module = _own_files().get(name.lower())
        if module is not None and (method := _method_in(module)).__name__ == name:
            return method
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return [*globals(), *(method.__name__ for method in own_methods().values())]


__all__ = [
    "DEFAULT_METHOD",
    "DEFAULT_TRANSDUCTIVE_METHOD",
    "Method",
    "TransductiveClassifier",
    "ZeroShotClassifier",
    "all_methods",
    "default_method",
    "find_method",
    "judge",
    "make_estimator",
    "own_methods",
    "word_of",
]
