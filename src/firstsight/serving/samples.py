"""Labelled samples of a server: images to try and confirmed ones, the embedding map, measured accuracy, the demo."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from firstsight._io.files import cache_folder, csv_text, read_regular, write_atomically
from firstsight._io.folders import locked
from firstsight._io.terminal import say
from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.data.feature_files import FeatureFile, read_arrays, read_feature_file, write_arrays
from firstsight.encoders.backbone import LETTERS_VERSION, LetterBackbone
from firstsight.encoders.decoding import HEAD, Undecodable, decode_image, quiet_pillow, sniff
from firstsight.encoders.embedding import embed
from firstsight.encoders.image_folders import LABELS
from firstsight.encoders.images import read_content
from firstsight.errors import BadInput, CannotWrite, FirstsightError
from firstsight.evaluation.protocol import score_samples
from firstsight.evaluation.scores import TaskScores, TradeOff, harmonic_mean
from firstsight.evaluation.spaces import lay_out
from firstsight.methods import TransductiveClassifier, ZeroShotClassifier
from firstsight.persistence.model_folder import load_saved
from firstsight.persistence.model_schema import BackboneUsed
from firstsight.recognition import Recognizer
from firstsight.recognition.inputs import features_for, is_feature_file
from firstsight.recognition.scoring import InTraining, in_training, recognised_by
from firstsight.serving import wire_schema as wire

SIDE = 256  # pixels of the longer side of an image that is shown


@dataclass(frozen=True, eq=False)
class SampleImages:
    """Features (n, d) with their classes, their images where there are such, and the fingerprints of their files.

    The model may have been trained on some of them: `in_training` tells.
    """

    features: np.ndarray
    labels: list[str]
    images: Sequence[np.ndarray | Path] | None = None
    feature_names: Sequence[str] | None = None
    fingerprints: np.ndarray | None = None

    def in_training(self, model: ZeroShotClassifier) -> list[InTraining | None]:
        """Of each sample, whether the model was trained on it; None where that cannot be told."""
        return in_training(model, self.features, self.fingerprints) or [None] * len(self)

    def feature_file(self, number: int) -> FeatureFile:
        """One sample, to learn from."""
        if number >= len(self):
            raise wire.Refusal(404, "There is no sample of that number.")
        prints = None if self.fingerprints is None else self.fingerprints[[number]]
        return FeatureFile(self.features[[number]], [f"sample {number}"], fingerprints=prints)

    @property
    def has_images(self) -> bool:
        return self.images is not None

    def __len__(self) -> int:
        return len(self.labels)

    def choose(self, limit: int, seed: int = 0) -> list[int]:
        """Numbers of up to `limit` samples, about as many of each class, the same for the same seed."""
        order = np.random.default_rng(seed).permutation(len(self))
        turn: dict[str, int] = {}
        keys: list[tuple[int, int, int]] = []
        for number in order.tolist():
            label = self.labels[number]
            turn[label] = turn.get(label, -1) + 1
            keys.append((turn[label], len(keys), number))
        return sorted(number for _, _, number in sorted(keys)[:limit])

    def png(self, number: int) -> bytes:
        """One image, not larger than it is shown; OSError, ValueError or Undecodable if it is no longer one."""
        assert self.images is not None
        source = self.images[number]
        if isinstance(source, Path):
            with quiet_pillow:
                image = decode_image(read_content(source))
            image.thumbnail((SIDE, SIDE))
        else:
            image = Image.fromarray(source)
        file = io.BytesIO()
        image.save(file, "PNG")
        return file.getvalue()


def read_samples(source: str, recognizer: Recognizer) -> SampleImages:
    """A data set's test samples, a folder of images in sub-folders named like classes, or a file of their features."""
    path = Path(source)
    if path.is_dir() and not (path / "att_splits.mat").exists() and not (path / "samples.csv").exists():
        embedded = embed(path, backbone=recognizer.backbone.location)
        samples = _of_features(source, embedded, [path / name for name in embedded.names])
    elif path.suffix == ".npz" and is_feature_file(path):
        samples = _of_features(source, read_feature_file(path), None)
    else:
        samples = _of_dataset(load_dataset(source))
    features = features_for(recognizer.model, samples.features, samples.feature_names, f"The file of samples {source}")
    return replace(samples, features=features, feature_names=None)


