"""Pictures → features, words → class descriptions."""

from firstsight.encoders.image_folders import PictureFolder, find_pictures, name_as_text, survey_pictures
from firstsight.encoders.images import Encoded, PictureEncoder

__all__ = ["Encoded", "PictureEncoder", "PictureFolder", "find_pictures", "name_as_text", "survey_pictures"]
