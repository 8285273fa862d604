"""Service settings, recognition requests, and the service that the routes share."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Depends, Request
from pydantic import ConfigDict, Field, ValidationError

from firstsight._io.schemas import Schema, reason
from firstsight._io.terminal import in_one_line, logger, visible
from firstsight.devices import find_device
from firstsight.encoders.decoding import Undecodable
from firstsight.encoders.images import PictureEncoder, Prepared
from firstsight.errors import BadInput, FirstsightError
from firstsight.persistence.model_folder import load_saved
from firstsight.recognition import Recognizer
from firstsight.recognition.scoring import InTraining
from firstsight.serving.batching import Batcher, TooBusy
from firstsight.serving.confirmed_images import Keeping
from firstsight.serving.json_answers import Refusal
from firstsight.serving.monitoring import ServiceMetrics
from firstsight.serving.pages import ReportPage
from firstsight.serving.samples import Maps, SamplePictures, measure, read_samples
from firstsight.serving.served_model import ServedModel
from firstsight.serving.teaching import Sentences

# How a server is set up: one record, checked once, that worker processes get as JSON.

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


# What the routes share: the model, the batches, and the way of a picture through them.

LONGEST_NAME = 200
SMALL = 8 << 10  # bytes: such a picture is decoded sooner than handed to another thread


Upload = tuple[str, bytes]  # a file's name as it may be shown, and its content


@dataclass(frozen=True)
class Question:
    """What is asked of pictures; those with one question are answered in one call."""

    top: int = 5
    classes: Literal["all", "seen", "unseen"] = "all"
    reject_share: float | None = None
    reject_far: bool = True
    shift_seen: bool = False
    why: bool = True


FEATURES = "features"  # the question of /api/embed


class Recognising:
    """Pictures → answers, for many requests at once. The Recognizer answers; this only brings pictures to it."""

    def __init__(self, served: ServedModel, settings: Settings, metrics: ServiceMetrics):
        self.served, self.settings, self.metrics = served, settings, metrics
        self.batcher = Batcher(self._work, batch_size=settings.batch_size, wait=settings.wait, room=settings.queue)
        self._decoding = ThreadPoolExecutor(min(8, (cpu_count() or 1) + 1), thread_name_prefix="decode")

    @property
    def sees_pictures(self) -> bool:
        """Whether the model knows its backbone; one that was fitted on bare features cannot look at pictures."""
        return self.served.recognizer.backbone.known is not None

    def warm_up(self) -> None:
        """Load what the first picture would wait for."""
        if self.sees_pictures:
            self._work(Question(why=False), [("blank", _blank_picture())])

    def start(self) -> None:
        self.batcher.start()

    def stop(self) -> None:
        self.batcher.stop()
        self._decoding.shutdown()

    async def ask(self, question: Hashable, pictures: list[Upload]) -> list[tuple[str, Any, str | None]]:
        """Of each picture: its name, the answer or None, and why it could not be read."""
        if not self.sees_pictures:
            raise BadInput("This model was fitted on features and has no backbone, so it cannot look at pictures.")
        if len(pictures) > self.settings.pictures:
            raise BadInput(
                f"{len(pictures)} pictures came, but one request may hold {self.settings.pictures}; split it."
            )
        if self.batcher.waiting and self.batcher.waiting + len(pictures) > self.settings.queue:
            self.metrics.refused("queue")
            raise TooBusy
        for name, content in pictures:
            if len(content) > self.settings.upload_bytes:
                limit = self.settings.upload_bytes / 2**20
                raise Refusal(413, f"{name} is larger than {limit:.0f} MiB; send a smaller picture.")
        if any(len(content) > SMALL for _, content in pictures):
            loop = asyncio.get_running_loop()
            work = [loop.run_in_executor(self._decoding, self._prepare, picture) for picture in pictures]
            answers = await self.batcher.ask(question, await asyncio.gather(*work))
        else:
            answers = await self.batcher.ask(question, pictures)
        unread = [one for one in answers if isinstance(one, Undecodable)]
        self.metrics.unreadable.inc(len(unread))
        self.metrics.pictures.inc(len(answers) - len(unread))
        if len(unread) == len(answers):
            name = pictures[0][0]
            raise BadInput(
                f"None of the pictures could be read ({name}: {unread[0]}); send JPEG, PNG or another picture."
            )
        return [
            (name, None, str(answer)) if isinstance(answer, Undecodable) else (name, answer, None)
            for (name, _), answer in zip(pictures, answers, strict=True)
        ]

    def _prepare(self, picture: Upload) -> Prepared | Undecodable:
        """A picture as the backbone looks at it, or why it cannot be read."""
        name, content = picture
        try:
            encoder: PictureEncoder = self.served.current().backbone.encoder
        except FirstsightError as error:
            logger.warning("%s", in_one_line(str(error)))
            known = self.served.recognizer.backbone.known
            name = "" if known is None else f" {in_one_line(known.name)!r}"
            sentence = (  # without the path, which may be in the error
                f"The model's backbone{name} cannot be loaded, and the server's log says why; if it is missing, start "
                "the server with --backbone FOLDER."
            )
            raise Refusal(503, sentence) from error
        try:
            return encoder.prepare(content, name)
        except Undecodable as error:
            return error

    def _work(self, question: Hashable, pictures: list[Any]) -> list[Any]:
        """An answer for each picture, prepared or not; the reason of one that cannot be read is its answer."""
        prepared = [self._prepare(one) if isinstance(one, tuple) else one for one in pictures]
        ready = [one for one in prepared if isinstance(one, Prepared)]
        answers = iter(self._answers(question, ready) if ready else [])
        return [next(answers) if isinstance(one, Prepared) else one for one in prepared]

    def _answers(self, question: Hashable, pictures: list[Prepared]) -> list[Any]:
        recognizer = self.served.current()
        self.metrics.batches.observe(len(pictures))
        if question == FEATURES:
            features: list[Any] = recognizer.backbone(pictures)[0].tolist()
            return features
        assert isinstance(question, Question)
        named = recognizer(
            pictures,
            question.top,
            classes=question.classes,
            reject_share=question.reject_share,
            reject_far=question.reject_far,
            shift_seen=question.shift_seen,
            why=question.why,
        )
        return [_entry(entry) for entry in named.as_json()]


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of `Answers.as_json` with every field, and with names as text."""
    why = entry.get("why")
    return {
        "file": entry["file"],
        "class": str(entry["class"]),
        "seen": None if entry.get("rejected") else entry["top"][0]["seen"],
        "confidence": entry["confidence"],
        "rejected": entry.get("rejected"),
        "distance": entry.get("distance"),
        "in_training": entry.get("in_training"),
        "top": [{**one, "class": str(one["class"])} for one in entry["top"]],
        "why": None if why is None else {**why, "class": str(why["class"]), "instead_of": str(why["instead_of"])},
        "error": None,
    }


