"""`firstsight fit`, `learn` and `export`: a model from a data set or from your own pictures, and as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from firstsight._io.terminal import counted, say
from firstsight.cli.options import (
    DEFAULT_BACKBONE,
    BackboneOption,
    BatchSize,
    Data,
    Device,
    Features,
    Method,
    Overwrite,
    Preset,
    Runtime,
    Seed,
    Set,
    Setting,
    read_assignments,
)
from firstsight.errors import BadInput

if TYPE_CHECKING:
    from firstsight.evaluation.calibration import Calibration
    from firstsight.methods import ZeroShotClassifier
    from firstsight.recognition import Recognizer


def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="The folder to write the model to.")],
    method: Method = None,
    set: Set = None,
    preset: Preset = None,
    features: Features = None,
    setting: Annotated[
        Setting,
        typer.Option(help="What a transductive method's pool holds: test rows of unseen classes, or all."),
    ] = Setting.gzsl,
    seed: Seed = 0,
    confidence: Annotated[
        bool,
        typer.Option(
            "--confidence",
            help="Also measure confidence and accuracy on held-out classes: three more fits, on fewer classes.",
        ),
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Fit a method on the training rows and save the model.

    A fit of the paper's methods that is killed resumes when the same command runs again, and ends with the
    same model; until then its state is in MODEL.checkpoint.
    """
    from firstsight.recognition import fit

    if setting == Setting.both:
        raise BadInput("A model is fitted for one setting; give --setting zsl or --setting gzsl.")
    recognizer = fit(
        method,
        data,
        out=out,
        parameters=read_assignments(set, preset),
        setting=setting.value,
        confidence=confidence,
        features=features,
        random_state=seed,
        overwrite=overwrite,
        verbose=True,
    )
    _report_fit(recognizer, out)


def _report_weights(model: ZeroShotClassifier) -> None:
    """Say what a blend consists of."""
    from firstsight.methods import Blend

    if isinstance(model, Blend) and len(model.parts_) > 1:
        shares = ", ".join(f"{100 * w:.0f} % {part}" for part, w in zip(model.parts_, model.weights_, strict=True))
        tasks = model.search_["tasks"]
        chosen = f"chosen on {tasks} simulated tasks" if tasks else "too few classes to choose"
        say(f"Weights: {shares} ({chosen if model.weights is None else 'as given'}).")


def _report_fit(recognizer: Recognizer, out: Path) -> None:
    from firstsight.methods import method_name

    model = recognizer.model
    _report_weights(model)
    say(
        f"{method_name(type(model))} knows {counted(len(model.classes_), 'class')} "
        f"({len(model.unseen_classes_)} never seen); saved to {out}."
    )
    calibration = getattr(model, "calibration_", None)
    if calibration is not None:
        t1, k, ece = calibration.estimate["t1"], calibration.held_out_classes, calibration.scales["unseen"].ece
        low, high = calibration.interval
        caution = "" if low > 1 / k else "Too few classes to tell it from guessing: "
        say(
            f"{caution}Expect {100 * t1:.1f} % of samples of new classes to be named right among {k} of them (chance "
            f"{100 / k:.1f} %, 95 % interval {100 * low:.0f} to {100 * high:.0f} %), measured on "
            f"held-out classes; confidence was off by {100 * (ece or 0):.1f} % on "
            "average."
        )


Classes = Annotated[
    Path,
    typer.Option(
        help="A table that `firstsight describe` wrote: a row per class. With a vision-language model as --backbone, "
        "names are enough (a column `class`, and `text` if you like)."
    ),
]
Pictures = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[FOLDER]...", help="Folders with one sub-folder of pictures per class. Left out: names alone."
    ),
]
Prompt = Annotated[
    list[str] | None,
    typer.Option(help="What names are put into, such as 'a photo of a {}.'; may be given several times."),
]
ChosenMethod = Annotated[
    str | None,
    typer.Option(
        help="A method's name; `firstsight methods` lists them. Left out: kernel-prototypes, with --unlabeled "
        "transductive-kernel-prototypes, with --preset the paper's method, with a vision-language model's own "
        "descriptions or with several kinds of descriptions blend."
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
    classes: Classes,
    out: Annotated[Path, typer.Option(help="The folder to write the model to.")],
    pictures: Pictures = None,
    backbone: BackboneOption = DEFAULT_BACKBONE,
    prompt: Prompt = None,
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

    Without any pictures, the model is a vision-language model's own answer (CLIP, SigLIP) for these classes.

    Ends with an estimate of what to expect of classes without pictures: models are fitted on some of the classes with
    pictures and asked about the others. A run that is killed resumes: run the same command again.
    """
    from firstsight.recognition import learn

    recognizer = learn(
        pictures[0] if pictures and len(pictures) == 1 else pictures or None,
        classes,
        out=out,
        backbone=backbone,
        prompt=prompt,
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
    _report_learn(recognizer, out)


def _report_learn(recognizer: Recognizer, out: Path) -> None:
    """Say what was learned, and what to expect of it."""
    from firstsight.methods import method_name

    model, pictures, test = recognizer.model, recognizer.provenance.pictures, recognizer.provenance.evaluation
    added, unseen = len(getattr(model, "added_classes_", ())), len(model.unseen_classes_)
    seen = len(model.seen_classes_) - added
    kept = f"{added} from samples that were added to the former model" if added else ""
    if not seen:
        say(
            f"{method_name(type(model))} knows {counted(unseen, 'class')} by their description alone, without a "
            f"labelled picture{kept and ', and '}{kept}; saved to {out}."
        )
        say(
            "No estimate: how often it is right takes labelled pictures to say. `firstsight predict "
            f"{quote(str(out))} FOLDER` counts it on a folder with one sub-folder of pictures per class."
        )
        return
    learned = counted(pictures.labelled if pictures else 0, "picture")
    _report_weights(model)
    say(
        f"{method_name(type(model))} knows {counted(len(model.classes_), 'class')}: {seen} from {learned}, "
        f"{kept}{kept and ', '}{unseen} from their description alone; saved to {out}."
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
    from firstsight.data.dataset import FEWEST_CLASSES

    if calibration is None:
        return (
            f"No estimate: it takes at least {FEWEST_CLASSES} classes with pictures to hold some out, and there are "
            f"{n_seen}."
        )
    k, t1 = calibration.held_out_classes, calibration.estimate["t1"]
    n_seen = k + calibration.training_classes  # when it was measured; classes may have been removed since
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


def export(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    onnx: Annotated[Path, typer.Option(help="The .onnx file to write.")],
    confidence: Annotated[
        bool, typer.Option("--confidence", help="A second output, `confidence`; needs a calibrated model.")
    ] = False,
    with_backbone: Annotated[
        bool, typer.Option("--with-backbone", help="The backbone in front, in the same file: pictures in, scores out.")
    ] = False,
    backbone: Annotated[
        str | None,
        typer.Option(metavar="NAME_OR_PATH", help="Where the model's backbone is, if not where its name says."),
    ] = None,
) -> None:
    """Write a model for ONNX Runtime: inputs `features` and `descriptions`, output `scores`, higher is better.

    Descriptions are an input, so new classes need no new export. Many models have a third input, `seen_code`, which
    says what training had samples of. The file's metadata hold the model's own classes, descriptions and codes.
    """
    from firstsight.recognition import Recognizer

    loaded = Recognizer.load(model, backbone)
    loaded.export_onnx(onnx, confidence=confidence, backbone=with_backbone)
    classes = counted(len(loaded.model.classes_), "class")
    say(f"{type(loaded.model).__name__} with {classes} written to {onnx}.")
