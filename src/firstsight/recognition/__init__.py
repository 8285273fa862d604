"""From rows and pictures to names, confidence, reasons and "none of these"."""

from firstsight.recognition.answers import Answers, answer
from firstsight.recognition.fitting import fit
from firstsight.recognition.learning import learn
from firstsight.recognition.recognizer import Recognizer
from firstsight.recognition.scoring import Score

__all__ = ["Answers", "Recognizer", "Score", "answer", "fit", "learn"]
