"""The schema of `model.json`, with provenance, and the model card that is made from it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError
from pydantic_core import from_json

from firstsight._io.schemas import Schema, markdown, reason
from firstsight.errors import BadInput, UnreadableFile
from firstsight.evaluation.calibration import Scale, accuracy_interval
from firstsight.evaluation.novelty import KnownDistances

if TYPE_CHECKING:
    from firstsight.data import ZeroShotDataset
    from firstsight.methods import ZeroShotClassifier


class BackboneUsed(Schema):
    """The vision model that made the features."""

    name: str = Field(description="its name, or its folder's name")
    fingerprint: str = Field(description="changes with weights, architecture or preprocessing, not with the place")
    dim: int | None = Field(default=None, description="features per picture")
    path: str | None = Field(default=None, description="where it was, if it was a folder")


class TextEncoderUsed(Schema):
    """The text model that made the descriptions from names or texts."""

    name: str = Field(description="its name, or its folder's name")
    fingerprint: str | None = Field(default=None, description="changes with weights, architecture or tokenizer")
    prompts: list[str] = Field(default_factory=list, description="what names were put into, if they were names")
    path: str | None = Field(default=None, description="where it was, if it was a folder")


class PictureCounts(Schema):
    """How many pictures took which part."""

    labelled: int = Field(description="with a class, learned from")
    unlabelled: int = Field(default=0, description="without a class, learned from as well")
    held_out: int = Field(default=0, description="of unseen classes, kept to test on")
    skipped: int = Field(default=0, description="that could not be read")


class Provenance(Schema):
    """What is known of a model's making; whatever is not known is left out. Other keys may be added freely."""

    dataset: str | None = Field(default=None, description="the data set's name")
    split: str | None = Field(default=None, description="hash of classes, labels and parts")
    features: str | None = Field(
        default=None, description="fingerprint of features and descriptions (firstsight._io.identity)"
    )
    backbone: BackboneUsed | None = Field(default=None, description="the vision model, for a model of pictures")
    text_encoder: TextEncoderUsed | None = Field(
        default=None, description="the text model, for descriptions that were made of names or texts"
    )
    pictures: PictureCounts | None = Field(default=None, description="how many pictures took which part")
    seed: int | None = Field(default=None, description="what everything random followed from")
    parameters: dict[str, Any] = Field(default_factory=dict, description="the method's, presets resolved")
    tuned: dict[str, Any] | None = Field(default=None, description="parameters that were chosen on validation classes")
    seconds: float | None = Field(default=None, description="what the fit took")
    evaluation: dict[str, int | float] | None = Field(default=None, description="on rows that it was not trained on")

    @classmethod
    def of(cls, model: ZeroShotClassifier, dataset: ZeroShotDataset, **more: Any) -> Provenance:
        """The record of a model that was just fitted on `dataset`."""
        facts = {
            "dataset": dataset.name,
            "split": dataset.split_hash,
            "features": dataset.features_fingerprint,
            "parameters": model.resolved_parameters(),
        }
        return cls.read({**facts, **more})

    @classmethod
    def read(cls, facts: Mapping[str, Any] | Provenance | None) -> Provenance:
        """Validate facts; one of the wrong type raises `BadInput`."""
        if isinstance(facts, Provenance):
            return facts
        try:
            return cls.model_validate(dict(facts or {}))
        except ValidationError as error:
            raise BadInput(
                f"Where the model comes from cannot be written down ({reason(error)}); correct it."
            ) from error


NAMES_SHOWN = 30  # in a model card
FORMAT = 2  # changes whenever this version could not read what another has written


class Step(Schema):
    """One transformer of a pipeline."""

    name: str
    transformer: str
    parameters: dict[str, Any]
    values: dict[str, Any]


class PipelineSteps(Schema):
    """A pipeline without its arrays; `last` is the name of the method's step."""

    before: list[Step] = Field(description="the transformers, in order")
    last: str = Field(description="the name of the method's step")


class Part(Schema):
    """One of the fitted methods that a method consists of, without its arrays."""

    name: str
    method: str = Field(description="its class")
    parameters: dict[str, Any] = Field(description="what it was made with")
    values: dict[str, Any] = Field(description="its fitted attributes other than arrays")


