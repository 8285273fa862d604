"""The short way of a bare picture, past the machinery of forms and routes, which costs more than a light model.

It calls the same function as the route does; whatever is out of the ordinary goes the long way.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from firstsight.serving.routes_recognise import ONE, predict_one
from firstsight.serving.service import Service
from firstsight.serving.wire_schema import Asked
from firstsight.terminal import logger

Handlers = dict[Any, Any]  # what answers an error, by its type
_ROUTE = SimpleNamespace(path=ONE)  # what counts of requests are kept under


class ShortWay:
    """The ASGI application in front of the routes."""

    def __init__(self, app: ASGIApp, service: Service, handlers: Handlers):
        self.app, self.service, self.handlers = app, service, handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = None
        if scope["type"] == "http" and scope["path"] == ONE and scope["method"] == "POST":
            asked = asked_in(scope["query_string"])
        if asked is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = _ROUTE
        answer = await self._answer(Request(scope, receive), asked)
        await answer(scope, receive, send)

    async def _answer(self, request: Request, asked: Asked) -> Response:
        try:
            response: Response = await predict_one(self.service, request, asked)
            return response
        except Exception as error:
            kind = next(kind for kind in type(error).__mro__ if kind in self.handlers)
            if kind is Exception:  # not one that was raised on purpose
                logger.error("A picture could not be answered.", exc_info=error)
            told: Response = await self.handlers[kind](request, error)
            return told


@lru_cache(maxsize=256)
def asked_in(query: bytes) -> Asked | None:
    """What a query string asks for; None if something is wrong with it, which the route then tells."""
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    if len(dict(pairs)) < len(pairs):
        return None
    try:
        return Asked.model_validate(dict(pairs))
    except ValidationError:
        return None
