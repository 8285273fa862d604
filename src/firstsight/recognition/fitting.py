"""A method and a data set → a recognizer, safe against being killed on the way."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np

from firstsight._io.terminal import say
from firstsight.data import ZeroShotDataset, load_dataset
from firstsight.errors import BadInput, StaleCheckpoint
from firstsight.evaluation import fit_on
from firstsight.evaluation.calibration import calibrate
from firstsight.evaluation.protocol import pool_rows
from firstsight.methods import Method, ZeroShotClassifier, make_estimator
from firstsight.persistence.model_folder import check_no_lost_changes, check_target, save
from firstsight.persistence.model_schema import Provenance
from firstsight.recognition.recognizer import Recognizer
from firstsight.recognition.scoring import remember_samples


def fit(
    method: Method,
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
    method : str, class or estimator
        A method's word, its class, or an unfitted estimator.
    data : ZeroShotDataset, str or Path
        A data set, or what `load_dataset` takes.
    out : str or Path, optional
        The folder to save the model in.
    parameters : mapping, optional
        The method's parameters, by name.
    setting : {"gzsl", "zsl"}, optional
        What a transductive method's pool holds: all test rows (the default), or those of unseen classes. An estimator
        that is given keeps its own if this is left out.
    confidence : bool
        Also measure confidence and accuracy on held-out classes: three more fits, on fewer classes.
    features : str, optional
        The feature file of an xlsa17 folder that has several.
    random_state : int, optional
        Everything random follows from it; 0 if left out. An estimator that is given keeps its own then.
    checkpoint : str or Path, optional
        Where the state of a running fit is kept; beside `out` if that is given. A fit that is killed goes on
        where it was when the same call is made again, and ends with the same model.
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
    with checkpointed(out, checkpoint) as place:
        seed = seed_for(method, random_state)
        estimator = make_estimator(
            method, parameters, random_state=seed, setting=setting, checkpoint=place, verbose=verbose or None
        )
        dataset = data if isinstance(data, ZeroShotDataset) else load_dataset(data, features)
        if out is not None and not overwrite:
            check_no_lost_changes(check_target(out), dataset.descriptions)
        if place is not None and "checkpoint" in estimator.get_params() and Path(place).exists():
            say(f"Going on from {place}, if it is of this very fit.")
        began = time.perf_counter()
        fit_on(estimator, dataset)
        keep_feature_names(estimator, dataset)
        seconds = round(time.perf_counter() - began, 2)
        pool = {"unlabelled": (dataset.rows(pool_rows(estimator, dataset)), None)} if estimator.transductive else {}
        remember_samples(estimator, labelled=(dataset.part("train")[0], None), **pool)
        if confidence:
            say("Calibrating on held-out classes.")
            estimator.calibration_ = calibrate(estimator, dataset, checkpoint=place, verbose=verbose)
        state = forget_place(estimator)
        seed = estimator.get_params().get("random_state", seed)
        provenance = Provenance.of(estimator, dataset, seed=seed, seconds=seconds)
        return finished(Recognizer(estimator, provenance), out, place and state, overwrite)


def keep_feature_names(model: ZeroShotClassifier, dataset: ZeroShotDataset) -> None:
    """Give a fitted model the names of its data set's features, as a fit on a DataFrame would."""
    if dataset.feature_names is not None:
        model.feature_names_in_ = np.array(dataset.feature_names, dtype=object)


def seed_for(method: Method | None, random_state: int | None) -> int | None:
    """The seed that a call names, else 0; None for an estimator, which keeps its own."""
    return 0 if random_state is None and not isinstance(method, ZeroShotClassifier) else random_state


@contextmanager
def checkpointed(out: str | Path | None, checkpoint: str | Path | None) -> Iterator[str | None]:
    """Where a fit keeps its state: as told, or beside `out`, which is looked at first; `finished` removes it.

    A fit that is refused would be refused again, so its state goes as well; that of another fit stays.
    """
    if out is not None:
        place = check_target(out)
        checkpoint = checkpoint or place.with_name(place.name + ".checkpoint")
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
    """The files of a fit's state, with what changes when one is written anew."""
    folds = checkpoint.parent.glob(f"{escape(checkpoint.name)}.fold*")
    own = [checkpoint, *(path for path in folds if path.suffix.removeprefix(".fold").isdecimal())]
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in own if path.exists()}


def forget_place(estimator: ZeroShotClassifier) -> str | None:
    """Where the estimator kept its state, if it keeps one: a place on this machine is no part of a model."""
    place: str | None = estimator.get_params().get("checkpoint")
    if place is not None:
        estimator.set_params(checkpoint=None)
    return place


def finished(made: Recognizer, out: str | Path | None, state: str | None, overwrite: bool) -> Recognizer:
    """The recognizer, saved where it was wished for; then the state of its fit has served.

    Classes may have been taught to the old model while the new one was fitted, so this is looked at again.
    """
    if out is not None:
        save(made.model, out, made.provenance, overwrite=overwrite)
    for path in _states(Path(state)) if state else ():
        path.unlink(missing_ok=True)
    return made
