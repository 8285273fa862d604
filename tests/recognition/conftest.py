"""Classes that are mixes of colours, pictures of them, and a tiny backbone that tells colours apart."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before huggingface_hub is imported: no test may ask the network

import numpy as np
import pandas as pd
import pytest
from PIL import Image

SEEN = {"rose": (9, 0, 1), "leaf": (1, 9, 0), "sea": (0, 2, 9), "sun": (8, 8, 0), "lilac": (7, 0, 8), "ice": (1, 8, 8)}
UNSEEN = {"peach": (9, 5, 2), "plum": (5, 0, 5)}


@pytest.fixture(scope="session")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(cache, monkeypatch) -> None:
    monkeypatch.setenv("FIRSTSIGHT_CACHE", str(cache))


@pytest.fixture(scope="session")
def pictures(tmp_path_factory) -> Path:
    """Eight pictures of every class, of the unseen ones, too."""
    folder, random = tmp_path_factory.mktemp("colours") / "pictures", np.random.default_rng(0)
    for name, mix in {**SEEN, **UNSEEN}.items():
        (folder / name).mkdir(parents=True)
        for number in range(8):
            pixels = np.array(mix) * 25 + random.normal(scale=20, size=(40, 40, 3))
            Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="session")
def table() -> pd.DataFrame:
    return pd.DataFrame.from_dict({**SEEN, **UNSEEN}, orient="index", columns=["red", "green", "blue"])


@pytest.fixture(scope="session")
def draw_shapes(tmp_path_factory) -> Callable[[list[str]], Path]:
    """`draw_shapes(names)`: a folder with four small grey images of each class, a blot whose row is the class's."""

    def draw(names: list[str]) -> Path:
        folder, random = tmp_path_factory.mktemp("shapes") / "images", np.random.default_rng(0)
        for number, name in enumerate(names):
            (folder / name).mkdir(parents=True)
            for copy in range(4):
                pixels = np.full((32, 32), 255, dtype=np.uint8)
                pixels[4 + 3 * number : 9 + 3 * number, 4 : 10 + 3 * number] = random.integers(0, 60)
                pixels[copy : copy + 2, 28:] = 0
                Image.fromarray(pixels).save(folder / name / f"{copy}.png")
        return folder

    return draw
