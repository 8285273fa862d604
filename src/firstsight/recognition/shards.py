"""Answers for many files of features, or folders of images, here or on a cluster: one Parquet file for each.

A file of answers is complete when it exists, and its metadata say which model, options and shard it is of: so a run
that was stopped does what is missing. A cluster's workers read shards and write answers themselves, in folders that all
of them share: rows are far more than answers, and the process that was started need not hold either.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from firstsight._io.disk_samples import DiskSamples
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
from firstsight.recognition.answers import Answers, PredictOptions, choose_classes

if TYPE_CHECKING:
    from firstsight.recognition.recognizer import Recognizer

OnShardDone = Callable[[Path, int, int], None]  # the file of answers, how many are done, of how many
_METADATA_KEY = b"firstsight"


def predict_shards(
    recognizer: Recognizer,
    shards: Sequence[str | Path],
    out: str | Path,
    options: PredictOptions,
    on_shard_done: OnShardDone | None = None,
    engine: Any = "local",
    scheduler: str | None = None,
) -> list[Path]:
    """Answer every shard into OUT/<its name>.parquet; existing files of the same model and options stay.

    Everything is checked before anything is written: that every shard exists, has the model's width, and a unique
    name. With `top` above 1, a file has one line per row and rank.
    """
    _require_parquet()
    cluster = find_cluster(engine, scheduler)
    paths = _paths_of_answers([Path(shard) for shard in shards], Path(out))
    width = recognizer.model.n_features_in_
    for shard in paths:
        if shard.suffix == ".npy" and (n_features := DiskSamples(shard).shape[1]) != width:
            raise BadInput(
                f"{shard} has {n_features} features per row; the model was fitted with {width}: use features from the "
                "same source, or leave the file out."
            )
    described = {name: repr(value) for name, value in options}
    options = options.model_copy(update={"classes": choose_classes(recognizer.model, options.classes)})
    if isinstance(options.classes, pd.DataFrame):  # what a table says counts, not where it is
        described["classes"] = hashlib.sha256(options.classes.to_csv().encode()).hexdigest()[:32]
    source = {"model": _digest(recognizer.model), "options": described}
    jobs = [
        _Job(shard, path, {**source, "shard": _state(shard)})
        for shard, path in paths.items()
        if not _is_answered(path, shard, source)
    ]
    run = _run_here(recognizer, jobs, options) if cluster is None else _run_on(cluster, recognizer, jobs, options)
    for done, path in enumerate(run, start=1 + len(paths) - len(jobs)):
        if on_shard_done is not None:
            on_shard_done(path, done, len(paths))
    return list(paths.values())


@dataclass(frozen=True)
class _Job:
    shard: Path
    path: Path  # of the answers
    metadata: dict[str, Any]  # what the answers are of

    def run(self, recognizer: Recognizer, options: PredictOptions, home: str = "") -> None:
        tables = _tables(recognizer, self.shard, options, home)
        write_atomically(self.path, partial(_write, tables=tables, metadata=self.metadata))


def _run_here(recognizer: Recognizer, jobs: list[_Job], options: PredictOptions) -> Iterator[Path]:
    for job in jobs:
        job.run(recognizer, options)
        yield job.path


def _run_on(cluster: Any, recognizer: Recognizer, jobs: list[_Job], options: PredictOptions) -> Iterator[Path]:
    """On the workers of a cluster, which find the model next to the answers; in the order in which they end."""
    if not jobs:
        return
    backbone = None if recognizer.backbone.given is None else str(recognizer.backbone.given)
    with ExitStack() as stack:
        workers = stack.enter_context(ClusterWorkers(cluster))
        workers.start(len(jobs))  # before anything is written
        model = stack.enter_context(_saved_model(jobs[0].path.parent, recognizer))
        common = [installed_version(), model, backbone, os.getcwd()]

        def arguments(job: _Job) -> tuple[str, dict[str, Any]]:
            return json.dumps([*common, str(job.shard), str(job.path), job.metadata]), dict(options)

        for job, result in workers.run(run_in_worker, jobs, arguments):
            if isinstance(result, WorkerDied):
                raise ClusterProblem(f"{job.shard} could not be answered. {result} What was finished is kept.")
            yield job.path


@contextmanager
def _saved_model(out: Path, recognizer: Recognizer) -> Iterator[str]:
    folder = temporary_beside(out / "model")
    try:
        remove_stale(out / "model")  # of a process that was killed
        folder.mkdir(parents=True)
    except OSError as error:
        raise CannotWrite(f"Could not write to {out} ({error.strerror}); choose another folder.") from error
    try:
        recognizer.save(folder / "model")
        yield str((folder / "model").absolute())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_in_worker(order: str, options: dict[str, Any]) -> None:
    """Answer one shard in a worker process, with names of images relative to the folder of the main process."""
    version, model, backbone, home, shard, path, metadata = json.loads(order)
    host = socket.gethostname()
    check_version(installed_version(), host, version)
    source = Path(home) / shard
    for needed in (Path(model), source, (Path(home) / path).parent):
        if not needed.exists():
            raise ClusterProblem(
                f"The worker at {host} does not see {needed}; shards and answers must be in folders that all workers "
                "share. What was finished is kept."
            )
    prefix = "" if Path(shard).is_absolute() else os.path.join(home, "")
    _Job(source, Path(home) / path, metadata).run(_loaded(model, backbone), PredictOptions(**options), prefix)


@lru_cache(maxsize=1)
def _loaded(model: str, backbone: str | None) -> Recognizer:
    from firstsight.recognition.recognizer import Recognizer

    return Recognizer.load(model, backbone)


def _paths_of_answers(shards: list[Path], out: Path) -> dict[Path, Path]:
    paths: dict[Path, Path] = {}
    taken: set[Path] = set()
    for shard in shards:
        if not shard.exists():
            raise BadInput(f"There is no {shard}; make it, or leave it out. Nothing was written.")
        # `.` and `..` are called what they lead to.
        name = (shard if shard.name.strip(".") else shard.resolve()).name if shard.is_dir() else shard.stem
        path = out / f"{name}.parquet"
        if path in taken:
            raise BadInput(f"Two shards would be answered in {path}; name them apart, or use two folders.")
        taken.add(path)
        paths[shard] = path
    if not paths:
        raise BadInput("There is nothing to name; give files of features or folders of pictures.")
    return paths


def _is_answered(path: Path, shard: Path, source: dict[str, Any]) -> bool:
    import pyarrow.parquet

    if not path.exists():
        return False
    try:
        metadata = dict(json.loads(pyarrow.parquet.read_schema(require_file(path)).metadata[_METADATA_KEY]))
    except Exception:  # pyarrow and json answer what is foreign or damaged with many unrelated types
        raise BadInput(f"{path} is not a file of answers; move it away, or choose another folder.") from None
    if {name: metadata.get(name) for name in source} != source:
        raise BadInput(f"{path} holds answers of another model, or with other options; choose another folder.")
    return bool(metadata.get("shard") == _state(shard))


def _state(shard: Path) -> list[Any]:
    """Changes when the shard does; of a folder, when a file comes or goes."""
    status = shard.stat()
    return [str(shard), status.st_size, status.st_mtime_ns]


def _tables(recognizer: Recognizer, shard: Path, options: PredictOptions, home: str) -> Iterator[pd.DataFrame]:
    """Answers as tables; of a .npy file block by block, so that it may be larger than memory.

    The prefix `home` is removed from names of images.
    """
    blocks: Iterator[Answers]
    if shard.suffix == ".npy":
        blocks = (
            replace(recognizer.answer(rows, options), names=range(part.start, part.stop))
            for part, rows in DiskSamples(shard).blocks()
        )
    else:
        answers = recognizer.answer(shard, options)
        names = [name.removeprefix(home) if isinstance(name, str) else name for name in answers.names]
        blocks = iter([replace(answers, names=names)])
    for block in blocks:
        yield block.ranked() if options.top > 1 else block.to_frame()


def _write(path: Path, tables: Iterator[pd.DataFrame], metadata: dict[str, Any]) -> None:
    import pyarrow
    import pyarrow.parquet

    types = {"i": pyarrow.int64(), "b": pyarrow.bool_(), "f": pyarrow.float64()}
    encoded, writer = {_METADATA_KEY: json.dumps(metadata)}, None
    try:
        for frame in tables:
            frame["class"] = frame["class"].astype(str)
            if writer is None:
                columns = [(name, types.get(dtype.kind, pyarrow.string())) for name, dtype in frame.dtypes.items()]
                schema = pyarrow.schema(columns, metadata=encoded)
                writer = pyarrow.parquet.ParquetWriter(path, schema)
            writer.write_table(pyarrow.Table.from_pandas(frame, schema, preserve_index=False))
        if writer is None:  # a shard without rows
            schema = pyarrow.schema([("row", pyarrow.int64()), ("class", pyarrow.string())], metadata=encoded)
            writer = pyarrow.parquet.ParquetWriter(path, schema)
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
