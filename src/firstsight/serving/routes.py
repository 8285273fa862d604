"""Routes of the JSON API: about the server, samples and map, recognition, classes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, File, Form, Path, Query, Request, UploadFile
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.responses import Response

import firstsight
from firstsight._io.files import csv_of
from firstsight.encoders.backbone import LETTERS
from firstsight.encoders.decoding import Undecodable
from firstsight.errors import BadInput, UnknownName
from firstsight.methods import IncrementalClassifier, method_name
from firstsight.persistence.added_samples import require_incremental
from firstsight.persistence.class_table import as_labels
from firstsight.recognition import Answer
from firstsight.serving import wire_schema as wire
from firstsight.serving.batching import FEATURES, FEATURES_OF_FILE, Upload, shown_name
from firstsight.serving.pages import ReportPage, file_answer
from firstsight.serving.samples import SampleImages
from firstsight.serving.security import COOKIE, SESSION, session_of
from firstsight.serving.served_model import attributes_of, table_of
from firstsight.serving.service import Held, Service

about_routes = APIRouter(tags=["about"])
look_routes = APIRouter(tags=["look"])
recognise_routes = APIRouter(tags=["recognise"])
teach_routes = APIRouter(tags=["teach"])


@about_routes.get("/health")
async def health() -> wire.Health:
    """Whether the server is alive."""
    return wire.Health()


@about_routes.get("/ready", responses={503: {"model": wire.Readiness}})
async def ready(service: Held, response: Response) -> wire.Readiness:
    """Whether the model is loaded, so that pictures may come."""
    response.status_code = 200 if service.trouble is None else 503
    return wire.Readiness(ready=service.trouble is None, error=service.trouble)


@about_routes.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(service: Held) -> Response:
    """Counts and times in the format of Prometheus."""
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@about_routes.post(SESSION, status_code=204, response_class=Response)
async def session(service: Held, request: Request) -> Response:
    """Trade the token (Authorization: Bearer …) for a cookie, so that a page can show pictures."""
    token, answer = service.settings.token, Response(status_code=204)
    if token is not None:  # the protection has compared it
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, session_of(token), httponly=True, samesite="strict", secure=secure)
    return answer


@about_routes.get("/api/model")
def about_model(service: Held) -> wire.ModelFacts:
    """What the model is, what it can do, and what a request may hold."""
    served, settings = service.served, service.settings
    model = served.current().model
    backbone = served.recognizer.backbone.known
    calibration = getattr(model, "calibration_", None)
    expected = None
    if calibration is not None:
        low, high = calibration.interval
        chance = 1 / max(1, calibration.held_out_classes)
        expected = {**calibration.estimate, "t1_low": low, "t1_high": high, "t1_chance": chance}
    return wire.ModelFacts(
        firstsight=firstsight.__version__,
        method=method_name(type(model)),
        name="letters" if settings.demo else served.folder.name if served.folder else "a model in memory",
        demo=settings.demo,
        classes=len(model.classes_),
        seen=len(model.seen_classes_),
        unseen=len(model.unseen_classes_),
        calibrated=calibration is not None,
        revision=served.revision,
        expected=expected,
        attributes=[] if service.sentences else attributes_of(model),
        can=wire.Abilities(
            draw=backbone is not None and backbone.name == LETTERS,
            teach=True,
            correct=backbone is not None and isinstance(model, IncrementalClassifier) and model.can_add_samples,
            sentence=bool(service.sentences),
            keep=service.confirmed is not None,
            samples=service.samples is not None and service.samples.has_images,
            map=service.samples is not None,
            measure=service.samples is not None,
            report=settings.results is not None,
            pictures=backbone is not None,
            durable=served.folder is not None,
        ),
        limits=wire.RequestLimits(
            pictures=settings.pictures,
            upload_bytes=settings.upload_bytes,
            request_bytes=settings.request_bytes,
            top=wire.TOP,
            name=wire.LONGEST_NAME,
        ),
    )


REPORT_URL = "/report/index.html"
NO_SAMPLES = "This server has no samples; start it with --samples."


@look_routes.get("/api/samples")
def list_samples(
    service: Held, limit: Annotated[int, Query(ge=1, le=2000)] = 60, seed: Annotated[int, Query(ge=0, le=2**31)] = 0
) -> wire.Samples:
    """Pictures to try, about as many of each class."""
    samples = _samples(service)
    if not samples.has_images:
        raise wire.Refusal(404, "The samples of this server have no pictures.")
    seen, status = service.seen, service.in_training()
    entries = [
        wire.Sample(
            id=number,
            label=(label := samples.labels[number]),
            seen=seen.get(label, False),
            known=label in seen,
            in_training=status[number],
            url=f"/api/samples/{number}.png",
        )
        for number in samples.choose(limit, seed)
    ]
    return wire.Samples(samples=entries)


@look_routes.get("/api/samples/{number}.png", response_class=Response, responses={200: {"content": {"image/png": {}}}})
def sample_image(service: Held, number: Annotated[int, Path(ge=0, le=2**31)]) -> Response:
    """One of these pictures."""
    samples = _samples(service)
    if not samples.has_images or number >= len(samples):
        raise wire.Refusal(404, "There is no sample of that number.")
    try:
        png = samples.png(number)
    except (OSError, ValueError, Undecodable):
        raise wire.Refusal(404, "The picture of this sample cannot be read any more.") from None
    return Response(png, media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})


@look_routes.get("/api/map")
def show_map(service: Held) -> wire.Map:
    """Samples and descriptions in the plane; the first request waits some seconds for the layout."""
    if service.map is None:
        raise wire.Refusal(404, NO_SAMPLES)
    revision = service.served.revision  # before the model, as in the list of classes
    return service.map.of(service.served.current().model, revision)


@look_routes.get("/api/measure")
def show_measured(service: Held) -> wire.Measured:
    """How often the model is right on the samples, and what a constant for seen classes would change."""
    _samples(service)
    return service.measured().model_copy(update={"report": None if service.report is None else REPORT_URL})


@look_routes.get("/api/report")
def report_state(service: Held) -> wire.ReportState:
    """Whether the report of the benchmark records is ready; the first request has it drawn."""
    report = _report(service)
    return wire.ReportState(state=report.state(), url=REPORT_URL, error=report.trouble)


@look_routes.get("/report/{name:path}", include_in_schema=False)
def report_file(service: Held, name: str) -> Response:
    return file_answer(_report(service).files(), name or "index.html")


def _report(service: Service) -> ReportPage:
    if service.report is None:
        raise wire.Refusal(404, "This server has no benchmark records; start it with --results FOLDER.")
    return service.report


def _samples(service: Service) -> SampleImages:
    if service.samples is None:
        raise wire.Refusal(404, NO_SAMPLES)
    return service.samples


Pictures = Annotated[list[UploadFile], File(min_length=1, description="pictures as files; addresses are not fetched")]


class Uploads(wire.PredictQuery):
    """Pictures and options, as a form."""

    pictures: Pictures


@recognise_routes.post("/api/predict")
async def predict(service: Held, form: Annotated[Uploads, Form(media_type="multipart/form-data")]) -> wire.Predictions:
    """Name pictures: the best classes of each, how sure that is, and why."""
    options = wire.PredictQuery(**form.model_dump(exclude={"pictures"}))
    recognised = await service.queue.ask(options, await _read(form.pictures))
    answers = [
        Answer(file=name, label=None, error=error) if error is not None else answer
        for name, answer, error in recognised
    ]
    return wire.Predictions(revision=service.served.revision, answers=answers)


@recognise_routes.post("/api/embed")
async def embed(service: Held, pictures: Pictures) -> wire.Embedded:
    """The features of pictures, as the model's backbone sees them."""
    embedded = await service.queue.ask(FEATURES, await _read(pictures))
    rows = [wire.Features(file=name, features=features, error=error) for name, features, error in embedded]
    return wire.Embedded(dim=service.served.recognizer.model.n_features_in_, rows=rows)


