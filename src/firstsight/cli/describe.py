"""`firstsight describe`: names, sentences or attributes of classes → a table of descriptions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firstsight.cli.embed import say
from firstsight.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"


def describe(
    classes: Annotated[
        Path, typer.Argument(metavar="CLASSES.csv", help="A column `class`, and text, attributes or nothing beside it.")
    ],
    out: Annotated[Path, typer.Option(help="The .csv file to write.")],
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME_OR_PATH",
            help="A sentence-transformers or CLIP model: its name, or a folder that holds it. "
            f"Left out: {DEFAULT_ENCODER}.",
        ),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="What a bare name is put into, such as 'a photo of a {}, a kind of bird'.")
    ] = None,
    attributes: Annotated[
        str | None,
        typer.Option(help="Write an empty table of these attributes (with commas between them) to fill in by hand."),
    ] = None,
    scale: Annotated[bool, typer.Option("--scale", help="Bring every attribute to 0…1.")] = False,
) -> None:
    """Make the descriptions that unseen classes are recognised by; what CLASSES.csv holds decides how.

    Only names, or a column `text`: each becomes the vector that a text model gives it. Columns of attributes: numbers
    are taken as they are, 85% becomes 0.85, yes and no become 1 and 0, an empty cell takes its column's mean. With
    --attributes: an empty table to fill in, which a second `describe` then reads.
    """
    from firstsight.encoders.attribute_tables import TEXT_COLUMNS, attributes_as_numbers, empty_table, read_class_table
    from firstsight.files import write_atomically

    if out.suffix != ".csv":
        raise BadInput(f"The file must end in .csv, but is called {out.name!r}; rename it.")
    table = read_class_table(classes)
    text = next((name for name in TEXT_COLUMNS if name in table), None)
    wordy = table.shape[1] == 0 or (text is not None and table.shape[1] == 1)
    if attributes is not None:
        if out.exists():
            raise BadInput(f"{out} exists, and may be filled in already; choose another name or remove it first.")
        made = empty_table(list(table.index), attributes.split(","))
        notes = ["Fill it in with numbers, percentages or yes/no; what you do not know may stay empty."]
    elif not wordy and (encoder is not None or prompt is not None):
        raise BadInput(
            f"--encoder and --prompt are for words, but {classes} has attributes ({', '.join(table.columns[:3])}, …); "
            "leave them out, or keep the columns class and text only."
        )
    elif not wordy:
        if text is not None:
            raise BadInput(f"{classes} has both text ({text!r}) and attributes; keep one of the two.")
        made, notes = attributes_as_numbers(table, scale)
    else:
        if scale:
            raise BadInput("--scale is for attributes; vectors of words have one scale already: leave it out.")
        made, notes = _from_words(table, text, encoder or DEFAULT_ENCODER, prompt)
    write_atomically(out, made.to_csv(lineterminator="\n"))
    for note in notes:
        say(note)
    what = "numbers" if wordy and attributes is None else "attributes"
    say(f"{len(made)} classes, {made.shape[1]} {what} each; saved to {out}.")


def _from_words(
    table: pd.DataFrame, text: str | None, encoder: str, prompt: str | None
) -> tuple[pd.DataFrame, list[str]]:
    import pandas as pd

    from firstsight.encoders.words import TextEncoder, readable

    if prompt is not None and "{}" not in prompt:
        raise BadInput(f"--prompt must hold {{}} where the name belongs, but is {prompt!r}.")
    model = TextEncoder(encoder)
    if text is not None:
        if prompt is not None:
            raise BadInput(f"--prompt is for bare names, but the table has a column {text!r}; leave it out.")
        empty = table.index[table[text].str.strip() == ""]
        if len(empty):
            raise BadInput(
                f"The class {empty[0]!r} has no {text}; write a sentence, or remove the column to use names."
            )
        texts = table[text].str.strip().tolist()
    else:
        texts = [(prompt or model.prompt).replace("{}", readable(name)) for name in table.index]
    vectors = model.encode(texts)
    # Six digits tell apart whatever float32 does that matters, in half of the space.
    rows = [[f"{value:.6g}" for value in row] for row in vectors.tolist()]
    columns = [f"{model.name}:{i}" for i in range(vectors.shape[1])]
    return pd.DataFrame(rows, index=table.index, columns=columns), [f"Read by {model.name}, for example: {texts[0]!r}."]
