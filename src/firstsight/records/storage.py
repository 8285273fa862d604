"""Records: one JSON object per line and cell, in RESULTS/<data set>.jsonl; docs/benchmark.md lists the fields."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pydantic import Field, ValidationError

from firstsight.errors import BadInput, CannotWrite, InUse, UnreadableFile
from firstsight.files import read_regular, remove_stale, write_atomically
from firstsight.records.record_schema import SCHEMA, Key, Record, key_of
from firstsight.schemas import Schema, reason

try:
    import fcntl
except ImportError:  # Windows has no such locks; there, two benchmarks in one folder are the user's care
    fcntl = None  # type: ignore[assignment]

_PLAIN = re.compile(r"[\w+][\w.+-]*")
_DIGITS = 16
_BEGINNING = b'{"schema"'


class OtherRecords(BadInput):
    """What is in a folder cannot be gone on with. Says only what was found: what to do depends on who asks."""


class _Version(Schema):
    schema_version: int = Field(alias="schema")


class _Line(NamedTuple):
    record: Record
    text: bytes  # as it stands in the file: reading and tidying change nothing of it


def file_stem(name: str) -> str:
    """What files of a data set are called: its name, if that is short and plain, else letters of it and a digest.

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
    """Where the records of a data set are."""
    return Path(folder) / f"{file_stem(dataset)}.jsonl"


def read_records(place: str | Path) -> list[Record]:
    """Read all records of a folder's `*.jsonl` files (or of one file), the newest of each cell, in the files' order.

    A last line that a kill has cut off is passed over; any other line that is no record of this version is refused.

    Parameters
    ----------
    place : str or Path
        The folder, or the file.

    Returns
    -------
    list of Record
        Typed and checked.
    """
    place = Path(place)
    if not place.exists():
        raise UnreadableFile(f"There are no records at {place}; `firstsight benchmark … --out {place}` makes some.")
    files = sorted(place.glob("[!.]*.jsonl")) if place.is_dir() else [place]
    if not files:
        raise UnreadableFile(f"{place} holds no .jsonl file; give a folder that `firstsight benchmark` wrote to.")
    return [line.record for line in _newest(line for file in files for line in _parse(file))]


def _newest(lines: Iterable[_Line]) -> list[_Line]:
    """The last record of each cell; one that was finished stays so, whatever went wrong when it was run again."""
    newest: dict[Key, _Line] = {}
    for line in lines:
        before = newest.get(key_of(line.record))
        if before is None or line.record.status == "done" or before.record.status != "done":
            newest[key_of(line.record)] = line
    return list(newest.values())


def _parse(file: Path) -> list[_Line]:
    try:
        lines = read_regular(file).split(b"\n")
    except OSError as error:
        raise UnreadableFile(f"{file} cannot be read ({error.strerror}); check the path and its permissions.") from None
    parsed = []
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            record = Record.model_validate_json(text)
        except ValidationError as error:
            if number == len(lines) and _is_cut_off(text):
                continue
            _refuse_other_version(file, _version(text))
            raise UnreadableFile(
                f"{file}, line {number}, is not a benchmark record ({reason(error)}); remove the line, or choose "
                "another folder."
            ) from None
        _refuse_other_version(file, record.schema_version)
        parsed.append(_Line(record, text))
    return parsed


def _is_cut_off(text: bytes) -> bool:
    """Whether a last line, which nothing ends, is the beginning of a record, as a kill in the middle leaves it."""
    return text[: len(_BEGINNING)] == _BEGINNING[: len(text)] and _version(text) is None


def _version(text: bytes) -> int | None:
    try:
        return _Version.model_validate_json(text).schema_version
    except ValidationError:
        return None


def _refuse_other_version(file: Path, version: int | None) -> None:
    if version not in (SCHEMA, None):
        raise BadInput(
            f"{file} holds records of version {version}, and this firstsight reads version {SCHEMA}; choose another "
            "folder, or the firstsight that wrote them."
        )


class RecordFile:
    """The records of one data set, held by one process alone: read and repaired at the start, then appended to."""

    def __init__(self, folder: str | Path, dataset: str):
        self.path = records_file(folder, dataset)
        self._file: BinaryIO | None = None

    def read(self) -> list[Record]:
        """What is there already; changes nothing."""
        return [line.record for line in self._lines()]

    def open(self) -> None:
        """Take hold of the file; a cut-off last line and lines that newer ones replace are removed in one step."""
        self._file = self._locked()
        remove_stale(self.path)  # half of a rewriting that was killed
        self._tidy()

    def append(self, records: list[Record]) -> None:
        """Put finished cells on the disk: they survive whatever happens next."""
        assert self._file is not None, "open() first"
        try:
            lines = b"".join(map(line_of, records))
            while lines:  # nothing is kept back that a later close would try to write again
                lines = lines[self._file.write(lines) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise CannotWrite(
                f"Could not write to {self.path} ({error.strerror}); the records before are untouched. Free some "
                "space and run the same command again: it does what is missing."
            ) from error

    def close(self) -> None:
        """Let go of the file; a failed cell that was tried again has one line, the newer."""
        if self._file is None:
            return
        try:
            self._tidy()
        finally:
            self._file.close()
            self._file = None

    def _lines(self) -> list[_Line]:
        return _newest(_parse(self.path)) if self.path.exists() else []

    def _tidy(self) -> None:
        assert self._file is not None
        tidy = b"".join(line.text + b"\n" for line in self._lines())
        if self.path.read_bytes() != tidy:
            if fcntl is None:
                self._file.close()  # Windows replaces no open file
            write_atomically(self.path, tidy)
            self._file.close()
            self._file = self._locked()

    def _locked(self) -> BinaryIO:
        while True:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                file = self.path.open("ab", buffering=0)
            except OSError as error:
                raise CannotWrite(f"Could not write to {self.path} ({error.strerror}); choose another place.") from None
            if fcntl is None:
                return file
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                raise InUse(
                    f"Another process is writing to {self.path}; wait until it has ended, or choose another folder."
                ) from None
            if os.fstat(file.fileno()).st_ino == self.path.stat().st_ino:
                return file
            file.close()  # it was replaced between opening and locking


def is_held(path: Path) -> bool:
    """Whether a process is writing to a file of records."""
    if fcntl is None:
        return True  # nobody can tell
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def line_of(record: Record) -> bytes:
    """A record as it stands in a file."""
    return json.dumps(record.as_json(), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
