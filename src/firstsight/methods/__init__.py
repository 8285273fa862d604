"""Every method (one file, one class, no list to keep), and which one is the default.

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
from firstsight.methods._incremental import IncrementalClassifier
from firstsight.methods._scoring import BestClasses, Candidates, ScoreBlocks
from firstsight.methods._validation import ClassSelection, OneOf, Range, name_array, validate_params
from firstsight.methods.base import TransductiveClassifier, ZeroShotClassifier

Method = str | type[ZeroShotClassifier] | ZeroShotClassifier

# What every command and `learn` take if no method is asked for; the second where there are unlabelled samples. Chosen
# on small tasks from the training classes of five data sets: benchmarks/few_pictures.py, results/few_pictures.csv.
DEFAULT_METHOD, DEFAULT_TRANSDUCTIVE_METHOD = "kernel-prototypes", "transductive-kernel-prototypes"
# Where features and descriptions come from one vision-language model, the text alone is ahead of methods that do not
# start from it: benchmarks/shared_spaces.py. Of those with unlabelled samples, only ZLaP is never behind it.
DEFAULT_SHARED_SPACE_METHOD, DEFAULT_TRANSDUCTIVE_SHARED_SPACE_METHOD = "blend", "zlap"


def default_method(
    parameters: Mapping[str, Any], transductive: bool = False, shared_space: bool = False, mixed: bool = False
) -> str:
    """Name the default method.

    Parameters
    ----------
    parameters : mapping
        Parameters that the method has to know: a preset asks for the deep embedding, which alone has any.
    transductive : bool
        Whether there are unlabelled samples to learn from.
    shared_space : bool
        Whether features and descriptions come from one vision-language model.
    mixed : bool
        Whether descriptions are of several kinds, such as attributes and a text.

    Returns
    -------
    str
        The method's name.
    """
    if "preset" in parameters:
        return "transductive-deep-embedding" if transductive else "deep-embedding"
    usual = DEFAULT_TRANSDUCTIVE_METHOD if transductive else DEFAULT_METHOD
    shared = DEFAULT_TRANSDUCTIVE_SHARED_SPACE_METHOD if transductive else DEFAULT_SHARED_SPACE_METHOD
    fits = shared_space or (mixed and not transductive)
    return shared if fits and set(parameters) <= set(find_method(shared)._get_param_names()) else usual


@cache
def builtin_methods() -> dict[str, type[ZeroShotClassifier]]:
    """Classes of this package's methods by their names on the command line: the file's name, with hyphens."""
    return {module.replace("_", "-"): _method_in(module) for module in _builtin_files().values()}


@cache
def _builtin_files() -> dict[str, str]:
    """Modules of the methods by their names without underscores, which a method's name and class match as well."""
    modules = sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name != "base" and m.name[0] != "_")
    return {module.replace("_", ""): module for module in modules}


def _method_in(module: str) -> type[ZeroShotClassifier]:
    members = vars(importlib.import_module(f"{__name__}.{module}")).values()
    defined = [m for m in members if isinstance(m, type) and m.__module__ == f"{__name__}.{module}"]
    (method,) = (m for m in defined if issubclass(m, ZeroShotClassifier))
    return method


@cache
def all_methods() -> dict[str, type[ZeroShotClassifier]]:
    """List every method by name: this package's and, after them, those of other installed packages.

    Returns
    -------
    dict
        The class of each method by its name on the command line.
    """
    methods = dict(builtin_methods())
    for point in sorted(entry_points(group=__name__), key=lambda point: point.name):
        try:
            methods[_free_name(point, methods)] = _load(point)
        except Exception as error:  # whatever another package does wrong, the methods here continue to work
            reason = " ".join(str(error).split())
            warnings.warn(f"The method {point.name!r} ({point.value}) is left out: {reason}", FirstsightWarning, 2)
    return methods


def _free_name(point: EntryPoint, taken: dict[str, type[ZeroShotClassifier]]) -> str:
    name = point.name.lower().replace("_", "-")
    if name.replace("-", "") in {other.replace("-", "") for other in taken}:
        raise ValueError(f"there is a method {name} already; give its entry point another name.")
    return name


def _load(point: EntryPoint) -> type[ZeroShotClassifier]:
    method = point.load()
    if not (isinstance(method, type) and issubclass(method, ZeroShotClassifier)):
        raise TypeError(f"it must be a subclass of {ZeroShotClassifier.__name__}, and is {method!r}.")
    return method


