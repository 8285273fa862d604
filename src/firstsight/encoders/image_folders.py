"""Image folders: which files are images, and their class labels."""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from firstsight._io.files import open_regular
from firstsight.data.table_files import read_table, texts
from firstsight.encoders.decoding import HEAD, SUFFIXES, UNREAD_SUFFIXES, sniff
from firstsight.errors import BadInput, UnreadableFile

__all__ = [
    "LABELS",
    "SUFFIXES",
    "ImageFolder",
    "find_images",
    "is_image",
    "name_as_text",
    "survey_images",
    "survey_together",
]

LABELS = "labels.csv"  # in a folder of pictures: columns file and class
_NAMED = 3  # examples in a remark
# Control characters move the cursor, colour the screen or end a line; some turn the direction of what follows.
_UNPRINTABLE = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069]")


@dataclass(frozen=True)
class ImageFolder:
    """What is in a folder of pictures.

    place: the folder, or the one picture; paths: the pictures, sorted; classes: what labels.csv says of each, or else
    the sub-folder at the top, None where pictures lie in the folder itself without labels.csv; unread: pictures in
    formats that are not read; empty: sub-folders without a picture of their own; repeated: how many names led to a
    picture that is there already, and were left out; unnamed: pictures in the folder itself that labels.csv does not
    name, left out; absent: what labels.csv names and is no picture here; relabelled: pictures in the sub-folder of one
    class that labels.csv says are of another.
    """

    place: Path
    paths: list[Path]
    classes: list[str] | None = None
    unread: list[Path] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    repeated: int = 0
    unnamed: list[Path] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    relabelled: list[str] = field(default_factory=list)

    def remarks(self) -> list[str]:
        """What a person should know of what was left out, a sentence each."""
        sentences = []
        if self.unread:
            sentences.append(
                f"left out {_count(self.unread, 'file')} in formats that are not read: {_some(self.unread)}."
            )
        if self.empty:
            sole = len(self.empty) == 1
            sentences.append(
                f"{len(self.empty)} sub-folder{'' if sole else 's'} without a picture of {'its' if sole else 'their'} "
                f"own: {_some(self.empty)}."
            )
        if self.repeated:
            links = "1 link leads" if self.repeated == 1 else f"{self.repeated} links lead"
            sentences.append(f"{links} to pictures that are there already; each picture counts once.")
        if self.unnamed:
            sentences.append(
                f"left out {_count(self.unnamed, 'picture')} in no sub-folder that {LABELS} does not name: "
                f"{_some(self.unnamed)}; add them to {LABELS}, or put them into the sub-folder of their class."
            )
        if self.relabelled:
            others = f" and {len(self.relabelled) - 1} more" if len(self.relabelled) > 1 else ""
            sentences.append(f"{LABELS} contradicts the sub-folder of {self.relabelled[0]}{others}; {LABELS} counts.")
        if self.absent:
            sentences.append(
                f"{LABELS} names {_count(self.absent, 'file')} that {'is' if len(self.absent) == 1 else 'are'} no "
                f"picture in its folder: {_some(self.absent)}."
            )
        return sentences


def find_images(folder: str | Path) -> tuple[list[Path], list[str] | None]:
    """The pictures of a folder, sorted by path, and the class of each: the name of its sub-folder.

    A file labels.csv in the folder says of which class (column class) a picture (column file) is, wherever it lies.
    Without one, classes are None for a folder that holds its pictures directly. Pictures deeper down belong to the
    sub-folder at the top; links are followed, hidden files left out. A sole picture is a folder of one.
    """
    survey = survey_images(folder)
    return survey.paths, survey.classes


