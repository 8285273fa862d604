"""The application: routes over one service, behind the protection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp

import firstsight
from firstsight.serving import (
    api_page,
    page_files,
    routes_about,
    routes_look,
    routes_recognise,
    routes_teach,
)
from firstsight.serving.connections import STATE, Limits
from firstsight.serving.json_answers import tell_mistakes
from firstsight.serving.protection import Protection
from firstsight.serving.service import Service
from firstsight.serving.short_way import ShortWay
from firstsight.serving.wire_schema import Problem

ABOUT = """Recognises pictures of classes that nobody has labelled, from their descriptions, and learns new classes.

Pictures are uploaded; addresses are never fetched. An error is `{"error": sentence}`. Whatever changes something needs
the header `X-Firstsight: 1`. A server with a token wants `Authorization: Bearer TOKEN`."""
ERRORS = {
    400: "a name of the server, or a body, that cannot be right",
    401: "the token is missing",
    403: "not allowed from there, or not switched on",
    404: "there is no such thing",
    405: "not in this way",
    408: "the request did not arrive in time",
    409: "the class exists",
    413: "too large",
    422: "something in the request is wrong",
    429: "too much at once; Retry-After says how many seconds to wait",
    503: "not at the moment",
    507: "no room for more",
}


def make_app(service: Service) -> ASGIApp:
    """The ASGI application of a service; it starts and stops with the server that runs it."""

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[dict[str, Limits]]:
        service.start()
        yield {STATE: Limits(service.settings, service.metrics)}  # for the connections of our own server
        service.stop()  # after the last request was answered

    app = FastAPI(
        title="firstsight",
        version=firstsight.__version__,
        description=ABOUT,
        docs_url=None,  # it would load scripts from another host
        redoc_url=None,
        lifespan=living,
        responses={status: {"model": Problem, "description": what} for status, what in ERRORS.items()},
    )
    app.state.service = service
    tell_mistakes(app)
    for room in (routes_about, routes_recognise, routes_teach, routes_look, api_page, page_files):
        app.include_router(room.router)
    return Protection(ShortWay(app, service, app.exception_handlers), service.settings, service.metrics)
