"""Fit a recognizer on a data set, or on images and a table of classes; a killed fit resumes from its checkpoint."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from firstsight._io.columns import column_groups
from firstsight._io.files import text_of_name
from firstsight._io.terminal import in_one_line, logger, say
from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.data.dataset import FEWEST_CLASSES, TrainingSet, check_described, make_training_set
from firstsight.data.feature_files import FeatureFile, read_feature_file
from firstsight.encoders.backbone import DEFAULT
from firstsight.encoders.descriptions import read_class_table
from firstsight.encoders.embedding import embed
from firstsight.encoders.image_folders import ImageFolder, survey_together
from firstsight.errors import BadInput, StaleCheckpoint, UnknownName
from firstsight.evaluation import fit_on
from firstsight.evaluation.calibration import calibrate
from firstsight.evaluation.protocol import pool_rows, score_samples
from firstsight.methods import (
    DEFAULT_SHARED_SPACE_METHOD,
    DEFAULT_TRANSDUCTIVE_METHOD,
    DEFAULT_TRANSDUCTIVE_SHARED_SPACE_METHOD,
    Method,
    ZeroShotClassifier,
    default_method,
    find_method,
    make_estimator,
)
from firstsight.persistence.model_folder import check_no_lost_changes, check_target, save
from firstsight.persistence.model_schema import PictureCounts, Provenance
from firstsight.recognition.inputs import is_feature_file
from firstsight.recognition.names import (
    Classes,
    check_no_images_needed,
    check_text_encoder,
    learn_names,
    local_path,
    read_classes,
)
from firstsight.recognition.recognizer import Recognizer
from firstsight.recognition.relearning import changes_to_keep, check_samples_can_be_kept, save_again
from firstsight.recognition.scoring import in_training, remember_samples

Table = pd.DataFrame | str | Path

# With unlabelled samples the default method leaves its search out: with few samples of a class it rejects pools that
# would have helped (results/few_pictures.csv).
POOL_PARAMETERS: dict[str, Any] = {"search": False}
REASONS = {
    DEFAULT_SHARED_SPACE_METHOD: "starts from their cosine and moves away from it only as far as simulated tasks gain",
    DEFAULT_TRANSDUCTIVE_SHARED_SPACE_METHOD: "starts from their cosine and spreads it over unlabelled samples",
}
FEW_ROWS = 1000  # up to here, there are ten folds of held-out classes, not three


def fit(
    method: Method | None,
    data: ZeroShotDataset | str | Path,
    *,
    out: str | Path | None = None,
    parameters: Mapping[str, Any] | None = None,
    setting: str | None = None,
    confidence: bool = False,
    features: str | None = None,
    random_state: int | None = None,
    checkpoint: str | Path | None = None,
    overwrite: bool = False,
    verbose: bool = False,
) -> Recognizer:
    """Fit a method on a data set's training rows; saved to `out` if given.

    Parameters
    ----------
    method : str, class, estimator or None
        A method's name, its class, or an unfitted estimator. None: the default, which is the kernel prototypes or,
        where features and descriptions come from one vision-language model, their blend with its text score.
    data : ZeroShotDataset, str or Path
        A data set, or what `load_dataset` takes.
    out : str or Path, optional
        The folder to save the model in.
    parameters : mapping, optional
        The method's parameters, by name.
    setting : {"gzsl", "zsl"}, optional
        What a transductive method's pool holds: all test rows (the default), or those of unseen classes. An estimator
        that is given keeps its setting if this is left out.
    confidence : bool
        Also measure confidence and accuracy on held-out classes: three more fits, on fewer classes.
    features : str, optional
        The feature file of an xlsa17 folder that has several.
    random_state : int, optional
        Everything random follows from it; 0 if left out. An estimator that is given keeps its seed then.
    checkpoint : str or Path, optional
        Where the state of a running fit is kept; next to `out` if that is given. A fit that is killed
        resumes when the same call is made again, and ends with the same model.
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
    with _checkpointed(out, checkpoint) as state_path:
        seed = _seed_for(method, random_state)
        supplied = {"random_state": seed, "setting": setting, "checkpoint": state_path, "verbose": verbose or None}
        estimator = None if method is None else make_estimator(method, parameters, **supplied)
        dataset = data if isinstance(data, ZeroShotDataset) else load_dataset(data, features)
        if estimator is None:
            method = choose_default_method(dataset, parameters)
            estimator = make_estimator(method, parameters, **supplied)
        if out is not None and not overwrite:
            check_no_lost_changes(check_target(out), dataset.descriptions)
        if state_path is not None and "checkpoint" in estimator.get_params() and Path(state_path).exists():
            say(f"Going on from {state_path}, if it is of this very fit.")
        began = time.perf_counter()
        fit_on(estimator, dataset)
        _keep_feature_names(estimator, dataset)
        seconds = round(time.perf_counter() - began, 2)
        pool = {"unlabelled": (dataset.rows(pool_rows(estimator, dataset)), None)} if estimator.transductive else {}
        remember_samples(estimator, labelled=(dataset.part("train")[0], None), **pool)
        if confidence:
            say("Calibrating on held-out classes.")
            estimator.calibration_ = calibrate(estimator, dataset, checkpoint=state_path, verbose=verbose)
        state = forget_checkpoint(estimator)
        seed = estimator.get_params().get("random_state", seed)
        recognizer = Recognizer(estimator, Provenance.of(estimator, dataset, seed=seed, seconds=seconds))
        return _finish(recognizer, out, state, overwrite)


