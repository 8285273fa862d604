"""Schemas of requests and answers over HTTP, which the OpenAPI document shows; errors and their JSON."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from starlette.responses import JSONResponse

from firstsight._io.schemas import ApiSchema
from firstsight.errors import BadInput
from firstsight.recognition import Answer, PredictOptions
from firstsight.recognition.answers import IN_TRAINING
from firstsight.recognition.explain import ClassLabel
from firstsight.recognition.scoring import InTraining

LONGEST_NAME = 200
TOP = 50  # classes that are ranked at most
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, description="a class's name, as text")]
Number = Annotated[float, Field(allow_inf_nan=False)]

_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode  # created once, not for every answer


class Json(JSONResponse):
    """JSON in ASCII: a name may hold half a character (a lone surrogate), which UTF-8 has no bytes for."""

    def render(self, content: Any) -> bytes:
        return _encode(content).encode()


class Refusal(Exception):
    """A request that goes no further: a status and a sentence."""

    def __init__(self, status: int, sentence: str, **headers: str):
        super().__init__(sentence)
        self.status, self.sentence = status, sentence
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class TooBusy(Exception):
    """More images wait than there is room for."""


class ClassExists(BadInput):
    """The model has a class of this name."""


class FolderFull(BadInput):
    """No more images are kept."""


class Wire(ApiSchema):
    """Base of all: unknown fields are rejected, and numbers are finite."""

    model_config = ConfigDict(allow_inf_nan=False)


class Problem(Wire):
    """What went wrong, for a person."""

    error: str = Field(description="one sentence")


class PredictQuery(PredictOptions):
    """How images are to be recognised: the options of `Recognizer.predict`, with explanations unless `why` is false."""

    top: int = Field(default=5, ge=1, le=TOP, description="how many classes to rank")
    classes: Literal["all", "seen", "unseen"] = Field(default="all", description="the candidates")
    why: bool = Field(default=True, description="explain each answer by the attributes")


class Predictions(Wire):
    revision: str
    answers: list[Answer]


class ClassEntry(Wire):
    label: ClassLabel
    seen: bool


class Classes(Wire):
    revision: str
    classes: list[ClassEntry]


class Description(ClassEntry):
    attributes: dict[str, float]


class NewClass(Wire):
    """A class to add: its attributes, or a sentence where a text encoder described the classes."""

    name: Name
    attributes: dict[str, Number] = Field(default={}, max_length=20_000)
    like: Name | None = Field(default=None, description="the class whose attributes count where none are given")
    rest: Number | None = Field(default=None, description="the value of every attribute that is not given")
    text: Annotated[str, Field(min_length=1, max_length=2000)] | None = Field(default=None, description="a sentence")
    replace: bool = Field(default=False, description="change the class if it exists")


class Names(Wire):
    names: list[Name] = Field(min_length=1, max_length=1000)


class Described(Wire):
    """A class with its numbers in the order of the model's attributes."""

    label: Name = Field(validation_alias="class", serialization_alias="class")
    description: list[Number] = Field(min_length=1, max_length=20_000)


class Undo(Wire):
    """What takes a change back: classes to remove, classes to describe as they were."""

    remove: list[Name] = Field(default=[], max_length=1000)
    restore: list[Described] = Field(default=[], max_length=1000)


class Done(ClassEntry):
    what: Literal["added", "changed", "removed"]


class Changed(Wire):
    revision: str
    classes: int = Field(description="how many the model has now")
    done: list[Done]
    undo: Undo = Field(description="post it to /api/classes/undo to take the change back")
    durable: bool = Field(description="whether it is on the disk")


class Change(Wire):
    """A correction, by the name that its answer has."""

    change: str = Field(min_length=1, max_length=100)


class Corrected(Wire):
    revision: str
    label: str | None = Field(
        validation_alias="class",
        serialization_alias="class",
        description="what the sample counts as from now on; null: it counts no more",
    )
    before: str | None = Field(description="what it counted as before, if a correction had said so")
    added: int = Field(description="labelled samples that the model has got since its training")
    undo: Change | None = Field(
        description="post it to /api/corrections/undo to take the correction back; null if nothing has changed"
    )
    durable: bool = Field(description="whether it is on the disk")


class Kept(Wire):
    kept: str = Field(description="the file's name, which is made from its content")
    label: ClassLabel
    pictures: int = Field(description="how many are kept in all")


class Features(Wire):
    file: str
    features: list[float] | None
    error: str | None = None


class Embedded(Wire):
    dim: int
    rows: list[Features]


class Attribute(Wire):
    name: str
    group: str
    label: str
    low: float
    high: float
    binary: bool


class Abilities(Wire):
    draw: bool
    teach: bool
    correct: bool
    sentence: bool
    keep: bool
    samples: bool
    map: bool
    measure: bool
    report: bool
    pictures: bool
    durable: bool


class RequestLimits(Wire):
    pictures: int
    upload_bytes: int
    request_bytes: int
    top: int
    name: int


class ModelFacts(Wire):
    firstsight: str
    method: str
    name: str
    demo: bool
    classes: int
    seen: int
    unseen: int
    calibrated: bool
    revision: str = Field(description="changes with the classes, whoever changes them")
    expected: dict[str, float] | None = Field(description="accuracies to expect of new classes, as fractions")
    attributes: list[Attribute]
    can: Abilities
    limits: RequestLimits


class Sample(ClassEntry):
    id: int
    known: bool = Field(description="false: the model has no description of this class")
    in_training: InTraining | None = Field(description=IN_TRAINING)
    url: str


class Samples(Wire):
    samples: list[Sample]


Positions = dict[str, list[float] | None]  # x and y by the space's name


class MapSpace(Wire):
    name: str
    title: str
    note: str


class MapSample(ClassEntry):
    id: int
    known: bool
    in_training: InTraining | None = Field(description=IN_TRAINING)
    answer: str = Field(description="what the model takes it for")
    picture: str | None
    at: Positions


class MapClass(ClassEntry):
    taught: bool = Field(description="added after the map was laid out")
    at: Positions


class Map(Wire):
    revision: str
    spaces: list[MapSpace]
    samples: list[MapSample]
    classes: list[MapClass]


class ClassAccuracy(ClassEntry):
    rows: int
    accuracy: float = Field(description="all classes to choose from")
    among_own: float = Field(description="only unseen, or only seen ones, to choose from")
    taken_for: str | None


class TradeOffCurve(Wire):
    constants: list[float] = Field(description="taken off the scores of seen classes")
    ts: list[float]
    tr: list[float]
    h: list[float]
    now: int = Field(description="the index of the constant 0")
    suggested: int | None = Field(description="the index of the calibration's constant")


class TrainingCounts(Wire):
    """How many of the samples training had; those with their label are not measured on."""

    no: int
    unlabelled: int = Field(description="in the pool of a transductive method")
    unknown: int = Field(description="of which it cannot be told")
    labelled: int
    labelled_right: int = Field(description="of the labelled ones, named right; says nothing about new images")
    recognised_by: Literal["content", "features"] | None = Field(
        description="identical file content, or identical feature values"
    )


class Measured(Wire):
    samples: int = Field(description="that were measured on: all but the labelled training samples")
    training: TrainingCounts
    figures: dict[str, float | None]
    per_class: list[ClassAccuracy]
    trade_off: TradeOffCurve | None
    expected: dict[str, float] | None
    report: str | None


class ReportState(Wire):
    state: Literal["making", "ready", "failed"]
    url: str
    error: str | None


class Health(Wire):
    status: Literal["ok"] = "ok"


class Readiness(Wire):
    ready: bool
    error: str | None = None
