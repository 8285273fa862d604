"""Many files of features, or folders of pictures, named here or on a cluster: one Parquet file of answers for each.

A file of answers is there when it is whole, and says which model, options and shard it is of: so a run that was stopped
does what is missing. A cluster's workers read shards and write answers themselves, in folders that all of them share:
rows are far more than answers, and the process that was started need not hold either.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from firstsight._io.disk_samples import DiskRows
from firstsight._io.files import remove_stale, require_file, temporary_beside, write_atomically
from firstsight.errors import BadInput, CannotWrite
from firstsight.experiments.executors import (
    ClusterProblem,
    ClusterWorkers,
    WorkerDied,
    check_version,
    find_cluster,
    installed_version,
)
from firstsight.recognition.answers import Answers, choose_classes

if TYPE_CHECKING:
    from firstsight.recognition.recognizer import Recognizer

Told = Callable[[Path, int, int], None]  # a shard is done: which, how many are, of how many
_ABOUT = b"firstsight"  # where a Parquet file says what it is of
_TYPES = {
    "row": "int64",
    "rank": "int64",
    "rejected": "bool",
    "file": "string",
    "class": "string",
    "in_training": "string",
}


def name_shards(
    recognise: Recognizer,
    shards: Sequence[str | Path],
    out: str | Path,
    told: Told | None = None,
    engine: Any = "local",
    scheduler: str | None = None,
    **options: Any,
) -> list[Path]:
    """Answer every shard into OUT/<its name>.parquet; what is there already, of the same model and options, stays.

    Everything is looked at before anything is written: that every shard is there, has the model's width, and a name of
    its own. `options` are those of a `Recognizer`'s call; with `top` above 1, a file has one line per row and rank.
    """
    _require_parquet()
    cluster = find_cluster(engine, scheduler)
    places = _places([Path(shard) for shard in shards], Path(out))
    width = recognise.model.n_features_in_
    for shard in places:
        if shard.suffix == ".npy" and (n_features := DiskRows(shard).shape[1]) != width:
            raise BadInput(
                f"{shard} has {n_features} features per row; the model was fitted with {width}: use features from the "
                "same source, or leave the file out."
            )
    said = {name: repr(value) for name, value in sorted(options.items())}
    options["classes"] = choose_classes(recognise.model, options.get("classes"))
    if isinstance(options["classes"], pd.DataFrame):  # what a table says counts, not where it is
        said["classes"] = hashlib.sha256(options["classes"].to_csv().encode()).hexdigest()[:32]
    asked = {"model": _digest(recognise.model), "options": said}
    missing = [shard for shard, place in places.items() if not _is_there(place, shard, asked)]
    orders = [_Order(shard, places[shard], {**asked, "shard": _state(shard)}) for shard in missing]
    answered = _here(recognise, orders, options) if cluster is None else _there(cluster, recognise, orders, options)
    for done, place in enumerate(answered, start=1 + len(places) - len(missing)):
        if told is not None:
            told(place, done, len(places))
    return list(places.values())


@dataclass(frozen=True)
class _Order:
    shard: Path
    place: Path  # of the answers
    about: dict[str, Any]  # what the answers are of

    def carry_out(self, recognise: Recognizer, options: dict[str, Any], home: str = "") -> None:
        tables = _tables(recognise, self.shard, options, home)
        write_atomically(self.place, partial(_write, tables=tables, about=self.about))


def _here(recognise: Recognizer, orders: list[_Order], options: dict[str, Any]) -> Iterator[Path]:
    for order in orders:
        order.carry_out(recognise, options)
        yield order.place


def _there(cluster: Any, recognise: Recognizer, orders: list[_Order], options: dict[str, Any]) -> Iterator[Path]:
    """On the workers of a cluster, which find the model beside the answers; as they end, in whatever order."""
    if not orders:
        return
    out = orders[0].place.parent
    with ExitStack() as stack:
        workers = stack.enter_context(ClusterWorkers(cluster))
        workers.start(len(orders))  # before anything is written
        model = stack.enter_context(_model_beside(out, recognise))
        about = [
            installed_version(),
            model,
            None if recognise.backbone.given is None else str(recognise.backbone.given),
        ]

        def arguments(order: _Order) -> tuple[str, dict[str, Any]]:
            return json.dumps([*about, os.getcwd(), str(order.shard), str(order.place), order.about]), options

        for order, result in workers.run(answer_shard, orders, arguments):
            if isinstance(result, WorkerDied):
                raise ClusterProblem(f"{order.shard} could not be answered. {result} What was finished is kept.")
            yield order.place


@contextmanager
def _model_beside(out: Path, recognise: Recognizer) -> Iterator[str]:
    folder = temporary_beside(out / "model")
    try:
        remove_stale(out / "model")  # of a process that was killed
        folder.mkdir(parents=True)
    except OSError as error:
        raise CannotWrite(f"Could not write to {out} ({error.strerror}); choose another folder.") from error
    try:
        recognise.save(folder / "model")
        yield str((folder / "model").absolute())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def answer_shard(order: str, options: dict[str, Any]) -> None:
    """In a worker process: answer one shard. Names of pictures are as the process that was started would give them."""
    version, model, backbone, home, shard, place, about = json.loads(order)
    where = socket.gethostname()
    check_version(installed_version(), where, version)
    given = Path(home) / shard
    for needed in (Path(model), given, (Path(home) / place).parent):
        if not needed.exists():
            raise ClusterProblem(
                f"The worker at {where} does not see {needed}; shards and answers must be in folders that all workers "
                "share. What was finished is kept."
            )
    own = "" if Path(shard).is_absolute() else os.path.join(home, "")
    _Order(given, Path(home) / place, about).carry_out(_loaded(model, backbone), options, own)


@lru_cache(maxsize=1)
def _loaded(model: str, backbone: str | None) -> Recognizer:
    from firstsight.recognition.recognizer import Recognizer

    return Recognizer.load(model, backbone)


def _places(shards: list[Path], out: Path) -> dict[Path, Path]:
    places: dict[Path, Path] = {}
    taken: set[Path] = set()
    for shard in shards:
        if not shard.exists():
            raise BadInput(f"There is no {shard}; make it, or leave it out. Nothing was written.")
        # `.` and `..` are called what they lead to.
        name = (shard if shard.name.strip(".") else shard.resolve()).name if shard.is_dir() else shard.stem
        place = out / f"{name}.parquet"
        if place in taken:
            raise BadInput(f"Two shards would be answered in {place}; name them apart, or use two folders.")
        taken.add(place)
        places[shard] = place
    if not places:
        raise BadInput("There is nothing to name; give files of features or folders of pictures.")
    return places


def _is_there(place: Path, shard: Path, asked: dict[str, Any]) -> bool:
    import pyarrow.parquet

    if not place.exists():
        return False
    try:
        about = dict(json.loads(pyarrow.parquet.read_schema(require_file(place)).metadata[_ABOUT]))
    except Exception:  # pyarrow and json answer what is foreign or damaged with many unrelated types
        raise BadInput(f"{place} is not a file of answers; move it away, or choose another folder.") from None
    if {name: about.get(name) for name in asked} != asked:
        raise BadInput(f"{place} holds answers of another model, or with other options; choose another folder.")
    return bool(about.get("shard") == _state(shard))


def _state(shard: Path) -> list[Any]:
    """Changes when the shard does; of a folder, when a file comes or goes."""
    status = shard.stat()
    return [str(shard), status.st_size, status.st_mtime_ns]


def _tables(recognise: Recognizer, shard: Path, options: dict[str, Any], home: str) -> Iterator[pd.DataFrame]:
    """Answers as tables; of a .npy file block by block, so that it may be larger than memory.

    Names of pictures do not begin with `home`.
    """

    def table(answers: Answers) -> pd.DataFrame:
        return answers.ranked() if options.get("top", 1) > 1 else answers.to_frame()

    if shard.suffix != ".npy":
        answers = recognise(shard, **{"top": 1, **options})
        yield table(
            answers.about(
                [one.removeprefix(home) if isinstance(one, str) else one for one in answers.names], key=answers.key
            )
        )
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