def _of_dataset(data: ZeroShotDataset) -> SampleImages:
    """The test samples of a data set, with their images if it has them."""
    rows = np.concatenate([data.test_seen, data.test_unseen])
    images = None if data.images is None else [data.images[row] for row in rows]
    labels = [str(name) for name in data.names_of(rows)]
    return SampleImages(data.features[rows], labels, images, data.feature_names)


def _of_features(source: str, file: FeatureFile, images: list[Path] | None) -> SampleImages:
    if file.labels is None:
        raise BadInput(f"The samples in {source} have no classes; give pictures in sub-folders named like classes.")
    return SampleImages(file.features, list(file.labels), images, file.feature_names, file.fingerprints)


_SUFFIXES = {"JPEG": ".jpg", "TIFF": ".tif", "JPEG2000": ".jp2", "HEIF": ".heic"}


class ConfirmedImageStore:
    """A folder of images that people have confirmed, for the next `learn`; several processes may write to it.

    Images are named by their content, and `labels.csv` says what each shows: neither a file's nor a class's name of a
    request becomes a path.
    """

    def __init__(self, folder: str | Path, most: int = 1 << 30):
        self.folder, self.most = Path(folder), most
        self._lock = threading.Lock()  # of this process, as some disks have no file locks
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not (self.folder / LABELS).exists():
                write_atomically(self.folder / LABELS, "file,class\n")
        except (OSError, CannotWrite) as error:
            reason = getattr(error, "strerror", None) or error
            raise CannotWrite(f"Pictures cannot be kept in {self.folder} ({reason}); choose another --keep.") from error

    def keep(self, content: bytes, label: str) -> tuple[str, int]:
        """Write an image and its class to the disk; return its file's name, and how many there are.

        A later line about the same image counts. An incomplete last line was never acknowledged, and is removed.
        """
        try:
            with quiet_pillow:
                decode_image(content)
        except Undecodable as error:
            raise BadInput(f"The picture cannot be read ({error}); send JPEG, PNG or another picture.") from error
        kind = sniff(content[:HEAD]) or "PNG"
        name = hashlib.sha256(content).hexdigest()[:32] + _SUFFIXES.get(kind, f".{kind.lower()}")
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow([name, csv_text(label)])
        path, table = self.folder / name, self.folder / LABELS
        with self._lock, locked(self.folder):
            self._check_room(0 if path.exists() else len(content))
            try:
                lines = read_regular(table)
            except (OSError, BadInput) as error:
                raise CannotWrite(f"Could not write to {table} ({error}).") from error
            lines = lines[: lines.rfind(b"\n") + 1] + line.getvalue().encode()
            if not path.exists():
                write_atomically(path, content)
            write_atomically(table, lines)
        return name, len({row.split(b",", 1)[0] for row in lines.splitlines()[1:]})  # all but the header

    def _check_room(self, more: int) -> None:
        size = 0
        for entry in os.scandir(self.folder):
            with suppress(OSError):  # a file that another process was writing has another name since
                size += entry.stat(follow_symlinks=False).st_size
        if size + more > self.most:
            raise wire.FolderFull(
                f"{self.most / 2**20:.0f} MiB of pictures are kept, and there is no room for more; learn from them and "
                "move them away, or start the server with a larger --max-kept."
            )


# The map: samples and descriptions of a model's space in the plane, to which classes that are taught are added.

