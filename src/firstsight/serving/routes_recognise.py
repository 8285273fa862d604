"""Routes that look at pictures: predict and embed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, File, Form, UploadFile

from firstsight.serving.json_answers import Json
from firstsight.serving.recognising import FEATURES, Question
from firstsight.serving.service import Held
from firstsight.serving.wire_schema import Embedded, Predictions

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


def _unread(name: str, why_not: str | None) -> dict[str, Any]:
    unknown = dict.fromkeys(("class", "seen", "confidence", "rejected", "distance", "why"))
    return {"file": name, **unknown, "top": [], "error": why_not}
