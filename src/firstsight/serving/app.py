"""The ASGI application and the server processes that run it."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess

import firstsight
from firstsight._io.sandbox import without_current_folder
from firstsight._io.terminal import logger, visible
from firstsight.errors import BadInput, CannotWrite, FirstsightError, UnknownName, UnreadableFile
from firstsight.serving import pages
from firstsight.serving.monitoring import SHARED, json_line, start_log
from firstsight.serving.routes import ROUTERS
from firstsight.serving.security import (
    BACKLOG,
    STATE,
    BoundedConnection,
    ConnectionLimits,
    Protection,
    allowed_connections,
    share_rates,
)
from firstsight.serving.service import ANY_HOST, ENVIRONMENT, Service, Settings, make_service
from firstsight.serving.wire_schema import ClassExists, FolderFull, Json, Problem, Refusal, TooBusy

DESCRIPTION = """Recognises pictures of classes without labelled pictures, from descriptions, and learns new classes.

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
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, ConnectionLimits]]:
        service.start()
        yield {STATE: ConnectionLimits(service.settings, service.metrics)}  # for `BoundedConnection`
        service.stop()  # after the last request was answered

    app = FastAPI(
        title="firstsight",
        version=firstsight.__version__,
        description=DESCRIPTION,
        docs_url=None,  # it would load scripts from another host
        redoc_url=None,
        lifespan=lifespan,
        default_response_class=Json,
        responses={status: {"model": Problem, "description": meaning} for status, meaning in ERRORS.items()},
    )
    app.state.service = service
    register_error_handlers(app)
    for router in (*ROUTERS, pages.router):
        app.include_router(router)
    return Protection(app, service.settings, service.metrics)


# By type: the first that fits. Paths of this machine stay private, so what the disk reports is only logged.
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


def register_error_handlers(app: FastAPI) -> None:
    """Answer every error of the app with `{"error": sentence}`."""

    @app.exception_handler(Refusal)
    async def refused(request: Request, error: Refusal) -> Json:
        return Json({"error": error.sentence}, error.status, error.headers)

    @app.exception_handler(TooBusy)
    @app.exception_handler(FirstsightError)
    async def expected(request: Request, error: Exception) -> Json:
        status, sentence = problem(error)
        if status == 503:
            logger.warning("%s", visible(str(error)))
        return Json({"error": sentence}, status, {"Retry-After": "1"} if status == 429 else None)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Json:
        detail = str(error.detail)
        sentence = detail if detail.endswith(".") else _PHRASES.get(error.status_code, detail)
        return Json({"error": sentence}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Json:
        first = error.errors()[0]
        field = ".".join(str(step) for step in first.get("loc", ())[1:])[:80]
        message = " ".join(str(first.get("msg", "it is not valid")).split())[:200]
        sentence = f"{field or 'The request'}: {message[:1].lower() + message[1:]}; correct it."
        return Json({"error": sentence}, 422)

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Json:  # the server that runs the app logs the traceback
        return Json({"error": "Something went wrong in the server; its log says what. This is a bug."}, 500)


def problem(error: Exception) -> tuple[int, str]:
    """The status and the sentence of an error that was raised on purpose."""
    sentence = " ".join(str(error).split())
    return next(
        ((status, text or sentence) for kind, status, text in _STATUS if isinstance(error, kind)), (422, sentence)
    )


def run(settings: Settings) -> None:
    """Serve until stopped (SIGTERM or Ctrl-C); what was accepted is answered before the end."""
    allowed = allowed_connections(settings.connections)
    if allowed < settings.connections:
        logger.warning("This process may open files for %d connections, not %d.", allowed, settings.connections)
        settings = settings.model_copy(update={"connections": allowed})
    app = make_app(make_service(settings.model, settings))  # raises what is wrong with the settings, once
    listening = _listen(settings)
    config = server_config(settings, app)
    with tempfile.TemporaryDirectory(prefix="firstsight-") as folder:
        _announce(settings, listening)
        if settings.workers > 1:
            share_rates(folder)
            os.environ |= {ENVIRONMENT: settings.model_dump_json(), SHARED: folder}
            with without_current_folder():  # a worker that has died is restarted at any time
                Multiprocess(config, sockets=[listening]).run()
        else:
            uvicorn.Server(config).run(sockets=[listening])


def server_config(settings: Settings, app: ASGIApp) -> uvicorn.Config:
    """The configuration of uvicorn; several workers make the application themselves."""
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
        # A worker cannot answer before its imports are done, which takes longer than uvicorn's 5 s where the machine is
        # busy or the disk slow; it would be killed and started again for ever.
        timeout_worker_healthcheck=300,
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
