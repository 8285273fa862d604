"""Inputs to recognise: images in any form, folders of them, or feature rows; and the model's backbone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from firstsight._io.columns import fitted_order
from firstsight._io.terminal import counted, logger
from firstsight.data.feature_files import FeatureFile, read_feature_file
from firstsight.data.shared_space import same_encoder, text_encoder_of
from firstsight.encoders.image_folders import is_image, name_as_text, survey_images
from firstsight.errors import BadInput, FirstsightError
from firstsight.methods import ZeroShotClassifier
from firstsight.persistence.model_schema import BackboneUsed, Provenance

ShowProgress = Callable[[int, int], None]  # done, total
# Features (n, d), fingerprints (n,) and positions of the images that can be read; positions of others with the reason.
Encoded = tuple[np.ndarray, np.ndarray, list[int], list[tuple[int, str]]]
Label = Callable[[list[str | None]], list[Any]]  # classes of samples as their folder or file says → their labels
Encode = Callable[[Sequence[Any], "ShowProgress | None"], Encoded]  # images, by path or in memory


class ModelBackbone:
    """Encodes images with the very backbone that a model was fitted with; one caller at a time.

    It is looked for when the first image comes, and rejected if its fingerprint is another one.
    """

    def __init__(self, known: BackboneUsed | None, given: str | Path | None, n_features: int, **options: Any):
        self.known, self.given, self.n_features, self.options = known, given, n_features, options
        self._encoder: Any = None
        self._lock = threading.Lock()

    def __call__(self, images: Sequence[Any], progress: ShowProgress | None = None) -> Encoded:
        encoder = self.encoder  # a wrong backbone raises before the lock is taken
        with self._lock:
            encoded = encoder.encode(images, progress=progress)
        unread = sorted(set(range(len(images))) - set(encoded.rows))
        reasons = [reason for _, reason in encoded.skipped]
        return encoded.features, encoded.fingerprints, encoded.rows, list(zip(unread, reasons, strict=True))

    @property
    def encoder(self) -> Any:
        """The image encoder, checked; created once."""
        with self._lock:
            if self._encoder is None:
                self._encoder = self._load()
            return self._encoder

    @property
    def location(self) -> str | Path:
        """The given path, or where the backbone was when the model was fitted if it still exists; else its name."""
        if self.given is not None or self.known is None:
            return self.given or ""
        return self.known.path if self.known.path is not None and Path(self.known.path).is_dir() else self.known.name

    def check(self, what: str, name: Any, fingerprint: Any) -> None:
        """Reject features of another backbone than that of the model."""
        if self.known is not None and fingerprint != self.known.fingerprint:
            raise BadInput(
                f"{what} the backbone {name} ({str(fingerprint)[:8]}), but the model was fitted with features of "
                f"{self.known.name} ({self.known.fingerprint[:8]}); their numbers mean different things: use the same "
                "backbone."
            )

    def _load(self) -> Any:
        from firstsight import encoders

        if self.known is None:
            raise BadInput(
                f"The model was fitted on {self.n_features} features per row from a source that it does not know, not "
                "on pictures; give a file with features from the same source."
            )
        try:
            encoder = encoders.ImageEncoder(self.location, **self.options)
            fingerprint = encoder.fingerprint
        except FirstsightError as error:
            if self.given is not None:
                raise
            raise BadInput(
                f"The model needs its backbone {self.known.name!r}: say where it is with --backbone FOLDER. ({error})"
            ) from error
        self.check("This is", encoder.backbone, fingerprint)
        return encoder


class ModelTextEncoder:
    """Describes classes by names or sentences, with the very text encoder that described a model's classes.

    It is loaded when the first text comes, and rejected if its fingerprint is another one. False for a model whose
    classes were described otherwise.
    """

    def __init__(self, model: ZeroShotClassifier, provenance: Provenance, given: str | Path | None = None):
        self.columns = [str(name) for name in getattr(model, "attribute_names_in_", [])]
        self.name = text_encoder_of(self.columns)
        self.known, self.backbone, self.given = provenance.text_encoder, provenance.backbone, given
        self._encoder: Any = None
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return self.name is not None

    def describe(self, table: pd.DataFrame) -> pd.DataFrame:
        """The descriptions of a table of names, or of texts, as the model's classes have them."""
        from firstsight.encoders.descriptions import describe

        if not self:
            raise BadInput("The classes of this model were described by attributes; give attributes, not words.")
        prompt = self.known.prompts or None if self.known is not None and table.shape[1] == 0 else None
        with self._lock:  # loaded once, and threads may add classes at the same time
            if self._encoder is None:
                self._encoder = self._load()
            made = describe(table, encoder=self._encoder, prompt=prompt)
        verified = self.known is not None and self.known.fingerprint == self._encoder.fingerprint
        return made.set_axis(self.columns, axis=1) if verified else made  # a folder may have another name here

    @property
    def location(self) -> str | Path:
        """The given path, or where it was when the model was fitted if it still exists; else its name."""
        folders = [self.known and self.known.path, self.backbone and self._is_backbone() and self.backbone.path]
        return self.given or next((path for path in folders if path and Path(path).is_dir()), self.name or "")

    def _is_backbone(self) -> bool:
        return self.backbone is not None and self.name is not None and same_encoder(self.name, self.backbone.name)

    def _load(self) -> Any:
        from firstsight.encoders.descriptions import TextEncoder

        try:
            encoder = TextEncoder(self.location)
        except FirstsightError as error:
            if self.given is not None:
                raise
            raise BadInput(
                f"Words need the text encoder {self.name!r} that described the model's classes: say where it is with "
                f"--text-encoder FOLDER. ({error})"
            ) from error
        known = None if self.known is None else self.known.fingerprint
        if known is not None and encoder.fingerprint != known:
            raise BadInput(
                f"This is the text encoder {encoder.name} ({encoder.fingerprint[:8]}), but the model's classes were "
                f"described by {self.name} ({known[:8]}); their numbers mean different things: use the same one."
            )
        return encoder


