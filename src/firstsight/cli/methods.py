"""`firstsight methods`: what there is to choose from."""

from __future__ import annotations

from typing import Annotated

import typer


def methods(json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False) -> None:
    """List every method: its space, whether it is transductive, extra supervision, and where it comes from."""
    from firstsight.methods import all_methods

    rows = [
        {
            "name": word,
            "class": method.__name__,
            "space": method.space,
            "kind": "transductive" if method.transductive else "inductive",
            "extra_supervision": method.extra_supervision,
            "reference": method.reference,
        }
        for word, method in all_methods().items()
    ]
    if json:
        import json as json_format

        print(json_format.dumps(rows, indent=1, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "space", "kind", "extra supervision", "reference"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for row in rows:
        table.add_row(*(row[k] for k in ("name", "space", "kind", "extra_supervision", "reference")))
    Console().print(table)
