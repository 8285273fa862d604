"""A model behind HTTP: a page for people and a JSON API. The Recognizer answers; nothing here does."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstsight.errors import BadInput

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from firstsight.recognition import Recognizer

__all__ = ["create_app", "serve"]
_NEEDED = ("fastapi", "uvicorn", "prometheus_client", "python_multipart", "httptools")


def serve(model: str | Path | None = None, **settings: Any) -> None:
    """Serve a model folder until stopped: a page for people, and a JSON API (`firstsight serve`).

    Parameters
    ----------
    model : str or Path, optional
        The model folder; left out with `demo=True`, which serves a model of letters instead.
    **settings
        Such as host, port, token, allow_hosts, proxy, workers, keep, samples, before, results, backbone, text_encoder,
        runtime, device, pictures, upload_bytes, max_classes, max_added, keep_bytes, rate, timeout, connections, queue,
        batch_size, remember, wait, log_format and log_level; those of the command.
    """
    _require_extra()
    from firstsight.serving.app import run
    from firstsight.serving.monitoring import server_log
    from firstsight.serving.service import read_settings

    checked = read_settings(model="" if model is None else str(model), **settings)
    if checked.demo == bool(checked.model):
        raise BadInput("Give a model folder, or --demo (demo=True), and not both.")
    with server_log(checked.log_format, checked.log_level):
        if checked.demo:
            from firstsight.serving.samples import letters_demo

            letters = letters_demo()
            checked = checked.model_copy(update={"model": str(letters.model), "before": str(letters.before)})
        run(checked)


def create_app(model: Recognizer | str | Path, **settings: Any) -> ASGIApp:
    """Make the ASGI application of a model, for an existing server.

    Parameters
    ----------
    model : Recognizer, str or Path
        In memory: classes that are taught end with the process. A folder: they are kept in it.
    **settings
        As in `serve`. Connections and their time limits are those of the server that runs it.

    Returns
    -------
    ASGI application
        What uvicorn and other servers run.
    """
    _require_extra()
    from firstsight.serving.app import make_app
    from firstsight.serving.service import make_service, read_settings

    return make_app(make_service(model, read_settings(**settings)))


def _require_extra() -> None:
    if not all(importlib.util.find_spec(name) for name in _NEEDED):
        raise BadInput("Serving needs FastAPI and uvicorn, which are not installed; pip install 'firstsight[serve]'.")
