"""What goes over the wire: the schemas of requests and answers, which the OpenAPI document shows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=200, description="a class's name, as text")]
TOP = 50  # classes that are ranked at most
Number = Annotated[float, Field(allow_inf_nan=False)]
InTraining = Literal["no", "labelled", "unlabelled"]
IN_TRAINING = "whether training had this very image, with or without its label; null where that cannot be told"


class Wire(BaseModel):
    """Base of all: what is not known here is refused, and numbers are finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, validate_by_name=True, validate_by_alias=True)


class Problem(Wire):
    """What went wrong, for a person."""

    error: str = Field(description="one sentence")


class Asked(Wire):
    """How pictures are to be looked at."""

    top: int = Field(default=5, ge=1, le=TOP, description="how many classes to rank")
    classes: Literal["all", "seen", "unseen"] = Field(default="all", description="what to choose from")
    accept_all: bool = Field(default=False, description="name pictures as well that look like nothing known")
    none_of_these: bool = Field(default=False, description="answer so where no candidate fits, too")
    reject_share: float = Field(default=0.05, ge=0, le=0.99, description="of known pictures that this may lose")
    shift_seen: bool = Field(default=False, description="take the calibration's constant off seen classes")
    why: bool = Field(default=True, description="explain each answer by the attributes")


class Candidate(Wire):
    """A class that a picture may be of."""

    label: str = Field(alias="class")
    seen: bool = Field(description="whether training had pictures of it")
    confidence: float | None = Field(description="null where the model has no calibration")
    score: float


class AttributeContribution(Wire):
    """An attribute, and what it adds to the lead of the answer over the runner-up."""

    attribute: str
    contribution: float
    more: bool = Field(description="whether the answer has more of it than the runner-up, or less")
    text: str = Field(description="the same in words")


class OtherAttributes(Wire):
    """All attributes that are not listed, together."""

    count: int
    contribution: float
    text: str


class OtherReasons(Wire):
    """What of the lead does not follow from attributes."""

    contribution: float
    stacking: float = Field(description="of calibrated stacking: the constants taken off seen classes")
    training_samples: float = Field(description="of training samples of the two classes")
    text: str


class Reasons(Wire):
    """Why this class and not the next: contributions that add up to the lead."""

    label: str = Field(alias="class", description="the best class, also where the answer is none of these")
    instead_of: str = Field(description="the runner-up")
    lead: float = Field(description="the score of the class less that of the runner-up")
    text: str
    supporting: list[AttributeContribution] = Field(alias="for")
    against: list[AttributeContribution]
    other_attributes: OtherAttributes
    other: OtherReasons


class Answer(Wire):
    """What one picture shows."""

    file: str = Field(description="the name that it was uploaded with")
    label: str | None = Field(alias="class", description='the best class or "none of these"; null with an error')
    seen: bool | None = None
    confidence: float | None = None
    rejected: bool | None = Field(default=None, description="null where nobody can tell: no calibration")
    distance: float | None = Field(default=None, description="the share of known pictures that are nearer")
    in_training: InTraining | None = Field(default=None, description=IN_TRAINING)
    top: list[Candidate] = []
    why: Reasons | None = None
    error: str | None = Field(default=None, description="why the picture could not be read")


class Predictions(Wire):
    revision: str
    answers: list[Answer]


class ClassEntry(Wire):
    label: str = Field(alias="class")
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

    label: Name = Field(alias="class")
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


class Kept(Wire):
    kept: str = Field(description="the file's name, which is made from its content")
    label: str = Field(alias="class")
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
    sentence: bool
    keep: bool
    samples: bool
    map: bool
    measure: bool
    report: bool
    pictures: bool
    durable: bool


class Limits(Wire):
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
    limits: Limits


class Sample(ClassEntry):
    id: int
    known: bool = Field(description="false: the model has no description of this class")
    in_training: InTraining | None = Field(description=IN_TRAINING)
    url: str


class Samples(Wire):
    samples: list[Sample]


Places = dict[str, list[float] | None]  # x and y by the space's name


class Space(Wire):
    name: str
    title: str
    note: str


class MapSample(ClassEntry):
    id: int
    known: bool
    in_training: InTraining | None = Field(description=IN_TRAINING)
    answer: str = Field(description="what the model takes it for")
    picture: str | None
    at: Places


class MapClass(ClassEntry):
    taught: bool = Field(description="added after the map was laid out")
    at: Places


class Map(Wire):
    revision: str
    spaces: list[Space]
    samples: list[MapSample]
    classes: list[MapClass]


class ClassAccuracy(ClassEntry):
    rows: int
    accuracy: float = Field(description="all classes to choose from")
    among_own: float = Field(description="only unseen, or only seen ones, to choose from")
    taken_for: str | None


class Curve(Wire):
    constants: list[float] = Field(description="taken off the scores of seen classes")
    ts: list[float]
    tr: list[float]
    h: list[float]
    now: int = Field(description="the place of the constant 0")
    suggested: int | None = Field(description="the place of the calibration's constant")


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
    trade_off: Curve | None
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


def by_alias(value: BaseModel) -> dict[str, Any]:
    """As it goes over the wire."""
    return value.model_dump(by_alias=True)
