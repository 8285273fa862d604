"""`firstsight embed`: a folder of pictures → a file of features."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firstsight.errors import BadInput

if TYPE_CHECKING:
    from firstsight.data.feature_files import FeatureFile

DEFAULT_BACKBONE = "microsoft/resnet-101"
SKIPPED_SHOWN = 20

BackboneOption = Annotated[
    str,
    typer.Option(metavar="NAME_OR_PATH", help="A vision model of transformers: its name, or a folder that holds it."),
]
BatchSize = Annotated[int, typer.Option(min=1, help="Pictures that go through the model at once.")]
Runtime = Annotated[
    str,
    typer.Option(help="torch, onnx, or auto: onnx where the backbone was exported before or the pictures are many."),
]


def embed(
    folder: Annotated[Path, typer.Argument(help="Pictures, directly or in one sub-folder per class.")],
    out: Annotated[Path, typer.Option(help="The .npz file to write.")],
    backbone: BackboneOption = DEFAULT_BACKBONE,
    batch_size: BatchSize = 32,
    runtime: Runtime = "auto",
) -> None:
    """Turn pictures into features, one row per picture; sub-folder names are their classes.

    A run that is killed goes on where it was, and pictures that this backbone has looked at before take no
    time: features are kept by the content of the picture, in $FIRSTSIGHT_CACHE or the user's cache folder.
    """
    from firstsight.data.feature_files import write_feature_file

    if out.suffix != ".npz":
        raise BadInput(f"The file must end in .npz, but is called {out.name!r}; rename it.")
    content = embed_folder(folder, backbone, batch_size, runtime)
    write_feature_file(out, content)
    rows, dim = content.features.shape
    classes = "no labels" if content.labels is None else f"{len(set(content.labels))} classes"
    say(f"{rows} pictures, {dim} features each, {classes}; {_skipped(content)}; saved to {out}.")


def embed_folder(folder: Path, backbone: str, batch_size: int, runtime: str, labelled: bool = True) -> FeatureFile:
    """Features of a folder's pictures, named by their path within it; what is skipped is told on the screen."""
    from firstsight.data.feature_files import FeatureFile
    from firstsight.encoders import PictureEncoder, name_as_text, survey_pictures

    found = survey_pictures(folder)
    for remark in found.remarks():
        say(remark)
    paths, classes = found.paths, found.classes
    encoder = PictureEncoder(backbone, batch_size=batch_size, runtime=runtime)
    root = folder if folder.is_dir() else folder.parent
    with _bar(f"Pictures in {name_as_text(folder.name or folder)}", len(paths)) as show:
        encoded = encoder.encode(paths, progress=show, root=root, announce=say)
    skipped = encoded.skipped
    for name, reason in skipped[:SKIPPED_SHOWN]:
        say(f"skipped {name}: {reason}.")
    if len(skipped) > SKIPPED_SHOWN:
        say(f"skipped {len(skipped) - SKIPPED_SHOWN} more.")
    if not encoded.files:
        raise BadInput(
            f"None of the {len(paths)} pictures in {name_as_text(folder)} could be read "
            f"(for {skipped[0][0]}: {skipped[0][1]}); check them."
        )
    return FeatureFile(
        features=encoded.features,
        names=encoded.files,
        labels=[classes[row] for row in encoded.rows] if classes is not None and labelled else None,
        backbone=encoder.facts,
        skipped=skipped,
    )


def say(message: str) -> None:
    """One line for a person, apart from a command's output."""
    from rich.console import Console

    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(message)


@contextmanager
def _bar(description: str, total: int) -> Iterator[Callable[[int, int], None] | None]:
    """A bar with the time left, spinning while the model is loaded; nothing where nobody watches.

    The methods' own bar would do, but importing the methods takes longer than a second run of `embed`.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(description), total=total)
        yield lambda done, total: bar.update(task, completed=done)


def _skipped(content: FeatureFile) -> str:
    return f"{len(content.skipped)} skipped" if content.skipped else "none skipped"
