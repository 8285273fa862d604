"""One folder of pictures and one table of classes → a recognizer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from firstsight._io.files import text_of_name
from firstsight._io.terminal import in_one_line, logger
from firstsight.data import read_descriptions
from firstsight.data.dataset import TrainingSet, check_described, make_training_set
from firstsight.data.feature_files import FeatureFile, read_feature_file
from firstsight.data.folds import FEWEST_CLASSES
from firstsight.encoders.backbone import DEFAULT
from firstsight.encoders.descriptions import read_class_table
from firstsight.encoders.embedding import embed
from firstsight.encoders.image_folders import PictureFolder, survey_pictures
from firstsight.errors import BadInput, UnknownName
from firstsight.evaluation.calibration import Calibration, calibrate
from firstsight.evaluation.protocol import score_samples
from firstsight.methods import (
    DEFAULT_TRANSDUCTIVE_METHOD,
    Method,
    ZeroShotClassifier,
    default_method,
    find_method,
    make_estimator,
)
from firstsight.persistence.model_folder import check_no_lost_changes, check_target
from firstsight.persistence.model_schema import PictureCounts, Provenance
from firstsight.recognition.fitting import checkpointed, finished, forget_place, keep_feature_names, seed_for
from firstsight.recognition.inputs import is_feature_file
from firstsight.recognition.recognizer import Recognizer
from firstsight.recognition.scoring import in_training, remember_samples

Table = pd.DataFrame | str | Path

# With unlabelled samples the default method leaves its search out: with few samples of a class it refuses pools that
# would have helped (results/few_pictures.csv).
POOL_PARAMETERS: dict[str, Any] = {"search": False}
FEW_ROWS = 1000  # up to here, held-out classes are asked about ten times, not three


def learn(
    pictures: str | Path | FeatureFile,
    classes: Table,
    *,
    out: str | Path | None = None,
    backbone: str | Path = DEFAULT,
    method: Method | None = None,
    parameters: Mapping[str, Any] | None = None,
    unlabeled: str | Path | None = None,
    unseen: Sequence[str] | None = None,
    split: Table | Mapping[str, str] | None = None,
    random_state: int | None = None,
    batch_size: int = 32,
    runtime: str = "auto",
    device: str = "cpu",
    checkpoint: str | Path | None = None,
    overwrite: bool = False,
    verbose: bool = False,
) -> Recognizer:
    """Learn to recognise every class of a table; those without pictures are recognised by their description.

    The model is calibrated: other models are fitted on some of the classes with pictures and asked about the others,
    which tells what to expect of classes without pictures (`model.calibration_.estimate`).

    Parameters
    ----------
    pictures : str, Path or FeatureFile
        A folder with one sub-folder per class, or features with labels (`embed` makes them, or an .npz file).
    classes : DataFrame, str or Path
        A description of every class: a table indexed by class, or its file (`describe` makes one).
    out : str or Path, optional
        Where to save the model. A call that is killed then goes on where it was when it is made again.
    backbone : str or Path
        The vision model that turns pictures into features, by name or as a folder.
    method : str, class or estimator, optional
        A method's word, its class, or an estimator; left out, the kernel prototypes (with a preset, which
        they do not know, the deep embedding).
    parameters : mapping, optional
        The method's parameters, by name.
    unlabeled : str or Path, optional
        A folder of pictures without labels to learn from as well, of seen and unseen classes.
    unseen : sequence of str, optional
        Classes to play unseen: their pictures are held out of training and say how often the model is right
        (`provenance.evaluation`).
    split : DataFrame, path or mapping, optional
        The same as a table: class, and split (seen or unseen).
    random_state : int, optional
        Everything random follows from it; 0 if left out. An estimator that is given keeps its own then.
    batch_size : int
        Pictures that the backbone looks at together.
    runtime : {"auto", "torch", "onnx"}
        What runs the backbone.
    device : str
        Where the backbone runs: "cpu", "cuda", "mps", …, or "auto", which is a GPU if there is one. Where the method
        computes is one of its parameters.
    checkpoint : str or Path, optional
        Where the state of a running fit is kept; beside `out` if that is given.
    overwrite : bool
        Replace a model in `out` even if classes that were taught to it, or removed from it, since its training are
        lost; otherwise this is refused.
    verbose : bool
        Show a progress bar when a terminal is there.

    Returns
    -------
    Recognizer
        The model, ready to answer.
    """
    encoding: dict[str, Any] = {"backbone": backbone, "batch_size": batch_size, "runtime": runtime, "device": device}
    with checkpointed(out, checkpoint) as place:
        descriptions = classes if isinstance(classes, pd.DataFrame) else read_descriptions(classes)
        if out is not None and not overwrite:
            check_no_lost_changes(check_target(out), descriptions)
        held = held_out_classes(descriptions, unseen, split)
        found = _checked(pictures, descriptions, held)
        labelled = embed(found, **encoding, verbose=verbose) if isinstance(found, PictureFolder) else found
        pool = None if unlabeled is None else embed(unlabeled, labelled=False, **encoding, verbose=verbose)
        tested = np.isin(labelled.labels or [], sorted(held))
        training = _training_set(pictures, labelled, ~tested, descriptions, pool)
        samples = _fingerprints(labelled, ~tested, pool)
        seed = seed_for(method, random_state)
        estimator = _choose(method, parameters, training, seed, place, verbose)
        began = time.perf_counter()
        _fit(estimator, training)
        remember_samples(estimator, **samples)
        _estimate(estimator, training, random_state or 0, place, verbose)
        state = forget_place(estimator)
        seed = estimator.get_params().get("random_state", seed)
        facts: dict[str, Any] = {"seed": seed, "seconds": round(time.perf_counter() - began, 2)}
        facts["pictures"] = PictureCounts(
            labelled=len(training.train),
            unlabelled=len(training.pool),
            held_out=int(tested.sum()),
            skipped=len(labelled.skipped) + (len(pool.skipped) if pool else 0),
        )
        if labelled.backbone is not None:
            facts["backbone"] = {**labelled.backbone, **_place(pictures, backbone)}
        if tested.any():
            facts["evaluation"] = evaluate_held_out(estimator, labelled, tested, held)
        encoding["backbone"] = backbone if _place(pictures, backbone) else None
        made = Recognizer(estimator, Provenance.of(estimator, training, **facts), **encoding)
        return finished(made, out, place and state, overwrite)


def held_out_classes(
    descriptions: pd.DataFrame, unseen: Sequence[str] | None, split: Table | Mapping[str, str] | None
) -> set[str]:
    """The classes that are to play unseen, by name or in a table of class and split."""
    if unseen is not None and split is not None:
        raise BadInput("`unseen` and `split` both say which classes are unseen; give one of the two.")
    if split is not None:
        words = _split_words(split)
        strange = next((word for word in words.values() if word not in ("seen", "unseen")), None)
        if strange is not None:
            raise BadInput(f"The column 'split' must say seen or unseen, but says {strange!r}; correct it.")
        named, unseen = list(words), [name for name, word in words.items() if word == "unseen"]
    else:
        named = unseen = [unseen] if isinstance(unseen, str) else [str(name) for name in unseen or []]
    known = [str(name) for name in descriptions.index]
    for name in named:
        if name not in set(known):
            raise UnknownName("class", name, known)
    return set(unseen)


def evaluate_held_out(
    model: ZeroShotClassifier, labelled: FeatureFile, rows: np.ndarray, held: set[str]
) -> dict[str, int]:
    """How many held-out images are named right: among the unseen classes alone, and among all.

    An image that training had under another class is left out; those that it had without a label are counted.
    """
    prints = None if labelled.fingerprints is None else labelled.fingerprints[rows]
    trained = np.array(in_training(model, labelled.features[rows], prints), dtype=object)
    if (copies := trained == "labelled").any():
        name = np.array(labelled.names)[rows][copies][0]
        logger.warning(
            "warning: left %d held-out images out of the test: training had the same content under another class "
            "(%s, for example).",
            copies.sum(),
            in_one_line(name),
        )
        if copies.all():
            return {}
    X, y = labelled.features[rows][~copies], np.array(labelled.labels)[rows][~copies]
    tested = [name for name in model.classes_.tolist() if name in held]
    among_unseen = score_samples(model, [(X, y)], (), tested)
    among_all = score_samples(model, [(X, y)], model.seen_classes_, model.unseen_classes_)
    return {
        "held_out_pictures": len(y),
        "held_out_classes": len(set(y.tolist())),
        "unlabelled_in_training": int((trained == "unlabelled").sum()),
        "right_among_unseen": among_unseen.right,
        "right_among_all": among_all.right,
    }


def expectation(calibration: Calibration | None, n_seen: int) -> str:
    """What held-out classes say of classes without pictures, as a sentence, with what it rests on."""
    if calibration is None:
        return (
            f"No estimate: it takes at least {FEWEST_CLASSES} classes with pictures to hold some out, and there are "
            f"{n_seen}."
        )
    k, t1 = calibration.held_out_classes, calibration.estimate["t1"]
    rows = calibration.scales["unseen"].rows
    low, high = calibration.interval
    measured = (
        f"{100 * t1:.0f} % right among {k} such classes (chance {100 / k:.0f} %, 95 % interval {100 * low:.0f} to "
        f"{100 * high:.0f} %), measured on classes held out of training, {calibration.n_folds} times {k} of {n_seen}, "
        f"{rows} pictures in all; each time the method had {calibration.training_classes} classes to learn from"
    )
    if low > 1 / k:
        return f"What to expect of classes without pictures: {measured}."
    return (
        f"What to expect of classes without pictures cannot be told from so few classes: {measured}. The "
        f"interval includes guessing; the model itself learned from {n_seen} classes. To measure it, hold classes out "
        "(--unseen)."
    )


def _split_words(split: Table | Mapping[str, str]) -> dict[str, str]:
    if isinstance(split, Mapping):
        return {str(name): str(word) for name, word in split.items()}
    table = split if isinstance(split, pd.DataFrame) else read_class_table(split)
    if "class" in table.columns:
        table = table.set_index("class")
    if "split" not in table.columns:
        raise BadInput("The table that says which classes are unseen must have the columns class and split; add them.")
    return {str(name): str(word).strip().lower() for name, word in table["split"].items()}


def _checked(
    pictures: str | Path | FeatureFile, descriptions: pd.DataFrame, held: set[str]
) -> FeatureFile | PictureFolder:
    """Read features, or list the images of a folder: of described classes, before the long part."""
    found: FeatureFile | PictureFolder
    if isinstance(pictures, FeatureFile) or is_feature_file(pictures):
        found = pictures if isinstance(pictures, FeatureFile) else read_feature_file(pictures)
        labels = found.labels
        if labels is None:
            raise BadInput("The features say nothing about classes; learning needs the class of every row.")
    else:
        found = survey_pictures(pictures)
        labels = found.classes
        if labels is None:
            raise BadInput(
                f"{pictures} must have one sub-folder per class, but holds pictures directly; sort them first."
            )
        if held and not set(labels) & held:
            raise BadInput(
                f"None of the unseen classes has pictures to test on (for example {sorted(held)[0]!r}); leave it out."
            )
    check_described([label for label in labels if label not in held], descriptions)
    return found


def _training_set(
    pictures: Any, labelled: FeatureFile, rows: np.ndarray, descriptions: pd.DataFrame, pool: FeatureFile | None
) -> TrainingSet:
    name = "features" if isinstance(pictures, FeatureFile) else text_of_name(Path(pictures).resolve().name)
    labels = [label for label, kept in zip(labelled.labels or [], rows, strict=True) if kept]
    features = labelled.features if rows.all() else labelled.features[rows]
    names = [*np.array(labelled.names)[rows], *(pool.names if pool is not None else ())]
    unlabeled = None if pool is None else pool.features
    training = make_training_set(name, features, labels, descriptions, unlabeled, labelled.feature_names, names)
    for finding in training.findings():
        if finding.severity != "note":
            logger.warning("%s: %s", finding.severity, finding.message)
    return training


def _fingerprints(labelled: FeatureFile, rows: np.ndarray, pool: FeatureFile | None) -> dict[str, Any]:
    """What training samples are recognised by later: the features and fingerprints of either part."""
    prints = None if labelled.fingerprints is None else labelled.fingerprints[rows]
    samples = {"labelled": (labelled.features[rows], prints)}
    return samples if pool is None else {**samples, "unlabelled": (pool.features, pool.fingerprints)}


def _choose(
    method: Method | None,
    parameters: Mapping[str, Any] | None,
    training: TrainingSet,
    random_state: int | None,
    checkpoint: str | None,
    verbose: bool,
) -> ZeroShotClassifier:
    """The method asked for, or the default."""
    pool, parameters = len(training.pool), dict(parameters or {})
    if method is not None:
        chosen = find_method(method) if isinstance(method, str) else method
        if pool and not chosen.transductive:
            name = method if isinstance(method, str) else getattr(chosen, "__name__", type(chosen).__name__)
            raise BadInput(f"{name} cannot learn from pictures without labels; leave --unlabeled out, or --method.")
    else:
        method = default_method(parameters, transductive=bool(pool))
        if method == DEFAULT_TRANSDUCTIVE_METHOD:
            parameters = {**POOL_PARAMETERS, **parameters}
    setting = None if isinstance(method, ZeroShotClassifier) else "gzsl"
    given = {"random_state": random_state, "setting": setting, "checkpoint": checkpoint, "verbose": verbose or None}
    return make_estimator(method, parameters, **given)


def _fit(estimator: Any, training: TrainingSet) -> None:
    X, y = training.part("train")
    pool = {"X_unlabeled": training.pool} if len(training.pool) else {}
    estimator.fit(X, y, training.descriptions, **pool)
    keep_feature_names(estimator, training)


def _estimate(
    estimator: ZeroShotClassifier, training: TrainingSet, seed: int, checkpoint: str | None, verbose: bool
) -> None:
    """What held-out classes say of the method: accuracy to expect and how sure it may be. Nothing if they are too few.

    Few pictures make many small folds, because one fold of three classes says little and costs nothing.
    """
    if len(training.seen_classes) < FEWEST_CLASSES:
        return
    n_folds = 10 if len(training.train) <= FEW_ROWS else 3
    estimator.calibration_ = calibrate(
        estimator, training, n_folds, random_state=seed, checkpoint=checkpoint, verbose=verbose
    )


def _place(pictures: Any, backbone: str | Path) -> dict[str, str]:
    """Where a local backbone is, so that predict finds it; its fingerprint tells if another has taken its place.

    Features from a file were made elsewhere: nothing is known of the place.
    """
    if isinstance(pictures, FeatureFile) or is_feature_file(pictures) or not Path(backbone).is_dir():
        return {}
    return {"path": str(Path(backbone).resolve())}