def shown_name(name: str | None) -> str:
    """A file's name as it may be shown: its last part, without control characters."""
    last = (name or "").replace("\\", "/").rsplit("/", 1)[-1]
    return visible(last)[:LONGEST_NAME].replace("\n", " ").replace("\t", " ") or "picture"


def _blank_picture() -> bytes:
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.zeros((64, 64, 3), dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


# One served model with all that its routes need, put together from the settings.


class Service:
    """What is there from the start of a server to its end."""

    def __init__(self, served: ServedModel, settings: Settings):
        self.served, self.settings = served, settings
        self.metrics = ServiceMetrics()
        self.recognising = Recognising(served, settings, self.metrics)
        self.metrics.follow(
            lambda: self.recognising.batcher.waiting, lambda: len(self.served.recognizer.model.classes_)
        )
        self.sentences = Sentences(served.recognizer.model, settings.text_encoder)
        self.samples: SamplePictures | None = None
        self.maps: Maps | None = None
        self.keeping = None if settings.keep is None else Keeping(settings.keep, settings.keep_bytes)
        self.report = None if settings.results is None else ReportPage(settings.results)
        self._measured: tuple[Any, dict[str, Any]] = (None, {})
        self._trained: tuple[Any, list[InTraining | None]] = (None, [])
        self.trouble: str | None = "The model is being loaded; ask again in a moment."

    @property
    def seen(self) -> dict[str, bool]:
        """Of every class that the model knows, whether training had pictures of it."""
        model = self.served.current().model
        return dict(zip(map(str, model.classes_.tolist()), (model.seen_code_ >= 0).tolist(), strict=True))

    def show(self, samples: SamplePictures | None) -> None:
        """Have samples beside the model: to try, on the map, to measure on."""
        if samples is None:
            return
        before = None if self.settings.before is None else load_saved(self.settings.before).model
        self.samples, self.maps = samples, Maps(samples, before)

    def in_training(self) -> list[InTraining | None]:
        """Of each sample, whether the model was trained on it; computed once per training."""
        assert self.samples is not None
        model = self.served.current().model
        known = getattr(model, "training_fingerprints_", None)
        if self._trained[0] is not known or len(self._trained[1]) != len(self.samples):
            self._trained = known, self.samples.in_training(model)
        return self._trained[1]

    def measured(self) -> dict[str, Any]:
        """Accuracy on the samples, computed once per model and table of classes."""
        assert self.samples is not None
        model = self.served.current().model
        if self._measured[0] is not model:
            self._measured = model, measure(self.served.recognizer, self.samples, self.in_training())
        return self._measured[1]

    def start(self) -> None:
        self.recognising.start()
        threading.Thread(target=self._prepare, name="prepare", daemon=True).start()

    def stop(self) -> None:
        self.trouble = "The server is being stopped."
        self.recognising.stop()
        if self.report is not None:
            self.report.close()

    def _prepare(self) -> None:
        try:
            self.recognising.warm_up()
            self.trouble = None
            logger.info("The model is loaded; requests are answered.")
            if self.maps is not None:  # so that whoever looks at it first need not wait
                self.maps.of(self.served.current().model)
        except Refusal as refusal:  # what is missing, without a path of this machine; the log has the path
            self.trouble = refusal.sentence
        except Exception as error:  # of any kind: whoever waits for the server must be told
            known = isinstance(error, FirstsightError)
            logger.warning("%s", visible(str(error)), exc_info=None if known else error)
            if self.trouble is not None:
                self.trouble = "The model cannot be used; the server's log says why."


def make_service(model: Recognizer | str | Path, settings: Settings) -> Service:
    """From a model folder or a recognizer."""
    if isinstance(model, Recognizer):
        return Service(ServedModel(model, max_classes=settings.max_classes), settings)
    options = {name: getattr(settings, name) for name in ("backbone", "batch_size", "runtime", "device")}
    service = Service(ServedModel.open(model, settings.max_classes, **options), settings)
    service.show(_samples(service))
    return service


def _samples(service: Service) -> SamplePictures | None:
    settings = service.settings
    if settings.samples is not None:
        return read_samples(settings.samples, service.served.recognizer)
    if not settings.demo:
        return None
    from firstsight.serving.letters_demo import letters_demo  # what fits models takes seconds to import

    return letters_demo().samples


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service  # a plain function would be sent to a thread, for every request
    return service


Held = Annotated[Service, Depends(_service)]
