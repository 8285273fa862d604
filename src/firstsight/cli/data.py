"""`firstsight data …`: look at a data set before trusting it, and make one of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firstsight.cli.options import Data, Features, Seed
from firstsight.errors import BadInput

app = typer.Typer(no_args_is_help=True)


@app.callback()
def data() -> None:
    """Look at data sets, and make your own."""


@app.command()
def check(path: Data, features: Features = None) -> None:
    """Print a data set's sizes and audit it: leaks between splits, missing descriptions, NaN, constant columns.

    The exit code is 1 if there is an error.
    """
    from rich.markup import escape

    from firstsight._io.terminal import in_one_line, screen
    from firstsight.data import audit

    report = audit(path, features)
    console = screen(markup=True)
    console.print(f"[bold]{escape(in_one_line(report.name))}[/]")
    width = max(map(len, report.sizes))
    for what, number in report.sizes.items():
        console.print(f"  {escape(what):{width}}  {number:,}")
    style = {"error": "bold red", "warning": "yellow", "note": "dim"}
    for finding in report.findings:
        console.print(f"[{style[finding.severity]}]{finding.severity}:[/] {escape(finding.message)}")
    counts = {s: sum(f.severity == s for f in report.findings) for s in style}
    console.print(", ".join(f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items()))
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def make(
    samples: Annotated[
        Path, typer.Argument(metavar="FEATURES", help="What `firstsight embed` wrote, or a .csv with a column class.")
    ],
    classes: Annotated[Path, typer.Option(help="A table that `firstsight describe` wrote: a row per class.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    unseen: Annotated[
        str, typer.Option(help="The unseen classes: names separated by commas, or a share to draw.")
    ] = "0.25",
    held_out: Annotated[float, typer.Option(help="The share of each seen class's rows to test on.")] = 0.2,
    features: Annotated[
        str | None,
        typer.Option(
            help="The feature file's name; other people's code may insist on res101. Left out: the backbone's."
        ),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Write features and descriptions as a folder in the xlsa17 layout with proposed splits.

    Anybody's zero-shot code reads att_splits.mat and the feature file; so do `firstsight fit` and `evaluate`.
    """
    from firstsight._io.terminal import say
    from firstsight.data import read_descriptions
    from firstsight.data.feature_files import read_feature_file
    from firstsight.data.proposed_splits import propose_splits, write_xlsa17

    file = read_feature_file(samples)
    if file.labels is None:
        raise BadInput(f"{samples} says nothing about classes; embed a folder with one sub-folder per class.")
    try:
        chosen: list[str] | float = float(unseen)
    except ValueError:
        chosen = [name.strip() for name in unseen.split(",") if name.strip()]
    proposal = propose_splits(
        out.name, file.features, file.labels, read_descriptions(classes), chosen, held_out, file.names, seed
    )
    write_xlsa17(out, proposal, features or (file.backbone or {}).get("name") or "features")
    data = proposal.dataset
    if proposal.without_rows:
        say(f"Left out {len(proposal.without_rows)} classes without samples, for example {proposal.without_rows[0]!r}.")
    say(
        f"{len(data.seen_classes)} seen and {len(data.unseen_classes)} unseen classes; {len(data.train)} rows to train "
        f"on, {len(data.test_seen)} and {len(data.test_unseen)} to test; saved to {out}."
    )
