"""Labelled samples of a server: images to try, the embedding map, and measured accuracy."""

from __future__ import annotations

import hashlib
import io
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.data.feature_files import FeatureFile, read_feature_file
from firstsight.encoders.decoding import decode_picture, quiet_pillow
from firstsight.encoders.embedding import embed
from firstsight.encoders.images import read_content
from firstsight.errors import BadInput
from firstsight.evaluation.protocol import score_samples
from firstsight.evaluation.scores import TaskScores, TradeOff, harmonic_mean
from firstsight.evaluation.spaces import lay_out
from firstsight.methods import TransductiveClassifier, ZeroShotClassifier
from firstsight.recognition import Recognizer
from firstsight.recognition.inputs import features_for, is_feature_file
from firstsight.recognition.scoring import InTraining, in_training, recognised_by

# Labelled samples beside the model: pictures to try, dots on the map, rows to measure on.

SIDE = 256  # pixels of the longer side of a picture that is shown


@dataclass(frozen=True, eq=False)
class SamplePictures:
    """Rows (n, d) with their classes, their pictures where there are such, and the fingerprints of their files.

    The model may have been trained on some of them: `in_training` tells.
    """

    features: np.ndarray
    labels: list[str]
    pictures: Sequence[np.ndarray | Path] | None = None
    feature_names: Sequence[str] | None = None
    fingerprints: np.ndarray | None = None

    def in_training(self, model: ZeroShotClassifier) -> list[InTraining | None]:
        """Of each sample, whether the model was trained on it; None where that cannot be told."""
        return in_training(model, self.features, self.fingerprints) or [None] * len(self)

    @property
    def has_pictures(self) -> bool:
        return self.pictures is not None

    def __len__(self) -> int:
        return len(self.labels)

    def choose(self, limit: int, seed: int = 0) -> list[int]:
        """Up to `limit` of them, about as many of each class, the same for everybody who gives the same seed."""
        order = np.random.default_rng(seed).permutation(len(self))
        turn: dict[str, int] = {}
        keys: list[tuple[int, int, int]] = []
        for place in order.tolist():
            label = self.labels[place]
            turn[label] = turn.get(label, -1) + 1
            keys.append((turn[label], len(keys), place))
        return sorted(place for _, _, place in sorted(keys)[:limit])

    def png(self, place: int) -> bytes:
        """One picture, not larger than it is shown; OSError, ValueError or Undecodable if it is no longer one."""
        assert self.pictures is not None
        source = self.pictures[place]
        if isinstance(source, Path):
            with quiet_pillow:
                picture = decode_picture(read_content(source))
            picture.thumbnail((SIDE, SIDE))
        else:
            picture = Image.fromarray(source)
        file = io.BytesIO()
        picture.save(file, "PNG")
        return file.getvalue()


def read_samples(given: str, own: Recognizer) -> SamplePictures:
    """A data set's test rows, a folder of pictures in sub-folders named like classes, or a file of their features."""
    path = Path(given)
    if path.is_dir() and not (path / "att_splits.mat").exists() and not (path / "samples.csv").exists():
        embedded = embed(path, backbone=own.backbone.place)
        samples = _of_features(given, embedded, [path / name for name in embedded.names])
    elif path.suffix == ".npz" and is_feature_file(path):
        samples = _of_features(given, read_feature_file(path), None)
    else:
        samples = of_dataset(load_dataset(given))
    features = features_for(own.model, samples.features, samples.feature_names, f"The file of samples {given}")
    return replace(samples, features=features, feature_names=None)


def of_dataset(data: ZeroShotDataset) -> SamplePictures:
    """The test rows of a data set, with their pictures if it has them."""
    rows = np.concatenate([data.test_seen, data.test_unseen])
    pictures = None if data.images is None else [data.images[row] for row in rows]
    labels = [str(name) for name in data.names_of(rows)]
    return SamplePictures(data.features[rows], labels, pictures, data.feature_names)


def _of_features(given: str, file: FeatureFile, pictures: list[Path] | None) -> SamplePictures:
    if file.labels is None:
        raise BadInput(f"The samples in {given} have no classes; give pictures in sub-folders named like classes.")
    return SamplePictures(file.features, list(file.labels), pictures, file.feature_names, file.fingerprints)


# The map: samples and descriptions of a model's space in the plane, where a class that is taught finds its place.

SAMPLES = 700  # on the map: t-SNE takes seconds for so many
STEPS = 500  # of t-SNE: on letters its loss is 3 % above that after 1,000, in half of the time
NEAREST = 5  # neighbours that say where a new class belongs
SPACES = {
    "before": ("Before the transductive step", "Classes without pictures are where their descriptions predict them."),
    "after": ("After the transductive step", "Unlabelled pictures have corrected where classes without labels are."),
    "space": ("The model's space", "Samples are dots, descriptions are squares; only nearness has a meaning."),
    "features": (
        "The features",
        "This method has no space in which pictures and descriptions meet: a square is among the samples that "
        "suit the class best.",
    ),
}


