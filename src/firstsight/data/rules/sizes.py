"""Rules about names and lengths."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sized
from typing import TYPE_CHECKING

import numpy as np

from firstsight.data.rules.finding import Finding
from firstsight.files import name_problem

if TYPE_CHECKING:
    from firstsight.data.unchecked import UncheckedDataset


def names_and_lengths(data: UncheckedDataset) -> Iterator[Finding]:
    """Every class has a name of its own, and everything that belongs together is of one length."""
    if data.features is not None and data.features.shape[1] == 0:
        yield Finding("error", "`features` has no columns; give every row at least one number.")
    if "" in data.class_names:
        yield Finding("error", "`class_names` contains an empty name; give every class a name.")
    for what in ("class_names", "attribute_names", "feature_names", "sample_names"):
        bad = next(((name, why) for name in getattr(data, what) or () if (why := name_problem(name))), None)
        if bad is not None:
            yield Finding("error", f"`{what}` contains {bad[0]!a}, which {bad[1]}; rename it.")
    looks: dict[str, str] = {}
    for name in dict.fromkeys(data.class_names):
        twin = looks.setdefault(unicodedata.normalize("NFC", name), name)
        if twin != name:
            yield Finding(
                "warning",
                f"Two classes look the same, {name!r}, and differ in their code points alone ({twin!a} and {name!a}); "
                "if they are one class, write both the same way.",
            )
    twice = [name for name, count in Counter(data.class_names).items() if count > 1]
    if twice:
        more = f" ({len(twice)} such names)" if len(twice) > 1 else ""
        yield Finding("error", f"`class_names` contains {twice[0]!r} twice{more}; give every class its own name.")
    rows: tuple[Sized | None, str] = (data.labels, "rows") if data.features is None else (data.features, "rows")
    columns = None if data.features is None else range(data.features.shape[1])
    for what, entries, (others, of) in (
        ("labels", data.labels, rows),
        ("description_matrix", data.description_matrix, (data.class_names, "class names")),
        ("attribute_names", data.attribute_names, (data.description_matrix.T, "attributes")),
        ("sample_names", data.sample_names, rows),
        ("feature_names", data.feature_names, (columns, "features")),
        ("images", data.images, rows),
    ):
        if entries is not None and others is not None and len(entries) != len(others):
            message = f"`{what}` has {len(entries)} entries, but there are {len(others)} {of}; give one per {of[:-1]}."
            yield Finding("error", message)
    images = data.images
    if images is not None and (images.dtype != np.uint8 or images.ndim != 3):
        yield Finding(
            "error",
            f"`images` must have shape (N, h, w) and type uint8, but has {images.shape} and {images.dtype}; convert "
            "them.",
        )
