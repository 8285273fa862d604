"""Tiny vision models on disk, and a cache of one's own for every test."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before huggingface_hub is imported: no test may ask the network

SIDE = 32


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("FIRSTSIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def make_backbone(tmp_path_factory) -> Callable[..., Path]:
    """`make_backbone("resnet", seed=0)`: a folder with a tiny model of random weights."""

    def make(kind: str, seed: int = 0, mean: float = 0.5) -> Path:
        torch = pytest.importorskip("torch")

        t = pytest.importorskip("transformers")

        torch.manual_seed(seed)
        small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
        vision = {**small, "image_size": SIDE, "patch_size": 8}
        text = {**small, "vocab_size": 50, "max_position_embeddings": 16}
        model = {
            "resnet": lambda: t.ResNetModel(
                t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], layer_type="basic")
            ),
            "vit": lambda: t.ViTModel(t.ViTConfig(**vision)),
            "vit-without-pooler": lambda: t.ViTModel(t.ViTConfig(**vision), add_pooling_layer=False),
            "dinov2": lambda: t.Dinov2Model(
                t.Dinov2Config(
                    hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=SIDE, patch_size=8
                )
            ),
            "clip": lambda: t.CLIPModel(t.CLIPConfig(text_config=text, vision_config=vision, projection_dim=10)),
            "siglip": lambda: t.SiglipModel(t.SiglipConfig(text_config=text, vision_config=vision)),
            "bert": lambda: t.BertModel(t.BertConfig(**text)),
        }[kind]()
        folder = tmp_path_factory.mktemp(kind)
        model.save_pretrained(folder)
        processor = {
            "image_processor_type": "ViTImageProcessor",
            "size": {"height": SIDE, "width": SIDE},
            "image_mean": [mean] * 3,
            "image_std": [0.5] * 3,
            "resample": 2,
        }
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))
        return folder

    return make


@pytest.fixture(scope="session")
def resnet(make_backbone) -> Path:
    return make_backbone("resnet")


@pytest.fixture
def save_pictures() -> Callable[..., list[Path]]:
    """`save_pictures(folder, 3)`: pictures of noise, all different."""

    def save(folder: Path, count: int, seed: int = 0, suffix: str = ".png") -> list[Path]:
        folder.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(seed)
        paths = [folder / f"{number:03}{suffix}" for number in range(count)]
        for path in paths:
            Image.fromarray(random.integers(0, 256, size=(40, 48, 3), dtype=np.uint8)).save(path)
        return paths

    return save