@runtime_checkable
class HasSpace(Protocol):
    """A method in whose space samples and descriptions are points."""

    def embed(self, X: ArrayLike) -> np.ndarray: ...

    def embed_classes(self, classes: Any = None) -> np.ndarray: ...


@dataclass(eq=False)
class Landscape:
    """One space, laid out once; the classes that were there then have their places, others are placed among them."""

    samples: np.ndarray  # (n, e), or features
    places: np.ndarray  # (n, 2)
    squares: dict[str, np.ndarray]  # (2,) by class

    @classmethod
    def of(cls, model: ZeroShotClassifier, features: np.ndarray, seed: int = 0) -> Landscape:
        names = [str(name) for name in model.classes_.tolist()]
        if not isinstance(model, HasSpace):
            places, _ = lay_out(features, None, seed, STEPS)
            return cls(features, _scaled(places, places), {})
        samples, classes = model.embed(features), model.embed_classes()
        places, squares = lay_out(samples, classes, seed, STEPS)
        return cls(samples, _scaled(places, places), dict(zip(names, _scaled(squares, places), strict=True)))

    def place_classes(self, model: ZeroShotClassifier, features: np.ndarray) -> dict[str, tuple[np.ndarray, bool]]:
        """Of every class that the model has now: its place, and whether it came after the map was laid out."""
        names = [str(name) for name in model.classes_.tolist()]
        if not isinstance(model, HasSpace):
            scores = model.decision_function(features)
            standing = scores - scores.mean(axis=1, keepdims=True)
            best = np.argsort(-standing, axis=0, kind="stable")[:NEAREST]  # (5, C)
            first = self.squares or {name: np.empty(2) for name in names}
            self.squares = first
            return {name: (self.places[best[:, c]].mean(axis=0), name not in first) for c, name in enumerate(names)}
        new = [c for c, name in enumerate(names) if name not in self.squares]
        places = {name: (self.squares[name], False) for name in names if name in self.squares}
        if new:
            embedded = model.embed_classes([model.classes_[c] for c in new])
            places |= {names[c]: (self._among(point), True) for c, point in zip(new, embedded, strict=True)}
        return {name: places[name] for name in names}

    def _among(self, point: np.ndarray) -> np.ndarray:
        """Between its nearest samples, the nearer the closer."""
        apart = np.linalg.norm(self.samples - point, axis=1)
        near = np.argsort(apart, kind="stable")[:NEAREST]
        weights = 1 / np.maximum(apart[near], 1e-9)
        place: np.ndarray = weights @ self.places[near] / weights.sum()
        return place


class Maps:
    """The map of a model beside that of the model before it, laid out when somebody asks first."""

    def __init__(self, samples: SamplePictures, before: ZeroShotClassifier | None = None):
        self.samples, self.before = samples, before
        self.chosen = samples.choose(SAMPLES)
        self.features = samples.features[self.chosen]
        self._known: dict[str, tuple[bytes, Landscape]] = {}
        self._lock = threading.Lock()

    def of(self, model: ZeroShotClassifier) -> dict[str, Any]:
        """What `/api/map` answers, but for the revision."""
        seen = dict(zip(map(str, model.classes_.tolist()), (model.seen_code_ >= 0).tolist(), strict=True))
        models = self._spaces(model)
        with self._lock:  # whoever asks at the same time waits for the one layout
            laid_out = {name: self._laid_out(name, one) for name, one in models.items()}
        places = {name: land.place_classes(models[name], self.features) for name, land in laid_out.items()}
        last = list(models)[-1]
        answers = model.predict(self.features).tolist()
        trained = self.samples.in_training(model)
        samples = [
            {
                "id": place,
                "class": self.samples.labels[place],
                "seen": seen.get(self.samples.labels[place], False),
                "known": self.samples.labels[place] in seen,
                "in_training": trained[place],
                "answer": str(answers[row]),
                "picture": f"/api/samples/{place}.png" if self.samples.has_pictures else None,
                "at": {name: _rounded(land.places[row]) for name, land in laid_out.items()},
            }
            for row, place in enumerate(self.chosen)
        ]
        classes = [
            {
                "class": label,
                "seen": had_samples,
                "taught": places[last][label][1],
                "at": {name: _rounded(at[label][0]) if label in at else None for name, at in places.items()},
            }
            for label, had_samples in seen.items()
        ]
        spaces = [{"name": name, "title": SPACES[name][0], "note": SPACES[name][1]} for name in models]
        return {"spaces": spaces, "samples": samples, "classes": classes}

    def _spaces(self, model: ZeroShotClassifier) -> dict[str, ZeroShotClassifier]:
        if self.before is not None and isinstance(model, TransductiveClassifier):
            return {"before": self.before, "after": model}
        return {"space" if isinstance(model, HasSpace) else "features": model}

    def _laid_out(self, name: str, model: ZeroShotClassifier) -> Landscape:
        """The layout of the model's space; laid out anew where another model has taken its place."""
        points = model.embed(self.features) if isinstance(model, HasSpace) else self.features
        key = hashlib.sha256(np.ascontiguousarray(points).tobytes()).digest()
        if name not in self._known or self._known[name][0] != key:
            self._known[name] = key, Landscape.of(model, self.features)
        return self._known[name][1]


