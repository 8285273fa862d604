"""Routes of the JSON API: about the server, images, classes, samples."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Path, Query, Request, UploadFile
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

import firstsight
from firstsight._io.files import csv_of
from firstsight.encoders.decoding import Undecodable
from firstsight.encoders.letters import LETTERS
from firstsight.errors import UnknownName
from firstsight.evaluation.calibration import Calibration
from firstsight.methods import method_name
from firstsight.persistence.class_table import as_labels
from firstsight.serving.json_answers import Json, Refusal
from firstsight.serving.pages import file_answer
from firstsight.serving.samples import SamplePictures
from firstsight.serving.security import COOKIE, SESSION, session_of
from firstsight.serving.service import FEATURES, Held, Question, Service, Upload, shown_name
from firstsight.serving.teaching import attributes_of, table_of
from firstsight.serving.wire_schema import (
    TOP,
    Abilities,
    Asked,
    Changed,
    Classes,
    Description,
    Embedded,
    Health,
    Kept,
    Limits,
    Map,
    Measured,
    ModelFacts,
    Name,
    Names,
    NewClass,
    Predictions,
    Readiness,
    ReportState,
    Samples,
    Undo,
    by_alias,
)

# Routes about the server itself: its model, its health, its counts, its token.

about_routes = APIRouter(tags=["about"])
look_routes = APIRouter(tags=["look"])
recognise_routes = APIRouter(tags=["recognise"])
teach_routes = APIRouter(tags=["teach"])
ROUTERS = (about_routes, look_routes, recognise_routes, teach_routes)


@about_routes.get("/health", response_model=Health)
async def health() -> Any:
    """Whether the server is alive."""
    return Json({"status": "ok"})


@about_routes.get("/ready", response_model=Readiness, responses={503: {"model": Readiness}})
async def ready(service: Held) -> Any:
    """Whether the model is loaded, so that pictures may come."""
    trouble = service.trouble
    return Json({"ready": trouble is None, "error": trouble}, 200 if trouble is None else 503)


@about_routes.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(service: Held) -> Any:
    """Counts and times in the format of Prometheus."""
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@about_routes.post(SESSION, status_code=204, response_class=Response, response_model=None)
async def session(service: Held, request: Request) -> Any:
    """Trade the token (Authorization: Bearer …) for a cookie, so that a page can show pictures."""
    token, answer = service.settings.token, Response(status_code=204)
    if token is not None:  # the protection has compared it
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, session_of(token), httponly=True, samesite="strict", secure=secure)
    return answer


def _expected(calibration: Calibration) -> dict[str, float]:
    low, high = calibration.interval
    chance = 1 / max(1, calibration.held_out_classes)
    return {**calibration.estimate, "t1_low": low, "t1_high": high, "t1_chance": chance}


@about_routes.get("/api/model", response_model=ModelFacts)
def about_model(service: Held) -> Any:
    """What the model is, what it can do, and what a request may hold."""
    served, settings = service.served, service.settings
    model = served.current().model
    known = served.recognizer.backbone.known
    calibration = getattr(model, "calibration_", None)
    sentence = bool(service.sentences)
    facts = ModelFacts(
        firstsight=firstsight.__version__,
        method=method_name(type(model)),
        name="letters" if settings.demo else served.folder.name if served.folder else "a model in memory",
        demo=settings.demo,
        classes=len(model.classes_),
        seen=len(model.seen_classes_),
        unseen=len(model.unseen_classes_),
        calibrated=calibration is not None,
        revision=served.revision,
        expected=None if calibration is None else _expected(calibration),
        attributes=[] if sentence else attributes_of(model),
        can=Abilities(
            draw=known is not None and known.name == LETTERS,
            teach=True,
            sentence=sentence,
            keep=service.keeping is not None,
            samples=service.samples is not None and service.samples.has_pictures,
            map=service.samples is not None,
            measure=service.samples is not None,
            report=settings.results is not None,
            pictures=known is not None,
            durable=served.folder is not None,
        ),
        limits=Limits(
            pictures=settings.pictures,
            upload_bytes=settings.upload_bytes,
            request_bytes=settings.request_bytes,
            top=TOP,
            name=200,
        ),
    )
    return Json(by_alias(facts))


# Routes that show: samples, the map, measured accuracy, the report.

REPORT_URL = "/report/index.html"
NO_SAMPLES = "This server has no samples; start it with --samples."


@look_routes.get("/api/samples", response_model=Samples)
def list_samples(
    service: Held, limit: Annotated[int, Query(ge=1, le=2000)] = 60, seed: Annotated[int, Query(ge=0, le=2**31)] = 0
) -> Any:
    """Pictures to try, about as many of each class."""
    samples = _samples(service)
    if not samples.has_pictures:
        raise Refusal(404, "The samples of this server have no pictures.")
    seen, trained = service.seen, service.in_training()
    listed = [
        {
            "id": place,
            "class": samples.labels[place],
            "seen": seen.get(samples.labels[place], False),
            "known": samples.labels[place] in seen,
            "in_training": trained[place],
            "url": f"/api/samples/{place}.png",
        }
        for place in samples.choose(limit, seed)
    ]
    return Json({"samples": listed})


@look_routes.get("/api/samples/{number}.png", response_class=Response, responses={200: {"content": {"image/png": {}}}})
def sample_picture(service: Held, number: Annotated[int, Path(ge=0, le=2**31)]) -> Any:
    """One of these pictures."""
    samples = _samples(service)
    if not samples.has_pictures or number >= len(samples):
        raise Refusal(404, "There is no sample of that number.")
    try:
        png = samples.png(number)
    except (OSError, ValueError, Undecodable):
        raise Refusal(404, "The picture of this sample cannot be read any more.") from None
    return Response(png, media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})


@look_routes.get("/api/map", response_model=Map)
def show_map(service: Held) -> Any:
    """Samples and descriptions in the plane; the first who asks waits some seconds until they are laid out."""
    if service.maps is None:
        raise Refusal(404, NO_SAMPLES)
    revision = service.served.revision  # before the model, as in the list of classes
    return Json({"revision": revision, **service.maps.of(service.served.current().model)})


@look_routes.get("/api/measure", response_model=Measured)
def show_measured(service: Held) -> Any:
    """How often the model is right on the samples, and what a constant for seen classes would change."""
    _samples(service)
    return Json({**service.measured(), "report": None if service.report is None else REPORT_URL})


@look_routes.get("/api/report", response_model=ReportState)
def report_state(service: Held) -> Any:
    """Whether the report of the benchmark records is ready; the first who asks has it made."""
    if service.report is None:
        raise Refusal(404, "This server has no benchmark records; start it with --results FOLDER.")
    return Json({"state": service.report.state(), "url": REPORT_URL, "error": service.report.trouble})


@look_routes.get("/report/{name:path}", include_in_schema=False)
def report_file(service: Held, name: str) -> Any:
    if service.report is None:
        raise Refusal(404, "This server has no benchmark records; start it with --results FOLDER.")
    return file_answer(service.report.files(), name or "index.html")


def _samples(service: Service) -> SamplePictures:
    if service.samples is None:
        raise Refusal(404, NO_SAMPLES)
    return service.samples


# Routes that look at pictures: predict and embed.

Pictures = Annotated[list[UploadFile], File(min_length=1, description="pictures as files; addresses are not fetched")]


class Uploads(Asked):
    """Pictures with what is asked of them, as a form."""

    pictures: Pictures


ONE = "/api/predict/one"
PICTURE_BODY = {
    "requestBody": {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
}


@recognise_routes.post("/api/predict", response_model=Predictions)
async def predict(service: Held, form: Annotated[Uploads, Form(media_type="multipart/form-data")]) -> Any:
    """Name pictures: the best classes of each, how sure that is, and why."""
    recognised = await service.recognising.ask(_question(form), await _read(form.pictures))
    answers = [answer if answer is not None else _unread(name, why_not) for name, answer, why_not in recognised]
    return Json({"revision": service.served.revision, "answers": answers})


@recognise_routes.post(ONE, response_model=Predictions, openapi_extra=PICTURE_BODY)
async def predict_one(service: Held, request: Request, asked: Annotated[Asked, Query()]) -> Any:
    """Name one picture, which is the whole body: the short way for programs that ask often, without a form."""
    recognised = await service.recognising.ask(_question(asked), [("picture", await request.body())])
    return Json({"revision": service.served.revision, "answers": [answer for _, answer, _ in recognised]})


async def _read(files: list[UploadFile]) -> list[Upload]:
    return [(shown_name(file.filename), await file.read()) for file in files]


def _question(asked: Asked) -> Question:
    share = asked.reject_share if asked.none_of_these else None
    return Question(asked.top, asked.classes, share, not asked.accept_all, asked.shift_seen, asked.why)


@recognise_routes.post("/api/embed", response_model=Embedded)
async def embed(service: Held, pictures: Pictures) -> Any:
    """The features of pictures, as the model's backbone sees them."""
    embedded = await service.recognising.ask(FEATURES, await _read(pictures))
    rows = [{"file": name, "features": features, "error": why_not} for name, features, why_not in embedded]
    return Json({"dim": service.served.recognizer.model.n_features_in_, "rows": rows})


