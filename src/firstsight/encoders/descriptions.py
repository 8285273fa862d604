"""`firstsight.describe`: names, sentences or attributes of classes to a CSV table of descriptions; text encoders."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firstsight._io.files import csv_of, require_file, write_atomically
from firstsight._io.sandbox import SandboxDied, SandboxFailed, call_in_sandbox
from firstsight._io.terminal import logger
from firstsight.data.shared_space import text_columns
from firstsight.data.table_files import read_header, read_texts
from firstsight.devices import PRECISIONS, find_device, lowered, torch
from firstsight.encoders.backbone import (
    at_home,
    check_declared_size,
    find_model,
    has_text_tower,
    hash_files,
    read_json,
    transformers_quietly,
)
from firstsight.errors import BadInput, UnknownName, UnreadableFile

if TYPE_CHECKING:
    import pandas as pd


# Tables of classes as people write them: an empty one to fill in, and a filled one as numbers.

TEXT_COLUMNS = ("text", "description", "sentence")
YES = {"yes", "y", "true", "ja", "oui", "si", "sí", "sim"}
NO = {"no", "n", "false", "nein", "non", "nee", "não"}
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+%?")
MISSING = {"", "na", "n/a", "nan", "?", "-", "–", "unknown"}


def read_class_table(path: str | Path) -> pd.DataFrame:
    """A .csv file as text, indexed by class (column `class`, or else the first); every class once.

    A file with one class a line and no heading is no table: the first line must name the columns. Only a table of texts
    may have several rows per class.
    """
    import pandas as pd

    path = Path(path)
    table = read_texts(path)
    table.columns = table.columns.str.strip()
    key = "class" if "class" in table else table.columns[0]
    if key != "class" and table.shape[1] == 1:
        raise BadInput(
            f"{path} must have a column 'class', but its only column is called {key!r}; write class as the first line."
        )
    names = table.pop(key).str.strip()
    if len(names) == 0:
        raise BadInput(f"{path} has no classes; write one per line below the heading.")
    if (names == "").any():
        raise BadInput(f"Column {key!r} of {path} has empty entries; fill them in.")
    _check_repeats(table.set_index(names), str(path))
    return table.set_index(pd.Index(names, name="class"))


def _check_repeats(table: pd.DataFrame, where: str) -> None:
    if table.index.has_duplicates and _text_column(table) is None:
        twice = table.index[table.index.duplicated()][0]
        raise BadInput(f"{where} describes the class {twice!r} more than once; keep one row per class.")


def empty_table(classes: Sequence[str], attributes: Sequence[str]) -> pd.DataFrame:
    """A table to fill in: a row per class, an empty column per attribute."""
    import pandas as pd

    attributes = [name.strip() for name in attributes]
    if not attributes or "" in attributes:
        raise BadInput("Give the attributes separated by commas, for example: striped,hooved,eats grass.")
    twice = [name for name in attributes if attributes.count(name) > 1]
    if twice:
        raise BadInput(f"The attribute {twice[0]!r} is named more than once; name it once.")
    return pd.DataFrame("", index=pd.Index(list(classes), name="class"), columns=attributes)


def attributes_as_numbers(table: pd.DataFrame, scale: bool = False) -> tuple[pd.DataFrame, list[str]]:
    """A filled table of text as numbers, and what a person should know about it.

    Numbers stay as they are; 85% is 0.85; yes and no (true, false, ja, nein, …) are 1 and 0; an empty cell takes the
    mean of its column. `scale` brings every column to 0…1, from its smallest value to its largest.
    """
    import pandas as pd

    numbers = pd.DataFrame({name: _column(str(name), table[name]) for name in table}, index=table.index)
    notes = []
    missing = int(numbers.isna().to_numpy().sum())
    if missing:
        empty = [str(name) for name in numbers if numbers[name].isna().all()]
        if empty:
            more = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
            raise BadInput(f"The attribute {empty[0]!r}{more} is filled in for no class; fill it in or remove it.")
        columns = int(numbers.isna().any().sum())
        notes.append(
            f"{missing} of {numbers.size} values are missing, in {columns} of {numbers.shape[1]} attributes; each took "
            "the mean of its attribute."
        )
        numbers = numbers.fillna(numbers.mean())
    low, reach = numbers.min(), numbers.max() - numbers.min()
    if scale:
        numbers = (numbers - low) / reach.where(reach > 0, 1)
        notes.append("Every attribute was brought to 0…1; describe later classes on the same scale.")
    elif _units_differ(reach[reach > 0].to_numpy()):
        notes.append(
            f"{reach.idxmax()!r} spreads over {reach.max():g} and {reach[reach > 0].idxmin()!r} over "
            f"{reach[reach > 0].min():g}: if their units differ, the first drowns the second, and --scale brings every "
            "attribute to 0…1; attributes in one unit, such as percentages, are better left as they are."
        )
    constant = reach.index[reach == 0].astype(str).tolist()
    if constant and len(numbers) > 1:
        notes.append(f"{len(constant)} attributes are the same for every class, for example {constant[0]!r}.")
    return numbers, notes


def _units_differ(reach: np.ndarray) -> bool:
    """Whether attributes spread over ranges of different orders, with nothing in between: kilograms beside yes and no.

    In one unit ranges differ as well, but gradually, and mean something: percentages of CUB's birds spread over 0.7 to
    97, no two neighbouring ranges further apart than 1.8 times, and scaling them costs the kernel prototypes accuracy
    (91 to 85 of 128 right). A column in kilograms beside yes and no costs them 85 to 53, which scaling restores.
    """
    ranges = np.sort(reach)
    return len(ranges) > 1 and ranges[-1] > 100 * ranges[0] and bool((ranges[1:] > 10 * ranges[:-1]).any())


def _column(name: str, cells: pd.Series) -> list[float]:
    percent = any(cell.strip().endswith("%") for cell in cells)
    commas = [cell.strip() for cell in cells if "," in cell]
    if commas and all(map(_THOUSANDS.fullmatch, commas)):
        raise BadInput(
            f"The attribute {name!r} has the value {commas[0]!r}, which half of the world reads as "
            f"{commas[0].replace(',', '')} and the other half as {commas[0].replace(',', '.')}; write one of these."
        )
    values = []
    for who, cell in cells.items():
        value = _cell(cell)
        if value is None or math.isinf(value):
            raise BadInput(
                f"The attribute {name!r} of class {who!r} is {cell!r}; expected a number, a percentage, yes or no, or "
                "an empty cell: correct it."
            )
        if percent and "%" not in cell and abs(value) > 1:
            raise BadInput(
                f"The attribute {name!r} is given in percent for some classes, but is {cell!r} for {who!r}; write "
                "% everywhere or nowhere."
            )
        values.append(value)
    return values


def _cell(cell: str) -> float | None:
    """The number that a cell means, NaN for a missing one, None for what means nothing."""
    word = cell.strip().lower()
    if word in MISSING:
        return math.nan
    if word in YES or word in NO:
        return float(word in YES)
    share = word.removesuffix("%").strip()
    if share.count(",") == 1 and "." not in share:
        share = share.replace(",", ".")  # the decimal comma of half of the world
    try:
        value = float(share)
    except ValueError:
        return None
    return value / 100 if word.endswith("%") else value


# Names, sentences or attributes of classes → a table of descriptions; what the table holds decides how.


def describe(
    classes: pd.DataFrame | str | Path | Sequence[str],
    *,
    encoder: str | Path | TextEncoder | None = None,
    prompt: str | Sequence[str] | None = None,
    attributes: Sequence[str] | None = None,
    scale: bool = False,
    out: str | Path | None = None,
    device: str = "cpu",
) -> pd.DataFrame:
    """Turn names, sentences or attributes into the descriptions that unseen classes are recognised by.

    What a person should know of it is logged.

    Parameters
    ----------
    classes : DataFrame, str, Path or sequence of str
        A table indexed by class, a .csv file with a column `class`, or names. Only names, or a column `text`: each
        becomes the vector that a text model gives it; a class with several rows of text gets the mean of their
        vectors. Columns of attributes: numbers are taken as they are, 85% becomes 0.85, yes and no become 1 and 0, an
        empty cell takes its column's mean.
    encoder : str, Path or TextEncoder, optional
        A sentence-transformers, CLIP or SigLIP model, by name or as a folder.
    prompt : str or sequence of str, optional
        What a bare name is put into, such as "a photo of a {}."; of several, a class gets the mean of their vectors.
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
        descriptions = empty_table([str(name) for name in table.index.unique()], attributes)
        notes = ["Fill it in with numbers, percentages or yes/no; what you do not know may stay empty."]
    elif is_wordy(table):
        if scale:
            raise BadInput("--scale is for attributes; vectors of words have one scale already: leave it out.")
        descriptions, notes = _from_words(table, encoder or DEFAULT_ENCODER, prompt, device)
    else:
        _refuse_unclear(table, where, encoder is not None or prompt is not None)
        descriptions, notes = attributes_as_numbers(table, scale)
    if out is not None:
        write_atomically(out, csv_of(descriptions, index=True))
    for note in notes:
        logger.info("%s", note)
    return descriptions


