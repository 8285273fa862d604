"""`firstsight methods`: what there is to choose from."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def methods(
    name: Annotated[str | None, typer.Argument(help="A method, to see its parameters and what it does.")] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """List every method: its space, whether it is transductive, and where it comes from; or all about one.

    Where PyTorch is not installed, the methods that need it are marked.
    """
    from firstsight.methods import all_methods, find_method, method_name

    words = list(all_methods()) if name is None else [method_name(find_method(name))]
    rows = [_about(word) for word in words]
    if json:
        import json as json_format

        print(json_format.dumps(rows if name is None else rows[0], indent=1, ensure_ascii=False))
    elif name is None:
        _show_all(rows)
    else:
        _show_one(rows[0])


def _about(word: str) -> dict[str, Any]:
    import inspect

    from firstsight.methods import all_methods

    cls = all_methods()[word]
    return {
        "name": word,
        "class": cls.__name__,
        "space": cls.space,
        "kind": "transductive" if cls.transductive else "inductive",
        "extra_supervision": cls.extra_supervision,
        "needs_torch": cls.needs_torch,
        "reads_blocks": cls.reads_blocks,
        "reference": cls.reference,
        "parameters": {k: p.default for k, p in inspect.signature(cls).parameters.items()},
        "grid": cls.grid,
    }


def _show_all(rows: list[dict[str, Any]]) -> None:
    from firstsight._io.terminal import screen
    from firstsight.devices import torch_is_installed

    console, marked = screen(), not torch_is_installed()
    listed = [{**row, "name": row["name"] + " *" * (marked and row["needs_torch"])} for row in rows]
    columns = ("name", "space", "kind")  # whole on any screen; the reference gets what is left
    widths = [2 + max(len(row[column]) for row in listed) for column in columns]
    room = max(console.width - sum(widths), 20)
    titles = {"name": "name", "space": "space", "kind": "kind", "reference": "reference", "extra_supervision": ""}
    for row in [titles, *listed]:
        first = "".join(row[c].ljust(w) for c, w in zip(columns, widths, strict=True))
        reference = row["reference"]
        if len(reference) > room:
            reference = reference[: room - 1] + "…"
        console.print(first + reference, style="bold" if row is titles else None)
    console.print()
    if marked:
        console.print("* needs PyTorch, which is not installed; run pip install 'firstsight[torch]'.")
    for row in rows:
        if row["extra_supervision"]:
            console.print(f"{row['name']} gets extra supervision: {row['extra_supervision']}.")
    blocks = ", ".join(row["name"] for row in rows if row["reads_blocks"])
    console.print(f"Rows may stay on disk, however many (docs/scale.md), with {blocks}.")
    console.print("`firstsight methods NAME` shows a method's parameters and what it does.")


def _show_one(row: dict[str, Any]) -> None:
    import inspect

    from rich.table import Table

    from firstsight._io.terminal import screen
    from firstsight.methods import all_methods

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("parameter", "default", "`firstsight tune` tries"):
        table.add_column(column)
    for parameter, default in row["parameters"].items():
        values = row["grid"].get(parameter, [])
        tried = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)
        table.add_row(parameter, repr(default), tried)
    console = screen()
    text = inspect.getdoc(all_methods()[row["name"]]) or ""
    console.print(f"{row['name']}: {row['reference']}\n")
    console.print(text.split("\nExamples\n")[0].rstrip() + "\n")
    console.print(table, soft_wrap=False)
