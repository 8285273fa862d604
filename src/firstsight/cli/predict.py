"""`firstsight predict`: name pictures, or the rows of a feature file, with a saved model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firstsight._io.terminal import counted, say, write_out
from firstsight.cli.options import Device, EngineOption, SchedulerOption, Where
from firstsight.errors import BadInput

if TYPE_CHECKING:
    from firstsight.recognition import Answers, Recognizer

Inputs = Annotated[
    list[Path],
    typer.Argument(
        metavar="PICTURES_OR_FEATURES",
        help="A folder of pictures, pictures, or a feature file: .npy, .npz (key: features), .csv or .parquet.",
    ),
]
Classes = Annotated[
    str, typer.Option(help="all, seen, unseen, names separated by commas, or a table of new classes (.csv).")
]
Top = Annotated[
    int | None, typer.Option(min=1, show_default="1; 5 on a page", help="How many classes to rank per row.")
]
Csv = Annotated[Path | None, typer.Option(help="Write row (or file) and class here instead of to the screen.")]
Json = Annotated[Path | None, typer.Option(help="Write ranked classes with confidence and score here.")]
Html = Annotated[
    Path | None,
    typer.Option(help="Write one page to look at: pictures, ranked classes, reasons; it needs no other file."),
]
RejectFar = Annotated[
    bool,
    typer.Option(
        help="Answer 'none of these' where a sample looks like nothing the model has seen; needs a calibrated model.",
    ),
]
RejectShare = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=0.99,
        help="Also answer 'none of these' where no candidate fits, losing this share of samples of known classes, "
        "0.05 for example; needs a calibrated model.",
    ),
]
ShiftSeen = Annotated[
    bool,
    typer.Option(
        "--shift-seen", help="Take the calibration's constant off seen classes; this changes answers, on purpose."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Many files or folders, 'features/*.npy' for example: answer each in "
        "FOLDER/<its name>.parquet, unless it is there already.",
    ),
]
Why = Annotated[bool, typer.Option("--why", help="Explain each answer: what its lead over the runner-up is made of.")]
Backbone = Annotated[
    str | None,
    typer.Option(metavar="NAME_OR_PATH", help="Where the model's backbone is, if not where its name says."),
]


def predict(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    inputs: Inputs,
    classes: Classes = "all",
    top: Top = None,
    csv: Csv = None,
    json: Json = None,
    html: Html = None,
    reject_far: RejectFar = True,
    reject_share: RejectShare = None,
    shift_seen: ShiftSeen = False,
    why: Why = False,
    backbone: Backbone = None,
    device: Device = "cpu",
    out: Out = None,
    engine: EngineOption = Where.local,
    scheduler: SchedulerOption = None,
) -> None:
    """Name every picture, or every row of a feature file: one line each, with its class and its confidence.

    With --top, one line per class, ranked. Pictures in sub-folders named like classes are counted right or wrong. What
    looks like nothing that a calibrated model has seen is "none of these".
    """
    from firstsight.recognition import Recognizer
    from firstsight.recognition.inputs import is_feature_file

    recognizer = Recognizer.load(model, backbone, device=device)
    if backbone is not None and any(map(is_feature_file, inputs)):
        raise BadInput(f"--backbone is for pictures, but {inputs[0]} holds features; leave it out.")
    options: dict[str, Any] = {
        "classes": _candidates(classes),
        "reject_far": reject_far,
        "reject_share": reject_share,
        "shift_seen": shift_seen,
    }
    if out is not None:
        _check_outputs({"--csv": csv, "--json": json, "--html": html, "--why": why})
        _predict_shards(recognizer, inputs, out, {**options, "top": top or 1}, engine=engine.value, scheduler=scheduler)
        return
    if engine != Where.local or scheduler is not None:
        raise BadInput(
            "A cluster answers files into a folder; add --out FOLDER, or leave --engine and --scheduler out."
        )
    with _bars() as show:
        most = top or (5 if html is not None else 1)
        answers = recognizer.predict(inputs, most, **options, why=why or html is not None, progress=show)
    if html is not None:
        answers.to_html(html, f"Answers of {model.resolve().name}")
    _write(answers, csv, json, ranked=(top or 1) > 1, on_screen=html is None)
    if reject_far:
        _report_far(answers)
    if (score := answers.score()) is not None:
        for line in str(score).splitlines():
            say(line)


def _check_outputs(others: dict[str, object]) -> None:
    if given := next((name for name, value in others.items() if value), None):
        raise BadInput(f"--out writes a Parquet file for each input, and {given} one for all; leave one of them out.")


def _predict_shards(
    recognizer: Recognizer, inputs: list[Path], out: Path, options: dict[str, Any], **cluster: str | None
) -> None:
    shards: list[Path] = []
    for path in inputs:
        matching = [path] if path.exists() or not has_magic(str(path)) else sorted(map(Path, glob(str(path))))
        if not matching:
            raise BadInput(f"Nothing matches {path}; check the pattern.")
        shards += matching
    done: list[Path] = []

    def on_shard_done(path: Path, number: int, total: int) -> None:
        done.append(path)
        say(f"[{number}/{total}] {path}")

    files = recognizer.predict_shards(shards, out, on_shard_done=on_shard_done, **cluster, **options)
    say(f"{counted(len(files), 'file')} of answers in {out}, {len(done)} of them new.")


def _candidates(words: str) -> str | list[str]:
    if words in ("all", "seen", "unseen") or words.endswith((".csv", ".parquet")):
        return words
    return [name.strip() for name in words.split(",")]


@contextmanager
def _bars() -> Iterator[Callable[[int, int], None]]:
    """A bar for pictures and, when counting starts anew, another one for reasons."""
    from firstsight._io.terminal import progress

    with ExitStack() as stack:
        bar, last = None, 0

        def show(done: int, total: int) -> None:
            nonlocal bar, last
            if bar is None or done < last:
                stack.close()
                bar = stack.enter_context(progress("Pictures" if bar is None else "Reasons", total))
            bar(done, "")
            last = done

        yield show


def _write(answers: Answers, csv: Path | None, json: Path | None, ranked: bool, on_screen: bool) -> None:
    from firstsight._io.files import write_atomically
    from firstsight.cli.options import write_json
    from firstsight.encoders.embedding import log_skipped
    from firstsight.recognition.answers import NO_CALIBRATION

    log_skipped(list(answers.skipped))
    if answers.skipped:
        say(f"{len(answers.skipped)} of {len(answers) + len(answers.skipped)} pictures were skipped.")
    if json is not None:
        if answers.confidence is None:
            say(f"note: {NO_CALIBRATION}.")
        write_json(json, answers.as_json())
    text = _as_csv(answers, ranked and json is None)
    if csv is not None:
        write_atomically(csv, text)
    elif json is None and on_screen:
        write_out(text)


def _report_far(answers: Answers) -> None:
    n = 0 if answers.far is None else int(answers.far.sum())
    if n == 0:
        return
    rows = counted(len(answers), "row" if answers.key == "row" else "picture")
    looks, it = ("looks", "it") if n == 1 else ("look", "them")
    say(
        f"{n} of {rows} {looks} like nothing the model has seen; the answer is none of these (--no-reject-far names "
        f"{it} all the same)."
    )


def _as_csv(answers: Answers, ranked: bool) -> str:
    from firstsight._io.files import csv_of

    table = answers.ranked() if ranked else answers.to_frame().drop(columns=["rejected", "distance"], errors="ignore")
    if "confidence" in table:
        table["confidence"] = [
            "" if value is None or value != value else f"{value:.4f}" for value in table["confidence"]
        ]
    return csv_of(table)