class CalibrationNumbers(Schema):
    """A calibration without its arrays."""

    scales: dict[str, Scale] = Field(description='how scores become confidence: "unseen", "seen", "all", "shifted"')
    estimate: dict[str, float] = Field(description="accuracies to expect of new classes, as fractions: t1, ts, tr, h")
    spread: float = Field(description="σ: the unit of the scores")
    seen_shift: float = Field(description="what --shift-seen takes off seen classes, in units of σ")
    n_folds: int = Field(default=0, description="how many times classes were held out")
    held_out_classes: int = Field(default=0, description="of each fold")
    training_classes: int = Field(default=0, description="of each fold")
    novelty: KnownDistances | None = Field(default=None, description="how far a sample may be from training samples")


class ModelFile(Schema):
    """What `model.json` says."""

    format: int = Field(ge=FORMAT, description="the format's number; firstsight reads its own format only")
    firstsight: str = Field(description="the version that wrote it")
    versions: dict[str, str] = Field(
        default_factory=dict, description="of python, numpy and, where it is installed, torch"
    )
    method: str = Field(description="the class of the estimator")
    parameters: dict[str, Any] = Field(description="what the estimator was made with")
    values: dict[str, Any] = Field(description="its fitted attributes other than arrays, `classes_` among them")
    provenance: Provenance = Field(default_factory=lambda: Provenance(), description="where the model comes from")
    calibration: CalibrationNumbers | None = Field(default=None, description="what turns scores into confidence")
    pipeline: PipelineSteps | None = Field(
        default=None, description="what stands before the method, of a saved pipeline"
    )
    parts: list[Part] = Field(default_factory=list, description="the fitted methods that a blend consists of, in order")
    arrays_sha256: str = Field(description="of arrays.safetensors")
    digest: str | None = Field(default=None, description="SHA-256 of everything else in this file")


def write_model_file(file: ModelFile) -> str:
    """The text of `model.json`, with its digest."""
    content = file.as_json()
    content.pop("digest", None)
    return json.dumps({**content, "digest": digest_of(content)}, indent=1, ensure_ascii=False)


def read_model_file(data: bytes, folder: Path) -> ModelFile:
    """Validate the content of a `model.json`; whatever is wrong with it raises `UnreadableFile`."""
    try:
        content = from_json(data)  # rejects deep nesting, at the same depth on every version of Python
        if not isinstance(content, dict):
            raise ValueError("it must be an object, but is a " + type(content).__name__)
        version = content.get("format")
        if isinstance(version, int) and version > FORMAT:
            raise BadInput(
                f"{folder} was written by firstsight {str(content.get('firstsight'))[:20]}, which is newer than this "
                "one; upgrade to read it."
            )
        if content.get("digest") != digest_of(content):
            raise ValueError("its content does not match its digest: it was changed by hand or damaged")
        return ModelFile.model_validate(content)
    except BadInput:
        raise
    except ValidationError as error:
        why = reason(error)
    except (ValueError, TypeError, AttributeError) as error:
        why = str(error).splitlines()[0]
    raise UnreadableFile(f"{folder} cannot be read as a model (model.json: {why}); restore it or fit the model again.")


