"""One served model with all that its routes need, put together from the settings."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request

from firstsight.errors import FirstsightError
from firstsight.models import load_saved
from firstsight.recognition import Recognizer
from firstsight.recognition.training_samples import InTraining
from firstsight.serving.json_answers import Refusal
from firstsight.serving.keeping import Keeping
from firstsight.serving.landscape import Maps
from firstsight.serving.measured import measure
from firstsight.serving.recognising import Recognising
from firstsight.serving.report_page import ReportPage
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
