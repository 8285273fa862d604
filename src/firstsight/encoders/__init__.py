"""Pictures → features, words → class descriptions."""

from firstsight.encoders.folders import find_pictures
from firstsight.encoders.pictures import Encoded, PictureEncoder

__all__ = ["Encoded", "PictureEncoder", "find_pictures"]
