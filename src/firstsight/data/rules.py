"""Rules that a data set must satisfy, each written once: findings with a severity and a message."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np

from firstsight._io.disk_samples import DiskSamples
from firstsight._io.files import name_problem
from firstsight.errors import BadInput


@dataclass(frozen=True)
class Finding:
    """One thing that an audit noticed.

    Attributes
    ----------
    severity : {"error", "warning", "note"}
        An error forbids use, a warning deserves a look, a note informs.
    message : str
        One sentence.
    """

    severity: Literal["error", "warning", "note"]
    message: str


# Arrays of the types that a data set is made of.

PARTS = ("train", "test_seen", "test_unseen")
_BLOCK = 1 << 22  # bytes of features looked at in one go


def as_float32(what: str, array: object) -> Any:
    """A C-contiguous float32 matrix, the same memory when it already is one; rows on the disk stay there."""
    if isinstance(array, DiskSamples):
        return array
    values = np.asarray(array)
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise BadInput(
            f"`{what}` must be a matrix of numbers, but it has shape {values.shape} and type {values.dtype}; "
            "give one row per entry and one column per number."
        )
    with np.errstate(over="ignore"):  # too large for float32 becomes inf, which is then reported as such
        return np.ascontiguousarray(values, dtype=np.float32)


def as_integers(what: str, array: object) -> np.ndarray:
    """A flat int64 array; MATLAB keeps whole numbers as doubles, so those are welcome."""
    values = np.asarray(array)
    if values.size == 0:
        return np.empty(0, dtype=np.int64)
    if values.ndim > 1 and max(values.shape) == values.size:  # MATLAB's columns
        values = values.reshape(-1)
    # 2^53 is where doubles stop telling whole numbers apart; a cast from beyond int64 is undefined, or turns the sign
    whole = values.dtype.kind in "iuf" and np.all(
        (values == np.round(values)) & (values >= -(2.0**53)) & (values <= 2.0**53)
    )
    if values.ndim != 1 or not whole:
        raise BadInput(
            f"`{what}` must be a list of whole numbers up to 2^53, but it has shape {values.shape} and type "
            f"{values.dtype}; give one whole number per entry."
        )
    return values.astype(np.int64, copy=False)


def _read_only(value: Any) -> Any:
    """A read-only view of an array, while the caller's array stays writable; other values as they are."""
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def in_range(numbers: np.ndarray, n: int) -> np.ndarray:
    """Those from 0 to n − 1."""
    return numbers[(numbers >= 0) & (numbers < n)]


