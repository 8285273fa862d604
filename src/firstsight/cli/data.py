"""`firstsight data …`: look at a data set before trusting it."""

from __future__ import annotations

import typer

from firstsight.cli.options import Data, Features

app = typer.Typer(no_args_is_help=True)


@app.callback()
def data() -> None:
    """Look at data sets."""


@app.command()
def check(path: Data, features: Features = None) -> None:
    """Print a data set's sizes and audit it: leaks between splits, missing descriptions, NaN, constant columns.

    The exit code is 1 if there is an error.
    """
    from rich.console import Console
    from rich.markup import escape

    from firstsight.data import audit

    report = audit(path, features)
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"[bold]{escape(report.name)}[/]")
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
