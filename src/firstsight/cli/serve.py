"""`firstsight serve`: a page and a JSON API over a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firstsight.cli.embed import Device
from firstsight.errors import BadInput

Token = Annotated[
    Path | None, typer.Option(help="A file with the token that requests must send; $FIRSTSIGHT_TOKEN does as well.")
]
Samples = Annotated[
    str | None, typer.Option(help="Labelled samples: a data set, a folder of pictures, or their features (.npz).")
]
TextModel = Annotated[str | None, typer.Option(help="Where the text model is that described the classes.")]


def serve(
    model: Annotated[Path | None, typer.Argument(help="A model folder.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a model of letters, made on the spot.")] = False,
    host: Annotated[str, typer.Option(help="The address to listen on; any but this machine's own needs a token.")] = (
        "127.0.0.1"
    ),
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
    max_kept: Annotated[int, typer.Option(min=1, help="MiB that kept pictures may have together.")] = 1024,
    rate: Annotated[float, typer.Option(min=0, help="Requests per second of one client; 0: any number.")] = 50.0,
    queue: Annotated[int, typer.Option(min=1, help="Pictures that may wait.")] = 256,
    batch_size: Annotated[int, typer.Option(min=1, help="Pictures that are recognised together.")] = 32,
) -> None:
    """Start a server for a model: a page to recognise and teach on, and a JSON API. It prints its address."""
    from firstsight.serving import serve

    serve(
        model,
        demo=demo,
        host=host,
        port=port,
        token=None if token_file is None else _read_token(token_file),
        allow_hosts=allow_host or [],
        proxy=proxy or [],
        workers=workers,
        keep=keep,
        samples=samples,
        before=before,
        results=results,
        backbone=backbone,
        text_encoder=text_encoder,
        device=device,
        upload_bytes=max_upload << 20,
        max_classes=max_classes,
        keep_bytes=max_kept << 20,
        rate=rate,
        queue=queue,
        batch_size=batch_size,
    )


def _read_token(path: Path) -> str:
    from firstsight.files import require_file

    try:
        return require_file(path).read_text(encoding="ascii").strip()
    except UnicodeError as error:
        raise BadInput(f"The token in {path} must be ASCII characters; `openssl rand -hex 24` makes one.") from error
