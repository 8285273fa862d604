"""Starting a server: one process, or several that share a folder, a port and their counts."""

from __future__ import annotations

import os
import socket
import tempfile

import uvicorn
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from firstsight.child_processes import without_current_folder
from firstsight.errors import BadInput
from firstsight.serving.app import make_app
from firstsight.serving.connections import BACKLOG, BoundedConnection, allowed_connections
from firstsight.serving.rates import share_rates
from firstsight.serving.server_log import json_line, start_log
from firstsight.serving.service import make_service
from firstsight.serving.service_metrics import SHARED
from firstsight.serving.service_settings import ANY_HOST, ENVIRONMENT, Settings
from firstsight.terminal import logger


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
        "firstsight.serving.run_server:app_of_worker" if several else app,
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
