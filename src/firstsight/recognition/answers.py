"""Ranked answers of a fitted model: classes, scores, confidence, "none of these", explanations, HTML page."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from firstsight._io.files import write_atomically
from firstsight._io.terminal import counted
from firstsight.data import read_descriptions
from firstsight.encoders.thumbnails import thumbnail
from firstsight.errors import BadInput
from firstsight.evaluation.calibration import Confidences, margin, reference_scores
from firstsight.evaluation.novelty import FAR_SHARE, NoveltyDetector
from firstsight.methods import BestClasses, ZeroShotClassifier
from firstsight.persistence.class_table import as_labels
from firstsight.recognition.explain import as_columns, explain
from firstsight.recognition.scoring import InTraining, Score, score_answers
from firstsight.web import as_data, read_script, read_style, sha256_source

if TYPE_CHECKING:
    from firstsight.methods import ZeroShotClassifier


# Which classes a model is to choose from.

Candidates = str | Path | Sequence[Any] | pd.DataFrame | None


def choose_classes(model: ZeroShotClassifier, wanted: Candidates) -> Any:
    """What `predict(classes=…)` takes: from "all", "seen" or "unseen", names, a table of classes, or its file."""
    if isinstance(wanted, str) and wanted in ("all", "seen", "unseen"):
        chosen = {"all": None, "seen": model.seen_classes_, "unseen": model.unseen_classes_}[wanted]
        if chosen is not None and len(chosen) == 0:
            raise BadInput(f"This model has no {wanted} classes; leave --classes out or name some.")
        return chosen
    if isinstance(wanted, (str, Path)):
        is_table = str(wanted).endswith((".csv", ".parquet"))
        wanted = read_descriptions(wanted) if is_table else [str(wanted)]
    if isinstance(wanted, pd.DataFrame):
        return wanted.set_axis(as_labels(model, wanted.index), axis="index")
    if wanted is None:
        return None
    names = list(wanted)
    numbered = model.classes_.dtype.kind in "iu" and all(str(name).isdecimal() for name in names)
    return [int(name) for name in names] if numbered else names


# Answers as one page that needs nothing else: the cards of the served page, with small pictures inside.


def write_answers_page(answers: Answers, path: str | Path, title: str = "Answers") -> None:
    """Write the page; every name on it is text, and the page's own policy lets nothing but its own script run."""
    style = read_style("tokens.css", "answer_cards.css", "answers_page.css")
    script = read_script("elements.js", "answer_cards.js", "answers_page.js")
    template = files("firstsight.web").joinpath("parts/answers_page.html").read_text(encoding="utf-8")
    page = Template(template).substitute(
        title=escape(title),
        summary=re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(_summary(answers))),
        style=style,
        style_source=sha256_source(style),
        script=script,
        script_source=sha256_source(script),
        data=as_data(_entries(answers)),
    )
    write_atomically(path, page)


def _entries(answers: Answers) -> list[dict[str, Any]]:
    entries = answers.as_json()
    for row, entry in enumerate(entries):
        entry["file"] = entry["file"] if answers.key == "file" else f"row {entry['row']}"
        entry["truth"] = answers.truth[row] if answers.truth is not None else None
        if answers.pictures and (small := thumbnail(answers.pictures[row])) is not None:
            entry["picture"] = f"data:image/jpeg;base64,{base64.b64encode(small).decode()}"
    return entries + [{"file": name, "error": why, "class": None, "top": []} for name, why in answers.skipped]


def _summary(answers: Answers) -> str:
    """What was asked, of how many classes, and how well it went where that is known."""
    n_seen = int(answers.seen.sum())
    said = [
        f"{counted(len(answers), 'row' if answers.key == 'row' else 'picture')}, among "
        f"{counted(len(answers.candidates), 'class')}: {n_seen} with labelled samples, {len(answers.seen) - n_seen} "
        "with a description only."
    ]
    if answers.rejected is not None and (n := int(answers.rejected.sum())):
        said.append(f"{n} {'is' if n == 1 else 'are'} none of these.")
    if answers.skipped:
        said.append(f"{counted(len(answers.skipped), 'picture')} could not be read.")
    if (score := answers.score()) is not None:
        said.append(str(score))
    if answers.confidence is None:
        said.append(f"{NO_CALIBRATION[0].upper()}{NO_CALIBRATION[1:]}.")
    return " ".join(said)


