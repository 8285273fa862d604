"""A model's attributes as a person meets them: in groups, with a range."""

from __future__ import annotations

from collections import Counter

from firstsight.methods import ZeroShotClassifier
from firstsight.serving.wire_schema import Attribute

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