@recognise_routes.post("/api/confirm", status_code=201)
async def confirm(
    service: Held,
    picture: Annotated[UploadFile, File(description="the picture")],
    label: Annotated[wire.Name, Form(alias="class", description="what it shows: a class of the model")],
) -> wire.Kept:
    """Keep a picture of which a person says what it shows, for the next `learn`."""
    if service.confirmed is None:
        raise wire.Refusal(403, "This server keeps no pictures; start it with --keep FOLDER.")
    _check_known(service, label)
    if (picture.size or 0) > service.settings.upload_bytes:
        raise wire.Refusal(
            413, f"The picture is larger than {service.settings.upload_bytes >> 20} MiB; send a smaller one."
        )
    name, count = await run_in_threadpool(service.confirmed.keep, await picture.read(), label)
    return wire.Kept(kept=name, label=label, pictures=count)


@recognise_routes.post("/api/corrections", status_code=201)
async def correct(
    service: Held,
    label: Annotated[wire.Name, Form(alias="class", description="what it shows: a class of the model")],
    picture: Annotated[UploadFile | None, File(description="the picture")] = None,
    sample: Annotated[int | None, Form(ge=0, le=2**31, description="or the number of a sample")] = None,
) -> wire.Corrected:
    """Learn at once what a picture shows, without training: the next answer may differ. It is on the disk before this
    is answered."""
    if picture is not None and sample is not None:
        raise BadInput("Send a picture or the number of a sample, not both.")
    require_incremental(service.served.current().model)
    _check_known(service, label)
    if sample is not None:
        features = _samples(service).feature_file(sample)
    elif picture is not None:
        ((_, features, _),) = await service.queue.ask(FEATURES_OF_FILE, await _read([picture]))
    else:
        raise BadInput("Send a picture, or the number of a sample.")
    corrected = await run_in_threadpool(service.served.correct, features, label)
    service.metrics.corrections.labels("learned").inc()
    return corrected