# Ranked answers of a fitted model: classes, scores, confidence, "none of these", and why.

NONE_OF_THESE = "none of these"
NO_CALIBRATION = (
    "this model has no calibration, so its confidence is unknown; fit it with `firstsight fit … --confidence` (or "
    "`firstsight learn`) to get it"
)


@dataclass(frozen=True, eq=False)
class Answers:
    """The best candidates of n rows, ranked.

    Attributes
    ----------
    classes, scores : arrays (n, places)
        The best class of each row first, and its score.
    confidence : array (n, places) or None
        How sure the model may be; None without a calibration.
    rejected : array (n,) or None
        Which rows are answered "none of these".
    why : list of dict or None
        What the lead of each answer over the runner-up is made of, where asked for: the strongest attributes for and
        against it, all other attributes, and other reasons; the contributions add up to the lead.
    names : sequence
        What the rows are called: file names, or numbers.
    truth : sequence or None
        The rows' classes where they are known.
    candidates : array (k,)
        The classes that could have been answered.
    skipped : sequence of (str, str)
        Files that could not be read, with the reason.
    key : str
        What `names` are: "file" or "row".
    distance : array (n,) or None
        The share of known rows that lie nearer to the training rows than this one.
    far : array (n,) or None
        Which rows look like nothing that training has seen.
    seen : array (k,)
        Which candidates training had rows of.
    pictures : sequence
        What was looked at: paths, or pictures in memory; nothing for rows of features.
    in_training : sequence or None
        Whether the model was trained on the sample: "no", "labelled", "unlabelled" (in the pool of a transductive
        method), or None where that cannot be told; None as a whole if nothing can be told.
    recognised_by : {"content", "features"} or None
        What training samples are recognised by: identical content of the image file, or identical feature values.
    """

    classes: np.ndarray  # (n, top) labels
    scores: np.ndarray  # (n, top)
    confidence: np.ndarray | None  # (n, top); None without a calibration
    rejected: np.ndarray | None  # (n,) whether none of the candidates will do; None if nobody can tell, or asked
    why: list[dict[str, Any]] | None = None  # per row
    names: Sequence[str | int] = ()  # what the rows are called: paths, or numbers
    truth: Sequence[str | None] | None = None  # the rows' classes where they are known
    candidates: np.ndarray = field(default_factory=lambda: np.array([]))  # what there was to choose from
    seen: np.ndarray = field(default_factory=lambda: np.array([], dtype=bool))  # whether training had rows of them
    skipped: Sequence[tuple[str, str]] = ()  # pictures that could not be read, and why
    key: str = "row"  # what a name is: "row" of features, or "file"
    distance: np.ndarray | None = None  # (n,) the share of known rows that are nearer to what training has seen
    far: np.ndarray | None = None  # (n,) whether the row looks like nothing that training has seen
    pictures: Sequence[Any] = ()  # what was looked at: paths, or pictures in memory; nothing for rows of features
    in_training: Sequence[InTraining | None] | None = None  # "no", "labelled" or "unlabelled"; None: unknown
    recognised_by: str | None = None  # "content" of the image file, or "features"

    def __len__(self) -> int:
        return len(self.classes)

    def about(
        self,
        names: Sequence[str | int],
        truth: Sequence[str | None] | None = None,
        skipped: Sequence[tuple[str, str]] = (),
        key: str = "row",
        pictures: Sequence[Any] = (),
    ) -> Answers:
        """The same answers, with what their rows are called and what is known of them."""
        return replace(self, names=names, truth=truth, skipped=skipped, key=key, pictures=pictures)

    @property
    def best(self) -> list[Any]:
        """The answer of each row: its best class, or "none of these"."""
        names: list[Any] = self.classes[:, 0].tolist()
        if self.rejected is None:
            return names
        return [NONE_OF_THESE if gone else name for name, gone in zip(names, self.rejected, strict=True)]

    def score(self) -> Score | None:
        """How often the best class is right, over the rows whose class is known and among the candidates.

        Printed, it counts training samples apart; `by_training` has their scores.
        """
        if self.truth is None:
            return None
        noun = "image" if self.key == "file" else "sample"
        return score_answers(
            self.truth,
            self.best,
            self.candidates.tolist(),
            in_training=self.in_training,
            recognised_by=self.recognised_by,
            noun=noun,
        )

    def to_frame(self) -> pd.DataFrame:
        """One line per row: what it is called, its class, and what else is known."""
        columns: dict[str, Any] = {self.key: list(self.names), "class": self.best}
        if self.confidence is not None:
            columns["confidence"] = self._confidence_of_best()
        if self.rejected is not None:
            columns["rejected"] = self.rejected
        if self.distance is not None:
            columns["distance"] = self.distance
        if self.in_training is not None:
            columns["in_training"] = list(self.in_training)
        if self.why is not None:
            reasons = [as_columns(why) for why in self.why]
            columns |= {name: [one[name] for one in reasons] for name in reasons[0]}
        return pd.DataFrame(columns)

    def ranked(self) -> pd.DataFrame:
        """One line per row and place: what the row is called, rank, class, confidence and score."""
        n, top = self.classes.shape
        columns: dict[str, Any] = {
            self.key: np.repeat(np.array(list(self.names), dtype=object), top),
            "rank": np.tile(np.arange(1, top + 1), n),
            "class": self.classes.ravel(),
        }
        if self.confidence is not None:
            columns["confidence"] = self.confidence.ravel()
        columns["score"] = self.scores.ravel()
        if self.rejected is not None:
            columns["rejected"] = np.repeat(self.rejected, top)
        if self.in_training is not None:
            columns["in_training"] = np.repeat(np.array(list(self.in_training), dtype=object), top)
        return pd.DataFrame(columns)

    def as_json(self) -> list[dict[str, Any]]:
        """One entry per row: file, class, confidence, top; where known, row, rejected, distance, in_training, why."""
        seen = dict(zip(self.candidates.tolist(), self.seen.tolist(), strict=True))
        return [self._entry(row, seen) for row in range(len(self))]

    def to_html(self, path: str | Path, title: str = "Answers") -> None:
        """Write one page that needs nothing else: pictures, classes with confidence, reasons; to sort and to filter."""
        write_answers_page(self, path, title)

    def _confidence_of_best(self) -> list[float | None]:
        assert self.confidence is not None
        sure = self.confidence[:, 0].tolist()
        gone = np.zeros(len(self), dtype=bool) if self.rejected is None else self.rejected
        return [None if none else one for one, none in zip(sure, gone, strict=True)]

    def _entry(self, row: int, seen: dict[Any, bool]) -> dict[str, Any]:
        labels, scores = self.classes[row].tolist(), self.scores[row].tolist()
        sure = [None] * len(labels) if self.confidence is None else self.confidence[row].tolist()
        top = [
            {"class": label, "seen": seen[label], "confidence": one, "score": score}
            for label, one, score in zip(labels, sure, scores, strict=True)
        ]
        name = self.names[row]
        entry: dict[str, Any] = {"row": name} if self.key == "row" else {}
        entry |= {"file": str(name), "class": labels[0], "confidence": sure[0], "top": top}
        if self.rejected is not None:
            entry["rejected"] = bool(self.rejected[row])
            if entry["rejected"]:
                entry |= {"class": NONE_OF_THESE, "confidence": None}
        if self.distance is not None:
            entry["distance"] = float(self.distance[row])
        if self.in_training is not None:
            entry["in_training"] = self.in_training[row]
        if self.why is not None:
            entry["why"] = self.why[row]
        return entry


