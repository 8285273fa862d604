"""Pictures that a person has confirmed, kept where the next `learn` finds them.

A folder of pictures named by their content, and `labels.csv`, which says what each shows: neither a file's nor a
class's name of a request becomes a path.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

from firstsight._io.files import csv_text, lock, write_atomically
from firstsight.encoders.decoding import Undecodable, decode_picture, quiet_pillow
from firstsight.encoders.image_folders import LABELS
from firstsight.encoders.image_formats import HEAD, sniff
from firstsight.errors import BadInput, CannotWrite

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
            return name, self._append(name, label)

    def _begin(self) -> None:
        try:
            handle = os.open(self.folder / LABELS, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return
        os.write(handle, b"file,class\n")
        os.close(handle)

    def _check_room(self, more: int) -> None:
        held = 0
        for entry in os.scandir(self.folder):
            with suppress(OSError):  # what another process is just writing has gone by another name since
                held += entry.stat(follow_symlinks=False).st_size
        if held + more > self.most:
            raise FolderFull(
                f"{self.most / 2**20:.0f} MiB of pictures are kept, and there is no room for more; learn from them and "
                "move them away, or start the server with a larger --max-kept."
            )

    def _append(self, name: str, label: str) -> int:
        """One line after all others, and how many pictures they tell of; a later line about the same one counts.

        What follows the last whole line is of a process that was killed, or of a full disk, and was never acknowledged.
        """
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow([name, csv_text(label)])
        try:
            handle = os.open(self.folder / LABELS, os.O_RDWR | os.O_APPEND | getattr(os, "O_NONBLOCK", 0))
            with open(handle, "rb+", buffering=0) as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise OSError(errno.EINVAL, "not a regular file")
                lock(handle)  # until the file is closed
                lines = file.readall()
                end = lines.rfind(b"\n") + 1
                file.truncate(end)
                try:
                    if file.write(line.getvalue().encode()) < len(line.getvalue().encode()):
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    os.fsync(handle)
                except OSError:
                    file.truncate(end)
                    raise
        except OSError as error:
            raise CannotWrite(f"Could not write to {self.folder / LABELS} ({error.strerror}).") from error
        names = {row.split(b",", 1)[0] for row in lines[:end].splitlines()[1:]}  # all but the heading
        return len(names | {name.encode()})
