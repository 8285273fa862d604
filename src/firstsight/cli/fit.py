"""`firstsight fit`: a model from a data set, safe against being killed on the way."""

from __future__ import annotations

import time
from glob import escape
from pathlib import Path
from typing import Annotated

import typer

from firstsight.cli.options import (
    Data,
    Features,
    Method,
    Preset,
    Seed,
    Set,
    Setting,
    make_estimator,
)
from firstsight.errors import BadInput


def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="The folder to write the model to.")],
    method: Method = "deep-embedding",
    set: Set = None,
    preset: Preset = None,
    features: Features = None,
    setting: Annotated[
        Setting,
        typer.Option(help="What a transductive method's pool holds: test rows of unseen classes, or all."),
    ] = Setting.gzsl,
    seed: Seed = 0,
    calibrate: Annotated[
        bool,
        typer.Option(
            help="Measure confidence and accuracy on held-out classes, too: three more fits, on fewer classes."
        ),
    ] = False,
) -> None:
    """Fit a method on the training rows and save the model.

    A fit of the paper's methods that is killed goes on where it was when the same command runs again, and ends
    with the same model; until then its state is in MODEL.checkpoint.
    """
    from rich.console import Console

    from firstsight.calibration import calibrate as measure
    from firstsight.data import load_dataset
    from firstsight.evaluation import fit_on
    from firstsight.models import save

    if setting == Setting.both:
        raise BadInput("A model is fitted for one setting; give --setting zsl or --setting gzsl.")
    if out.exists() and not (out / "model.json").is_file():
        raise BadInput(f"{out} exists and is not a model folder; choose another place or remove it first.")
    checkpoint = out.with_name(out.name + ".checkpoint")
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    estimator = make_estimator(method, set, seed, preset=preset, checkpoint=str(checkpoint), setting=setting.value)
    dataset = load_dataset(data, features)
    if checkpoint.exists():
        console.print(f"Going on from {checkpoint}, if it is of this very fit.")
    began = time.perf_counter()
    fit_on(estimator, dataset)
    facts = {
        "dataset": dataset.name,
        "split": dataset.split_hash,
        "seed": seed,
        "parameters": estimator.plain_parameters(),
        "seconds": round(time.perf_counter() - began, 2),
        "features": dataset.features_hash,
        "attributes": list(dataset.attribute_names or []),
    }
    calibration = None
    if calibrate:
        console.print("Calibrating on held-out classes.")
        calibration = measure(estimator, dataset, checkpoint=checkpoint, verbose=True)
    if "checkpoint" in estimator.get_params():
        estimator.set_params(checkpoint=None)  # a place on this machine is no part of the model
    save(estimator, out, facts, calibration)
    for path in [checkpoint, *checkpoint.parent.glob(f"{escape(checkpoint.name)}.fold*")]:
        path.unlink(missing_ok=True)
    console.print(
        f"{method} knows {len(estimator.classes_)} classes ({len(estimator.unseen_classes_)} never seen); "
        f"saved to {out}."
    )
    if calibration is not None:
        t1, k, ece = calibration.estimate["t1"], calibration.held_out_classes, calibration.scales["unseen"].ece
        console.print(
            f"Expect {100 * t1:.1f} % of samples of new classes to be named right among {k} of them (chance "
            f"{100 / k:.1f} %), measured on held-out classes; confidence was off by {100 * (ece or 0):.1f} % on "
            "average."
        )