def learn(
    images: str | Path | FeatureFile | Sequence[str | Path] | None = None,
    classes: Classes | None = None,
    *,
    out: str | Path | None = None,
    backbone: str | Path = DEFAULT,
    prompt: str | Sequence[str] | None = None,
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
    """Learn to recognise every class of a table; those without images are recognised by their description.

    The model is calibrated: other models are fitted on some of the classes with images and asked about the others,
    which tells what to expect of classes without images (`model.calibration_.estimate`). Without any images, the model
    is a vision-language model's own answer for these classes, and there is nothing to calibrate it on.

    Parameters
    ----------
    images : str, Path, FeatureFile or sequence of str or Path, optional
        A folder with one sub-folder per class (or a file labels.csv), several such folders, or features with labels
        (`embed` makes them, or an .npz file). Left out, the classes' names are enough, if the backbone is a
        vision-language model.
    classes : DataFrame, str, Path or sequence of str
        A description of every class: a table indexed by class, or its file (`describe` makes one). With a
        vision-language model (CLIP, SigLIP) as the backbone, names are enough, or a table with a column `text`, one or
        several rows per class: its text encoder describes them.
    out : str or Path, optional
        Where to save the model. A call that is killed then resumes when it is made again.
    backbone : str or Path
        The vision model that turns images into features, by name or as a folder.
    prompt : str or sequence of str, optional
        What names are put into, such as "a photo of a {}."; of several, a class gets the mean of their vectors.
    method : str, class or estimator, optional
        A method's name, its class, or an estimator. Left out: the kernel prototypes; with a preset, which they do not
        know, the deep embedding; where features and descriptions come from one vision-language model, the kernel
        prototypes blended with the text score; without images, the text score alone (`Cosine`).
    parameters : mapping, optional
        The method's parameters, by name.
    unlabeled : str or Path, optional
        A folder of images without labels to learn from as well, of seen and unseen classes.
    unseen : sequence of str, optional
        Classes to hold out: their images are held out of training and say how often the model is right
        (`provenance.evaluation`).
    split : DataFrame, path or mapping, optional
        The same as a table: class, and split (seen or unseen).
    random_state : int, optional
        Everything random follows from it; 0 if left out. An estimator that is given keeps its seed then.
    batch_size : int
        Pictures that the backbone looks at together.
    runtime : {"auto", "torch", "onnx"}
        What runs the backbone.
    device : str
        Where the backbone runs: "cpu", "cuda", "mps", …, or "auto", which is a GPU if there is one. Where the method
        computes is one of its parameters.
    checkpoint : str or Path, optional
        Where the state of a running fit is kept; next to `out` if that is given.
    overwrite : bool
        Forget what was taught to a model in `out` since its training: classes added, described again or removed, and
        labelled images added. Otherwise this is kept, and logged.
    verbose : bool
        Show a progress bar when a terminal is there.

    Returns
    -------
    Recognizer
        The model, ready to answer.
    """
    encoding: dict[str, Any] = {"backbone": backbone, "batch_size": batch_size, "runtime": runtime, "device": device}
    with _checkpointed(out, checkpoint) as state_path:
        if images is None:
            check_no_images_needed(method, unlabeled=unlabeled, unseen=unseen, split=split)
        given, words = read_classes(classes, backbone, prompt, device)
        descriptions, former = changes_to_keep(out, given, overwrite)
        if images is None:
            recognizer = learn_names(descriptions, words, method, parameters, encoding, former)
            return _finish(recognizer, out, None, overwrite, given)
        held_out = held_out_classes(descriptions, unseen, split)
        source = _read_labelled(images, descriptions, held_out)
        encoded_here = backbone if isinstance(source, ImageFolder) else None
        check_text_encoder(method, descriptions, _backbone_name(source, backbone), encoded_here)
        labelled = embed(source, **encoding, verbose=verbose) if isinstance(source, ImageFolder) else source
        pool = None if unlabeled is None else embed(unlabeled, labelled=False, **encoding, verbose=verbose)
        test_rows = np.isin(labelled.labels or [], sorted(held_out))
        training = _training_set(images, labelled, ~test_rows, descriptions, pool)
        seed = _seed_for(method, random_state)
        estimator = _make_estimator(method, parameters, training, seed, state_path, verbose)
        check_samples_can_be_kept(former, estimator, descriptions, labelled.backbone, labelled.feature_names)
        began = time.perf_counter()
        _fit(estimator, training)
        _remember_samples(estimator, labelled, ~test_rows, pool)
        _estimate(estimator, training, random_state or 0, state_path, verbose)
        state = forget_checkpoint(estimator)
        location = {} if source is labelled else local_path(backbone)  # features from a file were made elsewhere
        facts: dict[str, Any] = {
            **words,
            "seed": estimator.get_params().get("random_state", seed),
            "seconds": round(time.perf_counter() - began, 2),
            "pictures": _count_pictures(training, labelled, pool, test_rows),
        }
        if labelled.backbone is not None:
            facts["backbone"] = {**labelled.backbone, **location}
        if test_rows.any():
            facts["evaluation"] = evaluate_held_out(estimator, labelled, test_rows, held_out)
        encoding["backbone"] = backbone if location else None
        recognizer = Recognizer(estimator, Provenance.of(estimator, training, **facts), **encoding)
        return _finish(recognizer, out, state, overwrite, given)


def _backbone_name(source: FeatureFile | ImageFolder, backbone: str | Path) -> str | None:
    """The vision model that makes the features, or made them; None if that is unknown."""
    if isinstance(source, FeatureFile):
        return (source.backbone or {}).get("name")
    return Path(backbone).resolve().name if Path(backbone).is_dir() else str(backbone)


@contextmanager
def _checkpointed(out: str | Path | None, checkpoint: str | Path | None) -> Iterator[str | None]:
    """Yield where a fit keeps its state: the given path, or next to `out`, which is checked first.

    An input that is rejected would be rejected again, so its state is removed; that of another fit stays.
    """
    if out is not None:
        folder = check_target(out)
        checkpoint = checkpoint or folder.with_name(folder.name + ".checkpoint")
    if checkpoint is None:
        yield None
        return
    before = _states(Path(checkpoint))
    try:
        yield str(checkpoint)
    except StaleCheckpoint:
        raise
    except BadInput:
        for path, state in _states(Path(checkpoint)).items():
            if before.get(path) != state:
                path.unlink(missing_ok=True)
        raise


def _states(checkpoint: Path) -> dict[Path, tuple[int, int]]:
    """The files of a fit's state, with what changes when one is written again."""
    folds = checkpoint.parent.glob(f"{escape(checkpoint.name)}.fold*")
    paths = [checkpoint, *(path for path in folds if path.suffix.removeprefix(".fold").isdecimal())]
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths if path.exists()}


