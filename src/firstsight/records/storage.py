"""Records: one JSON object per line and cell, in RESULTS/<data set>.jsonl; docs/benchmark.md lists the fields."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

from firstsight.errors import BadInput, CannotWrite, UnreadableFile
from firstsight.files import write_atomically

try:
    import fcntl
except ImportError:  # Windows has no such locks; there, two benchmarks in one folder are the user's care
    fcntl = None  # type: ignore[assignment]

SCHEMA = 1
Record = dict[str, Any]
Key = tuple[str, str, str, int, str, str]


def key_of(record: Record) -> Key:
    """What makes a cell the same cell: a newer record with this key replaces an older one."""
    variant = json.dumps(record["variant"], sort_keys=True)
    words = (record["dataset"], record["method"], record["setting"], record["seed"])
    return (*words, variant, record["study"])


def records_file(folder: str | Path, dataset: str) -> Path:
    """Where the records of a data set are."""
    return Path(folder) / (re.sub(r"[^\w.+-]+", "_", dataset) + ".jsonl")


def read_records(place: str | Path) -> list[Record]:
    """All records of a folder's `*.jsonl` files (or of one file), the newest of each cell, in the files' order.

    A last line that a kill has cut off is passed over; any other line that is no record of this version is refused.
    """
    place = Path(place)
    if not place.exists():
        raise UnreadableFile(f"There are no records at {place}; `firstsight benchmark … --out {place}` makes some.")
    files = sorted(place.glob("[!.]*.jsonl")) if place.is_dir() else [place]
    if not files:
        raise UnreadableFile(f"{place} holds no .jsonl file; give a folder that `firstsight benchmark` wrote to.")
    return _newest(record for file in files for record in _parse(file))


def _newest(records: Iterable[Record]) -> list[Record]:
    """The last record of each cell; one that was finished stays so, whatever went wrong when it was run again."""
    found: dict[Key, Record] = {}
    for record in records:
        before = found.get(key_of(record))
        if before is None or record["status"] == "done" or before["status"] != "done":
            found[key_of(record)] = record
    return list(found.values())


class OtherRecords(BadInput):
    """What is in a folder cannot be gone on with. Says only what was found: what to do depends on who asks."""


def _parse(file: Path) -> list[Record]:
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise UnreadableFile(f"{file} cannot be read ({error.strerror}); check the path and its permissions.") from None
    records = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            schema = record["schema"]
            if schema == SCHEMA:
                key_of(record), record["status"]
        except (ValueError, LookupError, TypeError):
            if number == len(lines):  # no line end follows: cut off in the middle of writing
                continue
            raise UnreadableFile(
                f"{file}, line {number}, is not a benchmark record; remove the line, or choose another folder."
            ) from None
        if schema != SCHEMA:
            raise BadInput(
                f"{file} holds records of version {schema}, and this firstsight reads version {SCHEMA}; choose "
                "another folder, or the firstsight that wrote them."
            )
        records.append(record)
    return records


class RecordFile:
    """The records of one data set, held by one process alone: read and repaired at the start, then appended to."""

    def __init__(self, folder: str | Path, dataset: str):
        self.path = records_file(folder, dataset)
        self._file: BinaryIO | None = None

    def read(self) -> list[Record]:
        """What is there already; changes nothing."""
        return _newest(_parse(self.path)) if self.path.exists() else []

    def open(self) -> None:
        """Take hold of the file; a cut-off last line and lines that newer ones replace are removed in one step."""
        self._file = self._locked()
        for scratch in self.path.parent.glob(f".{self.path.name}.*"):
            scratch.unlink()  # of a rewriting that was killed
        self._tidy()

    def append(self, records: list[Record]) -> None:
        """Put finished cells on the disk: they survive whatever happens next."""
        assert self._file is not None, "open() first"
        try:
            self._file.write(b"".join(map(_line, records)))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise CannotWrite(
                f"Could not write to {self.path} ({error.strerror}); the records before are untouched. Free some "
                "space and run the same command again: it does what is missing."
            ) from error

    def close(self) -> None:
        """Let go of the file; a failed cell that was tried again has one line, the newer."""
        if self._file is not None:
            self._tidy()
            self._file.close()
            self._file = None

    def _tidy(self) -> None:
        assert self._file is not None
        tidy = b"".join(map(_line, self.read()))
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
                file = self.path.open("ab")
            except OSError as error:
                raise CannotWrite(f"Could not write to {self.path} ({error.strerror}); choose another place.") from None
            if fcntl is None:
                return file
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                raise BadInput(
                    f"Another process is writing to {self.path}; wait until it has ended, or choose another folder."
                ) from None
            if os.fstat(file.fileno()).st_ino == self.path.stat().st_ino:
                return file
            file.close()  # it was replaced between opening and locking


def _line(record: Record) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
