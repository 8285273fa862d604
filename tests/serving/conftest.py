"""A served model of letters that is made in a second, and clients for it."""

from __future__ import annotations

import shutil
import signal
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

from firstsight.data import make_dataset
from firstsight.data.glyphs import describe, draw_letters
from firstsight.encoders.backbone import LetterBackbone
from firstsight.methods import KernelPrototypes
from firstsight.persistence.model_schema import BackboneUsed, Provenance
from firstsight.recognition import Recognizer, fit
from firstsight.serving.samples import SampleImages
from serving.small_server import LETTERS, UNSEEN, Server, as_png


@pytest.fixture(scope="session")
def drawn():
    """Pictures (n, 32, 32) of the letters and their labels, eight of each."""
    pictures = draw_letters(list(LETTERS)).reshape(len(LETTERS), -1, 32, 32)[:, ::4]
    return pictures.reshape(-1, 32, 32), np.repeat(list(LETTERS), pictures.shape[1])


@pytest.fixture(scope="session")
def letters(drawn) -> Recognizer:
    """Sixteen letters seen, four unseen, and the calibration of a second."""
    pictures, labels = drawn
    backbone = LetterBackbone()
    features = backbone.run(np.stack([backbone.prepare(Image.fromarray(one)) for one in pictures]))
    matrix, names = describe(list(LETTERS))
    table = pd.DataFrame(matrix, index=list(LETTERS), columns=names)
    data = make_dataset(features, labels.tolist(), table, unseen=list(UNSEEN), name="letters")
    made = fit(KernelPrototypes(search=False, refinement=0), data, confidence=True)
    used = BackboneUsed(name=backbone.name, fingerprint=backbone.fingerprint, dim=backbone.dim)
    return Recognizer(made.model, Provenance(backbone=used))


@pytest.fixture(scope="session")
def saved(letters, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "model"
    letters.save(folder)
    return folder


@pytest.fixture
def model(saved, tmp_path) -> Path:
    """A model folder of the test's own."""
    return Path(shutil.copytree(saved, tmp_path / "model"))


@pytest.fixture
def samples(drawn) -> SampleImages:
    pictures, labels = drawn
    backbone = LetterBackbone()
    chosen = np.arange(0, len(labels), 4)
    features = backbone.run(np.stack([backbone.prepare(Image.fromarray(pictures[row])) for row in chosen]))
    return SampleImages(features, labels[chosen].tolist(), [pictures[row] for row in chosen])


@contextmanager
def _clients(folder: Path):
    """`start(…)` → a client of an application over a model; all are stopped at the end."""
    from starlette.testclient import TestClient

    from firstsight.serving.app import make_app
    from firstsight.serving.service import make_service, read_settings

    with ExitStack() as stack:

        def start(recognizer=None, samples=None, **settings):
            service = make_service(recognizer or folder, read_settings(**{"rate": 0.0, **settings}))
            service.show(samples)
            client = TestClient(make_app(service), base_url="http://127.0.0.1", raise_server_exceptions=False)
            client.service = service
            return stack.enter_context(client)

        yield start


@pytest.fixture
def serving(model):
    """`serving(**settings)` → a client of an application over the test's own model."""
    with _clients(model) as start:
        yield start


@pytest.fixture
def client(serving):
    return serving()


@pytest.fixture(scope="session")
def steady(saved):
    """A client for tests that change nothing."""
    with _clients(saved) as start:
        yield start()


@pytest.fixture(scope="session")
def png(drawn):
    """`png("é")` → a file's bytes: one of the drawings."""
    pictures, labels = drawn

    def make(letter: str, number: int = 3) -> bytes:
        return as_png(Image.fromarray(pictures[np.flatnonzero(labels == letter)[number]]))

    return make


@pytest.fixture
def server():
    """`server("model", …)` → a running server; those that still run at the end are ended."""
    running: list[Server] = []

    def start(*words: str, **environment: str) -> Server:
        running.append(Server(*map(str, words), **environment))
        return running[-1].wait()

    yield start
    for one in running:
        if one.process.poll() is None:
            one.stop(signal.SIGKILL)
