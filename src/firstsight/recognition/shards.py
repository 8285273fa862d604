"""Many files of features, or folders of pictures, named one after the other: one Parquet file of answers for each.

A file of answers is there when it is whole, and says which model, options and shard it is of: so a run that was stopped
does what is missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from firstsight.disk_rows import DiskRows
from firstsight.errors import BadInput
from firstsight.files import write_atomically
from firstsight.recognition.answers import Answers

if TYPE_CHECKING:
    from firstsight.recognition.recognizer import Recognizer

Told = Callable[[Path, int, int], None]  # a shard is done: which, how many are, of how many
_ABOUT = b"firstsight"  # where a Parquet file says what it is of
_TYPES = {"row": "int64", "rank": "int64", "rejected": "bool", "file": "string", "class": "string"}


def name_shards(
    recognise: Recognizer, shards: Sequence[str | Path], out: str | Path, told: Told | None = None, **options: Any
) -> list[Path]:
    """Answer every shard into OUT/<its name>.parquet; what is there already, of the same model and options, stays.

    Everything is looked at before anything is written: that every shard is there, has the model's width, and a name of
    its own. `options` are those of a `Recognizer`'s call; with `top` above 1, a file has one line per row and rank.
    """
    _require_parquet()
    places = _places([Path(shard) for shard in shards], Path(out))
    width = recognise.model.n_features_in_
    for shard in places:
        if shard.suffix == ".npy" and (n_features := DiskRows(shard).shape[1]) != width:
            raise BadInput(
                f"{shard} has {n_features} features per row; the model was fitted with {width}: use features from the "
                "same source, or leave the file out."
            )
    asked = {"model": _digest(recognise.model), "options": {k: repr(v) for k, v in sorted(options.items())}}
    missing = [shard for shard, place in places.items() if not _is_there(place, shard, asked)]
    for done, shard in enumerate(missing, start=1 + len(places) - len(missing)):
        about = {**asked, "shard": _state(shard)}
        tables = _tables(recognise, shard, options)
        write_atomically(places[shard], partial(_write, tables=tables, about=about))
        if told is not None:
            told(places[shard], done, len(places))
    return list(places.values())


def _places(shards: list[Path], out: Path) -> dict[Path, Path]:
    places: dict[Path, Path] = {}
    for shard in shards:
        if not shard.exists():
            raise BadInput(f"There is no {shard}; make it, or leave it out. Nothing was written.")
        place = out / f"{shard.name if shard.is_dir() else shard.stem}.parquet"
        if place in places.values():
            raise BadInput(f"Two shards would be answered in {place}; name them apart, or use two folders.")
        places[shard] = place
    if not places:
        raise BadInput("There is nothing to name; give files of features or folders of pictures.")
    return places


def _is_there(place: Path, shard: Path, asked: dict[str, Any]) -> bool:
    import pyarrow.parquet

    if not place.exists():
        return False
    try:
        about = json.loads((pyarrow.parquet.read_schema(place).metadata or {})[_ABOUT])
    except (OSError, ValueError, KeyError):
        raise BadInput(f"{place} is no file of answers; move it away, or choose another folder.") from None
    if {name: about.get(name) for name in asked} != asked:
        raise BadInput(f"{place} holds answers of another model, or with other options; choose another folder.")
    return bool(about.get("shard") == _state(shard))


def _state(shard: Path) -> list[Any]:
    """Changes when the shard does; of a folder, when a file comes or goes."""
    status = shard.stat()
    return [str(shard), status.st_size, status.st_mtime_ns]


def _tables(recognise: Recognizer, shard: Path, options: dict[str, Any]) -> Iterator[pd.DataFrame]:
    """Answers as tables; of a .npy file block by block, so that it may be larger than memory."""

    def table(answers: Answers) -> pd.DataFrame:
        return answers.ranked() if options.get("top", 1) > 1 else answers.to_frame()

    if shard.suffix != ".npy":
        yield table(recognise(shard, **{"top": 1, **options}))
        return
    for part, rows in DiskRows(shard).blocks():
        answers = recognise(rows, **{"top": 1, **options})
        yield table(answers.about(range(part.start, part.stop)))


def _write(path: Path, tables: Iterator[pd.DataFrame], about: dict[str, Any]) -> None:
    import pyarrow
    import pyarrow.parquet

    writer = None
    try:
        for frame in tables:
            if writer is None:
                types = {name: pyarrow.type_for_alias(_TYPES.get(name, "float64")) for name in frame.columns}
                types |= {side: pyarrow.string() for side in ("for", "against") if side in frame}
                schema = pyarrow.schema(types.items(), metadata={_ABOUT: json.dumps(about)})
                writer = pyarrow.parquet.ParquetWriter(path, schema)
            frame["class"] = frame["class"].astype(str)
            writer.write_table(pyarrow.Table.from_pandas(frame, schema, preserve_index=False))
        if writer is None:  # a shard without rows
            schema = pyarrow.schema([("row", pyarrow.int64()), ("class", pyarrow.string())])
            writer = pyarrow.parquet.ParquetWriter(path, schema.with_metadata({_ABOUT: json.dumps(about)}))
    finally:
        if writer is not None:
            writer.close()


def _digest(model: Any) -> str:
    """Of everything that a fit has left in a model, its classes too."""
    digest = hashlib.sha256(repr(sorted(model.get_params().items(), key=str)).encode())
    for name, value in sorted(vars(model).items()):
        for key, array in sorted(value.items()) if isinstance(value, dict) else [("", value)]:
            if name.endswith("_") and isinstance(array, np.ndarray):
                digest.update(f"{name}{key}{array.shape}{array.dtype}".encode())
                # Of an array of objects, the bytes are addresses.
                digest.update(repr(array.tolist()).encode() if array.dtype == object else array.tobytes())
    return digest.hexdigest()[:32]


def _require_parquet() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise BadInput("Answers go to Parquet files, which need pyarrow: pip install 'firstsight[parquet]'.") from None
