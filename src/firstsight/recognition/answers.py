"""Options and answers of a fitted model: ranked classes, confidence, "none of these", reasons, tables, HTML page."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ConfigDict, Field, ValidationError

from firstsight._io.files import write_atomically
from firstsight._io.schemas import ApiSchema, reason
from firstsight._io.terminal import counted
from firstsight.data import read_descriptions
from firstsight.encoders.images import thumbnail
from firstsight.errors import BadInput
from firstsight.evaluation.calibration import Confidences, margin, reference_scores
from firstsight.evaluation.novelty import FAR_SHARE, NoveltyDetector
from firstsight.methods import BestClasses, ZeroShotClassifier
from firstsight.persistence.added_samples import added_features
from firstsight.persistence.class_table import as_labels
from firstsight.recognition.explain import ClassLabel, Reasons, explain
from firstsight.recognition.scoring import InTraining, Score, score_answers
from firstsight.web import as_data, read_script, read_style, sha256_source

NONE_OF_THESE = "none of these"
NO_CALIBRATION = (
    "this model has no calibration, so its confidence is unknown; fit it with `firstsight fit … --confidence` (or "
    "`firstsight learn`) to get it"
)


class PredictOptions(ApiSchema):
    """What is asked of samples: the same names and meanings in Python, on the command line and over HTTP."""

    model_config = ConfigDict(frozen=True)

    top: int = Field(default=5, ge=1, description="how many classes to rank")
    classes: Any = Field(default="all", description="the candidates: all, seen, unseen, names, or a table of classes")
    reject_far: bool = Field(
        default=True, description="answer none of these where a sample is far from everything that training has seen"
    )
    reject_share: float | None = Field(
        default=None,
        ge=0,
        le=0.99,
        description="also answer none of these where no candidate fits, losing this share of samples of known classes",
    )
    shift_seen: bool = Field(
        default=False, description="calibrated stacking: take the calibration's constant off seen classes"
    )
    why: bool = Field(default=False, description="explain each answer by the attributes")

    @classmethod
    def checked(cls, **options: Any) -> PredictOptions:
        """The options, or BadInput that says which one cannot be right."""
        try:
            return cls(**options)
        except ValidationError as error:
            raise BadInput(f"The options of a prediction are not valid ({reason(error)}); correct them.") from error


class RankedClass(ApiSchema):
    """A class that a sample may be of."""

    label: ClassLabel
    seen: bool = Field(description="whether training had samples of it")
    confidence: float | None = Field(description="null where the model has no calibration")
    score: float


IN_TRAINING = "whether training had this very image, with or without its label; null where that cannot be told"


class Answer(ApiSchema):
    """What the model says of one sample; JSON, HTTP, the answers page and tables have these fields."""

    file: str = Field(description="the image's name, or the number of a row of features")
    label: str | None = Field(
        validation_alias="class",
        serialization_alias="class",
        description='the best class or "none of these"; null with an error',
    )
    seen: bool | None = None
    confidence: float | None = None
    rejected: bool | None = Field(default=None, description="null where nobody can tell: no calibration")
    distance: float | None = Field(default=None, description="the share of known samples that are nearer")
    in_training: InTraining | None = Field(default=None, description=IN_TRAINING)
    top: list[RankedClass] = Field(default_factory=list)
    why: Reasons | None = None
    error: str | None = Field(default=None, description="why the image could not be read")


@dataclass(frozen=True, eq=False)
class Answers:
    """The best candidates of n samples, ranked.

    Attributes
    ----------
    classes, scores : arrays (n, top)
        The best class of each sample first, and its score.
    confidence : array (n, top) or None
        How sure the model may be; None without a calibration.
    rejected : array (n,) or None
        Which samples are answered "none of these"; None if that cannot be told, or was not asked for.
    why : list of Reasons or None
        What the lead of each answer over the runner-up is made of, where asked for: the strongest attributes for and
        against it, all other attributes, and other reasons; the contributions add up to the lead.
    names : sequence
        What the samples are called: file names, or numbers.
    truth : sequence or None
        The samples' classes where they are known.
    candidates : array (k,)
        The classes that could have been answered.
    seen : array (k,)
        Which candidates training had samples of.
    skipped : sequence of (str, str)
        Files that could not be read, with the reason.
    key : str
        What `names` are: "file" or "row".
    distance : array (n,) or None
        The share of known samples that lie nearer to the training samples than this one.
    far : array (n,) or None
        Which samples look like nothing that training has seen.
    images : sequence
        What was looked at: paths, or images in memory; nothing for rows of features.
    in_training : sequence or None
        Whether the model was trained on the sample: "no", "labelled", "unlabelled" (in the pool of a transductive
        method), or None where that cannot be told; None as a whole if nothing can be told.
    recognised_by : {"content", "features"} or None
        What training samples are recognised by: identical content of the image file, or identical feature values.
    """

    classes: np.ndarray
    scores: np.ndarray
    confidence: np.ndarray | None = None
    rejected: np.ndarray | None = None
    why: list[Reasons] | None = None
    names: Sequence[str | int] = ()
    truth: Sequence[str | None] | None = None
    candidates: np.ndarray = field(default_factory=lambda: np.array([]))
    seen: np.ndarray = field(default_factory=lambda: np.array([], dtype=bool))
    skipped: Sequence[tuple[str, str]] = ()
    key: str = "row"
    distance: np.ndarray | None = None
    far: np.ndarray | None = None
    images: Sequence[Any] = ()
    in_training: Sequence[InTraining | None] | None = None
    recognised_by: str | None = None

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def best(self) -> list[Any]:
        """The answer of each sample: its best class, or "none of these"."""
        names: list[Any] = self.classes[:, 0].tolist()
        if self.rejected is None:
            return names
        return [NONE_OF_THESE if rejected else name for name, rejected in zip(names, self.rejected, strict=True)]

    def score(self) -> Score | None:
        """How often the best class is right, over the samples whose class is known and among the candidates.

        Printed, it counts training samples apart; `by_training` has their scores.
        """
        if self.truth is None:
            return None
        return score_answers(
            self.truth,
            self.best,
            self.candidates.tolist(),
            in_training=self.in_training,
            recognised_by=self.recognised_by,
            noun="image" if self.key == "file" else "sample",
        )

    def entries(self) -> list[Answer]:
        """One `Answer` per sample; what is not known of it is left unset."""
        seen = dict(zip(self.candidates.tolist(), self.seen.tolist(), strict=True))
        confidence = np.full(self.scores.shape, None) if self.confidence is None else self.confidence
        known = {
            name: values if isinstance(values, list) else np.asarray(values).tolist()
            for name in ("rejected", "distance", "in_training", "why")
            if (values := getattr(self, name)) is not None
        }
        entries = []
        ranked = zip(self.names, self.classes.tolist(), confidence.tolist(), self.scores.tolist(), strict=True)
        for row, (name, *ranks) in enumerate(ranked):
            fields = {key: values[row] for key, values in known.items()}
            top = [
                RankedClass(label=str(label), seen=seen[label], confidence=confident, score=score)
                for label, confident, score in zip(*ranks, strict=True)
            ]
            if fields.get("rejected"):
                best: dict[str, Any] = {"label": NONE_OF_THESE, "seen": None, "confidence": None}
            else:
                best = {"label": top[0].label, "seen": top[0].seen, "confidence": top[0].confidence}
            entries.append(Answer(file=str(name), top=top, **best, **fields))
        return entries

    def as_json(self) -> list[dict[str, Any]]:
        """The entries as dictionaries, without what is not known; of rows of features with their number, `row`."""
        rows = [{"row": name} if self.key == "row" else {} for name in self.names]
        entries = [entry.model_dump(by_alias=True, exclude_unset=True) for entry in self.entries()]
        return [row | entry for row, entry in zip(rows, entries, strict=True)]

    def to_frame(self) -> pd.DataFrame:
        """One line per sample: what it is called, its class, and what else is known."""
        columns: dict[str, Any] = {self.key: list(self.names), "class": self.best}
        if self.confidence is not None:
            best = self.confidence[:, 0]
            columns["confidence"] = best if self.rejected is None else np.where(self.rejected, np.nan, best)
        for name in ("rejected", "distance", "in_training"):
            if (values := getattr(self, name)) is not None:
                columns[name] = values
        frame = pd.DataFrame(columns)
        return frame if self.why is None else frame.join(pd.DataFrame([why.columns() for why in self.why]))

    def ranked(self) -> pd.DataFrame:
        """One line per sample and rank: what the sample is called, rank, class, confidence and score."""
        n, top = self.classes.shape
        columns: dict[str, Any] = {
            self.key: [name for name in self.names for _ in range(top)],
            "rank": np.tile(np.arange(1, top + 1), n),
            "class": self.classes.ravel(),
        }
        if self.confidence is not None:
            columns["confidence"] = self.confidence.ravel()
        columns["score"] = self.scores.ravel()
        if self.rejected is not None:
            columns["rejected"] = np.repeat(self.rejected, top)
        if self.in_training is not None:
            columns["in_training"] = [status for status in self.in_training for _ in range(top)]
        return pd.DataFrame(columns)

    def to_html(self, path: str | Path, title: str = "Answers") -> None:
        """Write one page that needs nothing else: images, classes with confidence, reasons; to sort and to filter.

        Every name on it is text, and the page's own policy lets nothing but its own script run.
        """
        style = read_style("tokens.css", "answer_cards.css", "answers_page.css")
        script = read_script("elements.js", "answer_cards.js", "answers_page.js")
        template = files("firstsight.web").joinpath("parts/answers_page.html").read_text(encoding="utf-8")
        page = Template(template).substitute(
            title=escape(title),
            summary=re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(self._summary())),
            style=style,
            style_source=sha256_source(style),
            script=script,
            script_source=sha256_source(script),
            data=as_data(self._cards()),
        )
        write_atomically(path, page)

    def _cards(self) -> list[dict[str, Any]]:
        cards = self.as_json()
        for row, card in enumerate(cards):
            card["truth"] = self.truth[row] if self.truth is not None else None
            if self.key == "row":
                card["file"] = f"row {card['row']}"
            if self.images and (small := thumbnail(self.images[row])) is not None:
                card["picture"] = f"data:image/jpeg;base64,{base64.b64encode(small).decode()}"
        unread = [Answer(file=name, label=None, top=[], error=error) for name, error in self.skipped]
        return cards + [answer.model_dump(by_alias=True, exclude_unset=True) for answer in unread]

    def _summary(self) -> str:
        """What was asked, of how many classes, and how well it went where that is known."""
        n_seen = int(self.seen.sum())
        parts = [
            f"{counted(len(self), 'row' if self.key == 'row' else 'picture')}, among "
            f"{counted(len(self.candidates), 'class')}: {n_seen} with labelled samples, {len(self.seen) - n_seen} "
            "with a description only."
        ]
        if self.rejected is not None and (n := int(self.rejected.sum())):
            parts.append(f"{n} {'is' if n == 1 else 'are'} none of these.")
        if self.skipped:
            parts.append(f"{counted(len(self.skipped), 'picture')} could not be read.")
        if (score := self.score()) is not None:
            parts.append(str(score))
        if self.confidence is None:
            parts.append(f"{NO_CALIBRATION[0].upper()}{NO_CALIBRATION[1:]}.")
        return " ".join(parts)


def choose_classes(model: ZeroShotClassifier, classes: Any) -> Any:
    """What `predict(classes=…)` of a model takes: from "all", "seen" or "unseen", names, a table, or its file."""
    if classes is None or (isinstance(classes, str) and classes == "all"):
        return None
    if isinstance(classes, str) and classes in ("seen", "unseen"):
        chosen = model.seen_classes_ if classes == "seen" else model.unseen_classes_
        if len(chosen) == 0:
            raise BadInput(f"This model has no {classes} classes; leave --classes out or name some.")
        return chosen
    if isinstance(classes, (str, Path)):
        is_table = str(classes).endswith((".csv", ".parquet"))
        classes = read_descriptions(classes) if is_table else [str(classes)]
    if isinstance(classes, pd.DataFrame):
        return classes.set_axis(as_labels(model, classes.index), axis="index")
    names = list(classes)
    numbered = model.classes_.dtype.kind in "iu" and all(str(name).isdecimal() for name in names)
    return [int(name) for name in names] if numbered else names


def rank_classes(
    model: ZeroShotClassifier,
    X: Any,
    options: PredictOptions,
    progress: Callable[[int, int], None] | None = None,
) -> Answers:
    """Rank the candidates of each row of features, best first.

    A row that is far from everything that training has seen is "none of these", if the model can tell (it is
    calibrated), unless `reject_far` is off; its confidence falls with the distance either way. `reject_share` loses
    that share of the rows of known classes, far ones among them. `shift_seen` is calibrated stacking; left out, the
    answers are the method's own.
    """
    calibration, classes = getattr(model, "calibration_", None), choose_classes(model, options.classes)
    if calibration is None and (options.reject_share is not None or options.shift_seen):
        wish = f'"{NONE_OF_THESE}"' if options.reject_share is not None else "Shifting seen classes"
        raise BadInput(f"{wish} needs numbers measured on held-out classes, and {NO_CALIBRATION}.")
    if len(X) == 0:
        raise BadInput("There are no rows to name; give at least one.")
    X, candidates, blocks = model.score_blocks(X, classes)
    labels, seen = candidates.labels, candidates.seen_code >= 0
    best = BestClasses(len(X), min(max(options.top, 2 if options.why else 1), len(labels)))
    shift, confidences, reference = 0.0, None, None
    if calibration is not None:
        reference = reference_scores(model, X, calibration.reference)
        confidences = Confidences(calibration, reference[1], seen, options.shift_seen)
        if options.shift_seen and seen.any() and not seen.all():
            shift = calibration.seen_shift * calibration.spread
    for rows, columns, scores in blocks:
        scores = scores.astype(X.dtype, copy=False)
        if shift:
            scores = scores - np.where(seen[columns], shift, 0).astype(scores.dtype)
        best.add(rows, columns, scores)
        if confidences is not None:
            confidences.add(rows, scores)
    why = _reasons(model, X, best, candidates, shift, progress) if options.why else None
    ranks, scores = best.indices[:, : options.top], best.scores[:, : options.top].astype(X.dtype)
    answers = Answers(labels[ranks], scores, why=why, names=range(len(X)), candidates=labels, seen=seen)
    if calibration is None or confidences is None or reference is None:
        return answers
    answers, lost = replace(answers, confidence=confidences.of(scores)), 0.0
    if calibration.novelty is not None:
        answers = _with_distance(answers, calibration.novelty.distance(X, added_features(model)), calibration.novelty)
        if options.reject_far:
            answers = replace(answers, rejected=answers.far)
        lost = FAR_SHARE if options.reject_far else 0.0
    if options.reject_share is not None:
        threshold = calibration.scale_for(seen, options.shift_seen).threshold(options.reject_share, lost)
        low = margin(scores[:, 0], *reference) < threshold
        answers = replace(answers, rejected=low if answers.rejected is None else low | answers.rejected)
    return answers


def _with_distance(answers: Answers, distance: np.ndarray, novelty: NoveltyDetector) -> Answers:
    """The answers with the samples' distance, which lowers confidence."""
    assert answers.confidence is not None
    return replace(
        answers,
        confidence=answers.confidence * novelty.confidence_factor(distance)[:, None],
        distance=novelty.share_nearer(distance),
        far=novelty.far(distance),
    )


def _reasons(
    model: ZeroShotClassifier,
    X: Any,
    best: BestClasses,
    candidates: tuple[np.ndarray, np.ndarray, np.ndarray],
    shift: float,
    progress: Callable[[int, int], None] | None,
) -> list[Reasons]:
    labels, descriptions, codes = candidates
    if len(labels) < 2:
        raise BadInput("Reasons compare the answer with the next best class; give at least two candidates.")
    numbered = [f"attribute {number}" for number in range(descriptions.shape[1])]
    names = [str(name) for name in getattr(model, "attribute_names_in_", numbered)]
    pairs, scores = best.indices[:, :2], best.scores[:, :2]
    explained = explain(model, np.asarray(X), pairs, scores, descriptions, codes, shift=shift, progress=progress)
    answers, runners_up = labels[pairs].T.tolist()
    return [e.reasons(a, b, names) for e, a, b in zip(explained, answers, runners_up, strict=True)]
