"""Names, sentences or attributes of classes → a table of descriptions; what the table holds decides how."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firstsight.encoders.attribute_tables import TEXT_COLUMNS, attributes_as_numbers, empty_table, read_class_table
from firstsight.encoders.words import DEFAULT, TextEncoder, readable
from firstsight.errors import BadInput
from firstsight.files import csv_of, write_atomically
from firstsight.terminal import logger

if TYPE_CHECKING:
    import pandas as pd


def describe(
    classes: pd.DataFrame | str | Path,
    *,
    encoder: str | Path | TextEncoder | None = None,
    prompt: str | None = None,
    attributes: Sequence[str] | None = None,
    scale: bool = False,
    out: str | Path | None = None,
    device: str = "cpu",
) -> pd.DataFrame:
    """Turn names, sentences or attributes into the descriptions that unseen classes are recognised by.

    What a person should know of it is logged.

    Parameters
    ----------
    classes : DataFrame, str or Path
        A table indexed by class, or a .csv file with a column `class`. Only names, or a column `text`: each
        becomes the vector that a text model gives it. Columns of attributes: numbers are taken as they are, 85%
        becomes 0.85, yes and no become 1 and 0, an empty cell takes its column's mean.
    encoder : str, Path or TextEncoder, optional
        A sentence-transformers or CLIP model, by name or as a folder.
    prompt : str, optional
        What a bare name is put into, such as "a photo of a {}".
    attributes : sequence of str, optional
        Make an empty table of these, to be filled in by hand.
    scale : bool
        Bring every attribute to 0…1.
    out : str or Path, optional
        The .csv file to write.
    device : str
        Where the text model runs: "cpu", "cuda", "mps", …, or "auto": a GPU if there is one.

    Returns
    -------
    DataFrame
        One row per class, indexed by class.
    """
    out = None if out is None else Path(out)
    if out is not None and out.suffix != ".csv":
        raise BadInput(f"The file must end in .csv, but is called {out.name!r}; rename it.")
    table, where = _as_text(classes)
    if attributes is not None:
        if out is not None and out.exists():
            raise BadInput(f"{out} exists, and may be filled in already; choose another name or remove it first.")
        made = empty_table([str(name) for name in table.index], attributes)
        notes = ["Fill it in with numbers, percentages or yes/no; what you do not know may stay empty."]
    elif is_wordy(table):
        if scale:
            raise BadInput("--scale is for attributes; vectors of words have one scale already: leave it out.")
        made, notes = _from_words(table, encoder or DEFAULT, prompt, device)
    else:
        _refuse_unclear(table, where, encoder is not None or prompt is not None)
        made, notes = attributes_as_numbers(table, scale)
    if out is not None:
        write_atomically(out, csv_of(made, index=True))
    for note in notes:
        logger.info("%s", note)
    return made


def is_wordy(table: pd.DataFrame) -> bool:
    """Whether a table has names only, or names and one column of text."""
    return table.shape[1] == 0 or (table.shape[1] == 1 and _text_column(table) is not None)


def _as_text(classes: pd.DataFrame | str | Path) -> tuple[pd.DataFrame, str]:
    import pandas as pd

    if not isinstance(classes, pd.DataFrame):
        return read_class_table(classes), str(classes)
    if classes.index.has_duplicates:
        twice = classes.index[classes.index.duplicated()][0]
        raise BadInput(f"The table describes the class {twice!r} more than once; keep one row per class.")
    table = classes.astype(object).where(classes.notna(), "").astype(str)
    table.columns = table.columns.astype(str)
    return table.set_axis(pd.Index([str(name) for name in table.index], name="class")), "the table"


def _text_column(table: pd.DataFrame) -> str | None:
    return next((name for name in TEXT_COLUMNS if name in table), None)


def _refuse_unclear(table: pd.DataFrame, where: str, for_words: bool) -> None:
    if for_words:
        raise BadInput(
            f"--encoder and --prompt are for words, but {where} has attributes ({', '.join(table.columns[:3])}, …); "
            "leave them out, or keep the columns class and text only."
        )
    if (text := _text_column(table)) is not None:
        raise BadInput(f"{where} has both text ({text!r}) and attributes; keep one of the two.")


def _from_words(
    table: pd.DataFrame, encoder: str | Path | TextEncoder, prompt: str | None, device: str
) -> tuple[pd.DataFrame, list[str]]:
    import pandas as pd

    if prompt is not None and "{}" not in prompt:
        raise BadInput(f"--prompt must hold {{}} where the name belongs, but is {prompt!r}.")
    model = encoder if isinstance(encoder, TextEncoder) else TextEncoder(encoder, device=device)
    text = _text_column(table)
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
        texts = [(prompt or model.prompt).replace("{}", readable(str(name))) for name in table.index]
    # Six digits tell apart whatever float32 does that matters, in half of the space of a file.
    vectors = [[float(f"{value:.6g}") for value in row] for row in model.encode(texts).tolist()]
    columns = [f"{model.name}:{i}" for i in range(len(vectors[0]))]
    note = f"Read by {model.name}, for example: {texts[0]!r}."
    return pd.DataFrame(vectors, index=table.index, columns=columns), [note]
