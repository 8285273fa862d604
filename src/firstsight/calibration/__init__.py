"""How sure a model may be: measured on held-out classes, kept with the model."""

from firstsight.calibration.confidence import Calibration
from firstsight.calibration.measuring import calibrate

__all__ = ["Calibration", "calibrate"]
