"""What the routes share: the model, the batches, and the way of a picture through them."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from typing import Any, Literal

import numpy as np

from firstsight.encoders.decoding import Undecodable
from firstsight.encoders.pictures import PictureEncoder, Prepared
from firstsight.errors import BadInput, FirstsightError
from firstsight.serving.batching import Batcher, TooBusy
from firstsight.serving.json_answers import Refusal
from firstsight.serving.served_model import ServedModel
from firstsight.serving.service_metrics import ServiceMetrics
from firstsight.serving.service_settings import Settings
from firstsight.terminal import in_one_line, logger, visible

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
