"""Where a model comes from: data, pictures, parameters, seed. One typed record, made and read here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from firstsight.errors import BadInput
from firstsight.schemas import Schema, reason

if TYPE_CHECKING:
    from firstsight.data import ZeroShotDataset
    from firstsight.methods import ZeroShotClassifier


class BackboneUsed(Schema):
    """The vision model that made the features."""

    name: str = Field(description="its name, or its folder's name")
    fingerprint: str = Field(description="changes with weights, architecture or preprocessing, not with the place")
    dim: int | None = Field(default=None, description="features per picture")
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
        default=None, description="fingerprint of features and descriptions (firstsight.identity)"
    )
    backbone: BackboneUsed | None = Field(default=None, description="the vision model, for a model of pictures")
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
        """Facts as a record; a fact of the wrong type is one sentence."""
        if isinstance(facts, Provenance):
            return facts
        try:
            return cls.model_validate(dict(facts or {}))
        except ValidationError as error:
            raise BadInput(
                f"Where the model comes from cannot be written down ({reason(error)}); correct it."
            ) from error

    @classmethod
    def from_old(cls, facts: Mapping[str, Any]) -> Provenance:
        """Facts of a folder of the first format, which could be anything: what does not fit is kept as a note."""
        facts = dict(facts)
        try:
            return cls.model_validate(facts)
        except ValidationError as error:
            strange = {str(one["loc"][0]) for one in error.errors()}
            fitting = {key: value for key, value in facts.items() if key not in strange}
            return cls.model_validate({**fitting, "notes": {key: facts[key] for key in strange if key in facts}})
