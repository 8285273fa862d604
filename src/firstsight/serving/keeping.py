"""Pictures that a person has confirmed, kept where the next `learn` finds them.

A folder of pictures named by their content, and `labels.csv`, which says what each shows: neither a file's nor a
class's name of a request becomes a path.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import threading
from pathlib import Path

from firstsight.encoders.decoding import Undecodable, decode_picture, quiet_pillow
from firstsight.encoders.folders import LABELS
from firstsight.encoders.picture_formats import HEAD, sniff
from firstsight.errors import BadInput, CannotWrite
from firstsight.files import write_atomically

_SUFFIXES = {"JPEG": ".jpg", "TIFF": ".tif", "JPEG2000": ".jp2", "HEIF": ".heic"}


class FolderFull(BadInput):
    """No more pictures are kept."""


class Keeping:
    """One folder; several threads and processes may keep pictures in it."""

    def __init__(self, folder: str | Path, most: int = 1 << 30):
        self.folder, self.most = Path(folder), most
        self._lock = threading.Lock()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._begin()
        except OSError as error:
            raise CannotWrite(
                f"Pictures cannot be kept in {self.folder} ({error.strerror}); choose another --keep."
            ) from error

    def keep(self, content: bytes, label: str) -> tuple[str, int]:
        """Keep a picture of a class, both on the disk when this returns; its file's name, and how many there are."""
        try:
            with quiet_pillow:
                decode_picture(content)
        except Undecodable as error:
            raise BadInput(f"The picture cannot be read ({error}); send JPEG, PNG or another picture.") from error
        kind = sniff(content[:HEAD]) or "PNG"
        name = hashlib.sha256(content).hexdigest()[:32] + _SUFFIXES.get(kind, f".{kind.lower()}")
        with self._lock:
            new = not (self.folder / name).exists()
            self._check_room(len(content) if new else 0)
            if new:
                write_atomically(self.folder / name, content)
            self._append(name, label)
            return name, self._count()

    def _begin(self) -> None:
        try:
            handle = os.open(self.folder / LABELS, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return
        os.write(handle, b"file,class\n")
        os.close(handle)

    def _check_room(self, more: int) -> None:
        with os.scandir(self.folder) as entries:
            held = sum(entry.stat().st_size for entry in entries)
        if held + more > self.most:
            raise FolderFull(
                f"{self.most / 2**20:.0f} MiB of pictures are kept, and there is no room for more; learn from them and "
                "move them away, or start the server with a larger --max-kept."
            )

    def _append(self, name: str, label: str) -> None:
        """One line in one write, after all others; a later line about the same picture counts."""
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow([name, label])
        try:
            handle = os.open(self.folder / LABELS, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(handle, line.getvalue().encode())
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise CannotWrite(f"Could not write to {self.folder / LABELS} ({error.strerror}).") from error

    def _count(self) -> int:
        with open(self.folder / LABELS, encoding="utf-8", newline="") as file:
            return len({row[0] for row in csv.reader(file) if row}) - 1  # the heading
