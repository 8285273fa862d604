"""Models that several tests ask."""

from __future__ import annotations

import pytest

from firstsight.evaluation import fit_on
from firstsight.methods import ESZSL
from firstsight.serving import calibrate
from firstsight.serving.bundle import Saved


@pytest.fixture(scope="session")
def eszsl(small):
    return fit_on(ESZSL(feature_penalty=10.0), small)


@pytest.fixture(scope="session")
def calibrated(eszsl, small):
    """A fitted model, its facts, and its calibration, as they come from a folder."""
    return Saved(eszsl, {"facts": {"attributes": list(small.attribute_names)}}, calibrate(eszsl, small))
