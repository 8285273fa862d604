"""A tiny backbone, operations that have run once, and the table of counts at the end of a campaign."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before huggingface_hub is imported: no test may ask the network

from campaigns.children import DIED, MEMORY, OK, REFUSED, TIMEOUT, TOLD, TRACEBACK
from campaigns.operations import Operation, make_operations, make_picture_operations


@pytest.fixture(scope="session")
def backbone(tmp_path_factory) -> Path:
    """A vision model of random weights that takes pictures of 16 × 16."""
    torch = pytest.importorskip("torch")

    transformers = pytest.importorskip("transformers")

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "tiny"
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 6], depths=[1, 1], layer_type="basic")
    transformers.ResNetModel(config).save_pretrained(folder)
    size = {"height": 16, "width": 16}
    about = {"image_processor_type": "ViTImageProcessor", "size": size, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(about))
    return folder


@pytest.fixture
def in_memory(tmp_path) -> Iterator[Path]:
    """A folder of its own in memory, where the system has such: thousands of fsyncs would wait for the disk."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def operations(small, backbone, tmp_path_factory) -> dict[str, Operation]:
    inputs = tmp_path_factory.mktemp("inputs")
    return make_operations(inputs, small) | make_picture_operations(inputs, backbone)


def pytest_terminal_summary(terminalreporter) -> None:
    if TOLD and terminalreporter.config.option.markexpr == "campaign":
        terminalreporter.section("campaigns")
        width = max(len(campaign) for campaign, _ in TOLD)
        kinds = (OK, REFUSED, TRACEBACK, DIED, TIMEOUT, MEMORY)
        rows = [*TOLD, ("all", sum((counts for _, counts in TOLD), Counter()))]
        terminalreporter.write_line(f"{'':{width}} {'inputs':>9}" + "".join(f"{kind:>11}" for kind in kinds))
        for campaign, counts in rows:
            numbers = "".join(f"{counts[kind]:>11,}" for kind in kinds)
            terminalreporter.write_line(f"{campaign:{width}} {counts.total():>9,}{numbers}")
