"""What every test may ask for."""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

# Tests are many small problems: two processes with one thread each finish them sooner than one with two threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest

from firstsight.data import ZeroShotDataset
from firstsight.devices import torch_is_installed
from firstsight.evaluation import fit_on
from firstsight.evaluation.calibration import calibrate
from firstsight.experiments.plan import Job
from firstsight.experiments.records import records_file
from firstsight.methods import ESZSL
from least_record import LEAST_RECORD


def pytest_configure(config) -> None:
    """A cache for this run alone, which the workers of pytest-xdist inherit: what is in the user's decides no test."""
    if not hasattr(config, "workerinput"):
        os.environ["FIRSTSIGHT_CACHE"] = tempfile.mkdtemp(prefix="firstsight-tests-")


def pytest_unconfigure(config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ["FIRSTSIGHT_CACHE"], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where torch, an optional extra, is not installed, a test that gets the error which says so is skipped."""
    report = yield
    needs_torch = not torch_is_installed() and "needs PyTorch, which is not installed" in report.longreprtext
    if report.failed and needs_torch and item.path.name != "test_without_torch.py":
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1], "Skipped: needs PyTorch, which is not installed")
    return report


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real data and weights beside the project; tests that need it skip without it."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("FIRSTSIGHT_SHARED", beside))
    if not folder.is_dir():
        pytest.skip(f"needs the shared data: there is no {folder} (set FIRSTSIGHT_SHARED)")
    return folder


@pytest.fixture(scope="session")
def small() -> ZeroShotDataset:
    """Fourteen seen classes and ten unseen ones, twelve rows each; a fit of a second names most rows, not all.

    Features are a noisy linear image of binary descriptions. Rows and classes are shuffled, so that no order tells
    seen from unseen.
    """
    random = np.random.default_rng(5)
    codes = random.choice(np.arange(1, 2**6), size=24, replace=False)
    attributes = (codes[:, None] >> np.arange(6) & 1).astype(np.float32)
    labels = random.permutation(np.repeat(np.arange(24), 12))
    features = attributes[labels] @ random.normal(size=(6, 16)) + random.normal(size=(288, 16))
    unseen = random.permutation(24)[:10]
    rows_of_seen = [np.flatnonzero(labels == c) for c in range(24) if c not in unseen]
    return ZeroShotDataset(
        name="small",
        features=features.astype(np.float32),
        labels=labels,
        class_names=tuple(f"kind {letter}" for letter in "qwertzuiopasdfghjklyxcvb"),
        description_matrix=attributes,
        train=np.concatenate([np.delete(rows, [1, 5, 9]) for rows in rows_of_seen]),
        test_seen=np.concatenate([rows[[1, 5, 9]] for rows in rows_of_seen]),
        test_unseen=np.flatnonzero(np.isin(labels, unseen)),
        attribute_names=tuple(f"trait {i}" for i in range(6)),
        images=random.integers(0, 256, size=(288, 8, 8), dtype=np.uint8),
    )


@pytest.fixture
def in_process(monkeypatch):
    """Let a benchmark's jobs run here, where torch is loaded already; what they are sent and answer is the same."""
    from firstsight.experiments import executors
    from jobs_here import Here

    monkeypatch.setattr(executors, "_LocalProcess", Here)


@pytest.fixture(scope="session")
def eszsl(small):
    return fit_on(ESZSL(feature_penalty=0.02), small)


@pytest.fixture(scope="session")
def calibrated(eszsl, small):
    """A fitted model with its calibration, as they come from a folder."""
    model = copy.copy(eszsl)
    model.calibration_ = calibrate(eszsl, small)
    return model


PROCESSOR = {
    "image_processor_type": "ViTImageProcessor",
    "size": {"height": 32, "width": 32},
    "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3,
}


@pytest.fixture(scope="session")
def backbone(tmp_path_factory) -> Path:
    """A folder with a tiny ResNet of random weights."""
    torch, t = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "tiny"
    config = t.ResNetConfig(embedding_size=16, hidden_sizes=[16, 24], depths=[1, 1], layer_type="basic")
    t.ResNetModel(config).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    return folder


WORDS = ["a", "photo", "of", ".", "red", "fox", "wolf", "owl", "striped", "horse", "drawing", "grey", "bird"]


@pytest.fixture(scope="session")
def make_dual_encoder(tmp_path_factory) -> Callable[..., Path]:
    """`make_dual_encoder("clip", seed=0)`: a folder with a tiny text and image tower of random weights."""

    def make(kind: str = "clip", seed: int = 0) -> Path:
        torch, t = pytest.importorskip("torch"), pytest.importorskip("transformers")
        from tokenizers import Tokenizer, models, pre_tokenizers, processors

        vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[END]", *WORDS])}
        words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
        words.pre_tokenizer = pre_tokenizers.Whitespace()
        words.post_processor = processors.TemplateProcessing(single="$A [END]", special_tokens=[("[END]", 2)])
        special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "eos_token": "[END]"}
        tokenizer = t.PreTrainedTokenizerFast(
            tokenizer_object=words, **special, model_max_length=16, model_input_names=["input_ids", "attention_mask"]
        )
        small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        ends = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 2}
        text = {**small, **ends, "vocab_size": len(vocabulary), "max_position_embeddings": 16}
        vision = {**small, "image_size": 32, "patch_size": 8}
        torch.manual_seed(seed)
        if kind == "clip":
            model = t.CLIPModel(t.CLIPConfig(text_config=text, vision_config=vision, projection_dim=12))
        else:
            model = t.SiglipModel(t.SiglipConfig(text_config=text, vision_config=vision))
        folder = tmp_path_factory.mktemp(kind) / f"tiny-{kind}"
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
        return folder

    return make


@pytest.fixture(scope="session")
def dual_encoder(make_dual_encoder) -> Path:
    return make_dual_encoder()


QUICK = {
    "embedding_dim": 16,
    "feature_length": 0,
    "learning_rate": 0.01,
    "iterations": 8,
    "batch_size": 16,
    "semantic_steps": 10,
}


@pytest.fixture(scope="session")
def quick() -> dict:
    """Parameters by method that make the deep ones a matter of a moment."""
    return {"deep-embedding": QUICK, "transductive-deep-embedding": {**QUICK, "rounds": 3, "round_iterations": 3}}


@pytest.fixture
def record():
    """A record with as little in it as the schema allows."""

    def make(**more) -> dict:
        return {**LEAST_RECORD, "dataset": "small", "split": "s", "t1": 50.0, **more}

    return make


@pytest.fixture
def write(tmp_path):
    """Write records, or lines as they are, to small.jsonl of the test's folder."""

    def lines(*records, end="\n") -> Path:
        path = records_file(tmp_path, "small")
        text = "\n".join(r if isinstance(r, str) else json.dumps(r) for r in records)
        path.write_text(text + end, encoding="utf-8")
        return path

    return lines


@pytest.fixture
def job() -> Job:
    return Job("small", "eszsl", ("zsl", "gzsl"), 0)