def blocks(rows: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """`rows` in pieces whose features take a few megabytes, so that a check never copies the data set."""
    step = max(1, _BLOCK // (4 * max(1, width)))
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


@dataclass(frozen=True, eq=False)
class RawDataset:
    """The fields of a `ZeroShotDataset` before validation: of the right types, possibly contradictory or missing."""

    needed_parts: ClassVar[tuple[str, ...]] = ("train", "test_unseen")  # which must not be empty

    name: str
    features: Any  # an array, or `DiskSamples`; None where no file has them
    labels: Any  # an array of codes; None where no file has them
    class_names: tuple[str, ...]
    description_matrix: np.ndarray
    train: np.ndarray
    test_seen: np.ndarray
    test_unseen: np.ndarray
    attribute_names: tuple[str, ...] | None = None
    images: np.ndarray | None = None
    sample_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    backbone: str | None = None
    numbered_from: int = 0

    def __post_init__(self) -> None:
        types: dict[str, Callable[[str, Any], Any]] = {
            **dict.fromkeys(("features", "description_matrix"), as_float32),
            **dict.fromkeys(("labels", *PARTS), as_integers),
            **dict.fromkeys(("class_names", "attribute_names", "sample_names", "feature_names"), _as_names),
        }
        for field, convert in types.items():
            if (value := getattr(self, field)) is not None:
                object.__setattr__(self, field, _read_only(convert(field, value)))
        if self.images is not None:
            object.__setattr__(self, "images", _read_only(np.asarray(self.images)))

    @property
    def parts(self) -> dict[str, np.ndarray]:
        """The row numbers of each part."""
        return {part: getattr(self, part) for part in PARTS}


def _as_names(_: str, names: Iterable[object]) -> tuple[str, ...]:
    return tuple(map(str, names))


# Rules about names and lengths.


def names_and_lengths(data: RawDataset) -> Iterator[Finding]:
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


# Rules about the descriptions of the classes.

_UNIT = 1e-3  # how far a description's norm may be from 1 and still count as normalised


def usable(data: RawDataset) -> Iterator[Finding]:
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


def scale(data: RawDataset) -> Iterator[Finding]:
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


# Rules about feature values, looked at a few megabytes at a time.

_NO_FEATURES = ("id", "index", "label", "labels", "target", "y")


def finite(data: RawDataset) -> Iterator[Finding]:
    """Rows that are used hold finite numbers; a row in no part is nobody's business."""
    if data.features is None:
        return
    for part, rows in data.parts.items():
        broken: list[int] = []
        for block in blocks(in_range(rows, len(data.features)), data.features.shape[1]):
            good = np.isfinite(data.features[block]).all(axis=1)
            if not good.all():
                broken += block[~good].tolist()
        if broken:
            yield Finding(
                "error",
                f"`features` contains NaN or infinite values in row {broken[0] + data.numbered_from} (counted from "
                f"{data.numbered_from}; {len(broken)} such rows of `{part}`); numbers beyond 3.4e38 do not fit "
                "float32 and count as infinite: replace them or leave the rows out of every part.",
            )


def named(data: RawDataset) -> Iterator[Finding]:
    """Features whose names say that they number the samples or repeat their labels: models learn these by heart."""
    for name in data.feature_names or ():
        if name.lower() in _NO_FEATURES or name.lower().endswith("_id"):
            yield Finding(
                "warning",
                f"Column {name!r} counts as a feature; if it numbers samples or classes, remove it (names of samples "
                "go into a column `sample`, their classes into a column `class`).",
            )


def odd_values(data: RawDataset) -> Iterator[Finding]:
    """Columns that never change, and rows with the same features: the same picture twice, most likely."""
    features = data.features
    if features is None or features.shape[1] == 0:
        return
    low, high = np.full(features.shape[1], np.inf), np.full(features.shape[1], -np.inf)
    digests: dict[str, dict[int, bytes]] = {}
    for part, rows in data.parts.items():
        digests[part] = {}
        for block in blocks(np.unique(in_range(rows, len(features))), features.shape[1]):
            values = features[block]
            for number, row in zip(block.tolist(), values, strict=True):
                digests[part][number] = hashlib.blake2b(row.data, digest_size=16).digest()
            values = values[np.isfinite(values).all(axis=1)]
            if part == "train" and len(values):
                low, high = np.minimum(low, values.min(axis=0)), np.maximum(high, values.max(axis=0))
    constant = int((low == high).sum())
    if constant:
        yield Finding("note", f"{constant} of {features.shape[1]} feature columns never change in `train`.")
    yield from _twins(digests, data.numbered_from)
    if data.labels is not None and len(data.labels) == len(features):  # what else is wrong has its own finding
        yield from _contradictions(digests, data)


def _contradictions(digests: dict[str, dict[int, bytes]], data: RawDataset) -> Iterator[Finding]:
    """The same features under two classes: most likely one image in two class folders, and one label is wrong."""
    labels, names = data.labels, data.sample_names or ()
    assert labels is not None

    def called(row: int) -> str:
        name = repr(names[row]) if row < len(names) else f"row {row + data.numbered_from}"
        label = int(labels[row])
        return f"{name} of {data.class_names[label]!r}" if 0 <= label < len(data.class_names) else name

    for part, digest_rows in digests.items():
        first: dict[bytes, int] = {}
        pairs = [(first.setdefault(digest, row), row) for row, digest in digest_rows.items()]
        wrong = [(first_row, row) for first_row, row in pairs if labels[first_row] != labels[row]]
        if wrong:
            first_row, other = wrong[0]
            rows = "1 row of `{part}` has" if len(wrong) == 1 else f"{len(wrong)} rows of `{part}` have"
            yield Finding(
                "warning",
                f"{rows.format(part=part)} exactly the features of a row of another class: {called(first_row)} and "
                f"{called(other)}; keep each sample in one class.",
            )


def _twins(digests: dict[str, dict[int, bytes]], first: int) -> Iterator[Finding]:
    train = {digest: row for row, digest in digests["train"].items()}
    for part in ("test_seen", "test_unseen"):
        shared = [row for row, digest in digests[part].items() if digest in train]
        if shared:
            twin = train[digests[part][shared[0]]]
            yield Finding(
                "warning",
                f"{len(shared)} rows of `{part}` have exactly the features of a row of `train`; row "
                f"{shared[0] + first}, for example, has those of row {twin + first}.",
            )
    for part, digest_rows in digests.items():
        repeated = len(digest_rows) - len(set(digest_rows.values()))
        if repeated:
            yield Finding("note", f"{repeated} rows of `{part}` repeat the features of another of its rows.")


# Rules about rows, labels and who is in which part.


def classes_of_parts(data: RawDataset) -> dict[str, np.ndarray]:
    """Codes of the classes in each part, as far as rows and labels are in range; empty without labels."""
    if data.labels is None:
        return {}
    return {
        part: np.unique(in_range(data.labels[in_range(rows, len(data.labels))], len(data.class_names)))
        for part, rows in data.parts.items()
    }


def rows(data: RawDataset) -> Iterator[Finding]:
    """Every row number exists, and is in one part at most, once."""
    first = data.numbered_from
    n = np.iinfo(np.int64).max if data.labels is None else len(data.labels)
    for part, numbers in data.parts.items():
        outside = numbers[(numbers < 0) | (numbers >= n)]
        if outside.size:
            span = f"{first} to {n - 1 + first}" if data.labels is not None else f"from {first} on"
            yield _wrong(f"`{part}` contains {outside[0] + first}, but rows are numbered {span}", outside, "correct it")
        if numbers.size == 0:
            needed = part in data.needed_parts
            yield Finding(
                "error" if needed else "note",
                f"`{part}` has no rows" + ("; a zero-shot data set needs at least one." if needed else "."),
            )
        values, counts = np.unique(numbers, return_counts=True)
        twice = values[counts > 1]
        if twice.size:
            yield _wrong(f"`{part}` contains row {twice[0] + first} more than once", twice, "list every row once")
    for part, other in combinations(PARTS, 2):
        both = np.intersect1d(data.parts[part], data.parts[other])
        if both.size:
            message = f"Row {both[0] + first} is in both `{part}` and `{other}`"
            yield _wrong(message, both, "every row belongs to one part at most")
    if data.labels is not None:
        unused = n - _used(data).size
        if unused:
            yield Finding("note", f"{unused} of {n} rows are in no part.")


def classes(data: RawDataset) -> Iterator[Finding]:
    """Labels name classes of the table; unseen classes have no training row, and classes of `test_seen` have some."""
    if data.labels is None:
        return
    n_classes, first, of = len(data.class_names), data.numbered_from, classes_of_parts(data)
    strange = (data.labels < 0) | (data.labels >= n_classes)
    used = strange[(known := _used(data))]
    if used.any():
        wrong = data.labels[known][used]
        message = f"`labels` contains {wrong[0] + first}, but classes are numbered {first} to {n_classes - 1 + first}"
        yield _wrong(message, wrong, "correct it")
    if strange.sum() > used.sum():
        yield Finding("note", f"{strange.sum() - used.sum()} rows in no part have no class of the table.")
    leaked = np.intersect1d(of["train"], of["test_unseen"])
    if leaked.size:
        message = f"Class {data.class_names[leaked[0]]!r} is in both `train` and `test_unseen`"
        yield _wrong(message, leaked, "an unseen class must have no training row", "classes")
    untrained = np.setdiff1d(of["test_seen"], of["train"])
    if untrained.size:
        message = f"Class {data.class_names[untrained[0]]!r} is in `test_seen`, but has no row in `train`"
        yield _wrong(message, untrained, "move its rows to `test_unseen` or train on some", "classes")
    rowless = np.setdiff1d(np.arange(n_classes), np.concatenate(list(of.values())))
    if rowless.size:
        names = ", ".join(repr(data.class_names[code]) for code in rowless[:3])
        more = f" and {rowless.size - 3} more" if rowless.size > 3 else ""
        yield Finding("note", f"{rowless.size} classes have a description but no row: {names}{more}.")


def _used(data: RawDataset) -> np.ndarray:
    """Rows of any part, as far as they exist."""
    assert data.labels is not None
    return np.unique(in_range(np.concatenate(list(data.parts.values())), len(data.labels)))


def _wrong(message: str, cases: np.ndarray, advice: str, what: str = "rows") -> Finding:
    return Finding("error", f"{message} ({cases.size} such {what}); {advice}.")


# The rules in the order in which their errors are told: what others rest on comes first.

_QUICK = (names_and_lengths, usable, rows, classes, finite, named)
_DEEP = (scale, odd_values)


def quick_findings(data: RawDataset) -> Iterator[Finding]:
    """What loading asks."""
    for rule in _QUICK:
        yield from rule(data)


def deep_findings(data: RawDataset) -> Iterator[Finding]:
    """What only the audit asks: it takes a hash of every row."""
    for rule in _DEEP:
        yield from rule(data)


def in_order(findings: list[Finding]) -> list[Finding]:
    """Errors, then warnings, then notes."""
    return sorted(findings, key=lambda finding: ("error", "warning", "note").index(finding.severity))
