"""`firstsight learn`: one folder of pictures and one table of classes → a model."""

from __future__ import annotations

import time
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firstsight.cli.embed import DEFAULT_BACKBONE, BackboneOption, BatchSize, Runtime, embed_folder, say
from firstsight.cli.options import Preset, Seed, Set, make_estimator
from firstsight.errors import BadInput

if TYPE_CHECKING:
    from firstsight.calibration import Calibration
    from firstsight.data.training_set import TrainingSet

# On tasks drawn from training classes of CUB (benchmarks/few_pictures.py), GFZSL was level with the deep embedding at
# 64 and at 600 rows; beyond a thousand nothing was compared, and the paper's method stands.
FEW_ROWS = 1000


def learn(
    pictures: Annotated[Path, typer.Argument(help="A folder with one sub-folder of pictures per class.")],
    classes: Annotated[Path, typer.Option(help="A table that `firstsight describe` wrote: a row per class.")],
    out: Annotated[Path, typer.Option(help="The folder to write the model to.")],
    backbone: BackboneOption = DEFAULT_BACKBONE,
    method: Annotated[
        str | None,
        typer.Option(help="A method's name; `firstsight methods` lists them. Left out: chosen by the data's size."),
    ] = None,
    unlabeled: Annotated[
        Path | None, typer.Option(help="Pictures without labels to learn from as well, of seen and unseen classes.")
    ] = None,
    set: Set = None,
    preset: Preset = None,
    seed: Seed = 0,
    batch_size: BatchSize = 32,
    runtime: Runtime = "auto",
) -> None:
    """Learn to recognise every class of a table; those without pictures are recognised by their description.

    Ends with an estimate of what to expect of classes without pictures: models are fitted on some of the classes with
    pictures and asked about the others. A run that is killed goes on where it was.
    """
    from firstsight.data import read_descriptions
    from firstsight.data.training_set import check_described, make_training_set
    from firstsight.encoders import find_pictures
    from firstsight.models import save

    if out.exists() and not (out / "model.json").is_file():
        raise BadInput(f"{out} exists and is not a model folder; choose another place or remove it first.")
    descriptions = read_descriptions(classes)
    labels = find_pictures(pictures)[1]
    if labels is None:
        raise BadInput(f"{pictures} must have one sub-folder per class, but holds pictures directly; sort them first.")
    check_described(labels, descriptions)  # before the long part

    labelled = embed_folder(pictures, backbone, batch_size, runtime)
    pool = None if unlabeled is None else embed_folder(unlabeled, backbone, batch_size, runtime, labelled=False)
    training = make_training_set(
        pictures.resolve().name,
        labelled.features,
        labelled.labels or [],
        descriptions,
        None if pool is None else pool.features,
    )
    _show_findings(training)
    checkpoint = out.with_name(out.name + ".checkpoint")
    method, parameters = choose_method(method, preset, set, training)
    estimator = make_estimator(method, parameters, seed, preset=preset, checkpoint=str(checkpoint), setting="gzsl")
    began = time.perf_counter()
    _fit(estimator, training)
    calibration = estimate(estimator, training, seed, checkpoint)
    facts = {
        "dataset": training.name,
        "split": training.split_hash,
        "features": training.features_hash,
        "backbone": {**(labelled.backbone or {}), **_place(backbone)},
        "pictures": {
            "labelled": len(labelled.features),
            "unlabelled": len(training.pool),
            "skipped": len(labelled.skipped) + (len(pool.skipped) if pool else 0),
        },
        "seed": seed,
        "parameters": estimator.plain_parameters(),
        "seconds": round(time.perf_counter() - began, 2),
        "attributes": list(training.attribute_names or []),
    }
    if "checkpoint" in estimator.get_params():
        estimator.set_params(checkpoint=None)  # a place on this machine is no part of the model
    save(estimator, out, facts, calibration)
    for left in out.parent.glob(escape(checkpoint.name) + "*"):
        left.unlink(missing_ok=True)
    say(
        f"{method} knows {len(estimator.classes_)} classes: {len(estimator.seen_classes_)} from {len(training.train)} "
        f"pictures, {len(estimator.unseen_classes_)} from their description alone; saved to {out}."
    )
    say(expectation(calibration, training))


def choose_method(
    method: str | None, preset: str | None, given: list[str] | None, training: TrainingSet
) -> tuple[str, list[str]]:
    """The method asked for, or the one that suits the data; and `NAME=VALUE` words, the caller's last.

    Few pictures: GFZSL, which is fitted in a moment and is as good as the deep embedding on them.
    """
    from firstsight.methods import find_method

    pool, given = len(training.pool), list(given or [])
    if method is not None:
        if pool and not find_method(method).transductive:
            raise BadInput(f"{method} cannot learn from pictures without labels; leave --unlabeled out, or --method.")
        return method, given
    if pool:
        return "transductive-deep-embedding", given
    if preset is None and len(training.train) <= FEW_ROWS:
        return "gfzsl", ["feature_scaling=unit", *given]
    return "deep-embedding", given


def _place(backbone: str) -> dict[str, str]:
    """Where a local backbone is, so that predict finds it; its fingerprint tells if another has taken its place."""
    return {"path": str(Path(backbone).resolve())} if Path(backbone).is_dir() else {}


def _fit(estimator: Any, training: TrainingSet) -> None:
    X, y = training.part("train")
    pool = {"X_unlabeled": training.pool} if len(training.pool) else {}
    estimator.fit(X, y, training.descriptions, **pool)


def estimate(estimator: Any, training: TrainingSet, seed: int, checkpoint: Path) -> Calibration | None:
    """What held-out classes say of the method: accuracy to expect and how sure it may be. None if there are too few.

    Few pictures make many small folds, because one fold of three classes says little and costs nothing.
    """
    from firstsight.calibration import calibrate
    from firstsight.data.folds import FEWEST_CLASSES

    if len(training.seen_classes) < FEWEST_CLASSES:
        return None
    n_folds = 10 if len(training.train) <= FEW_ROWS else 3
    return calibrate(estimator, training, n_folds, random_state=seed, checkpoint=checkpoint, verbose=True)


def expectation(calibration: Calibration | None, training: TrainingSet) -> str:
    """The estimate as a sentence, with what it rests on."""
    from firstsight.data.folds import FEWEST_CLASSES

    n_seen = len(training.seen_classes)
    if calibration is None:
        return (
            f"No estimate: it takes at least {FEWEST_CLASSES} classes with pictures to hold some out, and there are "
            f"{n_seen}."
        )
    k, t1 = calibration.held_out_classes, calibration.estimate["t1"]
    rows = calibration.scales["unseen"].rows
    return (
        f"What to expect of classes without pictures: {100 * t1:.0f} % right among {k} such classes (chance "
        f"{100 / k:.0f} %), measured on classes held out of training, {calibration.n_folds} times {k} of {n_seen}, "
        f"{rows} pictures in all; each time the method had {calibration.training_classes} classes to learn from."
    )


def _show_findings(training: TrainingSet) -> None:
    for finding in training.findings():
        if finding.severity != "note":
            say(f"{finding.severity}: {finding.message}")
