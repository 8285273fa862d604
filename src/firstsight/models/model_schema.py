"""`model.json`: its one schema, how it is read and written, and its documentation."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from pydantic_core import from_json

from firstsight.calibration.confidence import Scale
from firstsight.calibration.familiarity import KnownDistances
from firstsight.errors import BadInput, UnreadableFile
from firstsight.models.pipeline_steps import Steps
from firstsight.models.provenance import Provenance
from firstsight.schemas import Schema, markdown, reason

# 1: `facts` of any kind, attribute names among them, no digest. 2: `provenance`, `digest`.
FORMAT = 2


class CalibrationNumbers(Schema):
    """A calibration without its arrays."""

    scales: dict[str, Scale] = Field(description='how scores become confidence: "unseen", "seen", "all", "shifted"')
    estimate: dict[str, float] = Field(description="accuracies to expect of new classes, as fractions: t1, ts, tr, h")
    spread: float = Field(description="σ: the unit of the scores")
    seen_shift: float = Field(description="what --shift-seen takes off seen classes, in units of σ")
    n_folds: int = Field(default=0, description="how many times classes were held out")
    held_out_classes: int = Field(default=0, description="of each fold")
    training_classes: int = Field(default=0, description="of each fold")
    familiarity: KnownDistances | None = Field(default=None, description="how far a row may be from training rows")


class ModelFile(Schema):
    """What `model.json` says."""

    format: int = Field(ge=1, description="the format's number; a later firstsight reads an earlier format")
    firstsight: str = Field(description="the version that wrote it")
    versions: dict[str, str] = Field(
        default_factory=dict, description="of python, numpy and, where it is installed, torch"
    )
    method: str = Field(description="the class of the estimator")
    parameters: dict[str, Any] = Field(description="what the estimator was made with")
    values: dict[str, Any] = Field(description="its fitted attributes other than arrays, `classes_` among them")
    provenance: Provenance = Field(default_factory=lambda: Provenance(), description="where the model comes from")
    calibration: CalibrationNumbers | None = Field(default=None, description="what turns scores into confidence")
    pipeline: Steps | None = Field(default=None, description="what stands before the method, of a saved pipeline")
    arrays_sha256: str = Field(description="of arrays.safetensors")
    digest: str | None = Field(default=None, description="SHA-256 of everything else in this file")


def write_model_file(content: ModelFile) -> str:
    """The file's text, with its digest."""
    about = content.model_copy(update={"digest": None}).as_json()
    about.pop("digest", None)
    return json.dumps({**about, "digest": digest_of(about)}, indent=1, ensure_ascii=False)


def read_model_file(data: bytes, folder: Path) -> ModelFile:
    """The checked content of a `model.json`; whatever is wrong with it is one sentence."""
    try:
        about = from_json(data)  # rejects deep nesting, at the same depth on every version of Python
        if not isinstance(about, dict):
            raise ValueError("it must be an object, but is a " + type(about).__name__)
        form = about.get("format")
        if isinstance(form, int) and form > FORMAT:
            raise BadInput(
                f"{folder} was written by firstsight {str(about.get('firstsight'))[:20]}, which is newer than this "
                "one; upgrade to read it."
            )
        if (form != 1 or "digest" in about) and about.get("digest") != digest_of(about):
            raise ValueError("its content does not match its digest: it was changed by hand or damaged")
        return ModelFile.model_validate(_from_first_format(about) if form == 1 else about)
    except BadInput:
        raise
    except ValidationError as error:
        why = reason(error)
    except (ValueError, TypeError, AttributeError) as error:
        why = str(error).splitlines()[0]
    raise UnreadableFile(f"{folder} cannot be read as a model (model.json: {why}); restore it or fit the model again.")


def digest_of(about: dict[str, Any]) -> str:
    """SHA-256 of everything but the digest itself, whatever the spaces and the order of the keys."""
    rest = {key: value for key, value in about.items() if key != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def model_file_documentation() -> str:
    """The schema as a table in Markdown; docs/serving.md shows it."""
    return markdown(ModelFile)


def _from_first_format(about: dict[str, Any]) -> dict[str, Any]:
    facts = dict(about.get("facts") or {})
    names = facts.pop("attributes", None)
    values = dict(about["values"]) if isinstance(about.get("values"), dict) else about.get("values")
    if names and isinstance(values, dict):
        values.setdefault("attribute_names_in_", [str(name) for name in names])
    kept = {key: value for key, value in about.items() if key != "facts"}
    return {**kept, "values": values, "provenance": Provenance.from_old(facts)}