@recognise_routes.post("/api/confirm", response_model=Kept, status_code=201)
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


# Routes that show, add and remove classes.


@teach_routes.get("/api/classes", response_model=Classes)
def list_classes(service: Held) -> Any:
    """Every class that the model can answer with, and whether training had pictures of it."""
    revision = service.served.revision  # first: a client with an old revision asks again, one with a new one does not
    table = service.served.current().classes
    rows = zip(table["class"].tolist(), table["seen"].tolist(), strict=True)
    entries = [{"class": str(label), "seen": seen} for label, seen in rows]
    return Json({"revision": revision, "classes": entries})


@teach_routes.get("/api/classes/description", response_model=Description)
def describe_class(service: Held, name: Annotated[Name, Query()]) -> Any:
    """The attributes of a class, to start from when another one is like it."""
    model = service.served.current().model
    (label,) = as_labels(model, [name])
    classes = model.classes_.tolist()
    if label not in classes:
        raise UnknownName("class", name, map(str, classes))
    position = classes.index(label)
    attributes = getattr(model, "attribute_names_in_", range(model.descriptions_.shape[1]))
    numbers = dict(zip(map(str, attributes), model.descriptions_[position].tolist(), strict=True))
    return Json({"class": str(label), "seen": bool(model.seen_code_[position] >= 0), "attributes": numbers})


