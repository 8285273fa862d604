"""The model of `serve --demo`: accented letters, learned in seconds and kept in the user's cache folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from firstsight._io.files import cache_folder
from firstsight._io.terminal import say
from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.data.array_files import read_arrays, write_arrays
from firstsight.encoders.letters import VERSION, LetterBackbone
from firstsight.errors import FirstsightError
from firstsight.methods import KernelPrototypes, TransductiveKernelPrototypes
from firstsight.persistence.model_folder import load_saved
from firstsight.persistence.model_schema import BackboneUsed
from firstsight.recognition import Recognizer, fit
from firstsight.serving.samples import SamplePictures

# Letters that the model is not told about, although there are pictures of them: something to teach.
TO_TEACH = 6
DRAWINGS = 2  # of the four per face: enough to learn from, in half of the time

MADE = 3  # raised when its models are made in another way: those that are kept are then made anew


@dataclass(frozen=True)
class Demo:
    """Where its models are (the one that answers; the one before it saw unlabelled letters), and its samples."""

    model: Path
    before: Path
    samples: SamplePictures


def letters_demo() -> Demo:
    """The demo, made where it is not there yet. What is taught to it stays until its folder is removed."""
    folder = cache_folder() / f"letters-demo-{MADE}-v{VERSION}"
    model, before, samples = folder / "model", folder / "before", folder / "samples.npz"
    try:
        load_saved(model), load_saved(before)
        return Demo(model, before, _read(samples))
    except (FirstsightError, KeyError):  # not there, or of another version: made anew
        pass
    say("Learning letters, which takes half a minute the first time.")
    data = letters_data()
    inductive = fit(KernelPrototypes(search=False), data)
    answering = fit(TransductiveKernelPrototypes(search=False), data, confidence=True)
    for made, place in ((inductive, before), (answering, model)):
        _as_seen_by_letters(made).remove_classes(left_out(data)).save(place)
    rows = np.concatenate([data.test_seen, data.test_unseen])
    assert data.images is not None
    arrays = {"features": data.features[rows], "labels": data.names_of(rows), "images": data.images[rows]}
    write_arrays(samples, {name: np.asarray(array) for name, array in arrays.items()})
    return Demo(model, before, _read(samples))


def letters_data() -> ZeroShotDataset:
    """`glyphs` as the letters' backbone sees it, with some of its drawings."""
    whole = load_dataset("glyphs")
    assert whole.images is not None
    kept = np.arange(len(whole.images)) % 4 < DRAWINGS
    backbone = LetterBackbone()
    pixels = np.stack([backbone.prepare(Image.fromarray(picture)) for picture in whole.images[kept]])
    places = np.cumsum(kept) - 1
    parts = {name: places[rows[kept[rows]]] for name, rows in _parts(whole)}
    return replace(whole, features=backbone.run(pixels), labels=whole.labels[kept], images=whole.images[kept], **parts)


def left_out(data: ZeroShotDataset) -> list[str]:
    """Unseen letters that stay out of the class table, evenly from all of them."""
    unseen = data.unseen_classes
    return [unseen[place] for place in np.linspace(0, len(unseen) - 1, TO_TEACH).round().astype(int)]


def _parts(data: ZeroShotDataset) -> Iterator[tuple[str, np.ndarray]]:
    for name in ("train", "test_seen", "test_unseen"):
        yield name, getattr(data, name)


def _as_seen_by_letters(made: Recognizer) -> Recognizer:
    backbone = LetterBackbone()
    used = BackboneUsed(name=backbone.name, fingerprint=backbone.fingerprint, dim=backbone.dim)
    return Recognizer(made.model, made.provenance.model_copy(update={"backbone": used}))


def _read(path: Path) -> SamplePictures:
    arrays = read_arrays(path, ("features", "labels", "images"))
    return SamplePictures(arrays["features"], arrays["labels"].tolist(), list(arrays["images"]))