def forget_checkpoint(estimator: ZeroShotClassifier) -> str | None:
    """Return where the estimator kept its state, and remove that from its parameters: a model has no local paths."""
    checkpoint: str | None = estimator.get_params().get("checkpoint")
    if checkpoint is not None:
        estimator.set_params(checkpoint=None)
    return checkpoint


def _finish(
    recognizer: Recognizer,
    out: str | Path | None,
    state: str | None,
    overwrite: bool,
    classes: pd.DataFrame | None = None,
) -> Recognizer:
    """Save the recognizer if wanted, then remove the state of its fit.

    Classes may have been taught to the old model while the new one was fitted; that is looked at again. They are kept
    where the table of `classes` is given, and the model is not replaced otherwise.
    """
    if out is not None:
        if classes is None or overwrite:
            save(recognizer.model, out, recognizer.provenance, overwrite=overwrite)
        else:
            save_again(recognizer, out, classes)
    for path in _states(Path(state)) if state else ():
        path.unlink(missing_ok=True)
    return recognizer


def _keep_feature_names(model: ZeroShotClassifier, dataset: ZeroShotDataset) -> None:
    """Give a fitted model the names of its data set's features, as a fit on a DataFrame would."""
    if dataset.feature_names is not None:
        model.feature_names_in_ = np.array(dataset.feature_names, dtype=object)


