"""Answers as JSON, and how a mistake becomes one sentence and a status."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from firstsight._io.terminal import logger, visible
from firstsight.errors import BadInput, CannotWrite, FirstsightError, UnknownName, UnreadableFile
from firstsight.serving.batching import TooBusy
from firstsight.serving.confirmed_images import FolderFull
from firstsight.serving.served_model import ClassExists

_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode  # made once, not for every answer


class Json(JSONResponse):
    """JSON in ASCII: a name may hold half a character (a lone surrogate), which UTF-8 has no bytes for."""

    def render(self, content: Any) -> bytes:
        return _encode(content).encode()


class Refusal(Exception):
    """A request that goes no further: a status and a sentence."""

    def __init__(self, status: int, sentence: str, **headers: str):
        super().__init__(sentence)
        self.status, self.sentence = status, sentence
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


# By type: the first that fits. Places on this machine are nobody's business, so what the disk says is only logged.
_STATUS: list[tuple[type[Exception], int, str]] = [
    (TooBusy, 429, "Too many pictures are waiting; try again in a moment."),
    (ClassExists, 409, ""),
    (UnknownName, 404, ""),
    (UnreadableFile, 503, "The server cannot read its model at the moment; its log says why."),
    (CannotWrite, 503, "The server could not write to its disk, so nothing was changed; its log says why."),
    (FolderFull, 507, ""),
    (BadInput, 422, ""),
]
_PHRASES = {404: "There is no such page; /docs lists what there is.", 405: "This cannot be done here that way."}


def tell_mistakes(app: FastAPI) -> None:
    """Every error of the app is answered with `{"error": sentence}`."""
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(TooBusy, _ours)
    app.add_exception_handler(FirstsightError, _ours)
    app.add_exception_handler(Exception, _bug)


def problem(error: Exception) -> tuple[int, str]:
    """The status and the sentence of an error that was raised on purpose."""
    for kind, status, sentence in _STATUS:
        if isinstance(error, kind):
            return status, sentence or " ".join(str(error).split())
    return 422, " ".join(str(error).split())


async def _refused(request: Request, error: Exception) -> Json:
    assert isinstance(error, Refusal)
    return Json({"error": error.sentence}, error.status, error.headers)


async def _ours(request: Request, error: Exception) -> Json:
    status, sentence = problem(error)
    if status == 503:
        logger.warning("%s", visible(str(error)))
    return Json({"error": sentence}, status, {"Retry-After": "1"} if status == 429 else None)


async def _http(request: Request, error: Exception) -> Json:
    assert isinstance(error, HTTPException)
    given = str(error.detail)
    sentence = _PHRASES.get(error.status_code, given) if given[-1:] != "." else given
    return Json({"error": sentence}, error.status_code, error.headers)


async def _invalid(request: Request, error: Exception) -> Json:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(step) for step in first.get("loc", ())[1:])[:80]
    words = " ".join(str(first.get("msg", "it is not valid")).split())[:200]
    return Json({"error": f"{place or 'The request'}: {words[:1].lower() + words[1:]}; correct it."}, 422)


async def _bug(request: Request, error: Exception) -> Json:
    return Json({"error": "Something went wrong in the server; its log says what. This is a bug."}, 500)
