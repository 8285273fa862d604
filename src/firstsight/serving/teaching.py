"""Add a class from attributes, from a similar class or from a sentence."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Mapping

import pandas as pd

from firstsight._io.terminal import visible
from firstsight.encoders.descriptions import describe
from firstsight.encoders.text import TextEncoder
from firstsight.errors import BadInput, UnknownName
from firstsight.methods import ZeroShotClassifier
from firstsight.persistence.class_table import as_labels
from firstsight.recognition import Recognizer
from firstsight.recognition.answers import NONE_OF_THESE
from firstsight.serving.wire_schema import Attribute, NewClass

# A model's attributes as a person meets them: in groups, with a range.

_SEPARATORS = ("::", ":", "=", " ", "_")


def attributes_of(model: ZeroShotClassifier) -> list[Attribute]:
    """One entry per attribute, in the model's order; attributes without names are numbered."""
    table = model.descriptions_
    names = [str(name) for name in getattr(model, "attribute_names_in_", [])]
    names = names or [f"attribute {number}" for number in range(table.shape[1])]
    low, high = table.min(axis=0).astype(float), table.max(axis=0).astype(float)
    binary = ((table == 0) | (table == 1)).all(axis=0)
    return [
        Attribute(name=name, group=group, label=label, low=low[m], high=high[m], binary=bool(binary[m]))
        for m, (name, (group, label)) in enumerate(zip(names, grouped(names), strict=True))
    ]


def grouped(names: list[str]) -> list[tuple[str, str]]:
    """The group and the label of each name, by the first sign that puts several names into one group.

    >>> grouped(["base a", "base o", "mark acute", "mark grave"])[2]
    ('mark', 'acute')
    >>> grouped(["has_wing_color::blue", "has_wing_color::red", "has_bill::long", "has_bill::short"])[0]
    ('has wing color', 'blue')
    >>> grouped(["stripes", "horns"])
    [('', 'stripes'), ('', 'horns')]
    """
    for separator in _SEPARATORS:
        pairs = [name.partition(separator) for name in names]
        sizes = Counter(first for first, sign, rest in pairs if sign and rest)
        if sizes and sum(size for size in sizes.values() if size > 1) > len(names) / 2:
            return [
                (_words(first), _words(rest)) if sign and rest and sizes[first] > 1 else ("", _words(name))
                for name, (first, sign, rest) in zip(names, pairs, strict=True)
            ]
    return [("", _words(name)) for name in names]


def _words(name: str) -> str:
    return " ".join(name.replace("_", " ").split())


# A new class from what a person says of it: attributes, a class that it is like, or a sentence.

LARGEST = 1e6  # an attribute's value; larger ones are no description and would drown all others
_FORMULA = ("=", "+", "-", "@", "'")  # a spreadsheet that opens the exported table would run it


class Sentences:
    """Sentences → descriptions, with the text model that described the classes; only where one did."""

    def __init__(self, model: ZeroShotClassifier, place: str | None):
        self.name = text_model_of([str(name) for name in getattr(model, "attribute_names_in_", [])])
        self.place = place or self.name
        self._encoder: TextEncoder | None = None
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return self.name is not None

    def table(self, name: str, text: str) -> pd.DataFrame:
        """The class's description, as a table of one row."""
        if not self:
            raise BadInput("The classes of this model were described by attributes; give attributes, not a sentence.")
        with self._lock:  # the text model is loaded once, and threads may teach at the same time
            if self._encoder is None:
                self._encoder = TextEncoder(self.place or "")
            return describe(pd.DataFrame({"text": [text]}, index=[name]), encoder=self._encoder)


def text_model_of(attributes: list[str]) -> str | None:
    """The text model whose numbers the attributes are (`name:0`, `name:1`, …), None if they are of another kind."""
    first = re.fullmatch(r"(.+):0", attributes[0]) if len(attributes) > 1 else None
    if first is None or any(name != f"{first[1]}:{number}" for number, name in enumerate(attributes)):
        return None
    return first[1]


def table_of(new: NewClass, own: Recognizer, sentences: Sentences) -> pd.DataFrame:
    """The description of a new class, as a table of one row with the model's attributes."""
    name = checked_name(new.name)
    if new.text is not None:
        if new.attributes or new.like is not None or new.rest is not None:
            raise BadInput("Give a sentence or attributes, not both.")
        return sentences.table(name, " ".join(visible(new.text).split()))
    known = own.descriptions
    known.columns = known.columns.astype(str)
    for attribute, value in new.attributes.items():
        if attribute not in known.columns:
            raise UnknownName("attribute", attribute[:80], known.columns)
        if abs(value) > LARGEST:
            raise BadInput(f"The attribute {attribute!r} is {value:g}; values here lie between ±{LARGEST:g}.")
    row = _start(new, known, own.model) | new.attributes
    missing = next((attribute for attribute in known.columns if attribute not in row), None)
    if missing is not None:
        raise BadInput(
            f"The attribute {missing!r} has no value; give it, or `like` a class, or a number for the `rest`."
        )
    return pd.DataFrame([[row[attribute] for attribute in known.columns]], index=[name], columns=known.columns)


def checked_name(name: str) -> str:
    """A class's name that can be shown, written and read back anywhere."""
    clean = " ".join(name.split())
    refuse_unspeakable(clean)
    if clean.startswith(_FORMULA):
        raise BadInput(f"A class's name may not begin with {clean[0]}, which spreadsheets take for a formula.")
    return clean


def refuse_unspeakable(name: str) -> None:
    """No control characters, half characters or nothing at all; nor the answer where no class fits."""
    if not name.strip() or visible(name) != name or not name.isprintable():
        raise BadInput("A class's name must be text that can be shown, without control characters; choose another.")
    if name.lower() == NONE_OF_THESE:
        raise BadInput(f"No class can be called {name!r}, which is the answer where none fits; choose another name.")


def _start(new: NewClass, known: pd.DataFrame, model: ZeroShotClassifier) -> dict[str, float]:
    if new.like is not None:
        (label,) = as_labels(model, [new.like])
        if label not in known.index:
            raise UnknownName("class", new.like, map(str, known.index))
        alike: Mapping[str, float] = known.loc[label].astype(float).to_dict()
        return dict(alike)
    if new.rest is not None:
        if abs(new.rest) > LARGEST:
            raise BadInput(f"`rest` is {new.rest:g}; values here lie between ±{LARGEST:g}.")
        return dict.fromkeys(known.columns, new.rest)
    return {}
