"""Names and texts of classes, described by the text tower of the backbone; a model made of them without an image."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from firstsight import encoders
from firstsight._io.terminal import logger
from firstsight.data import read_descriptions
from firstsight.data.shared_space import in_shared_space, same_encoder, text_encoder_of
from firstsight.encoders.backbone import DEFAULT, LETTERS, Backbone
from firstsight.encoders.descriptions import TextEncoder, checked_prompts, describe, read_words
from firstsight.errors import BadInput
from firstsight.methods import Method, ZeroShotClassifier, find_method, make_estimator
from firstsight.persistence.model_folder import FormerChanges
from firstsight.persistence.model_schema import PictureCounts, Provenance
from firstsight.recognition.recognizer import Recognizer
from firstsight.recognition.relearning import check_samples_can_be_kept
from firstsight.recognition.scoring import remember_samples

Classes = pd.DataFrame | str | Path | Sequence[str]

NAMES_METHOD = "cosine"  # of a model without labelled images
EXAMPLE = "google/siglip-base-patch16-224"


def local_path(model: str | Path) -> dict[str, str]:
    """Where a local model is, so that predict finds it; its fingerprint tells if another one has replaced it."""
    return {"path": str(Path(model).resolve())} if Path(model).is_dir() else {}


def read_classes(
    classes: Classes | None, backbone: str | Path, prompt: str | Sequence[str] | None, device: str
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The descriptions of classes, and what is known of the text encoder that made them.

    Names and texts are described by the backbone's text tower; tables of numbers are descriptions already.
    """
    if classes is None:
        raise BadInput("`classes` is missing; give the names or descriptions of the classes to recognise.")
    words = read_words(classes)
    if words is None:
        if prompt:
            raise BadInput("--prompt is for bare names, but the classes are described by numbers; leave it out.")
        table = classes if isinstance(classes, pd.DataFrame) else read_descriptions(Path(str(classes)))
        name = text_encoder_of([str(column) for column in table.columns])
        return table, {} if name is None else {"text_encoder": {"name": name}}
    if not _has_text_tower(backbone):
        called = Path(backbone).name if Path(backbone).is_dir() else backbone
        raise BadInput(
            f"The classes are names or texts, but the backbone {called} has no text tower to describe them with. Give "
            f"a vision-language model such as {EXAMPLE} as the backbone, or turn them into descriptions first "
            "(`firstsight describe`)."
        )
    if (known := words.index.nunique()) < 2:
        raise BadInput(f"There are names of {known} class{'es' * (known == 0)}; expected at least 2 to tell apart.")
    encoder = TextEncoder(backbone, device=device)
    prompts = checked_prompts(prompt) or ([] if words.shape[1] else [encoder.prompt])
    facts = {"name": encoder.name, "fingerprint": encoder.fingerprint, "prompts": prompts}
    return describe(words, encoder=encoder, prompt=prompt), {"text_encoder": {**facts, **local_path(backbone)}}


def _has_text_tower(backbone: str | Path) -> bool:
    return str(backbone) not in (DEFAULT, LETTERS) and Backbone(backbone).has_text_tower


def check_text_encoder(
    method: Method | None, descriptions: pd.DataFrame, name: str | None, backbone: str | Path | None = None
) -> None:
    """Look, before the long part, whether images and descriptions come from two models although one could make both.

    That is an error for a method for shared spaces. Other methods learn how the two go together, and a warning says
    that the backbone has a text tower of its own.

    Parameters
    ----------
    method : str, class or estimator, optional
        What was asked for; left out, the default.
    descriptions : DataFrame
        Of the classes; its columns name the text encoder, if there was one.
    name : str or None
        The backbone's name, where it is known.
    backbone : str or Path, optional
        The backbone, if it is still to encode the images.
    """
    encoder = text_encoder_of([str(column) for column in descriptions.columns])
    if encoder is None or name is None or same_encoder(encoder, name):
        return
    chosen = find_method(method) if isinstance(method, str) else method
    advice = f"`firstsight describe CLASSES.csv --encoder {name if backbone is None else backbone}`"
    if chosen is not None and chosen.shared_space:
        called = method if isinstance(method, str) else getattr(chosen, "__name__", type(chosen).__name__)
        remedy = f"describe the classes with the backbone's own text encoder ({advice})"
        if backbone is not None and not _has_text_tower(backbone):
            remedy = f"give a vision-language model such as {EXAMPLE} as the backbone, and describe the classes with it"
        raise BadInput(
            f"{called} compares images with descriptions directly, but images are encoded by {name} and the "
            f"descriptions were made by {encoder}; {remedy}, or choose another method."
        )
    if backbone is not None and _has_text_tower(backbone):
        logger.warning(
            "the descriptions were made by %s, although the backbone %s has its own text encoder; described by that "
            "(%s), images and texts would be in one space.",
            encoder,
            name,
            advice,
        )


