"""Routes that look at pictures: predict and embed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, File, Form, UploadFile
from fastapi.concurrency import run_in_threadpool

from firstsight.errors import UnknownName
from firstsight.serving.json_answers import Json, Refusal
from firstsight.serving.recognising import FEATURES, Question
from firstsight.serving.service import Held
from firstsight.serving.wire_schema import Embedded, Kept, Name, Predictions

TOP = 50
router = APIRouter(tags=["recognise"])
Pictures = Annotated[list[UploadFile], File(min_length=1, description="pictures as files; addresses are not fetched")]


@router.post("/api/predict", response_model=Predictions)
async def predict(
    service: Held,
    pictures: Pictures,
    top: Annotated[int, Form(ge=1, le=TOP, description="how many classes to rank")] = 5,
    classes: Annotated[Literal["all", "seen", "unseen"], Form(description="what to choose from")] = "all",
    accept_all: Annotated[bool, Form(description="name pictures as well that look like nothing known")] = False,
    none_of_these: Annotated[bool, Form(description="answer so where no candidate fits, too")] = False,
    reject_share: Annotated[float, Form(ge=0, le=0.99, description="of known pictures that this may lose")] = 0.05,
    shift_seen: Annotated[bool, Form(description="take the calibration's constant off seen classes")] = False,
    why: Annotated[bool, Form(description="tell which attributes speak for and against")] = True,
) -> Any:
    """Name pictures: the best classes of each, how sure that is, and why."""
    question = Question(top, classes, reject_share if none_of_these else None, not accept_all, shift_seen, why)
    found = await service.recognising.ask(question, pictures)
    answers = [answer if answer is not None else _unread(name, why_not) for name, answer, why_not in found]
    return Json({"revision": service.served.revision, "answers": answers})


@router.post("/api/embed", response_model=Embedded)
async def embed(service: Held, pictures: Pictures) -> Any:
    """The features of pictures, as the model's backbone sees them."""
    found = await service.recognising.ask(FEATURES, pictures)
    rows = [{"file": name, "features": features, "error": why_not} for name, features, why_not in found]
    return Json({"dim": service.served.recognizer.model.n_features_in_, "rows": rows})


@router.post("/api/confirm", response_model=Kept, status_code=201)
async def confirm(
    service: Held,
    picture: Annotated[UploadFile, File(description="the picture")],
    label: Annotated[Name, Form(alias="class", description="what it shows: a class of the model")],
) -> Any:
    """Keep a picture of which a person says what it shows, for the next `learn`."""
    if service.keeping is None:
        raise Refusal(403, "This server keeps no pictures; start it with --keep FOLDER.")
    if label not in service.seen:
        raise UnknownName("class", label, service.seen)
    if (picture.size or 0) > service.settings.upload_bytes:
        raise Refusal(413, f"The picture is larger than {service.settings.upload_bytes >> 20} MiB; send a smaller one.")
    name, pictures = await run_in_threadpool(service.keeping.keep, await picture.read(), label)
    return Json({"kept": name, "class": label, "pictures": pictures}, 201)


def _unread(name: str, why_not: str | None) -> dict[str, Any]:
    unknown = dict.fromkeys(("class", "seen", "confidence", "rejected", "distance", "why"))
    return {"file": name, **unknown, "top": [], "error": why_not}
