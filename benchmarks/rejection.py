"""How well rows and pictures that belong to no class are told from those that do.

    python benchmarks/rejection.py --cub CUB --other ANIMALS42 --birds CUB_SAMPLE --backbone RESNET50

CUB and ANIMALS42 are xlsa17 folders with features of one backbone, which is RESNET50; CUB_SAMPLE is a folder with
`images/`, `attributes.csv` and `split.csv`. Each measure of strangeness is fitted on training rows; printed is its
AUROC, unknown rows against known ones (of seen classes, held out, and of classes that are only described; both weigh
the same):

  validation folds of CUB   unknown: classes that are held out and not described (hard), ANIMALS42, odd pictures
  CUB                       test rows are known; unknown: ANIMALS42, odd pictures
  few pictures              48 birds of 8 classes, five ways to choose them; unknown: odd pictures

Below each table: what the package does by itself ("far") and with `reject_share=0.05`: known rows lost, unknown ones
caught, and the calibration error with and without the fall of confidence with distance.
"""

from __future__ import annotations

import argparse
import string
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import logsumexp
from sklearn.covariance import ledoit_wolf
from sklearn.metrics import roc_auc_score

from firstsight import load_dataset
from firstsight.data import ZeroShotDataset
from firstsight.data.dataset import make_training_set
from firstsight.encoders.embedding import embed
from firstsight.evaluation import fit_on
from firstsight.evaluation.calibration import calibrate, reliability
from firstsight.methods import ESZSL, KernelPrototypes
from firstsight.recognition import Recognizer

MEASURES = ("Mahalanobis", "relative Mahalanobis", "residual", "energy", "margin", "k-NN (far)", "joined")
Parts = dict[str, np.ndarray]


# Odd pictures ---------------------------------------------------------------------------------------------------------


def draw_odd_pictures(folder: Path, n: int = 32, seed: int = 1) -> None:
    """`n` pictures each of noise, blanks, plots and letters."""
    random = np.random.default_rng(seed)
    for kind, draw in (("noise", _noise), ("blanks", _blank), ("plots", _plot), ("letters", _letters)):
        (folder / kind).mkdir(parents=True)
        for number in range(n):
            draw(folder / kind / f"{number:02}.png", number, random)


def _noise(path: Path, number: int, random: np.random.Generator) -> None:
    from PIL import Image

    height, width = random.integers(60, 400, 2)
    channels = 1 if number % 3 == 2 else 3  # every third is grey
    pixels = random.normal(random.uniform(60, 200), random.uniform(10, 90), (height, width, channels))
    Image.fromarray(np.clip(pixels * np.ones(3), 0, 255).astype(np.uint8)).save(path)


def _blank(path: Path, number: int, random: np.random.Generator) -> None:
    from PIL import Image

    height, width = (1, 1) if number == 0 else random.integers(2, 400, 2)
    ends = random.integers(0, 256, (2, 3)) if number % 3 else np.repeat(random.integers(0, 256, (1, 3)), 2, axis=0)
    pixels = np.linspace(*ends, height)[:, None, :] * np.ones((1, width, 1))  # a slope of colours, or one colour
    Image.fromarray(pixels.astype(np.uint8)).save(path)


def _plot(path: Path, number: int, random: np.random.Generator) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 3))
    axes, kind = figure.subplots(), number % 4
    if kind == 0:
        axes.plot(random.normal(size=(60, random.integers(1, 5))).cumsum(axis=0))
    elif kind == 1:
        axes.bar(range(9), random.random(9), color=random.random(3))
    elif kind == 2:
        axes.scatter(*random.normal(size=(2, 90)), c=random.random(90))
    else:
        axes.imshow(random.random((9, 9)))
    figure.savefig(path)


def _letters(path: Path, number: int, random: np.random.Generator) -> None:
    from PIL import Image, ImageDraw, ImageFont

    paper, ink = (tuple(random.integers(low, low + 90, 3).tolist()) for low in (165, 0))
    picture = Image.new("RGB", (240, 240), paper)
    pen, signs = ImageDraw.Draw(picture), list(string.ascii_letters + string.digits)
    if number % 2:
        pen.text((50, 10), random.choice(signs), font=ImageFont.load_default(size=180), fill=ink)
    else:
        for line in range(12):
            text = "".join(random.choice([*signs, " ", " ", " "], 26))
            pen.text((8, 6 + 19 * line), text, font=ImageFont.load_default(size=15), fill=ink)
    picture.save(path)