def is_wordy(table: pd.DataFrame) -> bool:
    """Whether a table has names only, or names and one column of text."""
    return table.shape[1] == 0 or (table.shape[1] == 1 and _text_column(table) is not None)


def read_words(classes: pd.DataFrame | str | Path | Sequence[str]) -> pd.DataFrame | None:
    """Classes as a table of text, if they are names or texts; None for a table, or its file, of numbers."""
    import pandas as pd

    if isinstance(classes, str | Path):
        path = Path(classes)
        if path.suffix.lower() == ".parquet":
            return None
        columns = [name for name in read_header(path) if name != "class"]
        if len(columns) > 1 or (columns and columns[0] not in TEXT_COLUMNS):
            return None
    elif isinstance(classes, pd.DataFrame) and not is_wordy(classes):
        return None
    return _as_text(classes)[0]


def _as_text(classes: pd.DataFrame | str | Path | Sequence[str]) -> tuple[pd.DataFrame, str]:
    import pandas as pd

    if isinstance(classes, str | Path):
        return read_class_table(classes), str(classes)
    if not isinstance(classes, pd.DataFrame):
        names = list(classes)
        if wrong := [name for name in names if not isinstance(name, str) or not name.strip()]:
            raise BadInput(f"Each name of a class must be a text that is not empty; got {wrong[0]!r}.")
        classes = pd.DataFrame(index=[name.strip() for name in names])
    _check_repeats(classes, "The table")
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
    table: pd.DataFrame, encoder: str | Path | TextEncoder, prompt: str | Sequence[str] | None, device: str
) -> tuple[pd.DataFrame, list[str]]:
    import pandas as pd

    model = encoder if isinstance(encoder, TextEncoder) else TextEncoder(encoder, device=device)
    texts: dict[str, list[str]] = {str(name): [] for name in table.index}
    text = _text_column(table)
    if text is not None:
        if prompt is not None:
            raise BadInput(f"--prompt is for bare names, but the table has a column {text!r}; leave it out.")
        for name, sentence in table[text].str.strip().items():
            if not sentence:
                raise BadInput(
                    f"The class {name!r} has no {text}; write a sentence, or remove the column to use names."
                )
            texts[str(name)].append(sentence)
    else:
        for template in checked_prompts(prompt) or [model.prompt]:
            for name, into in texts.items():
                into.append(template.replace("{}", readable(name)))
    # Six digits tell apart whatever float32 does that matters, in half of the space of a file.
    vectors = [
        [float(f"{value:.6g}") for value in row] for row in model.encode_ensembles(list(texts.values())).tolist()
    ]
    columns = text_columns(model.name, len(vectors[0]))
    several = max(map(len, texts.values()))
    counted = f", up to {several} texts per class" if several > 1 else ""
    note = f"Read by {model.name}{counted}, for example: {next(iter(texts.values()))[0]!r}."
    return pd.DataFrame(vectors, index=pd.Index(texts, name="class"), columns=columns), [note]


