"""Routes that look at pictures: predict and embed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Query, Request, UploadFile
from fastapi.concurrency import run_in_threadpool

from firstsight.errors import UnknownName
from firstsight.serving.json_answers import Json, Refusal
from firstsight.serving.recognising import FEATURES, Question, Upload, shown_name
from firstsight.serving.service import Held
from firstsight.serving.wire_schema import Asked, Embedded, Kept, Name, Predictions

router = APIRouter(tags=["recognise"])
Pictures = Annotated[list[UploadFile], File(min_length=1, description="pictures as files; addresses are not fetched")]


class Uploads(Asked):
    """Pictures with what is asked of them, as a form."""

    pictures: Pictures


ONE = "/api/predict/one"
PICTURE_BODY = {
    "requestBody": {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
}


@router.post("/api/predict", response_model=Predictions)
async def predict(service: Held, form: Annotated[Uploads, Form(media_type="multipart/form-data")]) -> Any:
    """Name pictures: the best classes of each, how sure that is, and why."""
    recognised = await service.recognising.ask(_question(form), await _read(form.pictures))
    answers = [answer if answer is not None else _unread(name, why_not) for name, answer, why_not in recognised]
    return Json({"revision": service.served.revision, "answers": answers})


@router.post(ONE, response_model=Predictions, openapi_extra=PICTURE_BODY)
async def predict_one(service: Held, request: Request, asked: Annotated[Asked, Query()]) -> Any:
    """Name one picture, which is the whole body: the short way for programs that ask often, without a form."""
    recognised = await service.recognising.ask(_question(asked), [("picture", await request.body())])
    return Json({"revision": service.served.revision, "answers": [answer for _, answer, _ in recognised]})


async def _read(files: list[UploadFile]) -> list[Upload]:
    return [(shown_name(file.filename), await file.read()) for file in files]


def _question(asked: Asked) -> Question:
    share = asked.reject_share if asked.none_of_these else None
    return Question(asked.top, asked.classes, share, not asked.accept_all, asked.shift_seen, asked.why)


@router.post("/api/embed", response_model=Embedded)
async def embed(service: Held, pictures: Pictures) -> Any:
    """The features of pictures, as the model's backbone sees them."""
    embedded = await service.recognising.ask(FEATURES, await _read(pictures))
    rows = [{"file": name, "features": features, "error": why_not} for name, features, why_not in embedded]
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
    unknown = dict.fromkeys(("class", "seen", "confidence", "rejected", "distance", "in_training", "why"))
    return {"file": name, **unknown, "top": [], "error": why_not}
