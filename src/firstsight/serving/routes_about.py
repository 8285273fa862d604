"""Routes about the server itself: its model, its health, its counts, its token."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

import firstsight
from firstsight.calibration import Calibration
from firstsight.encoders.letters import LETTERS
from firstsight.methods import word_of
from firstsight.serving.attribute_groups import attributes_of
from firstsight.serving.json_answers import Json
from firstsight.serving.protection import COOKIE, SESSION, session_of
from firstsight.serving.service import Held
from firstsight.serving.wire_schema import TOP, Abilities, Health, Limits, ModelFacts, Readiness, by_alias

router = APIRouter(tags=["about"])


@router.get("/health", response_model=Health)
async def health() -> Any:
    """Whether the server is alive."""
    return Json({"status": "ok"})


@router.get("/ready", response_model=Readiness, responses={503: {"model": Readiness}})
async def ready(service: Held) -> Any:
    """Whether the model is loaded, so that pictures may come."""
    trouble = service.trouble
    return Json({"ready": trouble is None, "error": trouble}, 200 if trouble is None else 503)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(service: Held) -> Any:
    """Counts and times in the format of Prometheus."""
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.post(SESSION, status_code=204, response_class=Response, response_model=None)
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


@router.get("/api/model", response_model=ModelFacts)
def about_model(service: Held) -> Any:
    """What the model is, what it can do, and what a request may hold."""
    served, settings = service.served, service.settings
    model = served.current().model
    known = served.recognizer.backbone.known
    calibration = getattr(model, "calibration_", None)
    sentence = bool(service.sentences)
    facts = ModelFacts(
        firstsight=firstsight.__version__,
        method=word_of(type(model)),
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
