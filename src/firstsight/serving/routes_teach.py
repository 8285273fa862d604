"""Routes that show, add and remove classes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from firstsight.errors import UnknownName
from firstsight.files import csv_of
from firstsight.models.class_table import as_labels
from firstsight.serving.json_answers import Json
from firstsight.serving.service import Held, Service
from firstsight.serving.teaching import table_of
from firstsight.serving.wire_schema import Changed, Classes, Description, Name, Names, NewClass, Undo, by_alias

router = APIRouter(tags=["teach"])


@router.get("/api/classes", response_model=Classes)
def list_classes(service: Held) -> Any:
    """Every class that the model can answer with, and whether training had pictures of it."""
    revision = service.served.revision  # first: a client with an old revision asks again, one with a new one does not
    table = service.served.current().classes
    rows = zip(table["class"].tolist(), table["seen"].tolist(), strict=True)
    entries = [{"class": str(label), "seen": seen} for label, seen in rows]
    return Json({"revision": revision, "classes": entries})


@router.get("/api/classes/description", response_model=Description)
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


@router.get("/api/classes.csv", response_class=Response, responses={200: {"content": {"text/csv": {}}}})
def export_classes(service: Held) -> Any:
    """The class table with its descriptions, as `firstsight classes add` and `learn --classes` read it."""
    text = csv_of(service.served.current().descriptions, index=True)
    attachment = {"Content-Disposition": 'attachment; filename="classes.csv"'}
    return Response(text.encode("utf-8", "replace"), media_type="text/csv; charset=utf-8", headers=attachment)


@router.post("/api/classes", response_model=Changed, status_code=201)
async def add_class(service: Held, new: NewClass) -> Any:
    """Add a class, or change one; it is on the disk before this is answered, and the next picture may be named so."""

    def add() -> Changed:
        table = table_of(new, service.served.current(), service.sentences)
        return service.served.add(table, new.replace)

    return _told(service, await run_in_threadpool(add), 201)


@router.post("/api/classes/remove", response_model=Changed)
async def remove_classes(service: Held, which: Names) -> Any:
    """Never answer with these classes again, until they are added back."""
    return _told(service, await run_in_threadpool(service.served.remove, which.names))


@router.post("/api/classes/undo", response_model=Changed)
async def undo(service: Held, change: Undo) -> Any:
    """Take a change back: post its `undo` as it came."""
    return _told(service, await run_in_threadpool(service.served.undo, change))


def _told(service: Service, changed: Changed, status: int = 200) -> Json:
    for one in changed.done:
        service.metrics.changes.labels(one.what).inc()
    return Json(by_alias(changed), status)
