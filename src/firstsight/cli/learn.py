"""`firstsight learn`: one folder of pictures and one table of classes → a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firstsight._io.terminal import counted, say
from firstsight.cli.embed import DEFAULT_BACKBONE, BackboneOption, BatchSize, Device, Runtime
from firstsight.cli.options import Overwrite, Preset, Seed, Set, read_assignments

if TYPE_CHECKING:
    from firstsight.evaluation.calibration import Calibration
    from firstsight.recognition import Recognizer

ChosenMethod = Annotated[
    str | None,
    typer.Option(
        help="A method's name; `firstsight methods` lists them. Left out: kernel-prototypes, with --unlabeled "
        "transductive-kernel-prototypes, with --preset the paper's method."
    ),
]
Unlabeled = Annotated[
    Path | None, typer.Option(help="Pictures without labels, of seen and unseen classes, to learn from as well.")
]
Unseen = Annotated[
    str | None, typer.Option(help="Classes (separated by commas) whose pictures are held out for testing.")
]
Split = Annotated[Path | None, typer.Option(help="The same, as a table: columns class and split (seen or unseen).")]


def learn(
    pictures: Annotated[Path, typer.Argument(help="A folder with one sub-folder of pictures per class.")],
    classes: Annotated[Path, typer.Option(help="A table that `firstsight describe` wrote: a row per class.")],
    out: Annotated[Path, typer.Option(help="The folder to write the model to.")],
    backbone: BackboneOption = DEFAULT_BACKBONE,
    method: ChosenMethod = None,
    unlabeled: Unlabeled = None,
    unseen: Unseen = None,
    split: Split = None,
    set: Set = None,
    preset: Preset = None,
    seed: Seed = 0,
    batch_size: BatchSize = 32,
    runtime: Runtime = "auto",
    device: Device = "cpu",
    overwrite: Overwrite = False,
) -> None:
    """Learn to recognise every class of a table; those without pictures are recognised by their description.

    Ends with an estimate of what to expect of classes without pictures: models are fitted on some of the classes with
    pictures and asked about the others. A run that is killed resumes: run the same command again.
    """
    from firstsight.recognition import learn

    recognizer = learn(
        pictures,
        classes,
        out=out,
        backbone=backbone,
        method=method,
        parameters=read_assignments(set, preset),
        unlabeled=unlabeled,
        unseen=None if unseen is None else [name.strip() for name in unseen.split(",")],
        split=split,
        random_state=seed,
        batch_size=batch_size,
        runtime=runtime,
        device=device,
        overwrite=overwrite,
        verbose=True,
    )
    _report(recognizer, out)


def _report(recognizer: Recognizer, out: Path) -> None:
    """Say what was learned, and what to expect of it."""
    from firstsight.methods import method_name

    model, pictures, test = recognizer.model, recognizer.provenance.pictures, recognizer.provenance.evaluation
    seen, unseen = len(model.seen_classes_), len(model.unseen_classes_)
    learned = counted(pictures.labelled if pictures else 0, "picture")
    say(
        f"{method_name(type(model))} knows {counted(len(model.classes_), 'class')}: {seen} from {learned}, {unseen} "
        f"from their description alone; saved to {out}."
    )
    say(expectation(getattr(model, "calibration_", None), seen))
    if test:
        n, k = int(test["held_out_pictures"]), int(test["held_out_classes"])
        right, of_all = int(test["right_among_unseen"]), int(test["right_among_all"])
        say(
            f"Held out: {right} of {counted(n, 'picture')} of {counted(k, 'class')} that training did not see named "
            f"right among these {k} ({100 * right / n:.1f} %), {of_all} among all {len(model.classes_)} classes."
        )
        if pool := int(test.get("unlabelled_in_training", 0)):
            say(f"{pool:,} of these {n:,} pictures were among the unlabelled ones: training had them without a label.")


def expectation(calibration: Calibration | None, n_seen: int) -> str:
    """What held-out classes say of classes without pictures, as a sentence, with what it rests on."""
    from firstsight.data.folds import FEWEST_CLASSES

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
