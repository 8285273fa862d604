"""Settings of a server, and the service that its routes share."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Depends, Request
from pydantic import ConfigDict, Field, ValidationError

from firstsight._io.schemas import Schema, reason
from firstsight._io.terminal import logger, visible
from firstsight.devices import find_device
from firstsight.errors import BadInput, FirstsightError
from firstsight.persistence.model_folder import load_saved
from firstsight.recognition import Recognizer
from firstsight.recognition.inputs import ModelTextEncoder
from firstsight.recognition.scoring import InTraining
from firstsight.serving.batching import RecognitionQueue
from firstsight.serving.monitoring import ServiceMetrics
from firstsight.serving.pages import ReportPage
from firstsight.serving.samples import (
    ConfirmedImageStore,
    EmbeddingMap,
    SampleImages,
    letters_demo,
    measure,
    read_samples,
)
from firstsight.serving.served_model import ServedModel
from firstsight.serving.wire_schema import Measured, Refusal

ENVIRONMENT = "FIRSTSIGHT_SERVE"  # worker processes read their settings from here
TOKEN = "FIRSTSIGHT_TOKEN"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANY_HOST = ("0.0.0.0", "::")
SHORTEST_TOKEN = 16  # characters; what is shorter can be tried out


class Settings(Schema):
    """Settings of `firstsight serve`, which worker processes get as JSON; unknown ones are rejected."""

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
    max_added: int = Field(default=1_000, ge=1, description="labelled samples to which corrections may bring the model")
    remember: int = Field(default=256, ge=0, description="pictures whose features stay in memory: asked again, no work")
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
        """Names that a request may call this server by; another name is that of a foreign page."""
        listening = () if self.host in ANY_HOST else (self.host,)
        return {name.lower().strip("[]") for name in (*LOOPBACK, *listening, *self.allow_hosts)}


def read_settings(**given: Any) -> Settings:
    """Validate settings; a server that listens elsewhere than on this machine needs a token."""
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


class Service:
    """One served model with all that its routes need, from the start of a server to its end."""

    def __init__(self, served: ServedModel, settings: Settings):
        self.served, self.settings = served, settings
        self.metrics = ServiceMetrics()
        self.queue = RecognitionQueue(served, settings, self.metrics)
        self.metrics.follow(lambda: self.queue.batcher.waiting, lambda: len(self.served.recognizer.model.classes_))
        recognizer = served.recognizer
        self.sentences = ModelTextEncoder(recognizer.model, recognizer.provenance, settings.text_encoder)
        self.samples: SampleImages | None = None
        self.map: EmbeddingMap | None = None
        self.confirmed = None if settings.keep is None else ConfirmedImageStore(settings.keep, settings.keep_bytes)
        self.report = None if settings.results is None else ReportPage(settings.results)
        self._measured: tuple[Any, Measured | None] = (None, None)
        self._in_training: tuple[Any, list[InTraining | None]] = (None, [])
        self.trouble: str | None = "The model is being loaded; ask again in a moment."

    @property
    def seen(self) -> dict[str, bool]:
        """Of every class that the model knows, whether training had pictures of it."""
        model = self.served.current().model
        return dict(zip(map(str, model.classes_.tolist()), (model.seen_code_ >= 0).tolist(), strict=True))

    def show(self, samples: SampleImages | None) -> None:
        """Offer samples next to the model: to try, on the map, to measure on."""
        if samples is None:
            return
        before = None if self.settings.before is None else load_saved(self.settings.before).model
        self.samples, self.map = samples, EmbeddingMap(samples, before)

    def in_training(self) -> list[InTraining | None]:
        """Of each sample, whether the model was trained on it; computed once per model."""
        assert self.samples is not None
        model = self.served.current().model
        if self._in_training[0] is not model or len(self._in_training[1]) != len(self.samples):
            self._in_training = model, self.samples.in_training(model)
        return self._in_training[1]

    def measured(self) -> Measured:
        """Accuracy on the samples, computed once per model and table of classes."""
        assert self.samples is not None
        model, (measured_model, measured) = self.served.current().model, self._measured
        if measured is None or measured_model is not model:
            measured = measure(self.served.recognizer, self.samples, self.in_training())
            self._measured = model, measured
        return measured

    def start(self) -> None:
        self.queue.start()
        threading.Thread(target=self._prepare, name="prepare", daemon=True).start()

    def stop(self) -> None:
        self.trouble = "The server is being stopped."
        self.queue.stop()
        if self.report is not None:
            self.report.close()

    def _prepare(self) -> None:
        try:
            self.queue.warm_up()
            self.trouble = None
            logger.info("The model is loaded; requests are answered.")
            if self.map is not None:  # so that the first visitor need not wait
                self.map.of(self.served.current().model, self.served.revision)
        except Refusal as refusal:  # what is missing, without a path of this machine; the log has the path
            self.trouble = refusal.sentence
        except Exception as error:  # of any type: /ready must report it
            known = isinstance(error, FirstsightError)
            logger.warning("%s", visible(str(error)), exc_info=None if known else error)
            if self.trouble is not None:
                self.trouble = "The model cannot be used; the server's log says why."


def make_service(model: Recognizer | str | Path, settings: Settings) -> Service:
    """From a model folder or a recognizer."""
    if isinstance(model, Recognizer):
        return Service(ServedModel(model, None, settings.max_classes, settings.max_added), settings)
    options = {name: getattr(settings, name) for name in ("backbone", "batch_size", "runtime", "device")}
    limits = settings.max_classes, settings.max_added
    service = Service(ServedModel.open(model, *limits, **options), settings)
    if settings.samples is not None:
        service.show(read_samples(settings.samples, service.served.recognizer))
    elif settings.demo:
        service.show(letters_demo().samples)
    return service


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service  # a plain function would be sent to a thread, for every request
    return service


Held = Annotated[Service, Depends(_service)]
