"""The backbone of a model of pictures: found when the first picture comes, and refused if it is another one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from firstsight.errors import BadInput, FirstsightError
from firstsight.models import BackboneUsed
from firstsight.recognition.inputs import Show


class OwnBackbone:
    """Encodes pictures with the very backbone that a model was fitted with; one caller at a time."""

    def __init__(self, known: BackboneUsed | None, given: str | Path | None, n_features: int, **options: Any):
        self.known, self.given, self.n_features, self.options = known, given, n_features, options
        self._encoder: Any = None
        self._lock = threading.Lock()

    def __call__(
        self, pictures: Sequence[Any], progress: Show | None = None
    ) -> tuple[np.ndarray, np.ndarray, list[int], list[tuple[int, str]]]:
        """Features, fingerprints and positions of the images that can be read; positions of others with the reason."""
        encoder = self.encoder  # before a long walk, so that a wrong backbone is told at once
        with self._lock:
            encoded = encoder.encode(pictures, progress=progress)
        unread = sorted(set(range(len(pictures))) - set(encoded.rows))
        reasons = [why for _, why in encoded.skipped]
        return encoded.features, encoded.fingerprints, encoded.rows, list(zip(unread, reasons, strict=True))

    @property
    def encoder(self) -> Any:
        """The picture encoder, checked; made once."""
        with self._lock:
            if self._encoder is None:
                self._encoder = self._find()
            return self._encoder

    @property
    def place(self) -> str | Path:
        """Where it is: as told, or where it was when the model was made if it is still there; else its name."""
        if self.given is not None or self.known is None:
            return self.given or ""
        return self.known.path if self.known.path is not None and Path(self.known.path).is_dir() else self.known.name

    def check(self, what: str, name: Any, fingerprint: Any) -> None:
        """Refuse features or pictures that another backbone than the model's own has looked at."""
        if self.known is not None and fingerprint != self.known.fingerprint:
            here = f"{name} ({str(fingerprint)[:8]})"
            there = f"{self.known.name} ({self.known.fingerprint[:8]})"
            raise BadInput(
                f"{what} the backbone {here}, but the model was fitted with features of {there}; their numbers mean "
                "different things: use the same backbone."
            )

    def _find(self) -> Any:
        from firstsight import encoders

        if self.known is None:
            raise BadInput(
                f"The model was fitted on {self.n_features} features per row from a source that it does not know, not "
                "on pictures; give a file with features from the same source."
            )
        try:
            encoder = encoders.PictureEncoder(self.place, **self.options)
            fingerprint = encoder.fingerprint
        except FirstsightError as error:
            if self.given is not None:
                raise
            raise BadInput(
                f"The model needs its backbone {self.known.name!r}: say where it is with --backbone FOLDER. ({error})"
            ) from error
        self.check("This is", encoder.backbone, fingerprint)
        return encoder
