"""Feature files: what `firstsight embed` writes and later commands read, as tables or as .npz and .npy arrays."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from firstsight._io.files import Allowance, atomic_path, csv_of, require_file, write_atomically
from firstsight.data.rules import as_float32
from firstsight.data.table_files import numbers, read_table, read_texts, texts
from firstsight.errors import BadInput, UnreadableFile

# Arrays in .npz and .npy files: atomic writes, and reads that do not trust a header.

_BLOCK = 1 << 20
_LARGEST_TEXT = 1 << 16  # bytes of one entry
_MAGIC = b"\x93NUMPY"


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> Path:
    """Write an .npz file, uncompressed: features hardly shrink."""
    path = Path(path)
    if path.suffix != ".npz":
        raise BadInput(f"The file must end in .npz, but is called {path.name!r}; rename it.")

    def save(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    write_atomically(path, save)
    return path


def read_arrays(path: str | Path, keys: Iterable[str]) -> dict[str, np.ndarray]:
    """The named arrays of an .npz file that are there; the one array of an .npy file is its `features`.

    Only numbers and text, never anything pickled, and never more than the file can hold: shape and type are judged
    before memory is taken.
    """
    path = require_file(path)
    allowance = Allowance(path)
    try:
        with path.open("rb") as file:
            if path.suffix == ".npy" and file.peek(6)[:6] == _MAGIC:
                return {"features": _read(file, path.stat().st_size, allowance, "The array")}
            with zipfile.ZipFile(file) as archive:
                members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
                return {key: _member(archive, members[key], allowance, key) for key in keys if key in members}
    except BadInput:
        raise
    except Exception as error:  # zipfile, zlib and NumPy answer damage with many unrelated types
        raise UnreadableFile(
            f"{path} could not be read as an {path.suffix} file of plain arrays ({type(error).__name__}); it is "
            "damaged, foreign or pickled: save it with firstsight's write_npz or numpy.savez."
        ) from error


def read_names(path: Path, arrays: Mapping[str, np.ndarray], key: str) -> tuple[str, ...] | None:
    """The names under `key`; None where there are none."""
    if key not in arrays:
        return None
    if arrays[key].ndim != 1:
        raise BadInput(f"`{key}` in {path} must be a list of names, but has shape {arrays[key].shape}; flatten it.")
    return tuple(map(str, arrays[key].tolist()))


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, allowance: Allowance, key: str) -> np.ndarray:
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("packed as NumPy never does")
    with archive.open(member) as stream:
        return _read(stream, member.file_size, allowance, f"`{key}`")


def _read(stream: IO[bytes], size: int, allowance: Allowance, what: str) -> np.ndarray:
    """The array in a stream of `size` bytes that begins with NumPy's header."""
    version = np.lib.format.read_magic(stream)
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, fortran, dtype = header(stream)
    plain = dtype.kind in "biuf" or (dtype.kind == "U" and 0 < dtype.itemsize <= _LARGEST_TEXT)
    if not plain or dtype.names or dtype.subdtype or len(shape) > 4 or min(shape, default=0) < 0:
        raise ValueError("neither numbers nor text")
    count = math.prod(shape)
    allowance.take(count * dtype.itemsize, what)
    if count * dtype.itemsize > size:
        raise ValueError("less data than the header claims")
    flat = np.empty(count, dtype=dtype)
    into = flat.view(np.uint8)
    for start in range(0, into.size, _BLOCK):
        block = stream.read(min(_BLOCK, into.size - start))
        into[start : start + _BLOCK] = np.frombuffer(block, dtype=np.uint8)  # a short block does not fit, and says so
    if stream.read(1):  # at the end, zipfile compares the checksum
        raise ValueError("more data than the header claims")
    if dtype.kind == "U":
        _check_letters(flat)
    return flat.reshape(shape, order="F" if fortran else "C")