def find_method(name: str) -> type[ZeroShotClassifier]:
    """Find a method by its name on the command line or its class name, in any case.

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
    if plain_name in _builtin_files():  # without importing the others
        return _method_in(_builtin_files()[plain_name])
    methods = all_methods()
    found = {known.replace("-", ""): method for known, method in methods.items()}.get(plain_name)
    if found is None:
        raise UnknownName("method", name, methods)
    return found


def make_estimator(
    method: Method, parameters: Mapping[str, Any] | None = None, /, **supplied: Any
) -> ZeroShotClassifier:
    """Make an unfitted estimator from a method's name or class, or copy an estimator; parameters are validated.

    `supplied` goes to methods that know such a parameter, where it is not None and `parameters` do not set it: a
    seed, a checkpoint or a progress bar is not something that every method has.
    """
    if isinstance(method, ZeroShotClassifier):
        if parameters:
            raise BadInput("`parameters` belong to a method's name; set those of an estimator on it.")
        estimator: ZeroShotClassifier = clone(method)
        known = list(estimator.get_params(deep=False))
        estimator.set_params(**{k: v for k, v in supplied.items() if k in known and v is not None})
    elif isinstance(method, str | type):
        cls, name = (find_method(method), method) if isinstance(method, str) else (method, method.__name__)
        known, chosen = cls._get_param_names(), dict(parameters or {})
        for parameter in chosen:
            if parameter == "preset" and parameter not in known:
                raise BadInput(f"Presets belong to the paper's own methods; {name} has no presets: leave it out.")
            if parameter not in known:
                raise UnknownName(f"parameter of {name}", parameter, known)
        estimator = cls(**{k: v for k, v in supplied.items() if k in known and v is not None} | chosen)
    else:
        raise BadInput(
            f"`method` must be a method's word, its class or an instance, but is a {type(method).__name__}; a pipeline "
            "or a search is fitted by its own `fit`."
        )
    validate_params(estimator)
    return estimator


def method_name(method: type[ZeroShotClassifier]) -> str:
    """The name of a method's class on the command line."""
    package, _, module = method.__module__.rpartition(".")
    if package == __name__:
        return module.replace("_", "-")
    return next(name for name, cls in all_methods().items() if cls is method)


if TYPE_CHECKING:
    # methods: begin (tools/stubs.py writes these lines; `make format` runs it)
    from firstsight.methods.ale import ALE as ALE
    from firstsight.methods.blend import Blend as Blend
    from firstsight.methods.clap import CLAP as CLAP
    from firstsight.methods.cmt import CMT as CMT
    from firstsight.methods.conse import ConSE as ConSE
    from firstsight.methods.cosine import Cosine as Cosine
    from firstsight.methods.dap import DAP as DAP
    from firstsight.methods.deep_embedding import DeepEmbedding as DeepEmbedding
    from firstsight.methods.dem import DEM as DEM
    from firstsight.methods.devise import DeViSE as DeViSE
    from firstsight.methods.eszsl import ESZSL as ESZSL
    from firstsight.methods.gda import GDA as GDA
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
    from firstsight.methods.stata import StatA as StatA
    from firstsight.methods.sync import SynC as SynC
    from firstsight.methods.tip_adapter import TipAdapter as TipAdapter
    from firstsight.methods.transclip import TransCLIP as TransCLIP
    from firstsight.methods.transductive_blend import TransductiveBlend as TransductiveBlend
    from firstsight.methods.transductive_deep_embedding import TransductiveDeepEmbedding as TransductiveDeepEmbedding
    from firstsight.methods.transductive_kernel_prototypes import (
        TransductiveKernelPrototypes as TransductiveKernelPrototypes,
    )
    from firstsight.methods.zlap import ZLaP as ZLaP
    # methods: end
else:
    # `from firstsight.methods import ESZSL` without a second list of names. Other packages import from here, too:
    # searching theirs would be circular.
    def __getattr__(name):
        module = _builtin_files().get(name.lower())
        if module is not None and (method := _method_in(module)).__name__ == name:
            return method
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return [*globals(), *(method.__name__ for method in builtin_methods().values())]


__all__ = [
    "DEFAULT_METHOD",
    "DEFAULT_SHARED_SPACE_METHOD",
    "DEFAULT_TRANSDUCTIVE_METHOD",
    "DEFAULT_TRANSDUCTIVE_SHARED_SPACE_METHOD",
    "BestClasses",
    "Candidates",
    "ClassSelection",
    "IncrementalClassifier",
    "Method",
    "OneOf",
    "Range",
    "ScoreBlocks",
    "TransductiveClassifier",
    "ZeroShotClassifier",
    "all_methods",
    "builtin_methods",
    "default_method",
    "find_method",
    "make_estimator",
    "method_name",
    "name_array",
    "validate_params",
]
