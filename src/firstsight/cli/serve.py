"""`firstsight serve`: a page and a JSON API over a saved model."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from firstsight._io.terminal import logger
from firstsight.cli.options import Device
from firstsight.errors import BadInput, FirstsightError

Host = Annotated[str, typer.Option(help="The address to listen on; any but this machine's own needs a token.")]
Token = Annotated[
    Path | None, typer.Option(help="A file with the token that requests must send; $FIRSTSIGHT_TOKEN does as well.")
]
Samples = Annotated[
    str | None, typer.Option(help="Labelled samples: a data set, a folder of pictures, or their features (.npz).")
]
TextModel = Annotated[str | None, typer.Option(help="Where the text model is that described the classes.")]


class LogFormat(StrEnum):
    """The formats of the log."""

    text = "text"
    json = "json"


def _report_as_json(command: Callable[..., None]) -> Callable[..., None]:
    """Report what ends the command as a JSON line, too, if that is the format of the log."""

    @wraps(command)
    def run(*args: Any, log_format: LogFormat, **options: Any) -> None:
        try:
            command(*args, log_format=log_format, **options)
        except Exception as error:
            if log_format is not LogFormat.json:
                raise
            from firstsight.serving.monitoring import json_line

            known = isinstance(error, FirstsightError)
            fields = {} if known else {"traceback": "".join(traceback.format_exception(error))}
            print(json_line("error", " ".join(str(error).split()), **fields), file=sys.stderr)
            raise typer.Exit(2 if known else 1) from None

    return run


@_report_as_json
def serve(
    model: Annotated[Path | None, typer.Argument(help="A model folder.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a model of letters, made on the spot.")] = False,
    host: Host = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    token_file: Token = None,
    allow_host: Annotated[list[str] | None, typer.Option(help="Another name that browsers call it by.")] = None,
    proxy: Annotated[list[str] | None, typer.Option(help="The address of a proxy in front of it.")] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes; they see each other's classes.")] = 1,
    keep: Annotated[Path | None, typer.Option(help="Keep pictures that people confirm here, for `learn`.")] = None,
    samples: Samples = None,
    before: Annotated[Path | None, typer.Option(help="A model to show beside this one on the map.")] = None,
    results: Annotated[Path | None, typer.Option(help="Benchmark records to show a report of.")] = None,
    backbone: Annotated[str | None, typer.Option(help="Where the model's backbone is.")] = None,
    text_encoder: TextModel = None,
    device: Device = "cpu",
    max_upload: Annotated[int, typer.Option(min=1, max=1024, help="MiB that one picture may have.")] = 32,
    max_classes: Annotated[int, typer.Option(min=1, help="Classes to which teaching may bring the model.")] = 10_000,
    max_added: Annotated[int, typer.Option(min=1, help="Samples to which corrections may bring the model.")] = 1_000,
    max_kept: Annotated[int, typer.Option(min=1, help="MiB that kept pictures may have together.")] = 1024,
    rate: Annotated[float, typer.Option(min=0, help="Requests per second of one client; 0: any number.")] = 50.0,
    timeout: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds in which a request must arrive.")] = 15.0,
    max_connections: Annotated[int, typer.Option(min=8, help="Open connections of a process.")] = 512,
    queue: Annotated[int, typer.Option(min=1, help="Pictures that may wait.")] = 256,
    batch_size: Annotated[int, typer.Option(min=1, help="Pictures that are recognised together.")] = 32,
    remember: Annotated[int, typer.Option(min=0, help="Pictures whose features stay in memory.")] = 256,
    log_format: Annotated[LogFormat, typer.Option(help="Lines for people, or a JSON object each.")] = LogFormat.text,
) -> None:
    """Start a server for a model: a page and a JSON API. It prints its address; `firstsight -v serve` logs requests."""
    from firstsight.serving import serve

    data = {"keep": keep, "samples": samples, "before": before, "results": results}
    limits = {"rate": rate, "timeout": timeout, "connections": max_connections, "queue": queue}
    most = {"max_classes": max_classes, "max_added": max_added, "remember": remember, "batch_size": batch_size}
    sizes = {"upload_bytes": max_upload << 20, "keep_bytes": max_kept << 20}
    serve(
        model,
        demo=demo,
        host=host,
        port=port,
        token=None if token_file is None else _read_token(token_file),
        allow_hosts=allow_host or [],
        proxy=proxy or [],
        workers=workers,
        backbone=backbone,
        text_encoder=text_encoder,
        device=device,
        **data,
        **(limits | most | sizes),
        **_log(log_format),
    )


def _log(log_format: LogFormat) -> dict[str, str]:
    """The settings of the log; its level is that of `-v` and `-q`."""
    return {"log_format": log_format.value, "log_level": logging.getLevelName(logger.level).lower()}


def _read_token(path: Path) -> str:
    from firstsight._io.files import require_file

    try:
        return require_file(path).read_text(encoding="ascii").strip()
    except UnicodeError as error:
        raise BadInput(f"The token in {path} must be ASCII characters; `openssl rand -hex 24` makes one.") from error