@recognise_routes.post("/api/corrections/undo")
async def undo_correction(service: Held, correction: wire.Change) -> wire.Corrected:
    """Take a correction back: post its `undo` as it came. A label that it has replaced is restored."""
    undone = await run_in_threadpool(service.served.undo_correction, correction.change)
    service.metrics.corrections.labels("undone").inc()
    return undone


def _check_known(service: Service, label: str) -> None:
    if label not in service.seen:
        raise UnknownName("class", label, service.seen)


async def _read(files: list[UploadFile]) -> list[Upload]:
    return [(shown_name(file.filename), await file.read()) for file in files]


class FastPath(APIRoute):
    """The route of a bare image: FastAPI's handling of parameters and answers costs more than a light model does.

    FastAPI documents the route and handles its errors; the query is parsed once per content.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handle(request: Request) -> Response:
            options = parse_query(request.scope["query_string"])
            predictions = await predict_one(request.app.state.service, request, options)
            return wire.Json(predictions.model_dump(by_alias=True))

        return handle


fast_routes = APIRouter(tags=["recognise"], route_class=FastPath)
IMAGE_BODY = {
    "requestBody": {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
}


@fast_routes.post("/api/predict/one", openapi_extra=IMAGE_BODY)
async def predict_one(
    service: Held, request: Request, options: Annotated[wire.PredictQuery, Query()]
) -> wire.Predictions:
    """Name one picture, which is the whole body: the short way for programs that ask often, without a form."""
    ((_, answer, _),) = await service.queue.ask(options, [("picture", await request.body())])
    return wire.Predictions(revision=service.served.revision, answers=[answer])


@lru_cache(maxsize=256)
def parse_query(query: bytes) -> wire.PredictQuery:
    """The options in a query string; RequestValidationError if one of them is wrong or given twice."""
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    names = [name for name, _ in pairs]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise RequestValidationError([{"loc": ("query", repeated), "msg": "Value is given more than once"}])
    try:
        return wire.PredictQuery.model_validate(dict(pairs))
    except ValidationError as error:
        problems = [{**problem, "loc": ("query", *problem["loc"])} for problem in error.errors()]
        raise RequestValidationError(problems) from None


@teach_routes.get("/api/classes")
def list_classes(service: Held) -> wire.Classes:
    """Every class that the model can answer with, and whether training had pictures of it."""
    revision = service.served.revision  # first: a client with an old revision asks again, one with a new one does not
    table = service.served.current().classes
    rows = zip(table["class"].tolist(), table["seen"].tolist(), strict=True)
    return wire.Classes(
        revision=revision, classes=[wire.ClassEntry(label=str(label), seen=seen) for label, seen in rows]
    )


@teach_routes.get("/api/classes/description")
def describe_class(service: Held, name: Annotated[wire.Name, Query()]) -> wire.Description:
    """The attributes of a class, to start from when another one is like it."""
    model = service.served.current().model
    (label,) = as_labels(model, [name])
    classes = model.classes_.tolist()
    if label not in classes:
        raise UnknownName("class", name, map(str, classes))
    position = classes.index(label)
    attributes = getattr(model, "attribute_names_in_", range(model.descriptions_.shape[1]))
    numbers = dict(zip(map(str, attributes), model.descriptions_[position].tolist(), strict=True))
    return wire.Description(label=str(label), seen=bool(model.seen_code_[position] >= 0), attributes=numbers)


@teach_routes.get("/api/classes.csv", response_class=Response, responses={200: {"content": {"text/csv": {}}}})
def export_classes(service: Held) -> Response:
    """The class table with its descriptions, as `firstsight classes add` and `learn --classes` read it."""
    text = csv_of(service.served.current().descriptions, index=True)
    attachment = {"Content-Disposition": 'attachment; filename="classes.csv"'}
    return Response(text.encode("utf-8", "replace"), media_type="text/csv; charset=utf-8", headers=attachment)


@teach_routes.post("/api/classes", status_code=201)
async def add_class(service: Held, new: wire.NewClass) -> wire.Changed:
    """Add a class, or change one; it is on the disk before this is answered, and the next picture may be named so."""

    def add() -> wire.Changed:
        table = table_of(new, service.served.current(), service.sentences)
        return service.served.add(table, new.replace)

    return _count_change(service, await run_in_threadpool(add))


@teach_routes.post("/api/classes/remove")
async def remove_classes(service: Held, which: wire.Names) -> wire.Changed:
    """Never answer with these classes again, until they are added back."""
    return _count_change(service, await run_in_threadpool(service.served.remove, which.names))


@teach_routes.post("/api/classes/undo")
async def undo(service: Held, change: wire.Undo) -> wire.Changed:
    """Take a change back: post its `undo` as it came."""
    return _count_change(service, await run_in_threadpool(service.served.undo, change))


def _count_change(service: Service, change: wire.Changed) -> wire.Changed:
    for done in change.done:
        service.metrics.changes.labels(done.what).inc()
    return change


ROUTERS = (about_routes, look_routes, recognise_routes, fast_routes, teach_routes)