def _seed_for(method: Method | None, random_state: int | None) -> int | None:
    """The given seed, else 0; None for an estimator, which keeps its own."""
    return 0 if random_state is None and not isinstance(method, ZeroShotClassifier) else random_state


def held_out_classes(
    descriptions: pd.DataFrame, unseen: Sequence[str] | None, split: Table | Mapping[str, str] | None
) -> set[str]:
    """The classes to hold out, by name or in a table of class and split."""
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


def _read_labelled(
    images: str | Path | FeatureFile | Sequence[str | Path], descriptions: pd.DataFrame, held_out: set[str]
) -> FeatureFile | ImageFolder:
    """Read features, or list the images of a folder: of described classes, before the long part."""
    found: FeatureFile | ImageFolder
    if isinstance(images, FeatureFile) or (isinstance(images, str | Path) and is_feature_file(images)):
        found = images if isinstance(images, FeatureFile) else read_feature_file(images)
        labels = found.labels
        if labels is None:
            raise BadInput("The features say nothing about classes; learning needs the class of every row.")
    else:
        folders = [images] if isinstance(images, str | Path) else list(images)
        if wrong := [one for one in folders if isinstance(one, FeatureFile) or is_feature_file(one)]:
            what = "features" if isinstance(wrong[0], FeatureFile) else str(wrong[0])
            raise BadInput(f"A list of images must hold folders only, but has {what}; give one feature file alone.")
        found = survey_together(folders)
        labels = found.classes
        if labels is None:
            raise BadInput(
                f"{folders[0]} must have one sub-folder per class, but holds pictures directly; sort them first, or "
                "list them in a file labels.csv (columns file and class)."
            )
        if held_out and not set(labels) & held_out:
            raise BadInput(
                f"None of the unseen classes has pictures to test on (for example {sorted(held_out)[0]!r}); leave it "
                "out."
            )
    check_described([label for label in labels if label not in held_out], descriptions)
    return found


def _training_set(
    images: Any, labelled: FeatureFile, rows: np.ndarray, descriptions: pd.DataFrame, pool: FeatureFile | None
) -> TrainingSet:
    folders = [images] if isinstance(images, str | Path) else [] if isinstance(images, FeatureFile) else images
    name = " + ".join(text_of_name(Path(folder).resolve().name) for folder in folders) or "features"
    labels = [label for label, kept in zip(labelled.labels or [], rows, strict=True) if kept]
    features = labelled.features if rows.all() else labelled.features[rows]
    names = [*np.array(labelled.names)[rows], *(pool.names if pool is not None else ())]
    unlabeled = None if pool is None else pool.features
    backbone = (labelled.backbone or {}).get("name")
    training = make_training_set(
        name, features, labels, descriptions, unlabeled, labelled.feature_names, names, backbone
    )
    for finding in training.findings():
        if finding.severity != "note":
            logger.warning("%s: %s", finding.severity, finding.message)
    return training


def _count_pictures(
    training: TrainingSet, labelled: FeatureFile, pool: FeatureFile | None, test_rows: np.ndarray
) -> PictureCounts:
    return PictureCounts(
        labelled=len(training.train),
        unlabelled=len(training.pool),
        held_out=int(test_rows.sum()),
        skipped=len(labelled.skipped) + (len(pool.skipped) if pool else 0),
    )


def _remember_samples(
    estimator: ZeroShotClassifier, labelled: FeatureFile, rows: np.ndarray, pool: FeatureFile | None
) -> None:
    fingerprints = None if labelled.fingerprints is None else labelled.fingerprints[rows]
    parts = {} if pool is None else {"unlabelled": (pool.features, pool.fingerprints)}
    remember_samples(estimator, labelled=(labelled.features[rows], fingerprints), **parts)