@dataclass(frozen=True)
class InputSamples:
    """Features (n, d), names of the samples, and their classes where these are known."""

    features: np.ndarray
    names: list[str | int]
    truth: list[str | None] | None = None
    skipped: list[tuple[str, str]] = field(default_factory=list)
    key: str = "row"  # what a name is: "row" or "file"
    images: list[Any] = field(default_factory=list)  # paths, or images in memory
    fingerprints: np.ndarray | None = None  # (n,) of the image files' content; 0 for an image in memory


def is_feature_file(given: Any) -> bool:
    """Whether the input is a file of features, by its name; anything else on a disk is images."""
    if not isinstance(given, (str, Path)):
        return False
    path = Path(given)
    if not path.suffix and not path.exists():  # the commonest slip: a folder's name, mistyped
        return False
    return not path.is_dir() and not is_image(path)


def is_features(given: Any) -> bool:
    """Whether a table or an array holds rows of features; images are uint8."""
    return isinstance(given, pd.DataFrame) or (isinstance(given, np.ndarray) and given.dtype != np.uint8)


def _is_row(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and bool(given) and all(isinstance(n, (int, float)) for n in given)


def as_list(given: Any) -> list[Any]:
    """One input or several, as a list; lists of numbers are rows of features, which are one input."""
    if not isinstance(given, (list, tuple)):
        return [given]
    if _is_row(given) or (given and all(map(_is_row, given)) and len(set(map(len, given))) == 1):
        return [np.asarray(given, dtype=np.float32)]
    return list(given)


def read_feature_rows(given: Any, model: ZeroShotClassifier, check: Callable[[FeatureFile, str], None]) -> InputSamples:
    """Samples of a feature file, a `FeatureFile`, a DataFrame or an array, their features in the model's order.

    `check(file, its name)` compares the backbone that made them.
    """
    if isinstance(given, pd.DataFrame):
        return InputSamples(model.check_features(given), list(range(len(given))))
    if isinstance(given, np.ndarray):
        X = given[None] if given.ndim == 1 else given
        if X.ndim != 2:
            raise BadInput(f"Features must be rows (n, d) of numbers, but have the shape {given.shape}.")
        return InputSamples(features_for(model, X, None, "The array"), list(range(len(X))))
    if isinstance(given, FeatureFile):
        file, names, what = given, list[str | int](given.names), "The feature file"
        check(file, "The features")
    else:
        file, what = read_feature_file(given), str(given)
        check(file, f"The features in {what}")
        numbered = file.names == [str(number) for number in range(len(file.names))]
        names = list(range(len(file.names))) if numbered else list(file.names)
    features = features_for(model, file.features, file.feature_names, what)
    truth: list[str | None] | None = None if file.labels is None else list(file.labels)
    return InputSamples(features, names, truth, list(file.skipped), fingerprints=file.fingerprints)


def features_for(model: ZeroShotClassifier, features: np.ndarray, names: Sequence[str] | None, what: str) -> np.ndarray:
    """Features (n, d) in the order that the model was fitted with: matched by name where both have names."""
    fitted = getattr(model, "feature_names_in_", None)
    if names is not None and fitted is not None:
        order = fitted_order(names, fitted.tolist(), what)
        return features if order is None else np.ascontiguousarray(features[:, order])
    if features.shape[1] != model.n_features_in_:
        raise BadInput(
            f"{what} has {features.shape[1]} features per row; the model was fitted with {model.n_features_in_}: use "
            "features from the same source."
        )
    if names is not None and list(names) != [str(number) for number in range(len(names))]:
        logger.warning("The model has no names of features, so the columns of %s are taken by position.", what)
    return features


def read_images(
    given: Iterable[Any], encode: Encode, progress: ShowProgress | None = None, label: Label | None = None
) -> InputSamples:
    """Features of images: files, folders (whose sub-folders are classes), PIL images and uint8 arrays.

    `label` decides the class of each before the images are encoded, and may reject them.
    """
    images: list[Any] = []
    names: list[str | int] = []
    truth: list[Any] = []
    for item in given:
        if isinstance(item, (str, Path)):
            survey = survey_images(item)
            for remark in survey.remarks():
                logger.warning("%s", remark)
            images += survey.paths
            names += [name_as_text(path) for path in survey.paths]
            truth += survey.classes if survey.classes is not None else [None] * len(survey.paths)
        else:
            names.append(getattr(item, "filename", "") or f"picture {len(images) + 1}")
            truth.append(None)
            images.append(item)
    truth = truth if label is None else label(truth)
    features, fingerprints, rows, unread = encode(images, progress)
    skipped = [(str(names[row]), reason) for row, reason in unread]
    if not rows:
        name, reason = skipped[0] if skipped else ("", "none was given")
        raise BadInput(f"0 of {counted(len(images), 'picture')} could be read (for {name}: {reason}); check them.")
    known = [truth[row] for row in rows]
    return InputSamples(
        features,
        names=[names[row] for row in rows],
        truth=known if any(known) else None,
        skipped=skipped,
        key="file",
        images=[images[row] for row in rows],
        fingerprints=fingerprints,
    )
