"""The map: samples and descriptions of a model's space in the plane, where a class that is taught finds its place."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from firstsight.evaluation.laying_out import lay_out
from firstsight.methods import TransductiveClassifier, ZeroShotClassifier
from firstsight.serving.sample_pictures import SamplePictures

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