def survey_images(folder: str | Path) -> ImageFolder:
    """What `find_images` finds, and what it leaves out.

    A file without an extension is a picture if its first bytes say so. Every folder is entered once and every picture
    counts once, however many links lead there; where there is a way without links, that one is taken.
    """
    folder = Path(folder)
    name = name_as_text(folder)
    try:
        kind = folder.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise UnreadableFile(f"There is no folder or picture {name}; check the path.") from None
    except (OSError, ValueError) as error:
        raise _closed(folder, error) from error
    if not stat.S_ISDIR(kind):
        if not is_image(folder):
            raise BadInput(f"{name} is neither a folder nor a picture ({', '.join(SUFFIXES[:5])}, …); check the path.")
        return ImageFolder(folder, [folder])
    walk = _Walk(folder)
    if not walk.pictures:
        others = f"; {_count(walk.unread, 'file')} in other formats: {_some(walk.unread)}" if walk.unread else ""
        raise BadInput(
            f"{name} holds no pictures ({', '.join(SUFFIXES[:5])}, …), neither directly nor in sub-folders{others}; "
            "give a folder of pictures, or one with a sub-folder per class."
        )
    paths = sorted(walk.pictures)
    if (folder / LABELS).is_file():
        return _labelled(folder, paths, sorted(walk.unread), walk.repeated)
    tops = [path.relative_to(folder).parts[0] if path.parent != folder else None for path in paths]
    if not any(tops):
        return ImageFolder(folder, paths, None, sorted(walk.unread), repeated=walk.repeated)
    if None in tops:
        stray = name_as_text(paths[tops.index(None)].name)
        raise BadInput(
            f"{name} holds pictures both directly (for example {stray}) and in sub-folders, so their classes are "
            "unclear; put every picture into the sub-folder of its class, or all of them directly into one folder."
        )
    empty = sorted(name_as_text(top) for top in walk.tops.difference(tops))
    classes = [name_as_text(str(top)) for top in tops]
    return ImageFolder(folder, paths, classes, sorted(walk.unread), empty, walk.repeated)


def _labelled(folder: Path, paths: list[Path], unread: list[Path], repeated: int) -> ImageFolder:
    """The pictures that labels.csv names, with their classes, and the others by their sub-folders.

    Of two lines about one picture, the later one counts.
    """
    table = read_table(folder / LABELS, {"file", "class"}, or_first=False)
    if not {"file", "class"} <= set(table.columns):
        raise BadInput(f"{name_as_text(folder / LABELS)} must have the columns file and class; add them.")
    named = dict(zip(texts(folder / LABELS, table["file"]), texts(folder / LABELS, table["class"]), strict=True))
    by_name = {path.relative_to(folder).as_posix(): path for path in paths}
    if not named.keys() & by_name.keys():
        raise BadInput(
            f"{name_as_text(folder / LABELS)} names none of the {_count(paths, 'picture')} in its folder; correct it, "
            "or move it away if sub-folders are the classes."
        )
    tops = {name: name_as_text(name.partition("/")[0]) for name in by_name if "/" in name}
    classes = {name: named.get(name, tops.get(name)) for name in by_name}
    known = set(classes.values())  # a sub-folder that is no class, such as images, contradicts nothing
    return ImageFolder(
        folder,
        [path for name, path in by_name.items() if classes[name] is not None],
        [label for label in classes.values() if label is not None],
        unread,
        repeated=repeated,
        unnamed=[path for name, path in by_name.items() if classes[name] is None],
        absent=[name_as_text(name) for name in named if name not in by_name],
        relabelled=[
            f"{name_as_text(name)} ({classes[name]!r})"
            for name, top in tops.items()
            if top != classes[name] and top in known
        ],
    )


def survey_together(folders: Sequence[str | Path]) -> ImageFolder:
    """What `survey_images` finds in several folders of labelled pictures, as one; every picture counts once."""
    if not folders:
        raise BadInput("The list of folders is empty; give at least one folder of pictures.")
    if len(folders) == 1:
        return survey_images(folders[0])
    surveys = [survey_images(Path(os.path.abspath(folder))) for folder in folders]
    found: dict[str, tuple[Path, str]] = {}
    repeated = 0
    for given, survey in zip(folders, surveys, strict=True):
        if survey.classes is None:
            raise BadInput(f"{name_as_text(given)} must have one sub-folder per class, but holds pictures directly.")
        for path, label in zip(survey.paths, survey.classes, strict=True):
            before = found.setdefault(os.path.realpath(path), (path, label))
            repeated += before[0] is not path
            if before[1] != label:
                raise BadInput(
                    f"{name_as_text(path)} is of class {before[1]!r} in one folder and of {label!r} in another; keep "
                    "it in one of them."
                )
    return ImageFolder(
        Path(os.path.commonpath([survey.place for survey in surveys])),
        [path for path, _ in found.values()],
        [label for _, label in found.values()],
        [path for survey in surveys for path in survey.unread],
        [name for survey in surveys for name in survey.empty],
        sum(survey.repeated for survey in surveys) + repeated,
        [path for survey in surveys for path in survey.unnamed],
        [name for survey in surveys for name in survey.absent],
        [name for survey in surveys for name in survey.relabelled],
    )