# Measures of strangeness ----------------------------------------------------------------------------------------------


class Rivals:
    """Mahalanobis' distances and the residual of a principal subspace, on rows of unit length."""

    def __init__(self, X: np.ndarray, y: np.ndarray):
        self.mean = _unit(X).mean(axis=0)
        Z = _unit(X) - self.mean
        self.basis = np.linalg.svd(Z if len(Z) <= 4 * Z.shape[1] else Z.T @ Z, full_matrices=False)[2]
        self.basis = self.basis[: min(256, len(X) // 2)].T
        P, (names, codes) = Z @ self.basis, np.unique(y, return_inverse=True)
        self.means = np.stack([P[codes == code].mean(axis=0) for code in range(len(names))])
        self.within, self.all = (np.linalg.inv(ledoit_wolf(rows)[0]) for rows in (P - self.means[codes], P))

    def __call__(self, X: np.ndarray) -> Parts:
        Z = _unit(X) - self.mean
        P = Z @ self.basis
        near = np.min([_squares(P - mean, self.within) for mean in self.means], axis=0)
        rest = np.linalg.norm(Z - P @ self.basis.T, axis=1)
        return {"Mahalanobis": near, "relative Mahalanobis": near - _squares(P, self.all), "residual": rest}


def _unit(X: np.ndarray) -> np.ndarray:
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)


def _squares(P: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", P @ inverse, P)


@dataclass
class Judged:
    """Strangeness of rows by every measure, and what the package answers."""

    strange: Parts
    far: np.ndarray
    rejected: np.ndarray  # with reject_share=0.05
    plain: np.ndarray  # confidence among the candidates
    confidence: np.ndarray  # confidence that falls with distance
    best: np.ndarray


def judge(model, rivals: Rivals, X: np.ndarray, classes: list[str]) -> Judged:
    calibration, seen = model.calibration_, np.isin(classes, model.seen_classes_)
    scores = model.decision_function(X, classes=classes)
    temperature = calibration.spread * calibration.scale_for(seen).temperature
    strange = rivals(X) | {
        "energy": -logsumexp(scores.astype(np.float64) / temperature, axis=1),
        "margin": -calibration.margin(model, X, scores),
        "k-NN (far)": calibration.novelty.distance(X),
    }
    told = Recognizer(model).predict(X, top=1, classes=classes, reject_share=0.05)
    # As the package joins them: what is far goes first, then what stands low.
    strange["joined"] = np.where(told.far, 1e6 + strange["k-NN (far)"], strange["margin"])
    plain = calibration.confidence(model, X, scores, seen).max(axis=1)
    return Judged(strange, told.far, told.rejected, plain, told.confidence[:, 0], told.classes[:, 0])


@dataclass
class Table:
    """AUROC of every measure for every kind of unknown rows, over several tasks."""

    auroc: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    lines: dict[str, list[tuple[float, float]]] = field(default_factory=dict)  # far, rejected
    ece: list[tuple[float, float]] = field(default_factory=list)

    def add(self, model, rivals: Rivals, known: dict, unknown: Parts, classes: list[str]) -> None:
        """`known`: name → (rows, their classes); `unknown`: name → rows."""
        mine = {name: (judge(model, rivals, X, classes), y) for name, (X, y) in known.items()}
        weights = np.concatenate([np.full(len(y), 1 / len(y) / len(mine)) for _, y in mine.values()])
        right = np.concatenate([told.best == y for told, y in mine.values()])
        sure = [np.concatenate([getattr(j, what) for j, _ in mine.values()]) for what in ("plain", "confidence")]
        self.ece.append(tuple(reliability(one, right, weights).ece for one in sure))
        theirs = {name: judge(model, rivals, X, classes) for name, X in unknown.items()}
        for name, told in [*((f"lost: {n}", j) for n, (j, _) in mine.items()), *theirs.items()]:
            self.lines.setdefault(name, []).append((told.far.mean(), told.rejected.mean()))
        for measure in MEASURES:
            inside = np.concatenate([told.strange[measure] for told, _ in mine.values()])
            for name, told in theirs.items():
                outside = told.strange[measure]
                truth = np.repeat([0, 1], [len(inside), len(outside)])
                both = np.concatenate([weights, np.full(len(outside), 1 / len(outside))])
                value = roc_auc_score(truth, np.concatenate([inside, outside]), sample_weight=both)
                self.auroc.setdefault((measure, name), []).append(value)

    def show(self, title: str) -> None:
        names = list(dict.fromkeys(name for _, name in self.auroc))
        cells = [[np.mean(self.auroc[measure, name]) for name in names] for measure in MEASURES]
        print(f"\n{title}\n" + pd.DataFrame(cells, list(MEASURES), names).to_string(float_format="{:.4f}".format))
        shares = {name: 100 * np.mean(found, axis=0) for name, found in self.lines.items()}
        kinds = ["far %", "reject_share=0.05 %"]
        print(pd.DataFrame(shares, kinds).to_string(float_format="{:.1f}".format))
        before, after = np.mean(self.ece, axis=0)
        print(f"ECE on known rows: {before:.4f} as it was, {after:.4f} with distance", flush=True)


# Tasks ----------------------------------------------------------------------------------------------------------------


def fitted(method, dataset: ZeroShotDataset, n_folds: int):
    """A calibrated model, and the rivals fitted on the same rows."""
    model = fit_on(method, dataset)
    model.calibration_ = calibrate(model, dataset, n_folds)
    return model, Rivals(*dataset.part("train"))


def cub_tables(cub: ZeroShotDataset, other: Parts) -> None:
    hard = Table()
    for fold in cub.validation_folds(3):
        model, rivals = fitted(ESZSL(), fold, 3)
        described, missing = fold.unseen_classes[::2], fold.unseen_classes[1::2]
        X, y = fold.part("test_unseen")
        known = {"seen": fold.part("test_seen"), "described": (X[np.isin(y, described)], y[np.isin(y, described)])}
        unknown = {"held-out classes": X[np.isin(y, missing)], **other}
        hard.add(model, rivals, known, unknown, fold.seen_classes + described)
    hard.show("Validation folds of CUB, ESZSL; mean of 3")
    test, (model, rivals) = Table(), fitted(ESZSL(), cub, 3)
    known = {"seen": cub.part("test_seen"), "described": cub.part("test_unseen")}
    test.add(model, rivals, known, other, cub.seen_classes + cub.unseen_classes)
    test.show("CUB, ESZSL; test rows are known")


def birds_table(birds, table: pd.DataFrame, split: dict[str, str], other: Parts) -> None:
    few, names = Table(), np.array(birds.labels)
    for seed in range(5):
        random = np.random.default_rng(seed)
        seen = [name for name in split if split[name] == "seen"] if seed == 0 else random.permutation(list(split))[:8]
        out = [random.permutation(np.flatnonzero(names == name))[:2] for name in seen]  # held-out pictures
        rest, out = np.isin(names, seen), np.concatenate(out)
        rows = np.setdiff1d(np.flatnonzero(rest), out)
        training = make_training_set("birds", birds.features[rows], names[rows].tolist(), table)
        model, rivals = fitted(KernelPrototypes(), training, 10)
        known = {"seen": (birds.features[out], names[out]), "described": (birds.features[~rest], names[~rest])}
        few.add(model, rivals, known, other, sorted(split))
    few.show(
        "48 birds of 8 classes, kernel prototypes as in `learn`; mean of 5 choices of classes, the first is split.csv"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("cub", "other", "birds", "backbone"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        draw_odd_pictures(Path(scratch) / "odd")
        odd = embed(Path(scratch) / "odd", backbone=given.backbone)
    kinds = np.array(odd.labels)
    pictures = {kind: odd.features[kinds == kind] for kind in ("noise", "blanks", "plots", "letters")}
    birds = embed(given.birds / "images", backbone=given.backbone)
    split = pd.read_csv(given.birds / "split.csv", index_col="class")["split"].to_dict()
    animals = {given.other.name: load_dataset(given.other).features}
    birds_table(birds, pd.read_csv(given.birds / "attributes.csv", index_col=0), split, pictures | animals)
    cub_tables(load_dataset(given.cub), animals | pictures)


if __name__ == "__main__":
    main()