def digest_of(content: dict[str, Any]) -> str:
    """SHA-256 of everything but the digest itself, whatever the spaces and the order of the keys."""
    rest = {key: value for key, value in content.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def model_file_documentation() -> str:
    """The schema as a table in Markdown; docs/serving.md shows it."""
    return markdown(ModelFile)


# The model card


def model_card(model: ZeroShotClassifier, file: ModelFile) -> str:
    """What the model is, which classes it knows, how it was fitted, what to expect of it, and how to use it."""
    provenance = file.provenance
    samples, files = f"{model.n_features_in_} features per sample", "features.npz"
    if provenance.backbone is not None:
        name, files = escape(provenance.backbone.name), "pictures/"
        samples = f"pictures, by way of the {model.n_features_in_} features of the backbone {name}"
    return f"""# {escape(file.method)} model

A zero-shot classifier for {samples}. It also names classes that it had no labelled sample of, from \
descriptions of {model.descriptions_.shape[1]} numbers per class. \
Method: {escape(type(model).reference or type(model).__name__)}.

## Classes

{_class_list("with labelled samples (seen)", model.seen_classes_.tolist())}
{_class_list("known by their description alone (unseen)", model.unseen_classes_.tolist())}

## How it was made

{_origin(file, model)}

## What to expect

{_expectations(model, file)}

## How to use it

```sh
firstsight predict THIS_FOLDER {files} --top 5 --json answers.json
firstsight classes add THIS_FOLDER new.csv   # no retraining
```

```python
import firstsight

recognise = firstsight.Recognizer.load("THIS_FOLDER")
recognise.predict("{files}", top=5).to_frame()
```
"""


def escape(value: Any) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, one line."""
    text = " ".join(str(value).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]|~$]|(?<=:)//)", r"\\\1", text)


def _class_list(what: str, names: list[str]) -> str:
    if not names:
        return f"- none {what}"
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"- {len(names)} {what}: {', '.join(map(escape, names[:NAMES_SHOWN]))}{more}"


def _origin(file: ModelFile, model: ZeroShotClassifier) -> str:
    provenance = file.provenance
    backbone, text_encoder, pictures = provenance.backbone, provenance.text_encoder, provenance.pictures
    lines = {
        "data set": provenance.dataset,
        "hash of classes, labels and parts": provenance.split,
        "hash of the features": provenance.features,
        # Its path concerns one machine only.
        "backbone": backbone and _pairs(backbone.model_dump(exclude={"path"}, exclude_none=True)),
        "text encoder": text_encoder and _pairs(text_encoder.model_dump(exclude={"path"}, exclude_none=True)),
        "pictures": pictures and _pairs(pictures.model_dump()),
        "labelled samples added after training": len(getattr(model, "added_samples_", {}).get("codes", ())) or None,
        "seed": provenance.seed,
        "parameters": _pairs(provenance.parameters or file.parameters),
        "seconds": provenance.seconds,
        "versions": _pairs({"firstsight": file.firstsight, **file.versions}),
    }
    return "\n".join(f"- {name}: {escape(value)}" for name, value in lines.items() if value not in (None, ""))


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _expectations(model: ZeroShotClassifier, file: ModelFile) -> str:
    lines = []
    calibration = file.calibration
    if file.provenance.evaluation:
        lines.append(f"- evaluation on test rows: {escape(_pairs(file.provenance.evaluation))}")
    if calibration is None or "t1" not in calibration.estimate or not calibration.held_out_classes:
        lines.append(
            "- No estimate was made: how often it is right on unseen classes, and how sure it may be, is unknown."
        )
    else:
        estimate, unseen = calibration.estimate, calibration.scales.get("unseen")
        k = calibration.held_out_classes
        low, high = accuracy_interval(estimate["t1"], calibration.n_folds, k, calibration.training_classes)
        lines.append(
            f"- Measured on classes held out of training ({calibration.n_folds} times {k} classes, fitted on the "
            f"other {calibration.training_classes}): {_percent(estimate['t1'])} of their samples are named right "
            f"among these {k} (chance: {_percent(1 / k)}; 95 % interval: {_percent(low)} to {_percent(high)}), mean "
            "over classes."
        )
        if low <= 1 / k:
            lines.append("- With so few classes, that cannot be told from guessing: it says little about new classes.")
        if {"ts", "tr", "h"} <= estimate.keys():
            lines.append(
                f"- Among seen and unseen classes together: {_percent(estimate['ts'])} right for unseen, "
                f"{_percent(estimate['tr'])} for seen classes (harmonic mean {_percent(estimate['h'])})."
            )
        if unseen is not None and unseen.ece is not None:
            lines.append(
                f"- Confidence among unseen classes was off by {_percent(unseen.ece)} on average (expected "
                "calibration error, 15 bins, folds that took no part in the fit)."
            )
    added = len(getattr(model, "added_samples_", {"codes": ()})["codes"])
    if added and (calibration is not None or file.provenance.evaluation):
        lines.append(f"- This was measured before labelled samples were added to the model (now {added:,}).")
    lines.append(
        "- Limits: descriptions decide; classes with (nearly) the same description cannot be told apart, and samples "
        "from another source than the training samples may be named worse than this."
    )
    if type(model).extra_supervision:
        lines.append(f"- Extra supervision: {escape(type(model).extra_supervision)}.")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
