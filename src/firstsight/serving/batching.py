"""Images of many requests, recognised together: one thread asks the Recognizer, in batches."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from PIL import Image

from firstsight._io.terminal import in_one_line, logger, visible
from firstsight.data.feature_files import FeatureFile
from firstsight.encoders.decoding import Undecodable
from firstsight.encoders.images import ImageEncoder, Prepared
from firstsight.errors import BadInput, FirstsightError
from firstsight.recognition import PredictOptions
from firstsight.serving.monitoring import ServiceMetrics
from firstsight.serving.served_model import ServedModel
from firstsight.serving.wire_schema import LONGEST_NAME, Refusal, TooBusy

if TYPE_CHECKING:
    from firstsight.serving.service import Settings

Work = Callable[[Hashable, list[Any]], Sequence[Any]]  # a question and the items that it is request of → their answers


@dataclass
class _Request:
    question: Hashable
    items: list[Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[list[Any]] = field(init=False)

    def __post_init__(self) -> None:
        self.answer = self.loop.create_future()

    def settle(self, answers: list[Any], error: BaseException | None) -> None:
        if self.answer.done():  # the client has gone
            return
        if error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(answers)


class Batcher:
    """Collect items of requests until there is a batch, or until a lone one has waited `wait` seconds.

    One thread works; while it does, the next batch collects.
    """

    def __init__(self, work: Work, *, batch_size: int = 32, wait: float = 0.002, room: int = 256):
        self.work, self.batch_size, self.wait, self.room = work, batch_size, wait, room
        self.batches = 0
        self._waiting = 0
        self._lock = threading.Lock()
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """How many items wait for their answers."""
        return self._waiting

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="recognise", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Answer everything that waits, then end."""
        self._requests.put(None)
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    async def ask(self, question: Hashable, items: list[Any]) -> list[Any]:
        """An answer for each item; items of one question are worked on together, across requests."""
        with self._lock:
            if self._waiting and self._waiting + len(items) > self.room:
                raise TooBusy
            self._waiting += len(items)
        request = _Request(question, items, asyncio.get_running_loop())
        self._requests.put(request)
        return await request.answer

    def _run(self) -> None:
        ending = False
        while not ending:
            gathered, ending = self._gather()
            groups: dict[Hashable, list[_Request]] = defaultdict(list)
            for request in gathered:
                groups[request.question].append(request)
            for question, group in groups.items():
                self._answer(question, group)

    def _gather(self) -> tuple[list[_Request], bool]:
        first = self._requests.get()
        if first is None:
            return [], True
        gathered, size, until = [first], len(first.items), time.monotonic() + self.wait
        while size < self.batch_size:
            try:
                more = self._requests.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if more is None:
                return gathered, True
            gathered.append(more)
            size += len(more.items)
        return gathered, False

    def _answer(self, question: Hashable, group: list[_Request]) -> None:
        items = [item for request in group for item in request.items]
        self.batches += 1
        try:
            answers = list(self.work(question, items))
            error = None
        except BaseException as caught:  # told to those who request; the thread must go on for the others
            answers, error = [], caught
        with self._lock:
            self._waiting -= len(items)
        for loop in {request.loop for request in group}:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(_settle, loop, group, answers, error)


def _settle(
    loop: asyncio.AbstractEventLoop, group: list[_Request], answers: list[Any], error: BaseException | None
) -> None:
    """Give the answers of a batch to the requests of this loop, which is woken once for all of them."""
    start = 0
    for request in group:
        if request.loop is loop:
            request.settle(answers[start : start + len(request.items)], error)
        start += len(request.items)


SMALL = 8 << 10  # bytes: such an image is decoded sooner than passed to another thread
FEATURES, FEATURES_OF_FILE = "features", "features of a file"  # the questions of /api/embed and /api/corrections
Upload = tuple[str, bytes]  # a file's name as it may be shown, and its content


