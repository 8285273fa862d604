"""How a server is set up: one record, checked once, that worker processes get as JSON."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from firstsight.devices import find_device
from firstsight.errors import BadInput
from firstsight.schemas import Schema, reason

ENVIRONMENT = "FIRSTSIGHT_SERVE"  # worker processes read their settings from here
TOKEN = "FIRSTSIGHT_TOKEN"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANY_HOST = ("0.0.0.0", "::")
SHORTEST_TOKEN = 16  # characters; what is shorter can be tried out


class Settings(Schema):
    """What `firstsight serve` was told; a setting that is not known here is a mistake."""

    model_config = ConfigDict(extra="forbid")

    model: str = Field(default="", description="the model folder")
    demo: bool = Field(default=False, description="the embedded letters")
    host: str = Field(default="127.0.0.1", description="the address to listen on")
    port: int = Field(default=8000, ge=0, le=65535, description="0: any free one")
    token: str | None = Field(default=None, description="what every request must know", repr=False)
    allow_hosts: list[str] = Field(default_factory=list, description="other names that browsers may call it by")
    proxy: list[str] = Field(default_factory=list, description="addresses of proxies whose X-Forwarded-For is believed")
    workers: int = Field(default=1, ge=1, le=64, description="processes")
    keep: str | None = Field(default=None, description="where confirmed pictures go")
    samples: str | None = Field(default=None, description="a data set, a folder of labelled pictures or their features")
    before: str | None = Field(default=None, description="the model before the transductive step, for the map")
    results: str | None = Field(default=None, description="benchmark records to report on")
    backbone: str | None = Field(default=None, description="where the model's backbone is")
    text_encoder: str | None = Field(default=None, description="where the text model is that described the classes")
    runtime: str = Field(default="auto", description="what runs the backbone")
    device: str = Field(default="cpu", description="where backbone and model run")
    pictures: int = Field(default=64, ge=1, le=1000, description="pictures in one request")
    upload_bytes: int = Field(default=32 << 20, ge=1024, description="of one picture")
    max_classes: int = Field(default=10_000, ge=1, description="to which teaching may bring the model")
    keep_bytes: int = Field(default=1 << 30, ge=1024, description="of all confirmed pictures together")
    rate: float = Field(default=50.0, ge=0, description="requests per second of one client, in the long run; 0: any")
    timeout: float = Field(
        default=15.0, gt=0, le=3600, description="seconds in which headers must arrive and a body must get on"
    )
    connections: int = Field(default=512, ge=8, le=100_000, description="open connections of a process")
    queue: int = Field(default=256, ge=1, description="pictures that may wait")
    batch_size: int = Field(default=32, ge=1, description="pictures that are recognised together")
    wait: float = Field(default=0.002, ge=0, le=1, description="seconds that a lone picture waits for company")
    log_format: Literal["text", "json"] = Field(default="text", description="how lines are logged")
    log_level: Literal["debug", "info", "warning"] = Field(default="info", description="debug: every request, too")

    @property
    def request_bytes(self) -> int:
        """Of a whole request: two of the largest pictures, or many small ones."""
        return 2 * self.upload_bytes + (1 << 20)

    @property
    def hosts(self) -> set[str]:
        """Names that a request may call this server by; another one is a page of somebody else's at our address."""
        own = {self.host} if self.host not in ANY_HOST else set()
        return {name.lower().strip("[]") for name in (*LOOPBACK, *own, *self.allow_hosts)}


def read_settings(**given: Any) -> Settings:
    """Settings from what a person said; a mistake is one sentence, and nothing listens without a token elsewhere."""
    given["token"] = (given.get("token") or os.environ.get(TOKEN) or "").strip() or None
    try:
        settings = Settings.model_validate({k: str(v) if isinstance(v, Path) else v for k, v in given.items()})
    except ValidationError as error:
        raise BadInput(f"The server cannot be set up like this ({reason(error)}); correct it.") from error
    if settings.host not in LOOPBACK and settings.token is None:
        raise BadInput(
            f"Listening on {settings.host} lets others in, so a token is needed: put {SHORTEST_TOKEN} characters or "
            f"more into ${TOKEN} or a file (--token-file), or leave --host out."
        )
    if settings.token is not None and not (len(settings.token) >= SHORTEST_TOKEN and settings.token.isascii()):
        raise BadInput(
            f"The token must be {SHORTEST_TOKEN} or more ASCII characters; `openssl rand -hex 24` makes one."
        )
    if settings.device != "cpu":  # torch takes seconds to import
        find_device(settings.device)
    return settings