def _make_estimator(
    method: Method | None,
    parameters: Mapping[str, Any] | None,
    training: TrainingSet,
    random_state: int | None,
    checkpoint: str | None,
    verbose: bool,
) -> ZeroShotClassifier:
    """An estimator of the given method, or of the default one."""
    pool, parameters = len(training.pool), dict(parameters or {})
    if method is not None:
        chosen = find_method(method) if isinstance(method, str) else method
        if pool and not chosen.transductive:
            name = method if isinstance(method, str) else getattr(chosen, "__name__", type(chosen).__name__)
            raise BadInput(f"{name} cannot learn from pictures without labels; leave --unlabeled out, or --method.")
    else:
        method = choose_default_method(training, parameters, transductive=bool(pool))
        if method == DEFAULT_TRANSDUCTIVE_METHOD:
            parameters = {**POOL_PARAMETERS, **parameters}
    setting = None if isinstance(method, ZeroShotClassifier) else "gzsl"
    return make_estimator(
        method,
        parameters,
        random_state=random_state,
        setting=setting,
        checkpoint=checkpoint,
        verbose=verbose or None,
    )


def choose_default_method(
    dataset: ZeroShotDataset | TrainingSet, parameters: Mapping[str, Any] | None, transductive: bool = False
) -> str:
    """Name the default method for these data, and log why if it is not the usual one."""
    groups = column_groups(dataset.attribute_names or ())
    method = default_method(parameters or {}, transductive, dataset.shared_space, len(groups) > 1)
    if method == DEFAULT_SHARED_SPACE_METHOD and not dataset.shared_space:
        kinds = " and ".join(f"{len(columns)} of {group}" for group, columns in groups.items())
        say(
            f"Descriptions are of several kinds (columns: {kinds}): the method is {method}, which has a part for each "
            "and weights them by what they gain on simulated tasks."
        )
    elif method in REASONS:
        say(
            "Features and descriptions have the same width, as those of one vision-language model: the method is "
            f"{method}, which {REASONS[method]}."
        )
    return method


def _fit(estimator: Any, training: TrainingSet) -> None:
    X, y = training.part("train")
    pool = {"X_unlabeled": training.pool} if len(training.pool) else {}
    estimator.fit(X, y, training.descriptions, **pool)
    _keep_feature_names(estimator, training)


def _estimate(
    estimator: ZeroShotClassifier, training: TrainingSet, seed: int, checkpoint: str | None, verbose: bool
) -> None:
    """What held-out classes say of the method: accuracy to expect and how sure it may be. Nothing if they are too few.

    Few images make many small folds, because one fold of three classes says little and costs nothing.
    """
    if len(training.seen_classes) < FEWEST_CLASSES:
        return
    n_folds = 10 if len(training.train) <= FEW_ROWS else 3
    estimator.calibration_ = calibrate(
        estimator, training, n_folds, random_state=seed, checkpoint=checkpoint, verbose=verbose
    )


def evaluate_held_out(
    model: ZeroShotClassifier, labelled: FeatureFile, test_rows: np.ndarray, held_out: set[str]
) -> dict[str, int]:
    """How many held-out images are named right: among the unseen classes alone, and among all.

    An image that training had under another class is left out; those that it had without a label are counted.
    """
    prints = None if labelled.fingerprints is None else labelled.fingerprints[test_rows]
    trained = np.array(in_training(model, labelled.features[test_rows], prints), dtype=object)
    if (copies := trained == "labelled").any():
        name = np.array(labelled.names)[test_rows][copies][0]
        logger.warning(
            "warning: left %d held-out images out of the test: training had the same content under another class "
            "(%s, for example).",
            copies.sum(),
            in_one_line(name),
        )
        if copies.all():
            return {}
    X, y = labelled.features[test_rows][~copies], np.array(labelled.labels)[test_rows][~copies]
    candidates = [name for name in model.classes_.tolist() if name in held_out]
    among_unseen = score_samples(model, [(X, y)], (), candidates)
    among_all = score_samples(model, [(X, y)], model.seen_classes_, model.unseen_classes_)
    return {
        "held_out_pictures": len(y),
        "held_out_classes": len(set(y.tolist())),
        "unlabelled_in_training": int((trained == "unlabelled").sum()),
        "right_among_unseen": among_unseen.right,
        "right_among_all": among_all.right,
    }


def _split_words(split: Table | Mapping[str, str]) -> dict[str, str]:
    if isinstance(split, Mapping):
        return {str(name): str(word) for name, word in split.items()}
    table = split if isinstance(split, pd.DataFrame) else read_class_table(split)
    if "class" in table.columns:
        table = table.set_index("class")
    if "split" not in table.columns:
        raise BadInput("The table that says which classes are unseen must have the columns class and split; add them.")
    return {str(name): str(word).strip().lower() for name, word in table["split"].items()}
