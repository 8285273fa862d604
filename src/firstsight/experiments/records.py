"""Records: one JSON object per finished cell, its schema, and the files that store them."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

from pydantic import Field, Strict, TypeAdapter, ValidationError

from firstsight._io.files import lock, read_regular, remove_stale, write_atomically
from firstsight._io.schemas import Figure, Schema, reason
from firstsight._io.terminal import logger
from firstsight.errors import BadInput, CannotWrite, InUse, UnreadableFile

# What a record holds: one JSON object per cell. docs/benchmark.md has this list as a table, made from it.

SCHEMA = 1
FEW_SHOT = "few-shot"  # the study of cells with labelled samples of unseen classes
Key = tuple[str, str, str, int, str, str]
Point = Annotated[tuple[float, float], Strict(False)]  # JSON has lists only
Confusion = Annotated[tuple[str, str, int], Strict(False)]


class Touched(Schema):
    labelled_rows: int = Field(description="samples that came with a label")
    labelled_classes: int = Field(description="classes among those labels")
    unlabelled_rows: int = Field(description="samples of the pool")
    test_rows_labelled: int = Field(description="test samples that came with a label; must be 0")
    unseen_classes_labelled: int = Field(description="unseen classes among the labels; must be 0 without `shots`")
    unseen_descriptions_in_fit: bool = Field(
        description="whether a description of an unseen class reached the method itself"
    )
    note: str = Field(description="what else was noticed")


class Calibrated(Schema):
    constant: float = Field(description="what was taken off the seen classes' scores, chosen on a validation fold")
    ts: Figure = Field(description="with it")
    tr: Figure = Field(description="with it")
    h: Figure = Field(description="with it")


class SeenUnseen(Schema):
    ausuc: Figure = Field(description="area under the curve, percent of the square")
    best_h: Figure = Field(description="highest H on the curve: on test samples a bound, on validation classes a score")
    curve: list[Point] = Field(description="(ts, tr) over a constant taken off seen scores")
    calibrated: Calibrated | None = Field(description="figures with a constant; null without `--calibrated-h`")


class SpaceMeasures(Schema):
    compactness: Figure = Field(None, description="lower: tighter classes")
    separability: Figure = Field(None, description="from −1 to 1: classes far apart")


class SpaceFacts(SpaceMeasures):
    hubness: Figure = Field(None, description="0: no class is the neighbour of all")
    embedding: SpaceMeasures | None = Field(None, description="the same of the method's own space, where it shows it")


class Round(Schema):
    round: int = Field(description="from 1")
    t1: Figure = Field(None, description="of the pool, conventional setting")
    ts: Figure = Field(None, description="of the pool, generalized setting")
    tr: Figure = Field(None, description="of the pool, generalized setting")
    h: Figure = Field(None, description="of the pool, generalized setting")
    selected: int = Field(0, description="samples of the pool that the round trained on")
    pseudo_label_accuracy: Figure = Field(None, description="how many of their labels were right, percent")


class Tuned(Schema):
    objective: str = Field(description="`zsl`, `gzsl`, or `zsl+gzsl` where both chose the same")
    folds: int = Field(description="validation folds")
    candidates: int = Field(description="how many were tried")
    search: str = Field(description="`grid` or `optuna`")
    kept_defaults: bool = Field(description="whether validation chose the method's own defaults")
    set_by_hand: list[str] = Field(description="parameters that were given over the choice")


class FewShot(Schema):
    held_out: int = Field(description="samples of each unseen class that the draw took out of the test")
    learned_by: Literal["add_samples", "refit"] = Field(
        description="whether the fitted model learned the samples, or a copy was fitted again with its settings"
    )
    update_seconds: Figure = Field(None, description="wall clock of that")


class Record(Schema):
    """One cell of a benchmark: a data set, a method, a setting, a seed; accuracies are percentages."""

    schema_version: int = Field(alias="schema", description="version of this list: 1")
    status: Literal["done", "failed"] = Field(description="whether there is a result")
    error: str | None = Field(None, description="why there is no result")
    dataset: str = Field(description="the name of the data set")
    method: str = Field(description="the method's name, or the one that the caller gave to an estimator")
    seed: int = Field(description="everything random follows from it")
    variant: dict[str, Any] = Field(description="what a study changes of the parameters, or the number of `shots`")
    study: str = Field(description="the study; empty for the tables")
    setting: Literal["zsl", "gzsl"] = Field(description="conventional or generalized")
    t1: Figure = Field(None, description="conventional: mean per-class accuracy, unseen classes to choose from")
    ts: Figure = Field(None, description="generalized: of unseen classes' samples, all classes to choose from")
    tr: Figure = Field(None, description="generalized: of seen classes' test samples, all classes to choose from")
    h: Figure = Field(None, description="generalized: harmonic mean of ts and tr")
    per_class: dict[str, dict[str, Figure]] = Field({}, description="`t1`, `ts`, `tr` → class → accuracy")
    confusion: list[Confusion] = Field([], description="conventional: the 200 most frequent [true, predicted, count]")
    parameters: dict[str, Any] = Field({}, description="all parameters, presets resolved")
    extra_supervision: str = Field("", description="what a fit is given beyond seen labels and descriptions")
    transductive: bool = Field(False, description="whether the method learns from unlabelled samples")
    space: str = Field("", description="semantic, visual or latent")
    versions: dict[str, str] = Field({}, description="of Python, firstsight and the libraries that ran")
    seconds: Figure = Field(None, description="wall clock")
    fit_seconds: Figure = Field(None, description="of the fit; a resumed one counts from its checkpoint")
    cpu_seconds: Figure = Field(None, description="processor time of the fit")
    peak_mib: int | None = Field(None, description="memory")
    threads: int | None = Field(None, description="of the process that ran it")
    touched: Touched | None = Field(None, description="the leakage audit, below")
    seen_unseen: SeenUnseen | None = Field(None, description="generalized: the seen–unseen trade-off")
    space_facts: SpaceFacts | None = Field(None, description="what the scores say of the space")
    few_shot: FewShot | None = Field(
        None,
        description="study `few-shot`: `variant.shots` labelled samples of each unseen class; the seed is the draw",
    )
    rounds: list[Round] | None = Field(None, description="transductive methods with rounds: what each achieved")
    collapsed: bool = Field(False, description="whether the fit found that its embedding has collapsed")
    warnings: list[str] = Field([], description="warnings of the fit")
    resumed: bool = Field(False, description="whether it resumed from a checkpoint")
    estimator: str | None = Field(
        None, description="the class (and steps) of an estimator that is not a method known by name"
    )
    parameters_hash: str | None = Field(None, description="of what the fit began with")
    split: str | None = Field(None, description="hash of classes, labels and parts; two under one name are refused")
    features: str | None = Field(
        None,
        description="fingerprint of features and descriptions (firstsight._io.identity); two in one file: error",
    )
    given: dict[str, Any] = Field({}, description="the parameters that were not defaults")
    tuned: Tuned | Literal[False] = Field(False, description="how they were found")


_RECORDS = TypeAdapter(list[Record])


def parse_records(text: str) -> list[Record]:
    """Return the records of a JSON list, as a worker process sends them."""
    return _RECORDS.validate_json(text)


class CellKey(NamedTuple):
    """What makes a cell the same cell, before there is a record of it."""

    dataset: str
    method: str
    seed: int
    variant: dict[str, Any]
    study: str
    setting: str


def key_of(cell: CellKey | Record) -> Key:
    """Return the identity of a cell or of its record: a newer record with this key replaces an older one."""
    variant = json.dumps(cell.variant, sort_keys=True)
    return (cell.dataset, cell.method, cell.setting, cell.seed, variant, cell.study)


# Files of records: one line per record, in RESULTS/<data set>.jsonl.

_PLAIN = re.compile(r"[\w+][\w.+-]*")
_DIGITS = 16
_BEGINNING = b'{"schema"'


class OtherRecords(BadInput):
    """The records in a folder are incompatible with this run. The caller adds what to do."""


class _Version(Schema):
    schema_version: int = Field(alias="schema")


class _Line(NamedTuple):
    record: Record
    text: bytes  # as it stands in the file: reading and tidying change nothing of it


def file_stem(name: str) -> str:
    """Return the stem of a data set's files: its name, if that is short and plain, else letters of it and a digest.

    A name is text from outside. It never becomes a path, and two names never share a file: no plain name has a `~`.

    >>> file_stem("CUB")
    'CUB'
    >>> file_stem("../my birds")
    'my_birds~8ccbe83f17a8eb62'
    """
    if _PLAIN.fullmatch(name) and len(name.encode()) <= 80:
        return name
    letters = re.sub(r"[^\w+-]+", "_", name)[:20].strip("_-")
    return f"{letters}~{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}"


def records_file(folder: str | Path, dataset: str) -> Path:
    """Return the path of a data set's records."""
    return Path(folder) / f"{file_stem(dataset)}.jsonl"


