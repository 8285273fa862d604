"""`firstsight evaluate`: one method on one data set, the figures that papers print."""

from __future__ import annotations

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
    write_json,
)


def evaluate(
    data: Data,
    method: Method = "deep-embedding",
    set: Set = None,
    preset: Preset = None,
    features: Features = None,
    setting: Annotated[Setting, typer.Option(help="Conventional, generalized, or both.")] = Setting.both,
    seed: Seed = 0,
    json: Annotated[Path | None, typer.Option(help="Write the result to this file, too.")] = None,
) -> None:
    """Fit a method on the training rows and print T1, ts, tr and H: mean per-class accuracies in percent."""
    from rich.console import Console

    from firstsight.data import load_dataset
    from firstsight.evaluation import SETTINGS, percent
    from firstsight.evaluation import evaluate as run
    from firstsight.methods import word_of

    estimator = make_estimator(method, set, seed, preset=preset)
    dataset = load_dataset(data, features)
    result = run(estimator, dataset, SETTINGS if setting == Setting.both else (setting.value,))
    fitted = next(iter(result.models.values()))
    record = {
        "method": word_of(type(estimator)),
        "dataset": dataset.name,
        **{name: percent(getattr(result, name)) for name in ("t1", "ts", "tr", "h")},
        "seconds": round(result.seconds, 2),
        "parameters": fitted.plain_parameters(),
        "seed": seed,
        "split": dataset.split_hash,
        "extra_supervision": fitted.extra_supervision,
    }
    figures = "  ".join(
        f"{title} {record[name]:.1f}"
        for title, name in (("T1", "t1"), ("ts", "ts"), ("tr", "tr"), ("H", "h"))
        if record[name] is not None
    )
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(f"{dataset.name}  {method}  seed {seed}  {figures}  ({result.seconds:.0f} s)")
    if fitted.extra_supervision:
        console.print(f"extra supervision: {fitted.extra_supervision}")
    if json is not None:
        write_json(json, record)
