"""One served model with all that its routes need, put together from the settings."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from firstsight.errors import FirstsightError
from firstsight.recognition import Recognizer
from firstsight.serving.letters_demo import letters_demo
from firstsight.serving.recognising import Recognising
from firstsight.serving.sample_pictures import SamplePictures, read_samples
from firstsight.serving.served_model import ServedModel
from firstsight.serving.service_metrics import ServiceMetrics
from firstsight.serving.service_settings import Settings
from firstsight.serving.teaching import Sentences
from firstsight.terminal import logger, visible


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
        self.keeping = None
        self.trouble: str | None = "The model is being loaded; ask again in a moment."

    @property
    def seen(self) -> dict[str, bool]:
        """Of every class that the model knows, whether training had pictures of it."""
        model = self.served.current().model
        return dict(zip(map(str, model.classes_.tolist()), (model.seen_code_ >= 0).tolist(), strict=True))

    def start(self) -> None:
        self.recognising.start()
        threading.Thread(target=self._prepare, name="prepare", daemon=True).start()

    def stop(self) -> None:
        self.trouble = "The server is being stopped."
        self.recognising.stop()

    def _prepare(self) -> None:
        try:
            self.recognising.warm_up()
            self.trouble = None
        except FirstsightError as error:
            self.trouble = "The model's backbone cannot be loaded; the log says why."
            logger.warning("%s", visible(str(error)))


def make_service(model: Recognizer | str | Path, settings: Settings) -> Service:
    """From a model folder or a recognizer."""
    if isinstance(model, Recognizer):
        return Service(ServedModel(model), settings)
    options = {"backbone": settings.backbone, "batch_size": settings.batch_size, "runtime": settings.runtime}
    service = Service(ServedModel.open(model, **options), settings)
    if settings.samples is not None:
        service.samples = read_samples(settings.samples, service.served.recognizer)
    elif settings.demo:
        service.samples = letters_demo().samples
    return service


def _service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


Held = Annotated[Service, Depends(_service)]