def checked_prompts(prompt: str | Sequence[str] | None) -> list[str]:
    """What names are put into, as a list; each must hold {} where the name belongs."""
    prompts = [prompt] if isinstance(prompt, str) else list(prompt or [])
    for template in prompts:
        if "{}" not in template:
            raise BadInput(f"--prompt must hold {{}} where the name belongs, but is {template!r}.")
    return prompts


# A tokenizer.json is tried in the sandbox first: its rules are a small language, in which a few lines can ask for any
# memory or time (replacements that double a text forty times, patterns that never end).
TOKENIZER_MEMORY = 2 << 30  # bytes; the largest vocabularies take a quarter of it
TOKENIZER_SECONDS = 60  # of CPU time, and one more for every hundred texts; a hundredth of it is usual


def try_tokenizers(folder: Path, texts: Sequence[str]) -> None:
    """Refuse a text model whose tokenizer does not get through these texts within limits."""
    if find_spec("tokenizers") is None:  # then nothing of the kind is read
        return
    for path in [folder / "tokenizer.json", *sorted(folder.glob("*/tokenizer.json"))]:
        if not path.exists():
            continue
        try:
            call_in_sandbox(
                __name__,
                "run_tokenizer",
                str(require_file(path)),
                list(texts),
                memory=TOKENIZER_MEMORY,
                seconds=TOKENIZER_SECONDS + len(texts) // 100,
            )
        except (SandboxDied, SandboxFailed):
            raise UnreadableFile(
                f"{path} takes too much memory or time to split {len(texts):,} texts into words, so it is damaged or "
                "harmful; restore the model's folder, or give another model."
            ) from None


