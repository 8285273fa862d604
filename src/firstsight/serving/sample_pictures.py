"""Labelled samples beside the model: pictures to try, dots on the map, rows to measure on."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.data.feature_files import FeatureFile, read_feature_file
from firstsight.encoders.decoding import decode_picture, quiet_pillow
from firstsight.encoders.embedding import embed
from firstsight.encoders.pictures import read_content
from firstsight.errors import BadInput
from firstsight.methods import ZeroShotClassifier
from firstsight.recognition.inputs import features_for, is_feature_file
from firstsight.recognition.recognizer import Recognizer
from firstsight.recognition.training_samples import InTraining, in_training

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
