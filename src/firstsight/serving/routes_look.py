"""Routes that show: samples, the map, measured accuracy, the report."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from firstsight.serving.json_answers import Json, Refusal
from firstsight.serving.sample_pictures import SamplePictures
from firstsight.serving.service import Held, Service
from firstsight.serving.wire_schema import Samples

router = APIRouter(tags=["look"])
NO_SAMPLES = "This server has no samples; start it with --samples."


@router.get("/api/samples", response_model=Samples)
def list_samples(
    service: Held, limit: Annotated[int, Query(ge=1, le=2000)] = 60, seed: Annotated[int, Query(ge=0, le=2**31)] = 0
) -> Any:
    """Pictures to try, about as many of each class."""
    samples = _samples(service)
    if not samples.has_pictures:
        raise Refusal(404, "The samples of this server have no pictures.")
    seen = service.seen
    found = [
        {
            "id": place,
            "class": samples.labels[place],
            "seen": seen.get(samples.labels[place], False),
            "known": samples.labels[place] in seen,
            "url": f"/api/samples/{place}.png",
        }
        for place in samples.choose(limit, seed)
    ]
    return Json({"samples": found})


@router.get("/api/samples/{number}.png", response_class=Response, responses={200: {"content": {"image/png": {}}}})
def sample_picture(service: Held, number: Annotated[int, Path(ge=0, le=2**31)]) -> Any:
    """One of these pictures."""
    samples = _samples(service)
    if not samples.has_pictures or number >= len(samples):
        raise Refusal(404, "There is no sample of that number.")
    return Response(samples.png(number), media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})


def _samples(service: Service) -> SamplePictures:
    if service.samples is None:
        raise Refusal(404, NO_SAMPLES)
    return service.samples
