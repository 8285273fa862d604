"""`firstsight fit`: a model from a data set, safe against being killed on the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firstsight._io.terminal import counted, say
from firstsight.cli.options import Data, Features, Method, Overwrite, Preset, Seed, Set, Setting, read_assignments
from firstsight.errors import BadInput

if TYPE_CHECKING:
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
    from firstsight.methods import default_method
    from firstsight.recognition import fit

    if setting == Setting.both:
        raise BadInput("A model is fitted for one setting; give --setting zsl or --setting gzsl.")
    parameters = read_assignments(set, preset)
    method = method or default_method(parameters)
    recognizer = fit(
        method,
        data,
        out=out,
        parameters=parameters,
        setting=setting.value,
        confidence=confidence,
        features=features,
        random_state=seed,
        overwrite=overwrite,
        verbose=True,
    )
    _report(recognizer, method, out)


def _report(recognizer: Recognizer, method: str, out: Path) -> None:
    model = recognizer.model
    say(
        f"{method} knows {counted(len(model.classes_), 'class')} ({len(model.unseen_classes_)} never seen); "
        f"saved to {out}."
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
