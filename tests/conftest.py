"""What every test may ask for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real data and weights beside the project; tests that need it skip without it."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("FIRSTSIGHT_SHARED", beside))
    if not folder.is_dir():
        pytest.skip(f"needs the shared data: there is no {folder} (set FIRSTSIGHT_SHARED)")
    return folder