def _scaled(points: np.ndarray, by: np.ndarray) -> np.ndarray:
    """About −1…1, as the samples are."""
    middle = (by.max(axis=0) + by.min(axis=0)) / 2
    reach = max(float((by.max(axis=0) - by.min(axis=0)).max()) / 2, 1e-9)
    scaled: np.ndarray = (points - middle) / reach
    return scaled


def _rounded(point: np.ndarray) -> list[float]:
    return [round(float(value), 4) for value in point]


# How often the served model is right on the samples beside it: figures, classes, and the seen–unseen trade-off.
#
# Samples that the model was trained on with their labels say nothing about new ones: they are counted apart.

POINTS = 200  # of the curve


def measure(own: Recognizer, samples: SamplePictures, trained: Sequence[InTraining | None]) -> dict[str, Any]:
    """What `/api/measure` answers; metrics are fractions, None where there are no samples to tell.

    `trained` says of each sample whether the model was trained on it.
    """
    model = own.model
    classes = {str(name): name for name in model.classes_.tolist()}
    seen, unseen = model.seen_classes_.tolist(), model.unseen_classes_.tolist()
    labels, status = np.array(samples.labels), np.array(trained, dtype=object)
    known, of_seen = np.isin(labels, list(classes)), np.isin(labels, [str(name) for name in seen])

    def labelled_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return samples.features[rows], np.array([classes[name] for name in labels[rows].tolist()])

    counted, labelled = known & (status != "labelled"), known & (status == "labelled")
    parts = {side: labelled_rows(rows) for side in (True, False) if (rows := counted & (of_seen == side)).any()}
    task = score_samples(model, parts.values(), seen, unseen) if parts else None
    # Separately from all classes: scores of some methods depend on the other candidates.
    apart = {side: score_samples(model, [parts[side]], *((seen, ()) if side else ((), unseen))) for side in parts}
    right = score_samples(model, [labelled_rows(labelled)], seen, unseen).right if labelled.any() else 0
    curve = task.curve if task is not None and len(parts) == 2 else None
    return {
        "samples": int(counted.sum()),
        "training": {
            **{part: int((known & (status == part)).sum()) for part in ("no", "unlabelled", "labelled")},
            "unknown": int((known & (status == None)).sum()),  # noqa: E711
            "labelled_right": right,
            "recognised_by": recognised_by(model),
        },
        "figures": {
            "t1": apart[False].t1 if False in apart else None,
            **dict.fromkeys(("ts", "tr", "h"), None),
            **({} if task is None else task.metrics("gzsl")),
            "ausuc": None if curve is None else curve.area,
        },
        "per_class": [row for side in parts if task is not None for row in _rows(task, apart[side], side)],
        "trade_off": None if curve is None else _points(curve, _suggested(own)),
        "expected": None if _calibration(own) is None else dict(_calibration(own).estimate),
    }


def _rows(task: TaskScores, apart: TaskScores, seen: bool) -> list[dict[str, Any]]:
    """Accuracy of each seen (or unseen) class among all classes and among its own kind, and its first confusion."""
    taken_for = {true: wrong for true, wrong, _ in reversed(task.confusions(most=None))}
    among_own, counts = apart.per_class("tr" if seen else "t1"), Counter(apart.labels.tolist())
    return [
        {
            "class": str(name),
            "seen": seen,
            "rows": counts[name],
            "accuracy": accuracy,
            "among_own": among_own[name],
            "taken_for": str(taken_for[name]) if name in taken_for else None,
        }
        for name, accuracy in task.per_class("tr" if seen else "ts").items()
    ]


def _points(curve: TradeOff, suggested: float | None) -> dict[str, Any]:
    """The curve at constants from every part of it, zero and the calibration's own among them."""
    spread = np.quantile(curve.constants, np.linspace(0, 1, POINTS - 2), method="nearest")
    constants = np.unique(np.r_[spread, 0.0, [] if suggested is None else suggested])
    both = [curve.at(float(constant)) for constant in constants]
    return {
        "constants": [float(constant) for constant in constants],
        "ts": [ts for ts, _ in both],
        "tr": [tr for _, tr in both],
        "h": [harmonic_mean(ts, tr) for ts, tr in both],
        "now": int(np.searchsorted(constants, 0.0)),
        "suggested": None if suggested is None else int(np.searchsorted(constants, suggested)),
    }


def _suggested(own: Recognizer) -> float | None:
    calibration = _calibration(own)
    return None if calibration is None else float(calibration.seen_shift * calibration.spread)


def _calibration(own: Recognizer) -> Any:
    return getattr(own.model, "calibration_", None)
