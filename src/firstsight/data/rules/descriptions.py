"""Rules about the descriptions of the classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from firstsight.data.rules.finding import Finding

if TYPE_CHECKING:
    from firstsight.data.unchecked import UncheckedDataset

_UNIT = 1e-3  # how far a description's norm may be from 1 and still count as normalised


def usable(data: UncheckedDataset) -> Iterator[Finding]:
    """Every class has a description of finite numbers that no other class has."""
    table = data.description_matrix
    names = data.class_names
    if len(table) != len(names):  # an error of its own; the rows are still worth a look
        names = tuple(f"number {i + data.numbered_from}" for i in range(len(table)))
    if table.shape[1] == 0:
        yield Finding("error", "`description_matrix` has no columns; give every class at least one number.")
        return
    finite = np.isfinite(table).all(axis=1)
    if not finite.all():
        yield Finding(
            "error",
            f"The description of class {names[int(np.argmin(finite))]!r} is missing or contains NaN or infinite values "
            f"({(~finite).sum()} such classes in all); give every class finite numbers.",
        )
    first: dict[bytes, int] = {}
    for i in np.flatnonzero(finite).tolist():
        twin = first.setdefault((table[i] + 0.0).tobytes(), i)  # + 0.0: −0 and 0 are the same description
        if twin != i:
            yield Finding(
                "warning",
                f"Classes {names[twin]!r} and {names[i]!r} have the same description: nothing can tell them apart.",
            )


def scale(data: UncheckedDataset) -> Iterator[Finding]:
    """Descriptions and attributes that say nothing, other than unit length, and marks of missing values."""
    empty = np.flatnonzero((data.description_matrix == 0).all(axis=1))
    if empty.size and len(data.class_names) == len(data.description_matrix):
        yield Finding(
            "warning", f"{empty.size} descriptions are all zero, for example that of {data.class_names[empty[0]]!r}."
        )
    table = data.description_matrix[np.isfinite(data.description_matrix).all(axis=1)]
    if len(table) > 1 and table.shape[1]:
        constant = int((table.min(axis=0) == table.max(axis=0)).sum())
        if constant:
            yield Finding("note", f"{constant} of {table.shape[1]} attributes are the same for every class.")
        norms = np.linalg.norm(table.astype(np.float64), axis=1)
        odd = int((np.abs(norms - 1) > _UNIT).sum())
        if odd:
            yield Finding(
                "note",
                f"{odd} of {len(table)} descriptions do not have unit length ({norms.min():.4g} to {norms.max():.4g}).",
            )
    if data.original_attributes is not None and (marked := data.original_attributes == -1).any():
        yield Finding(
            "note",
            f"`original_att` marks {marked.sum()} values as missing (−1), in {marked.any(axis=1).sum()} of "
            f"{len(marked)} classes; `att` carries them on as small negative numbers.",
        )