def _check_letters(texts: np.ndarray) -> None:
    """NumPy keeps four bytes per letter and believes them; what is no letter breaks whoever looks at it later."""
    codes = texts.view(np.dtype("u4").newbyteorder(texts.dtype.byteorder))
    if codes.size and (codes.max() > 0x10FFFF or ((codes >= 0xD800) & (codes <= 0xDFFF)).any()):
        raise ValueError("text with impossible letters")


# What a feature file says of the model that made its features: the schema of its `backbone`.


class BackboneFacts(BaseModel):
    """A vision model by what it is, not by where it lies."""

    model_config = ConfigDict(strict=True, extra="allow")

    name: str = Field(description="what transformers calls it, or its folder's name")
    fingerprint: str = Field(description="digest of its weights and its preprocessing")
    dim: int = Field(ge=1, description="features per picture")


# Rows of features in files: what `firstsight embed` writes and later commands read, arrays, and tables.

_ARRAYS = (".npy", ".npz")


@dataclass(frozen=True, eq=False)
class FeatureFile:
    """Features (n, d) float32 of n named samples, their classes where known, and what made them.

    `backbone` holds name, fingerprint and dim of the model that looked at the pictures; None for features from
    elsewhere. `skipped` are the pictures that could not be read, with the reason. `feature_names` are the columns of a
    table; arrays have none. `fingerprints` (n,) uint64 are the first 8 bytes of the SHA-256 of each image file's
    content, by which a model recognises what it was trained on; None for features from elsewhere.
    """

    features: np.ndarray
    names: list[str]
    labels: list[str] | None = None
    backbone: dict[str, Any] | None = None
    skipped: list[tuple[str, str]] = field(default_factory=list)
    feature_names: list[str] | None = None
    fingerprints: np.ndarray | None = None


def write_feature_file(path: str | Path, content: FeatureFile) -> None:
    """Write an .npz file of plain arrays: features, sample_names, labels, backbone (JSON), skipped and fingerprints.

    A name that ends in .npy gets the features alone, which can then stay on the disk (`DiskSamples`); names and classes
    go to a table beside it: samples.csv beside features.npy, x.csv beside x.npy.
    """
    if Path(path).suffix == ".npy":
        _write_matrix(Path(path), content)
        return
    arrays = {"features": content.features, "sample_names": np.array(content.names, dtype=np.str_)}
    if content.labels is not None:
        arrays["labels"] = np.array(content.labels, dtype=np.str_)
    if content.backbone is not None:
        arrays["backbone"] = np.array(_header().model_validate(content.backbone).model_dump_json())
    if content.skipped:
        arrays["skipped"] = np.array(content.skipped, dtype=np.str_)
    if content.fingerprints is not None:
        arrays["fingerprints"] = content.fingerprints
    write_arrays(path, arrays)


def table_beside(path: str | Path) -> Path:
    """The table that goes with an .npy file; one that holds more than it would is refused."""
    path = Path(path)
    beside = path.with_name("samples.csv" if path.name == "features.npy" else f"{path.stem}.csv")
    if beside.exists() and (more := set(read_texts(beside).columns) - {"sample", "class"}):
        raise BadInput(
            f"{beside} would be written over by names and classes, and its column {min(more)!r} lost; move it away, or "
            "choose another name."
        )
    return beside


def _write_matrix(path: Path, content: FeatureFile) -> None:
    import pandas as pd

    table = pd.DataFrame({"sample": content.names})
    if content.labels is not None:
        table["class"] = content.labels
    beside = table_beside(path)
    # The larger one is on the disk before either takes its place: they belong together.
    with atomic_path(path) as temporary:
        np.save(temporary, content.features)
        write_atomically(beside, csv_of(table))