def run_tokenizer(path: str, texts: list[str]) -> None:
    """Split texts with a tokenizer.json, in the sandbox; of a file that is none, transformers reports more."""
    from tokenizers import Tokenizer  # type: ignore[import-not-found,unused-ignore]

    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception:  # a panic of Rust is none of these, nor is memory that runs out
        return
    tokenizer.encode_batch(texts)


# Names or sentences → vectors, with a sentence-transformers or CLIP text model.

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
# CLIP was trained on captions: a bare word is not what it knows.
CLIP_PROMPT = "a photo of a {}."
# What decides the vectors besides weights.
_TEXT_FILES = ("config.json", "modules.json", "tokenizer", "vocab", "merges", "spiece", "special_", "added_tokens")
# Parts of a sentence model; others (routers, word lists) name further classes in files of their own.
_MODULES = ("Transformer", "Pooling", "Normalize", "Dense", "LayerNorm", "Dropout")


class TextEncoder:
    """Encodes texts with a text model, given by name or as a local folder; vectors have unit length.

    `device` and `precision` are those of `ImageEncoder`.
    """

    def __init__(self, encoder: str | Path = DEFAULT_ENCODER, *, device: str = "cpu", precision: str = "float32"):
        if precision not in PRECISIONS:
            raise UnknownName("precision", precision, PRECISIONS)
        self._device, self._precision = find_device(device), precision
        self._folder = find_model(encoder, "a text model", DEFAULT_ENCODER)
        self.is_clip = has_text_tower(self._folder)
        self.name = self._folder.resolve().name if at_home(encoder).is_dir() else str(encoder)

    @property
    def prompt(self) -> str:
        """What a class's bare name is put into, `{}` standing for it."""
        return CLIP_PROMPT if self.is_clip else "{}"

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that change with the weights, the architecture or the tokenizer, not the place."""
        files = (path for path in [*self._folder.glob("*"), *self._folder.glob("*/*")] if path.is_file())
        kept = [path for path in files if path.suffix == ".safetensors" or path.name.startswith(_TEXT_FILES)]
        return hash_files(kept)[:32]

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors (n, d) float32 of unit length."""
        try_tokenizers(self._folder, texts)
        vectors = self._text_tower(list(texts)) if self.is_clip else self._sentences(list(texts))
        return _unit(vectors).astype(np.float32)

    def encode_ensembles(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """One vector of unit length (k, d) per list of texts: the direction of the mean of their vectors."""
        vectors = self.encode([text for several in texts for text in several])
        ends = np.cumsum([len(several) for several in texts])[:-1]
        return _unit(np.stack([part.mean(axis=0) for part in np.split(vectors, ends)]))

    @cached_property
    def _dual(self) -> tuple[Any, Any]:
        """Tokenizer and model of a folder with a text and an image tower; loaded once."""
        check = {"trust_remote_code": False, "local_files_only": True}
        with transformers_quietly(self._folder, "a text model") as transformers:
            check_declared_size(self._folder, transformers)
            tokenizer = transformers.AutoTokenizer.from_pretrained(self._folder, **check)
            model = transformers.AutoModel.from_pretrained(
                self._folder, use_safetensors=True, dtype=torch.float32, **check
            )
            # What the tokenizer believes to be the full length may be anything.
            longest = model.config.text_config.max_position_embeddings
            tokenizer.model_max_length = min(tokenizer.model_max_length, longest)
            return tokenizer, model.eval().to(self._device)

    def _text_tower(self, texts: list[str]) -> np.ndarray:
        tokenizer, model = self._dual
        # SigLIP was trained on texts filled up to their full length, and answers otherwise to shorter ones.
        padding = "max_length" if "siglip" in model.config.model_type else True
        vectors = []
        with (
            transformers_quietly(self._folder, "a text model"),
            torch.inference_mode(),
            lowered(self._device, self._precision),
        ):
            for start in range(0, len(texts), 64):
                tokens = tokenizer(texts[start : start + 64], padding=padding, truncation=True, return_tensors="pt")
                output = model.get_text_features(**tokens.to(self._device))
                vectors.append(getattr(output, "pooler_output", output).float().cpu().numpy())
        return np.concatenate(vectors)

    def _sentences(self, texts: list[str]) -> np.ndarray:
        with transformers_quietly(self._folder, "a text model"), lowered(self._device, self._precision):
            return np.asarray(self._sentence_model.encode(texts, show_progress_bar=False, convert_to_numpy=True))

    @cached_property
    def _sentence_model(self) -> Any:
        """The model of a sentence-transformers folder; loaded once."""
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise BadInput(
                "Encoding words needs sentence-transformers, which is not installed; pip install 'firstsight[text]'."
            ) from error
        self._refuse_code()
        with transformers_quietly(self._folder, "a text model") as transformers:
            check_declared_size(self._folder, transformers)
            return SentenceTransformer(
                str(self._folder),
                device=str(self._device),
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"use_safetensors": True, "dtype": torch.float32},  # half precision crawls on a CPU
            )

    def _refuse_code(self) -> None:
        """A list of modules may name any Python class; only these of sentence-transformers are let in."""
        path = self._folder / "modules.json"
        if not path.is_file():
            return
        try:
            modules = [(str(module["type"]), self._folder / str(module["path"])) for module in read_json(path)]
        except (TypeError, LookupError) as error:
            raise UnreadableFile(f"{path} could not be read ({error}); restore the model's folder.") from error
        for kind, part in modules:
            if not kind.startswith("sentence_transformers.") or kind.rsplit(".", 1)[1] not in _MODULES:
                raise BadInput(f"{path} asks for the code {kind!r}, which is not run; give another model.")
            if not Path(os.path.realpath(part)).is_relative_to(os.path.realpath(self._folder)):
                raise BadInput(f"{path} leads out of its folder, to {str(part)!r}; give another model.")
            settings = read_json(part / "config.json") if (part / "config.json").is_file() else {}
            wanted = str(settings.get("activation_function", "torch.nn.")) if isinstance(settings, dict) else ""
            if not wanted.startswith("torch.nn."):
                raise BadInput(f"{part} asks for the code {wanted!r}, which is not run; give another model.")


def _unit(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: np.ndarray = vectors / np.where(norms > 0, norms, 1)
    return unit


def readable(name: str) -> str:
    """A class's name as a person would say it: `014.Indigo_Bunting` is Indigo Bunting.

    >>> readable("014.Indigo_Bunting")
    'Indigo Bunting'
    """
    return re.sub(r"[_+\s]+", " ", re.sub(r"^\d+[._\s-]+", "", name)).strip() or name