def is_image(path: Path) -> bool:
    """Whether a file is a picture by its extension or, where it has none, by its first bytes."""
    return path.suffix.lower() in SUFFIXES or (not path.suffix and _looks_like_a_picture(path))


def name_as_text(path: str | os.PathLike[str]) -> str:
    """A file's name for people and for files of text.

    Bytes that are not UTF-8 and control characters become \\x.., so the name can be printed and written anywhere.
    """
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


class _Walk:
    """A folder and all below it: real folders first, then links to folders, none of them twice."""

    def __init__(self, folder: Path):
        self.pictures: list[Path] = []
        self.unread: list[Path] = []
        self.tops: set[str] = set()  # sub-folders right below
        self.repeated = 0
        self._folder = folder
        self._entered: set[tuple[int, int] | str] = set()
        self._counted: set[tuple[int, int] | str] = set()
        linked_folders: deque[Path] = deque()
        linked_files: list[Path] = []
        waiting = deque([folder])
        while waiting or linked_folders:
            here = waiting.popleft() if waiting else linked_folders.popleft()
            if not self._enter(here):
                continue
            for entry, below in self._entries(here):
                if below:
                    (linked_folders if entry.is_symlink() else waiting).append(Path(entry.path))
                    if here == folder:
                        self.tops.add(entry.name)
                elif entry.is_symlink():
                    linked_files.append(Path(entry.path))
                else:
                    self._file(Path(entry.path))
        for path in sorted(linked_files):
            self._file(path)

    def _enter(self, folder: Path) -> bool:
        try:
            identity = _identity(folder)
        except OSError as error:
            raise _closed(folder, error) from error
        if identity in self._entered:
            return False
        self._entered.add(identity)
        return True

    def _entries(self, folder: Path) -> Iterator[tuple[os.DirEntry[str], bool]]:
        """What is in a folder and not hidden, by name, and whether it is a folder itself."""
        try:
            with os.scandir(folder) as entries:
                shown = sorted((e for e in entries if not e.name.startswith(".")), key=lambda e: e.name)
        except OSError as error:
            raise _closed(folder, error) from error
        for entry in shown:
            try:
                yield entry, entry.is_dir()
            except PermissionError as error:
                raise _closed(folder, error) from error
            except OSError:  # a link to itself
                yield entry, False

    def _file(self, path: Path) -> None:
        if not is_image(path):
            if path.suffix.lower() in UNREAD_SUFFIXES or (path.suffix and _looks_like_a_picture(path)):
                self.unread.append(path)
            return
        try:
            identity = _identity(path)
        except PermissionError as error:
            raise _closed(path.parent, error) from error
        except OSError:  # a link to nowhere is told when its picture is wanted
            identity = str(path)
        if identity in self._counted:
            self.repeated += 1
            return
        self._counted.add(identity)
        self.pictures.append(path)


def _identity(path: Path) -> tuple[int, int] | str:
    status = path.stat()
    return (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(path)


def _looks_like_a_picture(path: Path) -> bool:
    try:
        with open(open_regular(path), "rb") as file:
            return sniff(file.read(HEAD) or b"") is not None  # None: a file of the system with nothing to say yet
    except OSError:
        return False


def _closed(folder: Path, error: Exception) -> UnreadableFile:
    reason = getattr(error, "strerror", None) or error
    return UnreadableFile(
        f"{name_as_text(folder)} could not be opened ({reason}); check its permissions, or give another folder."
    )


def _count(things: list[Path] | list[str], word: str) -> str:
    return f"{len(things)} {word}{'' if len(things) == 1 else 's'}"


def _some(things: list[Path] | list[str]) -> str:
    names = [thing if isinstance(thing, str) else name_as_text(thing.name) for thing in things[:_NAMED]]
    return ", ".join(names) + (", …" if len(things) > _NAMED else "")
