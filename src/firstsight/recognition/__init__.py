"""From rows and pictures to names, confidence, reasons and "none of these"."""

from firstsight.recognition.answers import Answers, answer

__all__ = ["Answers", "answer"]