def read_records(path: str | Path) -> list[Record]:
    """Read all records of a folder's `*.jsonl` files (or of one file), the newest of each cell, in the files' order.

    A last line that a kill has cut off is skipped; any other line that is no record of this version is an error.

    Parameters
    ----------
    path : str or Path
        The folder, or the file.

    Returns
    -------
    list of Record
        Typed and checked.
    """
    path = Path(path)
    if not path.exists():
        raise UnreadableFile(f"There are no records at {path}; `firstsight benchmark … --out {path}` makes some.")
    files = sorted(path.glob("[!.]*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise UnreadableFile(f"{path} holds no .jsonl file; give a folder that `firstsight benchmark` wrote to.")
    lines: dict[Key, _Line] = {}
    for file in files:
        for line in _parse(file, _read(file)):
            _put(line, lines)
    return [line.record for line in lines.values()]


def _put(line: _Line, lines: dict[Key, _Line]) -> None:
    """Add a line in place of an older one of its cell; a finished cell stays so if it is run again and fails."""
    key = key_of(line.record)
    if key not in lines or line.record.status == "done" or lines[key].record.status != "done":
        lines[key] = line


def _read(file: Path) -> bytes:
    try:
        return read_regular(file)
    except OSError as error:
        raise UnreadableFile(f"{file} cannot be read ({error.strerror}); check the path and its permissions.") from None


def _parse(file: Path, content: bytes) -> Iterator[_Line]:
    lines = content.split(b"\n")
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            record = Record.model_validate_json(text)
        except ValidationError as error:
            version = _version(text)
            if number == len(lines) and version is None and text[: len(_BEGINNING)] == _BEGINNING[: len(text)]:
                continue  # the beginning of a record, as a kill in the middle leaves it
            _check_version(file, version)
            raise UnreadableFile(
                f"{file}, line {number}, is not a benchmark record ({reason(error)}); remove the line, or choose "
                "another folder."
            ) from None
        _check_version(file, record.schema_version)
        yield _Line(record, text)


def _version(text: bytes) -> int | None:
    try:
        return _Version.model_validate_json(text).schema_version
    except ValidationError:
        return None


def _check_version(file: Path, version: int | None) -> None:
    if version not in (SCHEMA, None):
        raise BadInput(
            f"{file} holds records of version {version}, and this firstsight reads version {SCHEMA}; choose another "
            "folder, or the firstsight that wrote them."
        )


class RecordFile:
    """The records of one data set, locked by one process: read and repaired at the start, then appended to."""

    def __init__(self, folder: str | Path, dataset: str):
        self.path = records_file(folder, dataset)
        self._file: BinaryIO | None = None
        self._content = b""  # of which `_lines` are the newest of each cell
        self._lines: dict[Key, _Line] = {}

    def read(self) -> list[Record]:
        """Return the records of the file, which is not changed."""
        content = _read(self.path) if self.path.exists() else b""
        if content != self._content:
            lines: dict[Key, _Line] = {}
            for line in _parse(self.path, content):
                _put(line, lines)
            self._content, self._lines = content, lines
        return [line.record for line in self._lines.values()]

    def open(self) -> None:
        """Lock the file; a cut-off last line and lines that newer ones replace are removed in one step."""
        self._file = self._locked()
        remove_stale(self.path)  # half of a rewriting that was killed
        self.read()
        self._tidy()

    def append(self, records: list[Record]) -> None:
        """Put finished cells on the disk: they survive whatever happens next."""
        assert self._file is not None, "open() first"
        lines = [line_of(record) for record in records]
        unwritten = b"".join(lines)
        try:
            while unwritten:  # unbuffered, so that a later close has nothing to write again
                unwritten = unwritten[self._file.write(unwritten) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise CannotWrite(
                f"Could not write to {self.path} ({error.strerror}); the records before are untouched. Free some "
                "space and run the same command again: it does what is missing."
            ) from error
        self._content += b"".join(lines)
        for record, line in zip(records, lines, strict=True):
            _put(_Line(record, line.rstrip(b"\n")), self._lines)

    def close(self) -> None:
        """Unlock the file; a failed cell that was tried again has one line, the newer."""
        if self._file is None:
            return
        try:
            self.read()
            self._tidy()
        finally:
            self._file.close()
            self._file = None

    def _tidy(self) -> None:
        assert self._file is not None
        tidy = b"".join(line.text + b"\n" for line in self._lines.values())
        if self._content != tidy:
            if os.name == "nt":
                self._file.close()  # Windows replaces no open file
            write_atomically(self.path, tidy)
            self._content = tidy
            self._file.close()
            self._file = self._locked()

    def _locked(self) -> BinaryIO:
        while True:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                file = self.path.open("ab", buffering=0)
            except OSError as error:
                raise CannotWrite(f"Could not write to {self.path} ({error.strerror}); choose another place.") from None
            locked = lock(file.fileno(), wait=False)
            if locked is None and os.name == "posix" and self._file is None:
                logger.warning("%s: this disk has no file locks; run one benchmark at a time in its folder.", self.path)
            if locked is False:
                file.close()
                raise InUse(
                    f"Another process is writing to {self.path}; wait until it has ended, or choose another folder."
                )
            if os.fstat(file.fileno()).st_ino == self.path.stat().st_ino:
                return file
            file.close()  # it was replaced between opening and locking


def is_locked(path: Path) -> bool:
    """Whether a process is writing to a file of records; where there are no locks, one might be."""
    try:
        with path.open("rb") as file:
            return not lock(file.fileno(), wait=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def line_of(record: Record) -> bytes:
    """Return a record as a line of a file."""
    return json.dumps(record.as_json(), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
