"""The part of the audit that looks at the descriptions of the classes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from firstsight.data.raw import RawDataset
from firstsight.data.rules.finding import Finding

_UNIT = 1e-3  # how far a description's norm may be from 1 and still count as normalised


def description_findings(raw: RawDataset) -> Iterator[Finding]:
    """Missing, empty, equal, constant or unscaled descriptions."""
    table = raw.description_matrix
    names = raw.class_names
    if len(table) != len(names):
        yield Finding("error", f"There are {len(table)} descriptions for {len(names)} classes.")
        names = tuple(f"number {i + raw.numbered_from}" for i in range(len(table)))
    if table.shape[1] == 0:
        yield Finding("error", "Descriptions have no columns.")
        return
    finite = np.isfinite(table).all(axis=1)
    if not finite.all():
        missing = names[int(np.argmin(finite))]
        yield Finding(
            "error",
            f"{(~finite).sum()} classes have a missing, NaN or infinite description, {missing!r} for one.",
        )
    empty = np.flatnonzero((table == 0).all(axis=1))
    if empty.size:
        yield Finding("warning", f"{empty.size} descriptions are all zero, {names[empty[0]]!r} for one.")
    yield from _twins(names, table, finite & (table != 0).any(axis=1))
    yield from _scale(table[finite])
    if raw.original_attributes is not None:
        marked = raw.original_attributes == -1
        if marked.any():
            yield Finding(
                "note",
                f"`original_att` marks {marked.sum()} values as missing (−1), in "
                f"{marked.any(axis=1).sum()} of {len(marked)} classes; `att` carries them on as small "
                "negative numbers.",
            )


def _twins(names: tuple[str, ...], table: np.ndarray, which: np.ndarray) -> Iterator[Finding]:
    first: dict[bytes, int] = {}
    for i in np.flatnonzero(which).tolist():
        twin = first.setdefault((table[i] + 0.0).tobytes(), i)  # + 0.0: −0 and 0 are the same description
        if twin != i:
            yield Finding(
                "warning",
                f"Classes {names[twin]!r} and {names[i]!r} have the same description: nothing can tell them apart.",
            )


def _scale(table: np.ndarray) -> Iterator[Finding]:
    if len(table) < 2:
        return
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
