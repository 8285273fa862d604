"""From rows and images to names, confidence, reasons and "none of these"."""

from firstsight.recognition.answers import Answer, Answers, PredictOptions
from firstsight.recognition.learning import fit, learn
from firstsight.recognition.recognizer import Recognizer
from firstsight.recognition.scoring import Score

__all__ = ["Answer", "Answers", "PredictOptions", "Recognizer", "Score", "fit", "learn"]
