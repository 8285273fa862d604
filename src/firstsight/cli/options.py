"""Options that several commands share, and how words become parameters."""

from __future__ import annotations

import ast
import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from firstsight.errors import BadInput

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="glyphs (built in), an xlsa17 folder (att_splits.mat + features), an .npz file, or a folder with "
        "samples.csv and classes.csv.",
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        help="A method's name; `firstsight methods` lists them. Left out: kernel-prototypes, with --preset the "
        "paper's deep-embedding, with features and descriptions of one vision-language model blend."
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method; may be given several times."),
]
Preset = Annotated[str | None, typer.Option(help="Named settings of the paper's methods: validated, paper, fast.")]
Features = Annotated[str | None, typer.Option(help="Which feature file of an xlsa17 folder, e.g. res101.")]
Seed = Annotated[int, typer.Option(min=0, help="Everything random follows from it.")]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Forget what was taught to the model since its training: classes, and labelled images that were added.",
    ),
]


DEFAULT_BACKBONE = "microsoft/resnet-101"

BackboneOption = Annotated[
    str,
    typer.Option(metavar="NAME_OR_PATH", help="A vision model of transformers: its name, or a folder that holds it."),
]
BatchSize = Annotated[int, typer.Option(min=1, help="Pictures that go through the model at once.")]
Runtime = Annotated[
    str,
    typer.Option(help="torch, onnx, or auto: onnx where the backbone was exported before or the pictures are many."),
]
Device = Annotated[str, typer.Option(help="Where the model runs: cpu, cuda, mps, …, or auto: a GPU if there is one.")]


# Parameters that have an option of their own, which the written record tells: a second way would contradict it.
BY_OPTION = {"random_state": "--seed", "setting": "--setting"}


class Setting(StrEnum):
    """The settings of zero-shot evaluation."""

    zsl = "zsl"
    gzsl = "gzsl"
    both = "both"


class Where(StrEnum):
    """What fits and predictions are computed by."""

    local = "local"
    dask = "dask"


EngineOption = Annotated[
    Where, typer.Option("--engine", help="This machine, or the workers of a Dask cluster (extra `cluster`).")
]
SchedulerOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Of the cluster's scheduler, such as tcp://node1:8786.")
]
ProcessesOption = Annotated[
    int | None, typer.Option(min=1, help="Worker processes; cores ÷ processes threads each. Default: all cores.")
]


def read_assignments(words: list[str] | None, preset: str | None = None) -> dict[str, Any]:
    """`NAME=VALUE` words, and the preset if there is one, as parameters; whoever knows the method judges them."""
    values: dict[str, Any] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals:
            raise BadInput(f"--set {word!r} must have the form NAME=VALUE, for example --set penalty=0.1")
        if name in BY_OPTION:
            raise BadInput(f"--set {name} is not possible, because {BY_OPTION[name]} sets it; use that.")
        values[name] = _value(value)
    return values if preset is None else {**values, "preset": preset}


def settings_of(setting: Setting) -> tuple[str, ...]:
    """The settings that a word asks for."""
    return ("zsl", "gzsl") if setting == Setting.both else (setting.value,)


def write_json(path: Path, value: Any) -> None:
    import json

    from firstsight._io.files import write_atomically

    write_atomically(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        value = ast.literal_eval(text)
        if isinstance(value, int | float) and not math.isfinite(value):
            raise OverflowError
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    except OverflowError:  # a whole number of hundreds of digits, too
        raise BadInput(f"{text[:40]} is not a finite number, or too large for one; give a smaller one.") from None
    return value
