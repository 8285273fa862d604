"""`firstsight evaluate`: one method on one data set, the figures that papers print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firstsight.cli.options import (
    Data,
    Features,
    Method,
    Preset,
    Seed,
    Set,
    Setting,
    read_assignments,
    settings_of,
    write_json,
)

if TYPE_CHECKING:
    from firstsight.data import ZeroShotDataset
    from firstsight.evaluation import Result


def evaluate(
    data: Data,
    method: Method = None,
    set: Set = None,
    preset: Preset = None,
    features: Features = None,
    setting: Annotated[Setting, typer.Option(help="Conventional, generalized, or both.")] = Setting.both,
    seed: Seed = 0,
    json: Annotated[Path | None, typer.Option(help="Also write the result to this file.")] = None,
) -> None:
    """Fit a method on the training rows and print T1, ts, tr and H: mean per-class accuracies in percent."""
    from firstsight._io.terminal import say
    from firstsight.data import load_dataset
    from firstsight.data.rules import odd_values
    from firstsight.evaluation import evaluate as run
    from firstsight.methods import default_method, make_estimator

    parameters = read_assignments(set, preset)
    method = method or default_method(parameters)
    estimator = make_estimator(method, parameters, random_state=seed, verbose=True)
    dataset = load_dataset(data, features)
    for finding in odd_values(dataset):
        if finding.severity == "warning":  # test samples that are copies of training samples
            say(f"{finding.severity}: {finding.message}")
    result = run(estimator, dataset, settings_of(setting))
    record = _record(result, dataset, seed)
    _show(record, method)
    if json is not None:
        write_json(json, record)


def _record(result: Result, dataset: ZeroShotDataset, seed: int) -> dict[str, Any]:
    from firstsight.evaluation import TITLES, percent
    from firstsight.methods import method_name

    fitted = next(iter(result.models.values()))
    return {
        "method": method_name(type(fitted)),
        "dataset": dataset.name,
        **{name: percent(getattr(result, name)) for name in TITLES},
        "seconds": round(result.seconds, 2),
        "parameters": fitted.resolved_parameters(),
        "seed": seed,
        "split": dataset.split_hash,
        "extra_supervision": fitted.extra_supervision,
    }


def _show(record: dict[str, Any], method: str) -> None:
    from firstsight._io.terminal import in_one_line, screen
    from firstsight.evaluation import TITLES

    figures = "  ".join(f"{title} {record[name]:.1f}" for name, title in TITLES.items() if record[name] is not None)
    console = screen()
    console.print(
        f"{in_one_line(record['dataset'])}  {method}  seed {record['seed']}  {figures}  ({record['seconds']:.0f} s)"
    )
    if record["extra_supervision"]:
        console.print(f"extra supervision: {record['extra_supervision']}")