SAMPLES = 700  # on the map: t-SNE takes seconds for so many
STEPS = 500  # of t-SNE: on letters its loss is 3 % above that after 1,000, in half of the time
NEAREST = 5  # neighbours that say where a new class belongs
MAP_SPACES = {
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
class _Layout:
    """One space in the plane. Classes that existed when it was laid out have positions; later ones are added, and those
    that have moved in the space since, by a correction for example, get another one."""

    samples: np.ndarray  # (n, e), or features
    positions: np.ndarray  # (n, 2)
    classes: dict[str, np.ndarray]  # (2,) by name
    points: dict[str, np.ndarray] = field(default_factory=dict)  # (e,) by name: where in the space they were

    @classmethod
    def of(cls, model: ZeroShotClassifier, features: np.ndarray) -> _Layout:
        names = [str(name) for name in model.classes_.tolist()]
        if not isinstance(model, HasSpace):
            positions, _ = lay_out(features, None, 0, STEPS)
            return cls(features, _scaled(positions, positions), {})
        samples, classes = model.embed(features), model.embed_classes()
        positions, of_classes = lay_out(samples, classes, 0, STEPS)
        scaled = dict(zip(names, _scaled(of_classes, positions), strict=True))
        return cls(samples, _scaled(positions, positions), scaled, dict(zip(names, classes, strict=True)))

    def class_positions(self, model: ZeroShotClassifier, features: np.ndarray) -> dict[str, tuple[np.ndarray, bool]]:
        """Of every class that the model has now: its position, and whether it came after the layout."""
        names = [str(name) for name in model.classes_.tolist()]
        if not isinstance(model, HasSpace):
            scores = model.decision_function(features)
            margins = scores - scores.mean(axis=1, keepdims=True)
            best = np.argsort(-margins, axis=0, kind="stable")[:NEAREST]  # (5, C)
            self.classes = self.classes or {name: np.empty(2) for name in names}
            return {
                name: (self.positions[best[:, c]].mean(axis=0), name not in self.classes)
                for c, name in enumerate(names)
            }
        positions = {}
        for name, point in zip(names, model.embed_classes(), strict=True):
            before = self.points.get(name)
            stayed = before is not None and np.allclose(before, point, rtol=1e-4, atol=1e-6)
            positions[name] = (self.classes[name] if stayed else self._between(point), before is None)
        return positions

    def _between(self, point: np.ndarray) -> np.ndarray:
        """The mean position of the nearest samples, weighted by their nearness."""
        distance = np.linalg.norm(self.samples - point, axis=1)
        nearest = np.argsort(distance, kind="stable")[:NEAREST]
        weights = 1 / np.maximum(distance[nearest], 1e-9)
        position: np.ndarray = weights @ self.positions[nearest] / weights.sum()
        return position


class EmbeddingMap:
    """The map of a model next to that of the model before it, laid out for the first request."""

    def __init__(self, samples: SampleImages, before: ZeroShotClassifier | None = None):
        self.samples, self.before = samples, before
        self.chosen = samples.choose(SAMPLES)
        self.features = samples.features[self.chosen]
        self._layouts: dict[str, tuple[bytes, _Layout]] = {}
        self._lock = threading.Lock()

    def of(self, model: ZeroShotClassifier, revision: str) -> wire.Map:
        """The answer of `/api/map`."""
        seen = dict(zip(map(str, model.classes_.tolist()), (model.seen_code_ >= 0).tolist(), strict=True))
        models = self._spaces(model)
        with self._lock:  # simultaneous requests wait for one layout
            layouts = {name: self._layout(name, one_model) for name, one_model in models.items()}
        positions = {name: layout.class_positions(models[name], self.features) for name, layout in layouts.items()}
        last = positions[list(models)[-1]]
        answers, status = model.predict(self.features).tolist(), self.samples.in_training(model)
        samples = [
            wire.MapSample(
                id=number,
                label=(label := self.samples.labels[number]),
                seen=seen.get(label, False),
                known=label in seen,
                in_training=status[number],
                answer=str(answers[row]),
                picture=f"/api/samples/{number}.png" if self.samples.has_images else None,
                at={name: _rounded(layout.positions[row]) for name, layout in layouts.items()},
            )
            for row, number in enumerate(self.chosen)
        ]
        classes = [
            wire.MapClass(
                label=label,
                seen=is_seen,
                taught=last[label][1],
                at={name: _rounded(at[label][0]) if label in at else None for name, at in positions.items()},
            )
            for label, is_seen in seen.items()
        ]
        spaces = [wire.MapSpace(name=name, title=MAP_SPACES[name][0], note=MAP_SPACES[name][1]) for name in models]
        return wire.Map(revision=revision, spaces=spaces, samples=samples, classes=classes)

    def _spaces(self, model: ZeroShotClassifier) -> dict[str, ZeroShotClassifier]:
        if self.before is not None and isinstance(model, TransductiveClassifier):
            return {"before": self.before, "after": model}
        return {"space" if isinstance(model, HasSpace) else "features": model}

    def _layout(self, name: str, model: ZeroShotClassifier) -> _Layout:
        """The layout of the model's space; a new one where the points have changed."""
        points = model.embed(self.features) if isinstance(model, HasSpace) else self.features
        key = hashlib.sha256(np.ascontiguousarray(points).tobytes()).digest()
        if name not in self._layouts or self._layouts[name][0] != key:
            self._layouts[name] = key, _Layout.of(model, self.features)
        return self._layouts[name][1]


def _scaled(points: np.ndarray, by: np.ndarray) -> np.ndarray:
    """About −1…1, as the samples are."""
    middle = (by.max(axis=0) + by.min(axis=0)) / 2
    reach = max(float((by.max(axis=0) - by.min(axis=0)).max()) / 2, 1e-9)
    scaled: np.ndarray = (points - middle) / reach
    return scaled


def _rounded(point: np.ndarray) -> list[float]:
    return [round(float(value), 4) for value in point]


# Measured accuracy. Samples that the model was trained on with their labels say nothing about new ones: they are
# counted apart.

POINTS = 200  # of the curve


def measure(recognizer: Recognizer, samples: SampleImages, status: Sequence[InTraining | None]) -> wire.Measured:
    """The answer of `/api/measure`; metrics are fractions, None where there are no samples to tell.

    `status` says of each sample whether the model was trained on it.
    """
    model = recognizer.model
    classes = {str(name): name for name in model.classes_.tolist()}
    seen, unseen = model.seen_classes_.tolist(), model.unseen_classes_.tolist()
    labels, trained = np.array(samples.labels), np.array([part or "unknown" for part in status])
    known, of_seen = np.isin(labels, list(classes)), np.isin(labels, [str(name) for name in seen])

    def labelled_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return samples.features[rows], np.array([classes[name] for name in labels[rows].tolist()])

    counts = {part: int((known & (trained == part)).sum()) for part in ("no", "unlabelled", "unknown", "labelled")}
    counted, labelled = known & (trained != "labelled"), known & (trained == "labelled")
    parts = {side: labelled_rows(rows) for side in (True, False) if (rows := counted & (of_seen == side)).any()}
    task = score_samples(model, parts.values(), seen, unseen) if parts else None
    # Separately from all classes: scores of some methods depend on the other candidates.
    apart = {side: score_samples(model, [parts[side]], *((seen, ()) if side else ((), unseen))) for side in parts}
    right = score_samples(model, [labelled_rows(labelled)], seen, unseen).right if labelled.any() else 0
    curve = task.curve if task is not None and len(parts) == 2 else None
    calibration: Any = getattr(model, "calibration_", None)
    suggested = None if calibration is None else float(calibration.seen_shift * calibration.spread)
    return wire.Measured(
        samples=int(counted.sum()),
        training=wire.TrainingCounts(**counts, labelled_right=right, recognised_by=recognised_by(model)),
        figures={
            "t1": apart[False].t1 if False in apart else None,
            **dict.fromkeys(("ts", "tr", "h"), None),
            **({} if task is None else task.metrics("gzsl")),
            "ausuc": None if curve is None else curve.area,
        },
        per_class=[row for side in parts if task is not None for row in _class_accuracies(task, apart[side], side)],
        trade_off=None if curve is None else _points(curve, suggested),
        expected=None if calibration is None else dict(calibration.estimate),
        report=None,
    )


def _class_accuracies(task: TaskScores, apart: TaskScores, seen: bool) -> list[wire.ClassAccuracy]:
    """Accuracy of each seen (or unseen) class among all classes and among its own kind, and its first confusion."""
    taken_for = {true: wrong for true, wrong, _ in reversed(task.confusions(most=None))}
    among_own, counts = apart.per_class("tr" if seen else "t1"), Counter(apart.labels.tolist())
    return [
        wire.ClassAccuracy(
            label=str(name),
            seen=seen,
            rows=counts[name],
            accuracy=accuracy,
            among_own=among_own[name],
            taken_for=str(taken_for[name]) if name in taken_for else None,
        )
        for name, accuracy in task.per_class("tr" if seen else "ts").items()
    ]


def _points(curve: TradeOff, suggested: float | None) -> wire.TradeOffCurve:
    """The curve at constants from every part of it, zero and the constant of the calibration among them."""
    spread = np.quantile(curve.constants, np.linspace(0, 1, POINTS - 2), method="nearest")
    constants = np.unique(np.r_[spread, 0.0, [] if suggested is None else suggested])
    both = [curve.at(float(constant)) for constant in constants]
    return wire.TradeOffCurve(
        constants=constants.tolist(),
        ts=[ts for ts, _ in both],
        tr=[tr for _, tr in both],
        h=[harmonic_mean(ts, tr) for ts, tr in both],
        now=int(np.searchsorted(constants, 0.0)),
        suggested=None if suggested is None else int(np.searchsorted(constants, suggested)),
    )


# The model of `serve --demo`: accented letters, learned in seconds and kept in the user's cache folder.

TO_TEACH = 6  # letters without a description, although there are images of them: something to teach
DRAWINGS = 2  # of the four per face: enough to learn from, in half of the time
DEMO_VERSION = 3  # raised when its models change: cached ones are then replaced


@dataclass(frozen=True)
class Demo:
    """Where its models are (the one that answers; the one before it saw unlabelled letters), and its samples."""

    model: Path
    before: Path
    samples: SampleImages


def letters_demo() -> Demo:
    """The demo, fitted where it is not cached yet. Classes taught to it stay until its folder is removed."""
    folder = cache_folder() / f"letters-demo-{DEMO_VERSION}-v{LETTERS_VERSION}"
    model, before, samples = folder / "model", folder / "before", folder / "samples.npz"
    try:
        load_saved(model), load_saved(before)
        return Demo(model, before, _read_letters(samples))
    except (FirstsightError, KeyError):  # not there, or of another version
        pass
    from firstsight.methods import KernelPrototypes, TransductiveKernelPrototypes
    from firstsight.recognition import fit  # what fits models takes seconds to import

    say("Learning letters, which takes half a minute the first time.")
    data = letters_data()
    inductive = fit(KernelPrototypes(search=False), data)
    transductive = fit(TransductiveKernelPrototypes(search=False), data, confidence=True)
    backbone = LetterBackbone()
    used = BackboneUsed(name=backbone.name, fingerprint=backbone.fingerprint, dim=backbone.dim)
    for fitted, path in ((inductive, before), (transductive, model)):
        recognizer = Recognizer(fitted.model, fitted.provenance.model_copy(update={"backbone": used}))
        recognizer.remove_classes(classes_to_teach(data)).save(path)
    rows = np.concatenate([data.test_seen, data.test_unseen])
    assert data.images is not None
    arrays = {"features": data.features[rows], "labels": data.names_of(rows), "images": data.images[rows]}
    write_arrays(samples, {name: np.asarray(array) for name, array in arrays.items()})
    return Demo(model, before, _read_letters(samples))


def letters_data() -> ZeroShotDataset:
    """`glyphs` as the letters' backbone sees it, with some of its drawings."""
    whole = load_dataset("glyphs")
    assert whole.images is not None
    kept = np.arange(len(whole.images)) % 4 < DRAWINGS
    backbone = LetterBackbone()
    pixels = np.stack([backbone.prepare(Image.fromarray(image)) for image in whole.images[kept]])
    rows = np.cumsum(kept) - 1
    parts = {name: getattr(whole, name) for name in ("train", "test_seen", "test_unseen")}
    parts = {name: rows[part[kept[part]]] for name, part in parts.items()}
    return replace(whole, features=backbone.run(pixels), labels=whole.labels[kept], images=whole.images[kept], **parts)


def classes_to_teach(data: ZeroShotDataset) -> list[str]:
    """Unseen letters that stay out of the class table, evenly from all of them."""
    unseen = data.unseen_classes
    return [unseen[number] for number in np.linspace(0, len(unseen) - 1, TO_TEACH).round().astype(int)]


def _read_letters(path: Path) -> SampleImages:
    arrays = read_arrays(path, ("features", "labels", "images"))
    return SampleImages(arrays["features"], arrays["labels"].tolist(), list(arrays["images"]))
