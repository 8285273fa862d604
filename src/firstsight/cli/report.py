"""`firstsight report`: records become a page to look at, with every table and figure as a file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Open(StrEnum):
    """Whether to open the page when it is ready."""

    yes = "yes"
    no = "no"


def report(
    results: Annotated[
        Path,
        typer.Argument(metavar="RESULTS", help="The folder that `firstsight benchmark` wrote, or one .jsonl file."),
    ],
    out: Annotated[Path, typer.Option(help="The folder for index.html, tables/ and figures/.")],
    open: Annotated[Open, typer.Option(help="Open the page in the browser when it is ready.")] = Open.no,
) -> None:
    """Make a self-contained page (and CSV, LaTeX, Markdown and PNG files) from benchmark records; runs no method."""
    from firstsight._io.terminal import progress, screen
    from firstsight.reporting import report as make_report

    with progress("tables and figures", total=None) as show:
        page = make_report(results, out, lambda done, total: show(done, of=total))
    screen().print(f"{page}")
    if open == Open.yes:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
