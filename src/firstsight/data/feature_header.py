"""What a feature file says of the model that made its features: the schema of its `backbone`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Backbone(BaseModel):
    """A vision model by what it is, not by where it lies."""

    model_config = ConfigDict(strict=True, extra="allow")

    name: str = Field(description="what transformers calls it, or its folder's name")
    fingerprint: str = Field(description="digest of its weights and its preprocessing")
    dim: int = Field(ge=1, description="features per picture")