def answer(
    model: ZeroShotClassifier,
    X: Any,
    classes: Any = None,
    top: int = 5,
    *,
    reject_share: float | None = None,
    reject_far: bool = True,
    shift_seen: bool = False,
    why: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Answers:
    """The `top` candidates of each row, best first; `classes` as in `predict`.

    A row that is far from everything that training has seen is "none of these", if the model can tell (it is
    calibrated), unless `reject_far` is off. Confidence falls with the distance either way.
    `reject_share` asks for "none of these" where no candidate fits, too, set so that this share of the rows of known
    classes is lost, far ones among them.
    `shift_seen` takes the calibration's constant off the scores of seen classes, which methods tend to prefer;
    left out, the answers are the method's own.
    """
    calibration = getattr(model, "calibration_", None)
    if calibration is None and (reject_share is not None or shift_seen):
        asked = f'"{NONE_OF_THESE}"' if reject_share is not None else "Shifting seen classes"
        raise BadInput(f"{asked} needs numbers measured on held-out classes, and {NO_CALIBRATION}.")
    if len(X) == 0:
        raise BadInput("There are no rows to name; give at least one.")
    if top < 1:
        raise BadInput(f"`top` must be at least 1, but is {top}.")
    X, candidates, blocks = model.score_blocks(X, classes)
    labels, seen = candidates.labels, candidates.seen_code >= 0
    best = BestClasses(len(X), min(max(top, 2 if why else 1), len(labels)))
    less, sure, known = 0.0, None, None
    if calibration is not None:
        known = reference_scores(model, X, calibration.reference)
        sure = Confidences(calibration, known[1], seen, shift_seen)
        if shift_seen and seen.any() and not seen.all():
            less = calibration.seen_shift * calibration.spread
    for part, columns, scores in blocks:
        scores = scores.astype(X.dtype, copy=False)
        if less:
            scores = scores - np.where(seen[columns], less, 0).astype(scores.dtype)
        best.add(part, columns, scores)
        if sure is not None:
            sure.add(part, scores)
    reasons = _reasons(model, X, best, candidates, less, progress) if why else None
    indices, scores = best.indices[:, :top], best.scores[:, :top].astype(X.dtype)
    answers = Answers(labels[indices], scores, None, None, reasons, names=range(len(X)), candidates=labels, seen=seen)
    if calibration is None or sure is None or known is None:
        return answers
    answers = replace(answers, confidence=sure.of(scores))
    if calibration.novelty is not None:
        answers = _compared(answers, calibration.novelty, X, reject_far)
    if reject_share is not None:
        lost = 0.0 if answers.rejected is None else FAR_SHARE
        enough = calibration.scale_for(seen, shift_seen).threshold(reject_share, lost)
        low = margin(scores[:, 0], *known) < enough
        answers = replace(answers, rejected=low if answers.rejected is None else low | answers.rejected)
    return answers


def _compared(answers: Answers, novelty: NoveltyDetector, X: Any, reject_far: bool) -> Answers:
    """With the distance of the rows, which lowers confidence and, beyond what is known, rejects."""
    assert answers.confidence is not None
    apart = novelty.distance(X)
    far = novelty.far(apart)
    return replace(
        answers,
        confidence=answers.confidence * novelty.confidence_factor(apart)[:, None],
        rejected=far if reject_far else None,
        distance=novelty.share_nearer(apart),
        far=far,
    )


def _reasons(
    model: ZeroShotClassifier,
    rows: Any,
    best: BestClasses,
    candidates: tuple[np.ndarray, np.ndarray, np.ndarray],
    shift: float,
    progress: Callable[[int, int], None] | None,
) -> list[dict[str, Any]]:
    labels, A, codes = candidates
    if len(labels) < 2:
        raise BadInput("Reasons compare the answer with the next best class; give at least two candidates.")
    names = [str(name) for name in getattr(model, "attribute_names_in_", ())]
    names = names or [f"attribute {m}" for m in range(A.shape[1])]
    pairs, scores = best.indices[:, :2], best.scores[:, :2]
    explained = explain(model, np.asarray(rows), pairs, scores, A, codes, shift=shift, progress=progress)
    answers, runners_up = labels[pairs].T.tolist()
    return [one.as_json(a, b, names) for one, a, b in zip(explained, answers, runners_up, strict=True)]