class RecognitionQueue:
    """Bring the images of requests to the Recognizer, in batches."""

    def __init__(self, served: ServedModel, settings: Settings, metrics: ServiceMetrics):
        self.served, self.settings, self.metrics = served, settings, metrics
        self.batcher = Batcher(self._work, batch_size=settings.batch_size, wait=settings.wait, room=settings.queue)
        self._decoding = ThreadPoolExecutor(min(8, (os.cpu_count() or 1) + 1), thread_name_prefix="decode")

    @property
    def sees_images(self) -> bool:
        """Whether the model knows its backbone; one that was fitted on bare features cannot look at images."""
        return self.served.recognizer.backbone.known is not None

    def warm_up(self) -> None:
        """Load what the first image would wait for."""
        if self.sees_images:
            blank = io.BytesIO()
            Image.new("RGB", (64, 64)).save(blank, "PNG")
            self._work(PredictOptions(), [("blank", blank.getvalue())])

    def start(self) -> None:
        self.batcher.start()

    def stop(self) -> None:
        self.batcher.stop()
        self._decoding.shutdown()

    async def ask(self, question: Hashable, images: list[Upload]) -> list[tuple[str, Any, str | None]]:
        """Of each image: its name, the answer or None, and why it could not be read."""
        self._check(images)
        if any(len(content) > SMALL for _, content in images):
            loop = asyncio.get_running_loop()
            work = [loop.run_in_executor(self._decoding, self._prepare, image) for image in images]
            answers = await self.batcher.ask(question, await asyncio.gather(*work))
        else:
            answers = await self.batcher.ask(question, images)
        unread = [answer for answer in answers if isinstance(answer, Undecodable)]
        self.metrics.unreadable.inc(len(unread))
        self.metrics.images.inc(len(answers) - len(unread))
        if len(unread) == len(answers):
            raise BadInput(
                f"None of the pictures could be read ({images[0][0]}: {unread[0]}); send JPEG, PNG or another picture."
            )
        return [
            (name, None, str(answer)) if isinstance(answer, Undecodable) else (name, answer, None)
            for (name, _), answer in zip(images, answers, strict=True)
        ]

    def _check(self, images: list[Upload]) -> None:
        if not self.sees_images:
            raise BadInput("This model was fitted on features and has no backbone, so it cannot look at pictures.")
        if len(images) > self.settings.pictures:
            raise BadInput(f"{len(images)} pictures came, but one request may hold {self.settings.pictures}; split it.")
        if self.batcher.waiting and self.batcher.waiting + len(images) > self.settings.queue:
            self.metrics.count_refusal("queue")
            raise TooBusy
        for name, content in images:
            if len(content) > self.settings.upload_bytes:
                limit = self.settings.upload_bytes / 2**20
                raise Refusal(413, f"{name} is larger than {limit:.0f} MiB; send a smaller picture.")

    def _prepare(self, image: Upload) -> Prepared | Undecodable:
        """An image as the backbone looks at it, or why it cannot be read."""
        name, content = image
        try:
            encoder: ImageEncoder = self.served.current().backbone.encoder
            encoder.remember = self.settings.remember
        except FirstsightError as error:
            logger.warning("%s", in_one_line(str(error)))
            known = self.served.recognizer.backbone.known
            backbone = "" if known is None else f" {in_one_line(known.name)!r}"
            sentence = (  # without the path, which may be in the error
                f"The model's backbone{backbone} cannot be loaded, and the server's log says why; if it is missing, "
                "start the server with --backbone FOLDER."
            )
            raise Refusal(503, sentence) from error
        try:
            return encoder.prepare(content, name)
        except Undecodable as error:
            return error

    def _work(self, question: Hashable, images: list[Any]) -> list[Any]:
        """An answer for each image, prepared or not; the reason of one that cannot be read is its answer."""
        prepared = [self._prepare(image) if isinstance(image, tuple) else image for image in images]
        readable = [image for image in prepared if isinstance(image, Prepared)]
        answers = iter(self._answers(question, readable) if readable else [])
        return [next(answers) if isinstance(image, Prepared) else image for image in prepared]

    def _answers(self, question: Hashable, images: list[Prepared]) -> list[Any]:
        recognizer = self.served.current()
        self.metrics.batches.observe(len(images))
        if isinstance(question, PredictOptions):
            return recognizer.answer(images, question).entries()
        features, fingerprints, *_ = recognizer.backbone(images)
        if question == FEATURES:
            return list(features.tolist())
        rows = zip(features, fingerprints, images, strict=True)
        return [FeatureFile(row[None], [image.filename], fingerprints=print_[None]) for row, print_, image in rows]


def shown_name(name: str | None) -> str:
    """A file's name as it may be shown: its last part, without control characters."""
    last = (name or "").replace("\\", "/").rsplit("/", 1)[-1]
    return visible(last)[:LONGEST_NAME].replace("\n", " ").replace("\t", " ") or "picture"
