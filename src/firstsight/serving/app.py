"""The ASGI application and the server processes that run it."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.supervisors import Multiprocess

import firstsight
from firstsight._io.child_processes import without_current_folder
from firstsight._io.terminal import logger
from firstsight.errors import BadInput
from firstsight.serving import pages
from firstsight.serving.connections import BACKLOG, STATE, BoundedConnection, Limits, allowed_connections
from firstsight.serving.json_answers import tell_mistakes
from firstsight.serving.monitoring import SHARED, json_line, start_log
from firstsight.serving.routes import ONE, ROUTERS, predict_one
from firstsight.serving.security import Protection, share_rates
from firstsight.serving.service import ANY_HOST, ENVIRONMENT, Service, Settings, make_service
from firstsight.serving.wire_schema import Asked, Problem

# The short way of a bare picture, past the machinery of forms and routes, which costs more than a light model.
#
# It calls the same function as the route does; whatever is out of the ordinary goes the long way.

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


# The application: routes over one service, behind the protection.

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
    for router in (*ROUTERS, pages.router):
        app.include_router(router)
    return Protection(ShortWay(app, service, app.exception_handlers), service.settings, service.metrics)


# Starting a server: one process, or several that share a folder, a port and their counts.


def run(settings: Settings) -> None:
    """Serve until told to stop (SIGTERM or Ctrl-C); what was accepted is answered before the end."""
    allowed = allowed_connections(settings.connections)
    if allowed < settings.connections:
        logger.warning("This process may open files for %d connections, not %d.", allowed, settings.connections)
        settings = settings.model_copy(update={"connections": allowed})
    app = make_app(make_service(settings.model, settings))  # what is wrong with the settings is told here, once
    listening = _listen(settings)
    config = server_config(settings, app)
    with tempfile.TemporaryDirectory(prefix="firstsight-") as folder:
        _announce(settings, listening)
        if settings.workers > 1:
            share_rates(folder)
            os.environ |= {ENVIRONMENT: settings.model_dump_json(), SHARED: folder}
            with without_current_folder():  # a worker that has died is started anew at any time
                Multiprocess(config, sockets=[listening]).run()
        else:
            uvicorn.Server(config).run(sockets=[listening])


def server_config(settings: Settings, app: ASGIApp) -> uvicorn.Config:
    """What uvicorn is told; several workers make the application themselves."""
    several = settings.workers > 1
    return uvicorn.Config(
        "firstsight.serving.app:app_of_worker" if several else app,
        factory=several,
        workers=settings.workers,
        lifespan="on",
        log_config=None,  # the log is set up by `server_log`
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxy),
        forwarded_allow_ips=settings.proxy or None,
        backlog=BACKLOG,
        timeout_keep_alive=30,
        http=BoundedConnection,
        ws="none",
    )


def app_of_worker() -> ASGIApp:
    """The application of a process that `run` has started."""
    settings = Settings.model_validate_json(os.environ[ENVIRONMENT])
    start_log(settings.log_format, settings.log_level)
    return make_app(make_service(settings.model, settings))


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise BadInput(
            f"Nothing can listen on {settings.host}, port {settings.port} ({error.strerror}); choose another --port."
        ) from error
    listening.listen(BACKLOG)
    listening.set_inheritable(True)
    return listening


def _announce(settings: Settings, listening: socket.socket) -> None:
    everywhere = settings.host in ANY_HOST  # no name that a browser could ask for
    host = "127.0.0.1" if everywhere else f"[{settings.host}]" if ":" in settings.host else settings.host
    where = "on every address of this machine, here at" if everywhere else "at"
    url = f"http://{host}:{listening.getsockname()[1]}/"
    message = f"firstsight is {where} {url}"
    print(json_line("info", message, url=url) if settings.log_format == "json" else message, flush=True)
