"""Blend: the scores of several methods, added with weights that simulated zero-shot tasks choose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import product
from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from firstsight._io.columns import column_groups
from firstsight.errors import BadInput, UnknownName
from firstsight.evaluation.scores import TaskScores, best_constant, harmonic_mean
from firstsight.methods import find_method
from firstsight.methods._incremental import IncrementalClassifier
from firstsight.methods._simulated_tasks import SimulatedTask, beats, sample_of_classes, simulate_tasks
from firstsight.methods._validation import ClassSelection, Range
from firstsight.methods.base import RandomState, Scaling, TransductiveClassifier, ZeroShotClassifier
from firstsight.methods.cosine import Cosine
from firstsight.methods.kernel_prototypes import KernelPrototypes

STEPS = {1: 1, 2: 20}  # of a weight from 0 to 1, by the number of parts
STEPS_OF_MANY = 4
SCALE_SAMPLES = 1000  # that a scale is the mean over
CERTAINTY = 1.0  # standard errors of a gain: it is the highest of many, and a part that says nothing must get none
TASK_SAMPLES = 30_000  # that tasks are cut from: their scores for all classes are in memory at once

# Name, estimator, and which columns of the descriptions it is given; None: all.
Parts = list[tuple[str, ZeroShotClassifier, Any]]


class Blend(IncrementalClassifier):
    """Weighted sum of the scores of several methods; weights and seen constant are chosen on simulated tasks.

    Each part is fitted on all training samples. Then some seen classes play unseen ones, copies of the parts (with the
    settings that the full fits chose) learn from the others, and the weights and the constant with the highest
    (T1 + H)/2 are taken. A weight may be 0. Where samples and descriptions are vectors of one space, as CLIP makes
    them, the blend starts from `Cosine`, which needs no training, and moves away from it only if the tasks gain.

    Score, with s_i that of part i without its constant for seen classes, and σ_i its standard deviation across the seen
    classes (mean over training samples)::

        Σ_i w_i s_i(x, c)/σ_i − γ Σ_i w_i certainty_i(c)

    where certainty is 1 for seen classes and 0 for classes that only a description is known of.

    Parameters
    ----------
    estimators : list or None
        The parts: names of methods, or (name, estimator) pairs with inductive methods of firstsight or of installed
        packages, or (name, estimator, columns): descriptions of several kinds, such as attributes and a text, go to
        different parts. Columns are names, positions or a slice. None: `Cosine` and `KernelPrototypes(search=False,
        refinement=0)` where samples and descriptions have the same width, else `KernelPrototypes` alone; and that for
        the columns of each text encoder (`name:0`, `name:1`, …) and for all other columns.
    weights : list of float or None
        w, one per part, not negative; they are divided by their sum. None: chosen on simulated tasks, in steps of 0.05
        for two parts and of 0.25 for more.
    seen_constant : float or None
        γ (calibrated stacking), in units of the scaled scores. None: chosen on simulated tasks; of one part alone, that
        part's constant.
    n_folds : int or None
        How many tasks are simulated at most. None: 4 to 12, more if classes are few.
    feature_scaling, attribute_scaling : {None, "unit", "standard"}
        Scaling of features and of descriptions, fitted on the training samples and seen classes, before the parts'.
    random_state : int, RandomState or None
        Passed to parts that take one and have none.

    Attributes
    ----------
    classes_, descriptions_ : array (C,) and array (C, a)
        Every class that can be predicted, and its description.
    parts_ : dict
        The fitted parts by name.
    weights_, scales_ : array (p,), array (p,)
        w and σ, in the order of `parts_`.
    seen_constant_ : float
        γ.
    n_fitted_classes_ : int
        How many classes the fit had samples of.
    search_ : dict
        "tasks", how many were simulated; "tried", weights and γ with their (T1 + H)/2 on each task; "chosen"; "gains",
        by how much (T1 + H)/2 is above that of each part alone with its best constant.

    Notes
    -----
    Weights other than those of the best single part (or of the part that needs no training, in a shared space) must
    gain more than a margin and a standard error over the tasks. With fewer than four seen classes, or without
    descriptions, there are no tasks: the part for shared spaces is then taken alone, or all parts count the same.

    Samples that are added after the fit (`add_samples`) go to the parts that can learn from them, `Cosine` and the
    kernel prototypes; weights and γ stay. Other parts still score the classes of these samples by the description.

    A deep network beside the kernel prototypes often gains a point, and each task trains it once::

        Blend([("prototypes", KernelPrototypes()), ("network", DeepEmbedding())], n_folds=4)

    References
    ----------
    Of this package, 2026, after D. Wolpert, Stacked generalization, Neural Networks 5(2), 1992; the constant is that of
    Chao et al., ECCV 2016. https://doi.org/10.1016/S0893-6080(05)80023-1

    Examples
    --------
    >>> import numpy as np
    >>> from firstsight.methods import Blend
    >>> rng = np.random.default_rng(0)
    >>> descriptions = np.array([[0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 0, 1.0]])
    >>> y = np.repeat([0, 1, 2, 3, 4], 40)                  # class 5 has a description, but no samples
    >>> X = descriptions[y] + 0.1 * rng.normal(size=(200, 3))
    >>> model = Blend(["cosine", "eszsl"]).fit(X, y, descriptions)
    >>> model.predict([[1.0, 0.1, 0.9]], classes=[1, 5])
    array([5])
    """

    space = "latent"
    reference = "firstsight 2026, after Wolpert, Stacked generalization, Neural Networks, 1992"
    quick: ClassVar[dict[str, Any]] = {"estimators": ["eszsl", "gfzsl"]}
    fitted_arrays: ClassVar[dict[str, str]] = {"weights_": "p", "scales_": "p"}
    parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimators": [list, tuple, None],
        "weights": [list, tuple, np.ndarray, None],
        "seen_constant": [Range(float), None],
        "n_folds": [Range(int, at_least=1), None],
    }
    parts_: dict[str, ZeroShotClassifier]
    _metric: Literal["mean", "t1", "h"] = "mean"  # what weights are chosen by

    def __init__(
        self,
        estimators: Sequence[str | tuple[str, ZeroShotClassifier]] | None = None,
        *,
        weights: ArrayLike | None = None,
        seen_constant: float | None = None,
        n_folds: int | None = None,
        feature_scaling: Scaling = None,
        attribute_scaling: Scaling = None,
        random_state: RandomState = None,
    ):
        self.estimators = estimators
        self.weights = weights
        self.seen_constant = seen_constant
        self.n_folds = n_folds
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling
        self.random_state = random_state

    # Parameters of parts, as scikit-learn's VotingClassifier has them: `set_params(name=…, name__parameter=…)`.

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep`, also the parts and, as `part__parameter`, theirs."""
        params = super().get_params(deep=False)
        for name, part, _ in self._listed_parts() if deep else []:
            params[name] = part
            params |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; a part is replaced by its name, and its parameters are set as `part__parameter`."""
        if "estimators" in params:
            self.estimators = params.pop("estimators")
        replaced = {name: params.pop(name) for name, *_ in self._listed_parts() if name in params}
        if replaced:
            self.estimators = [
                (name, replaced.get(name, part), *([] if columns is None else [columns]))
                for name, part, columns in self._listed_parts()
            ]
        return super().set_params(**params)

    def resolved_parameters(self) -> dict[str, Any]:
        """Return the parameters, those of the parts as `part__parameter`; of a fitted model, as the fit had them.

        Returns
        -------
        dict
            Values by parameter; `estimators` is the list of names.
        """
        fitted, listed = getattr(self, "parts_", None), self._listed()
        parts = list(fitted.items()) if fitted else [part[:2] for part in self._parts(listed)] if listed else []
        params = super().get_params(deep=False) | getattr(self, "settings_", {})
        params["estimators"] = [name for name, _ in parts] or self.estimators
        params = {name: value for name, value in params.items() if name not in self.non_result_params}
        return params | {f"{name}__{key}": v for name, part in parts for key, v in part.resolved_parameters().items()}

    def _listed(self) -> Sequence[Any]:
        return self.estimators if isinstance(self.estimators, list | tuple) else ()

    def _listed_parts(self) -> Parts:
        return [(*item, None)[:3] for item in self._listed() if _is_part(item)]

    # Fit

    def _fit(self, X, y, S, pool=None, U=None):
        parts = self._parts(self._default_parts(X, S) if self.estimators is None else self.estimators)
        weights = self._given_weights(len(parts))
        described = S if U is None else np.vstack([S, U])
        self.parts_ = {
            name: _fit_part(
                self._seeded(part),
                X,
                y,
                _table(described, self._positions(columns)) if self.described_ else None,
                pool if pool is not None and len(pool) else None,
            )
            for name, part, columns in parts
        }
        models, self.n_fitted_classes_ = list(self.parts_.values()), len(S)
        self.scales_ = np.array([_scale(part, X) for part in models])

        rows = sample_of_classes(y, TASK_SAMPLES)
        tasks = simulate_tasks(y[rows])[: self.n_folds] if self.described_ and len(parts) > 1 else []
        alone = [float(part.shared_space) for part in models]
        constant = self.seen_constant
        report: dict[str, Any] = {"tasks": 0, "tried": [], "gains": {}}
        if tasks and (weights is None or constant is None):
            copies = [(self._seeded(_with_settings_of(part)), _columns_of(part)) for part in models]
            pools = [None if pool is None else self._pool_of(task, len(pool), len(described)) for task in tasks]
            scored = [_score_task(copies, X[rows], S, *each) for each in zip(tasks, pools, strict=True)]
            shared = [part.shared_space for part in models]
            weights, constant, report = choose(scored, weights, constant, shared, self._metric)
            report["gains"] = dict(zip(self.parts_, report["gains"], strict=True))
        elif weights is None:
            weights = np.array(alone) if any(alone) else np.ones(len(parts))
        self.weights_ = weights / weights.sum()
        if constant is None:  # that of the parts
            constant = sum(w * c.max() for w, c in self._constants_of_parts(self._embed_classes(S), np.arange(len(S))))
        self.seen_constant_ = float(constant)
        self.settings_ = {"weights": self.weights_.tolist(), "seen_constant": self.seen_constant_}
        self.search_ = {**report, "chosen": self.settings_}

    def _default_parts(self, X: np.ndarray, S: np.ndarray) -> Parts:
        groups = column_groups(getattr(self, "attribute_names_in_", [""] * S.shape[1]))
        parts: Parts = []
        for group, columns in groups.items():
            suffix, given = (f"-{group.replace('__', '_')}", columns) if len(groups) > 1 else ("", None)
            if shared := self.described_ and X.shape[1] == len(columns):
                parts.append((f"cosine{suffix}", Cosine(), given))
            prototypes = KernelPrototypes(search=False, refinement=0) if shared else KernelPrototypes()
            parts.append((f"kernel-prototypes{suffix}", prototypes, given))
        return parts

    def _pool_of(self, task: SimulatedTask, size: int, n_classes: int) -> np.ndarray:
        """Which test samples of a task play the pool, where the real one has this size."""
        raise NotImplementedError

    def _parts(self, listed: Sequence[Any]) -> Parts:
        """The parts; those listed as a name are made."""
        items = [(item, find_method(item)()) if isinstance(item, str) else item for item in listed]
        for item in items:
            _check_part(item, type(self))
        names = [item[0] for item in items]
        if not items or len(set(names)) < len(names):
            raise BadInput(f"`estimators` must list at least one part, each under another name; got {names}.")
        return [(*item, None)[:3] for item in items]

    def _positions(self, columns: Any) -> list[int] | None:
        """Positions of a part's columns among the descriptions', which may be names, positions or a slice."""
        if columns is None:
            return None
        names, width = list(getattr(self, "attribute_names_in_", ())), self.descriptions_.shape[1]
        several = isinstance(columns, Iterable) and not isinstance(columns, str)
        positions = []
        for column in range(width)[columns] if isinstance(columns, slice) else columns if several else [columns]:
            if isinstance(column, bool) or not isinstance(column, str | Integral):
                raise BadInput(f"The columns of a part must be names, positions or a slice; got {columns!r}.")
            if isinstance(column, str) and column not in names:
                raise UnknownName("attribute", column, names)
            position = names.index(column) if isinstance(column, str) else int(column)
            if not 0 <= position < width:
                raise BadInput(
                    f"A part is to be given column {position} of the descriptions; expected positions from 0 to "
                    f"{width - 1}."
                )
            positions.append(position)
        if not positions or len(set(positions)) < len(positions):
            raise BadInput(f"The columns of a part must be at least one, each once; got {columns!r}.")
        return positions

    def _given_weights(self, n_parts: int) -> np.ndarray | None:
        if self.weights is None:
            return None
        try:
            weights = np.array(self.weights, dtype=np.float64)
        except (ValueError, TypeError):
            weights = np.full(1, np.nan)
        if weights.shape != (n_parts,) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
            raise BadInput(
                f"`weights` must hold {n_parts} finite numbers, one for each part, none negative and not all zero; got "
                f"{self.weights!r}."
            )
        return weights

    def _seeded(self, part: ZeroShotClassifier) -> ZeroShotClassifier:
        """A copy that has not been fitted, with this blend's random state where it has none."""
        copy: ZeroShotClassifier = clone(part)
        if "random_state" in copy._get_param_names() and copy.get_params()["random_state"] is None:
            copy.set_params(random_state=self.random_state)
        return copy

    # Score

    def _weighted(self) -> Iterator[tuple[float, float, ZeroShotClassifier]]:
        """Weight, weight over scale, and part, of the parts that count."""
        for weight, scale, part in zip(
            self.weights_.tolist(), self.scales_.tolist(), self.parts_.values(), strict=True
        ):
            if weight:
                yield weight, weight / scale, part

    def _embed_classes(self, A):
        return [part._embed_classes(_described_for(part, A)) for _, _, part in self._weighted()]

    def _embed_described(self, A):
        return [part._embed_described(_described_for(part, A)) for _, _, part in self._weighted()]

    def _certainty(self, E, seen):
        return sum(
            w * part._certainty(e, _known_codes(part, seen))
            for (w, _, part), e in zip(self._weighted(), E, strict=True)
        )

    def _constants_of_parts(self, E: Any, seen: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
        """Weight over scale of each part that counts, and what it takes off each candidate (k,) by itself."""
        for (_, share, part), e in zip(self._weighted(), E, strict=True):
            yield share, part._seen_constants(e, _known_codes(part, seen))

    @property
    def _gamma(self):
        return self.seen_constant_

    def _scores(self, X, E, seen):
        scores = -self._seen_constants(E, seen)[None].astype(X.dtype)
        for (_, share, part), e, (_, own) in zip(self._weighted(), E, self._constants_of_parts(E, seen), strict=True):
            rows = part._scale_features(_as_type(part, X))
            scores = scores + share * (part._scores(rows, e, _known_codes(part, seen)) + own.astype(X.dtype))
        return scores  # (n, k)

    @property
    def _seen_at_fit(self):
        return self.n_fitted_classes_

    @property
    def can_add_samples(self) -> bool:
        """Whether a part that counts can learn from added samples."""
        return any(isinstance(part, IncrementalClassifier) for _, _, part in self._weighted())

    def _added_rows(self, X):
        if not self.can_add_samples:
            names = ", ".join(type(part).__name__ for _, _, part in self._weighted())
            raise BadInput(
                f"None of the parts that count ({names}) can learn from samples that are added after the fit; fit "
                "again with these samples, or blend with kernel-prototypes or cosine."
            )
        return X

    def _coverage(self, X):
        able = [(weight, part) for weight, _, part in self._weighted() if isinstance(part, IncrementalClassifier)]
        if not able:
            return super()._coverage(X)
        part = max(able, key=lambda pair: pair[0])[1]
        return part._coverage(part._scale_features(_as_type(part, X)))

    def _condition(self, rows, codes, A):
        k = self.n_fitted_classes_
        known = np.arange(k + len(A))
        self.parts_ = {name: copy(part) for name, part in self.parts_.items()}
        for part in self.parts_.values():
            if isinstance(part, IncrementalClassifier):
                part.classes_, part.seen_code_ = known, known
                if isinstance(part, TransductiveClassifier):  # its unseen classes go by their descriptions
                    part.unseen_code_ = np.full_like(known, -1)
                described = _described_for(part, A, scaled=False)
                part.descriptions_ = np.vstack([part.descriptions_[:k], described])
                part_rows = part._added_rows(part._scale_features(_as_type(part, rows))) if len(codes) else rows
                part._set_added(
                    rows=part_rows, codes=codes, calls=np.zeros_like(codes), descriptions=part.descriptions_[k:]
                )

    @available_if(lambda self: self._embedding_part() is not None)  # type: ignore[untyped-decorator]
    def embed(self, X: ArrayLike) -> np.ndarray:
        """The embedding of samples by the part with the largest weight that has one."""
        embedding: np.ndarray = self._embedding_part().embed(self._scale_features(self.check_features(X)))
        return embedding

    @available_if(lambda self: self._embedding_part() is not None)  # type: ignore[untyped-decorator]
    def embed_classes(self, classes: ClassSelection = None) -> np.ndarray:
        """The classes in the space of `embed`; `classes` as in `predict`."""
        (_, A, seen), part = self.candidates(classes), self._embedding_part()
        # A part knows seen classes by their codes, and others as new ones.
        codes = _known_codes(part, seen)
        labels = np.where(codes >= 0, codes, len(part.classes_) + np.arange(len(codes)))
        table = _table(self._scale_descriptions(A), _columns_of(part)).set_axis(labels)
        embedding: np.ndarray = part.embed_classes(table)
        return embedding

    def _embedding_part(self) -> Any:
        parts = [(weight, part) for weight, _, part in self._weighted() if hasattr(part, "embed_classes")]
        return max(parts, key=lambda pair: pair[0])[1] if parts else None

    def _export_scores(self, graph, X, A, seen):
        scores = None
        for weight, share, part in self._weighted():
            rows = graph.scaled(X, part.feature_scaling, part.feature_scaler_)
            columns = _columns_of(part)
            classes = A if columns is None else graph("Gather", A, graph.constant(columns, np.int64), axis=1)
            classes = graph.scaled(classes, part.attribute_scaling, part.attribute_scaler_)
            limit, unknown = graph.constant(len(part.seen_classes_), np.int64), graph.constant(-1, np.int64)
            known = graph("Where", graph("Less", seen, limit), seen, unknown)  # as `_known_codes`
            of_part = graph("Mul", part.export_scores(graph, rows, classes, known), graph.constant(share))
            constant = graph.constant(share * part._gamma - weight * self.seen_constant_)
            added = graph("Mul", _export_certainty(graph, part, classes, known), constant)
            of_part = graph("Add", of_part, added)
            scores = of_part if scores is None else graph("Add", scores, of_part)
        return scores


def _known_codes(part: ZeroShotClassifier, seen: np.ndarray) -> np.ndarray:
    """Training codes as the part knows them: to one that learns nothing from added samples, their classes are new."""
    return np.where(seen < len(part.seen_classes_), seen, -1)


def _export_certainty(graph: Any, part: ZeroShotClassifier, A: str, seen: str) -> str:
    """The name of a part's certainty (k,) in a graph: by the training code alone, but for kernel prototypes."""
    if isinstance(part, KernelPrototypes):
        return part.export_certainty(graph, A, seen)
    k = len(part.seen_classes_)
    E = part._embed_classes(part._scale_descriptions(part.descriptions_[:k]))
    by_code = np.append(part._certainty(E, np.arange(k)), 0)  # the last entry is that of the code −1
    certainty: str = graph("Gather", graph.constant(by_code), seen, axis=0)
    return certainty


def _is_part(item: Any) -> bool:
    named = isinstance(item, tuple) and len(item) in (2, 3) and isinstance(item[0], str)
    return named and hasattr(item[1], "get_params")


def _check_part(item: Any, blend: type[Blend]) -> None:
    """Raise `BadInput` unless this is a (name, estimator) pair, perhaps with columns, that can be a part of a blend."""
    if not _is_part(item) or isinstance(item[1], type):
        raise BadInput(
            "`estimators` must list names of methods, (name, estimator) pairs such as ('text', Cosine()), or "
            f"(name, estimator, columns); got {item!r}."
        )
    name, part = item[:2]
    if not name or "__" in name or name in blend._get_param_names():
        raise BadInput(f"A part cannot be called {name!r}; use a name without '__' that is no parameter of Blend.")
    kind = type(part).__name__
    if isinstance(part, Pipeline):
        raise BadInput(
            f"The part {name!r} is a pipeline, and parts must share their features; put the transformers before the "
            "blend (make_pipeline(…, Blend(…))), or use the part's feature_scaling."
        )
    if not isinstance(part, ZeroShotClassifier) or isinstance(part, Blend):
        raise BadInput(f"The part {name!r} must be one of firstsight's methods other than a blend; got {kind}.")
    if part.transductive and not blend.transductive:
        raise BadInput(
            f"The part {name!r} must be an inductive method, but {kind} learns from unlabelled samples; use "
            "TransductiveBlend."
        )


def _as_type(part: ZeroShotClassifier, values: np.ndarray) -> np.ndarray:
    """Numbers of a type that the part computes with."""
    return values if values.dtype in part.dtypes else values.astype(part.dtypes[0])


def _table(S: np.ndarray, columns: Sequence[int] | None) -> pd.DataFrame:
    """Descriptions as a part is given them: its columns are called by their positions, by which it is asked later."""
    return pd.DataFrame(S) if columns is None else pd.DataFrame(S[:, columns], columns=[str(c) for c in columns])


def _columns_of(part: ZeroShotClassifier) -> list[int] | None:
    """Positions of a fitted part's columns among the descriptions' of the blend; None: all."""
    names = getattr(part, "attribute_names_in_", None)
    return None if names is None else [int(name) for name in names]


def _described_for(part: ZeroShotClassifier, A: np.ndarray, scaled: bool = True) -> np.ndarray:
    columns = _columns_of(part)
    described = _as_type(part, A if columns is None else A[:, columns])
    return part._scale_descriptions(described) if scaled else described


# Weights and constant


def choose(
    tasks: Sequence[list[TaskScores]],
    weights: np.ndarray | None = None,
    constant: float | None = None,
    start: Sequence[bool] = (),
    metric: str = "mean",
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """The weights (p,) and the constant with the highest mean (T1 + H)/2, and a report of what was tried.

    With the metric "t1" or "h" instead of "mean", that with the highest T1 or H.
    Of each task, the scaled scores of every part without its constant. Weights or constant that are given stay. The
    best single part, of those that `start` marks if there are any, is taken alone unless others gain more than noise.
    """
    p = len(tasks[0])
    singles = list(np.eye(p))
    candidates = singles + ([w for w in weight_grid(p) if w.max() < 1] if weights is None else [weights])
    values, constants = [], []
    for candidate in candidates:
        mixed = [mix(parts, candidate) for parts in tasks]
        constants.append(best_constant(*mixed) if constant is None else constant)
        values.append(np.array([_value(task, constants[-1], metric) for task in mixed]))
    means = [float(value.mean()) for value in values]
    if weights is None:
        holder = max(np.flatnonzero(start).tolist() or range(p), key=lambda part: means[part])
        winner = int(np.argmax(means))
        winner = winner if beats(values[winner], values[holder], CERTAINTY) else holder
    else:
        winner = p
    tried = [
        {"weights": w.tolist(), "seen_constant": c, "scores": v.round(5).tolist(), "taken": number == winner}
        for number, (w, c, v) in enumerate(zip(candidates, constants, values, strict=True))
    ]
    gains = [round(means[winner] - mean, 5) for mean in means[:p]]
    return candidates[winner], constants[winner], {"tasks": len(tasks), "tried": tried, "gains": gains}


def weight_grid(n_parts: int) -> Iterator[np.ndarray]:
    """All weights (p,) that are multiples of a step and sum to one."""
    steps = STEPS.get(n_parts, STEPS_OF_MANY)
    for first in product(range(steps + 1), repeat=n_parts - 1):
        if sum(first) <= steps:
            yield np.array([*first, steps - sum(first)]) / steps


def mix(parts: Sequence[TaskScores], weights: np.ndarray) -> TaskScores:
    """The task with the weighted sum of the parts' scores."""
    total = sum(weight * part.scores for weight, part in zip(weights.tolist(), parts, strict=True) if weight)
    return replace(parts[0], scores=total)


def _value(task: TaskScores, constant: float, metric: str) -> float:
    t1, h = task.t1 or 0.0, harmonic_mean(*task.curve.at(constant))
    return {"t1": t1, "h": h, "mean": (t1 + h) / 2}[metric]


def _with_settings_of(part: ZeroShotClassifier) -> ZeroShotClassifier:
    """A copy that has not been fitted, with the settings that the fit of this part chose."""
    copy: ZeroShotClassifier = clone(part)
    known = copy._get_param_names()
    settings = {**part.resolved_parameters(), "search": False, "verbose": False, "checkpoint": None}
    return copy.set_params(**{name: value for name, value in settings.items() if name in known})


def _fit_part(
    part: ZeroShotClassifier, X: np.ndarray, y: np.ndarray, table: pd.DataFrame | None, pool: np.ndarray | None
) -> ZeroShotClassifier:
    """Fit a part; the classes with samples are the first of the table, and others are for transductive parts."""
    if isinstance(part, TransductiveClassifier):
        return part.fit(X, y, table, X_unlabeled=pool)
    return part.fit(X, y, None if table is None else table[: y.max() + 1])


def _score_task(
    parts: Sequence[tuple[ZeroShotClassifier, list[int] | None]],
    X: np.ndarray,
    S: np.ndarray,
    task: SimulatedTask,
    pool: np.ndarray | None,
) -> list[TaskScores]:
    """Fit copies of the parts on the classes that play seen ones; their scaled scores without own constants.

    `pool` are the test samples that transductive parts may learn from.
    """
    scored = []
    for unfitted, columns in parts:
        candidates = _table(S[task.classes], columns)
        unlabeled = None if pool is None else X[task.test[pool]]
        part = _fit_part(clone(unfitted), X[task.train], task.y_train, candidates, unlabeled)
        scores = part.decision_function(X[task.test], classes=candidates)
        _, A, seen = part.candidates(candidates)
        scores += part.seen_penalties(A, seen).astype(scores.dtype)
        scored.append(task.scored(scores / _scale(part, X[task.train])))
    return scored


def _scale(part: ZeroShotClassifier, X: np.ndarray) -> float:
    """Standard deviation of scores across the seen classes, mean over training samples."""
    rows = X[np.unique(np.linspace(0, len(X) - 1, SCALE_SAMPLES).astype(int))]
    spread = part.decision_function(rows, classes=part.seen_classes_).std(axis=1).mean(dtype=np.float64)
    return float(spread) or 1.0