def check_no_images_needed(method: Method | None, **options: Any) -> None:
    """Raise if a method, or another option of `learn`, needs labelled images."""
    chosen = find_method(method) if isinstance(method, str) else method
    if chosen is not None and chosen.needs_samples:
        name = method if isinstance(method, str) else getattr(chosen, "__name__", type(chosen).__name__)
        raise BadInput(
            f"{name} learns from labelled images, and none were given; give a folder with one sub-folder of images per "
            f"class, or the method {NAMES_METHOD}, which needs none."
        )
    for option, given in options.items():
        if given is not None:
            raise BadInput(f"`{option}` needs labelled images, and none were given; add them, or leave it out.")


def learn_names(
    descriptions: pd.DataFrame,
    facts: Mapping[str, Any],
    method: Method | None,
    parameters: Mapping[str, Any] | None,
    encoding: Mapping[str, Any],
    former: FormerChanges | None = None,
) -> Recognizer:
    """Make a model without an image: the answers of a vision-language model, for these classes.

    `facts` are what `read_classes` knows of the text encoder, `encoding` the backbone and how it runs, `former` what
    is to be kept of the model that this one replaces.
    """
    began = time.perf_counter()
    estimator = make_estimator(method or NAMES_METHOD, parameters)
    if str(encoding["backbone"]) == DEFAULT:
        raise BadInput(
            f"Without labelled images, images are compared with words directly, which {DEFAULT} cannot do; give a "
            f"vision-language model such as {EXAMPLE} as the backbone."
        )
    encoder = encoders.ImageEncoder(**encoding)
    check_text_encoder(estimator, descriptions, encoder.backbone, encoding["backbone"])
    columns = [str(column) for column in descriptions.columns]
    if not in_shared_space(encoder.dim, len(columns), columns, encoder.backbone):
        raise BadInput(
            "Without labelled images, images are compared with descriptions directly, so both must come from one "
            f"vision-language model; the backbone {encoder.backbone} gives {encoder.dim} numbers per image, and the "
            f"descriptions have {len(columns)} ({columns[0]}, …). Give names or texts of classes and a backbone such "
            f"as {EXAMPLE}, or labelled images."
        )
    check_samples_can_be_kept(former, estimator, descriptions, encoder.facts)
    fit_without_samples(estimator, descriptions, encoder.dim)
    provenance = {
        **facts,
        "backbone": {**encoder.facts, **local_path(encoding["backbone"])},
        "pictures": PictureCounts(labelled=0),
        "parameters": estimator.resolved_parameters(),
        "seconds": round(time.perf_counter() - began, 2),
    }
    return Recognizer(estimator, Provenance.read(provenance), **encoding)


def fit_without_samples(estimator: ZeroShotClassifier, descriptions: pd.DataFrame, dim: int) -> None:
    """Fit a method that needs no samples; the model knows that training had no image."""
    table = descriptions.set_axis([str(name) for name in descriptions.index], axis=0)
    table.columns = table.columns.astype(str)
    none = np.empty((0, dim), dtype=np.float32)
    estimator.fit(none, np.array([], dtype=str), table)
    remember_samples(estimator, labelled=(none, np.empty(0, dtype=np.uint64)))