@teach_routes.get("/api/classes.csv", response_class=Response, responses={200: {"content": {"text/csv": {}}}})
def export_classes(service: Held) -> Any:
    """The class table with its descriptions, as `firstsight classes add` and `learn --classes` read it."""
    text = csv_of(service.served.current().descriptions, index=True)
    attachment = {"Content-Disposition": 'attachment; filename="classes.csv"'}
    return Response(text.encode("utf-8", "replace"), media_type="text/csv; charset=utf-8", headers=attachment)


@teach_routes.post("/api/classes", response_model=Changed, status_code=201)
async def add_class(service: Held, new: NewClass) -> Any:
    """Add a class, or change one; it is on the disk before this is answered, and the next picture may be named so."""

    def add() -> Changed:
        table = table_of(new, service.served.current(), service.sentences)
        return service.served.add(table, new.replace)

    return _told(service, await run_in_threadpool(add), 201)


@teach_routes.post("/api/classes/remove", response_model=Changed)
async def remove_classes(service: Held, which: Names) -> Any:
    """Never answer with these classes again, until they are added back."""
    return _told(service, await run_in_threadpool(service.served.remove, which.names))


@teach_routes.post("/api/classes/undo", response_model=Changed)
async def undo(service: Held, change: Undo) -> Any:
    """Take a change back: post its `undo` as it came."""
    return _told(service, await run_in_threadpool(service.served.undo, change))


def _told(service: Service, changed: Changed, status: int = 200) -> Json:
    for one in changed.done:
        service.metrics.changes.labels(one.what).inc()
    return Json(by_alias(changed), status)
