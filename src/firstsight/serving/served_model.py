"""The model that a server answers with: always the one in its folder, whoever changes it."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from firstsight.errors import BadInput, UnknownName, UnreadableFile
from firstsight.methods import ZeroShotClassifier
from firstsight.persistence.class_table import as_labels
from firstsight.persistence.model_folder import MODEL, SavedModel, load_saved
from firstsight.recognition import Recognizer
from firstsight.serving.teaching import checked_name, refuse_unspeakable
from firstsight.serving.wire_schema import Changed, Described, Done, Undo

Stamp = tuple[int, int, int]


class ClassExists(BadInput):
    """A class of this name is there already."""


class ServedModel:
    """A Recognizer that follows its folder. Changes go to the folder first, under its lock, and are then read back:
    whoever is told that a class was added finds it there after a crash, and so do other processes."""

    def __init__(
        self, recognizer: Recognizer, folder: Path | None = None, max_classes: int | None = None, **options: Any
    ):
        self.recognizer, self.folder, self.max_classes, self._options = recognizer, folder, max_classes, options
        self._stamp: Stamp | None = None
        self._reading = threading.Lock()
        self._revision: tuple[Any, str] = (None, "")

    @classmethod
    def open(cls, folder: str | Path, max_classes: int | None = None, **options: Any) -> ServedModel:
        """The model in a folder."""
        place = Path(folder).resolve()
        stamp = _stamp(place)  # before reading: a change in between is found by the next look
        served = cls(Recognizer.load(place, **options), place, max_classes, **options)
        served._stamp = stamp
        return served

    def current(self) -> Recognizer:
        """The recognizer, with the classes that the folder has now. A folder that cannot be read keeps the old ones."""
        if self.folder is not None and _stamp(self.folder) != self._stamp:
            with self._reading:
                stamp = _stamp(self.folder)
                if stamp is not None and stamp != self._stamp:
                    self._take(load_saved(self.folder))
                    self._stamp = stamp
        return self.recognizer

    def _take(self, saved: SavedModel) -> None:
        """Answer with this model; the loaded backbone stays, unless the new model wants another one."""
        known, wanted = self.recognizer.backbone.known, saved.provenance.backbone
        if known == wanted or (known and wanted and known.fingerprint == wanted.fingerprint):
            self.recognizer.model = saved.model
        else:
            self.recognizer = Recognizer(saved.model, saved.provenance, **self._options)

    @property
    def revision(self) -> str:
        """16 hexadecimal digits that change with the classes and their descriptions, the same in every process."""
        model = self.current().model
        known, digest = self._revision
        if known is not model:
            digest = _revision(model)
            self._revision = model, digest
        return digest

    def add(self, table: pd.DataFrame, replace: bool = False) -> Changed:
        """Know these classes, too; `replace` changes those that exist."""

        def change(own: Recognizer) -> list[Done]:
            before = own.descriptions
            names = as_labels(own.model, table.index)
            there = [name for name in names if name in before.index]
            if there and not replace:
                raise ClassExists(
                    f"The model has a class {str(there[0])!r} already; choose another name or replace it."
                )
            own.add_classes(table, replace)
            check_answers(own.model)
            return [_done(own, name, "changed" if name in there else "added") for name in names]

        return self._change(change)

    def remove(self, names: list[str]) -> Changed:
        """Never answer with these classes again."""
        return self._change(lambda own: _removed(own, names))

    def undo(self, undo: Undo) -> Changed:
        """Take a change back."""

        def change(own: Recognizer) -> list[Done]:
            done = _removed(own, undo.remove) if undo.remove else []
            if undo.restore:
                before = own.descriptions
                known = {*map(str, before.index), *(str(row[0]) for row in getattr(own.model, "removed_classes_", []))}
                for one in undo.restore:
                    if one.label in known:  # a fit takes names that teaching rejects, and these come back as well
                        refuse_unspeakable(one.label)
                    elif checked_name(one.label) != one.label:
                        raise BadInput("A class's name has no spaces around it and no two in a row; choose another.")
                table = _table(own, undo.restore)
                own.add_classes(table, replace=True)
                check_answers(own.model)
                names = as_labels(own.model, table.index)
                done += [_done(own, name, "changed" if name in before.index else "added") for name in names]
            return done

        if not undo.remove and not undo.restore:
            raise BadInput("There is nothing to take back; post the `undo` of a change as it came.")
        return self._change(change)

    def _change(self, change: Callable[[Recognizer], list[Done]]) -> Changed:
        """Apply a change. One at a time: the lock is the folder's, or without a folder the recognizer's own."""
        if self.folder is None:
            editing = self.recognizer.edit_classes()
        elif _stamp(self.folder) is None:
            raise UnreadableFile(f"{self.folder} holds no model any more; put it back.")
        else:
            editing = Recognizer.changing(self.folder)
        with editing as own:
            before = own.descriptions
            done = change(own)
            self._check_room(own, len(before))
        self.current()
        undo = Undo(
            remove=[one.label for one in done if one.what == "added"],
            restore=[
                Described.model_validate({"class": one.label, "description": _numbers(before, one.label)})
                for one in done
                if one.what != "added"
            ],
        )
        return Changed(
            revision=_revision(own.model),  # of this change, whoever has changed more since then
            classes=len(own.model.classes_),
            done=done,
            undo=undo,
            durable=self.folder is not None,
        )

    def _check_room(self, own: Recognizer, before: int) -> None:
        """Every class costs memory, and every answer time: whoever may teach cannot take all of both."""
        if self.max_classes is not None and len(own.model.classes_) > max(self.max_classes, before):
            raise BadInput(
                f"The model would have {len(own.model.classes_):,} classes, but this server teaches no more than "
                f"{self.max_classes:,}; remove some, or start it with a larger --max-classes."
            )


def _stamp(folder: Path) -> Stamp | None:
    """What tells one writing of the folder from another; None while there is no model."""
    try:
        status = os.stat(f"{folder}/{MODEL}")  # asked for every picture, and paths take longer to join than to look at
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _revision(model: ZeroShotClassifier) -> str:
    named = "\0".join(map(str, model.classes_.tolist())).encode()
    return hashlib.sha256(named + b"\0\0" + np.ascontiguousarray(model.descriptions_).tobytes()).hexdigest()[:16]


def check_answers(model: ZeroShotClassifier) -> None:
    """Refuse a table of classes with which the model could not answer: one odd class would stop it for all."""
    rows = np.zeros((2, model.n_features_in_), dtype=np.float32)
    rows[1] = 1
    model.decision_function(rows)


def _removed(own: Recognizer, names: list[str]) -> list[Done]:
    labels = list(dict.fromkeys(as_labels(own.model, names)))
    for label in labels:
        if label not in own.model.classes_.tolist():
            raise UnknownName("class", str(label), map(str, own.model.classes_.tolist()))
    done = [_done(own, label, "removed") for label in labels]
    own.remove_classes(labels)
    return done


def _done(own: Recognizer, label: Any, what: Any) -> Done:
    place = own.model.classes_.tolist().index(label)
    seen = bool(own.model.seen_code_[place] >= 0)
    return Done.model_validate({"class": str(label), "seen": seen, "what": what})


def _numbers(table: pd.DataFrame, name: str) -> list[float]:
    label: Any = name if name in table.index else int(name)  # a model's classes may be numbered
    numbers: list[float] = table.loc[label].astype(float).tolist()
    return numbers


def _table(own: Recognizer, described: list[Described]) -> pd.DataFrame:
    width = own.model.descriptions_.shape[1]
    for one in described:
        if len(one.description) != width:
            raise BadInput(f"Class {one.label!r} has {len(one.description)} numbers, but classes here have {width}.")
    if len({one.label for one in described}) < len(described):
        raise BadInput("A class is described twice; give each class once.")
    columns = getattr(own.model, "attribute_names_in_", None)
    return pd.DataFrame([one.description for one in described], index=[one.label for one in described], columns=columns)
