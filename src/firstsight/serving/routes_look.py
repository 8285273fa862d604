"""Routes that show: samples, the map, measured accuracy, the report."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from firstsight.encoders.decoding import Undecodable
from firstsight.serving.json_answers import Json, Refusal
from firstsight.serving.page_files import file_answer
from firstsight.serving.sample_pictures import SamplePictures
from firstsight.serving.service import Held, Service
from firstsight.serving.wire_schema import Map, Measured, ReportState, Samples

router = APIRouter(tags=["look"])
REPORT_URL = "/report/index.html"
NO_SAMPLES = "This server has no samples; start it with --samples."


@router.get("/api/samples", response_model=Samples)
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


@router.get("/api/samples/{number}.png", response_class=Response, responses={200: {"content": {"image/png": {}}}})
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


@router.get("/api/map", response_model=Map)
def show_map(service: Held) -> Any:
    """Samples and descriptions in the plane; the first who asks waits some seconds until they are laid out."""
    if service.maps is None:
        raise Refusal(404, NO_SAMPLES)
    revision = service.served.revision  # before the model, as in the list of classes
    return Json({"revision": revision, **service.maps.of(service.served.current().model)})


@router.get("/api/measure", response_model=Measured)
def show_measured(service: Held) -> Any:
    """How often the model is right on the samples, and what a constant for seen classes would change."""
    _samples(service)
    return Json({**service.measured(), "report": None if service.report is None else REPORT_URL})


@router.get("/api/report", response_model=ReportState)
def report_state(service: Held) -> Any:
    """Whether the report of the benchmark records is ready; the first who asks has it made."""
    if service.report is None:
        raise Refusal(404, "This server has no benchmark records; start it with --results FOLDER.")
    return Json({"state": service.report.state(), "url": REPORT_URL, "error": service.report.trouble})


@router.get("/report/{name:path}", include_in_schema=False)
def report_file(service: Held, name: str) -> Any:
    if service.report is None:
        raise Refusal(404, "This server has no benchmark records; start it with --results FOLDER.")
    return file_answer(service.report.files(), name or "index.html")


def _samples(service: Service) -> SamplePictures:
    if service.samples is None:
        raise Refusal(404, NO_SAMPLES)
    return service.samples