def read_feature_file(path: str | Path) -> FeatureFile:
    """Read what `write_feature_file` wrote, or a table (.csv, .parquet) with the columns class and sample.

    Everything but the features may be missing; samples without names are called by their numbers.
    """
    path = Path(path)
    if path.suffix not in _ARRAYS:
        features, names, classes, columns = _read_samples(path)
        return FeatureFile(features, [str(name) for name in names], classes, feature_names=columns)
    arrays = read_arrays(path, ("features", "sample_names", "labels", "backbone", "skipped", "fingerprints"))
    features, names = _features_and_names(path, arrays)
    labels = arrays.get("labels")
    if labels is not None and labels.dtype.kind in "iu":
        labels = None  # the codes of a whole data set, whose features will do as well
    if labels is not None and (labels.shape != (len(features),) or labels.dtype.kind != "U"):
        raise BadInput(f"`labels` in {path} must be one class name per row of features; write the file again.")
    fingerprints = arrays.get("fingerprints")
    if fingerprints is not None and (fingerprints.shape != (len(features),) or fingerprints.dtype != np.uint64):
        raise BadInput(f"`fingerprints` in {path} must be one uint64 per row of features; write the file again.")
    skipped = arrays.get("skipped", np.empty((0, 2), dtype=np.str_))
    if skipped.ndim != 2 or skipped.shape[1] != 2:
        raise BadInput(f"`skipped` in {path} must be pairs of a name and a reason; write the file again.")
    return FeatureFile(
        features,
        [str(name) for name in names],
        None if labels is None else labels.tolist(),
        _backbone(path, arrays["backbone"]) if "backbone" in arrays else None,
        [(str(name), str(reason)) for name, reason in skipped.tolist()],
        fingerprints=fingerprints,
    )


def read_features(path: str | Path) -> tuple[np.ndarray, list[Any]]:
    """Rows to predict: their features (n, d) and their names (column or key `sample`, else their numbers).

    .npy: a matrix; .npz: key `features` and, if there, `sample_names`; .csv or .parquet: every column of numbers but
    `sample`; `class` and `split` are passed over, so a table of samples will do.
    """
    path = Path(path)
    if path.suffix in _ARRAYS:
        return _features_and_names(path, read_arrays(path, ("features", "sample_names")))
    features, names, _, _ = _read_samples(path)
    return features, names


def _features_and_names(path: Path, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, list[Any]]:
    if "features" not in arrays:
        raise BadInput(f"{path} lacks the key 'features'; save the rows to predict under it.")
    features = as_float32("features", arrays["features"])
    names = read_names(path, arrays, "sample_names")
    if names is not None and len(names) != len(features):
        raise BadInput(f"{path} has {len(names)} sample names for {len(features)} rows; give one name per row.")
    return features, list(range(len(features)) if names is None else names)


def _read_samples(path: Path) -> tuple[np.ndarray, list[Any], list[str] | None, list[str]]:
    table = read_table(path, {"class", "split", "sample"}, or_first=False).drop(columns="split", errors="ignore")
    labels = texts(path, table.pop("class")) if "class" in table else None
    names = texts(path, table.pop("sample")) if "sample" in table else list(range(len(table)))
    beside = path.with_name("features.npy")
    if path.stem == "samples" and beside.exists():
        if table.shape[1]:
            raise BadInput(
                f"{path} has columns of features, and {beside} holds features, too; remove the columns or the file, or "
                "move the file elsewhere."
            )
        raise BadInput(f"{path} has no features; those of its samples are in {beside}: give that file.")
    return numbers(path, table), names, labels, [str(column) for column in table.columns]


def _header() -> type[BackboneFacts]:
    return BackboneFacts


def _backbone(path: Path, stored: np.ndarray) -> dict[str, Any]:
    if stored.shape != () or stored.dtype.kind != "U":
        raise UnreadableFile(f"`backbone` in {path} must be one text of JSON; write the file again.")
    from pydantic import ValidationError

    try:
        return _header().model_validate_json(str(stored)).model_dump()
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        reason = f"{'.'.join(map(str, first['loc'])) or 'JSON'}: {first['msg']}"
        raise UnreadableFile(
            f"`backbone` in {path} does not say which model made the features ({reason}); write the file again."
        ) from error
