"""Pictures → features, words → class descriptions."""

from firstsight.encoders.image_folders import ImageFolder, find_images, name_as_text, survey_images
from firstsight.encoders.images import Encoded, ImageEncoder

__all__ = ["Encoded", "ImageEncoder", "ImageFolder", "find_images", "name_as_text", "survey_images"]
