"""The model that a server answers with, always the one in its folder; and new classes from what a client describes."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from firstsight._io.terminal import visible
from firstsight.data.feature_files import FeatureFile
from firstsight.errors import BadInput, UnknownName, UnreadableFile
from firstsight.methods import ZeroShotClassifier
from firstsight.persistence.added_samples import count_added, log_content
from firstsight.persistence.class_table import as_labels
from firstsight.persistence.model_folder import SavedModel, load_saved, stamp_of
from firstsight.persistence.model_folder import change as change_folder
from firstsight.recognition import Recognizer
from firstsight.recognition.answers import NONE_OF_THESE
from firstsight.recognition.inputs import ModelTextEncoder
from firstsight.recognition.recognizer import check_model_answers
from firstsight.serving.wire_schema import (
    Attribute,
    Change,
    Changed,
    ClassExists,
    Corrected,
    Described,
    Done,
    NewClass,
    Undo,
)


class ServedModel:
    """A Recognizer that follows its folder. Changes go to the folder first, under its lock, and are then taken over:
    what was confirmed is there after a crash, and in other processes."""

    def __init__(
        self,
        recognizer: Recognizer,
        folder: Path | None = None,
        max_classes: int | None = None,
        max_added: int | None = None,
        **options: Any,
    ):
        self.recognizer, self.folder, self._options = recognizer, folder, options
        self.max_classes, self.max_added = max_classes, max_added
        self._saved: SavedModel | None = None  # the folder as it was read or written last
        self._reading, self._writing = threading.Lock(), threading.Lock()
        self._revision: tuple[Any, str] = (None, "")

    @classmethod
    def open(
        cls, folder: str | Path, max_classes: int | None = None, max_added: int | None = None, **options: Any
    ) -> ServedModel:
        """The model in a folder."""
        folder = Path(folder).resolve()
        saved = _read(folder, options)
        recognizer = Recognizer(saved.model, saved.provenance, **options)
        served = cls(recognizer, folder, max_classes, max_added, **options)
        served._saved = saved
        return served

    def current(self) -> Recognizer:
        """The recognizer, with the classes that the folder has now. A folder that vanished keeps the old ones."""
        if self._is_outdated():
            with self._reading:
                if self._is_outdated():
                    assert self.folder is not None
                    self._take(_read(self.folder, self._options))
        return self.recognizer

    def _is_outdated(self) -> bool:
        if self.folder is None or self._saved is None:
            return False
        stamp = stamp_of(self.folder)
        return stamp is not None and stamp != self._saved.stamp

    def _take(self, saved: SavedModel) -> None:
        """Answer with this model; the loaded backbone stays, unless the new model wants another one."""
        self._saved = saved
        known, wanted = self.recognizer.backbone.known, saved.provenance.backbone
        if known == wanted or (known and wanted and known.fingerprint == wanted.fingerprint):
            self.recognizer.model = saved.model
        else:
            self.recognizer = Recognizer(saved.model, saved.provenance, **self._options)

    @property
    def revision(self) -> str:
        """16 hexadecimal digits that change with classes, descriptions and corrections, the same in every process."""
        model = self.current().model
        known, digest = self._revision
        if known is not model:
            digest = _revision(model)
            self._revision = model, digest
        return digest

    def add(self, table: pd.DataFrame, replace: bool = False) -> Changed:
        """Add these classes; `replace` changes those that exist."""

        def change(recognizer: Recognizer) -> list[Done]:
            known = recognizer.model.classes_.tolist()
            existing = [name for name in as_labels(recognizer.model, table.index) if name in known]
            if existing and not replace:
                raise ClassExists(
                    f"The model has a class {str(existing[0])!r} already; choose another name or replace it."
                )
            return _add(recognizer, table, replace)

        return self._change(change)

    def remove(self, names: list[str]) -> Changed:
        """Never answer with these classes again."""
        return self._change(lambda recognizer: _remove(recognizer, names))

    def undo(self, undo: Undo) -> Changed:
        """Take a change back."""

        def change(recognizer: Recognizer) -> list[Done]:
            done = _remove(recognizer, undo.remove) if undo.remove else []
            if undo.restore:
                removed = (str(row[0]) for row in getattr(recognizer.model, "removed_classes_", []))
                known = {*map(str, recognizer.model.classes_.tolist()), *removed}
                for described in undo.restore:
                    if described.label in known:  # a fit takes names that teaching rejects, and these come back as well
                        validate_class_name(described.label)
                    elif clean_class_name(described.label) != described.label:
                        raise BadInput("A class's name has no spaces around it and no two in a row; choose another.")
                done += _add(recognizer, _table(recognizer, undo.restore), replace=True)
            return done

        if not undo.remove and not undo.restore:
            raise BadInput("There is nothing to take back; post the `undo` of a change as it came.")
        return self._change(change)

    def correct(self, sample: FeatureFile, label: str) -> Corrected:
        """Learn what one sample shows."""
        with self._editing() as recognizer:
            before = count_added(vars(recognizer.model))
            added = recognizer.correct(sample, label)
            count = count_added(vars(recognizer.model))
            if self.max_added is not None and count > max(self.max_added, before):
                raise BadInput(  # every one costs memory, and every further one time
                    f"The model holds {before:,} added samples, and this server takes no more than {self.max_added:,}; "
                    "undo some, learn again with these images, or start it with a larger --max-added."
                )
        undo = Change(change=added.change) if added.change else None
        return self._corrected(recognizer, label, next(iter(added.removed), None), undo)

    def undo_correction(self, change: str) -> Corrected:
        """Take a correction back; a label that it has replaced is restored."""
        with self._editing() as recognizer:
            undone = recognizer.remove_images(change)
        return self._corrected(recognizer, next(iter(undone.added), None), next(iter(undone.removed), None), None)

    def _corrected(self, recognizer: Recognizer, label: Any, before: Any, undo: Change | None) -> Corrected:
        return Corrected(
            revision=_revision(recognizer.model),
            label=None if label is None else str(label),
            before=None if before is None else str(before),
            added=count_added(vars(recognizer.model)),
            undo=undo,
            durable=self.folder is not None,
        )

    @contextmanager
    def _editing(self) -> Iterator[Recognizer]:
        """Yield a recognizer that a `with` block changes, one block at a time; an error leaves the model as it was.

        The lock is that of the folder, or without a folder of the recognizer. The folder is only read if another
        process has changed it.
        """
        if self.folder is None:
            with self.recognizer.edit_classes() as copy:
                yield copy
            return
        with self._writing:
            self._check_folder()
            with change_folder(self.folder, read=self._read_again) as saved:
                copy = Recognizer(saved.model, saved.provenance)
                yield copy
                saved.model = copy.model
            with self._reading:
                self._take(saved)

    def _read_again(self) -> SavedModel:
        self._check_folder()
        self.current()
        assert self._saved is not None
        return replace(self._saved)

    def _check_folder(self) -> None:
        if self.folder is not None and stamp_of(self.folder) is None:
            raise UnreadableFile(f"{self.folder} holds no model any more; put it back.")

    def _change(self, change: Callable[[Recognizer], list[Done]]) -> Changed:
        """Apply a change of classes."""
        with self._editing() as recognizer:
            before = recognizer.descriptions
            done = change(recognizer)
            n_classes = len(recognizer.model.classes_)
            if self.max_classes is not None and n_classes > max(self.max_classes, len(before)):
                raise BadInput(  # every class costs memory, and every answer time
                    f"The model would have {n_classes:,} classes, but this server teaches no more than "
                    f"{self.max_classes:,}; remove some, or start it with a larger --max-classes."
                )
        numbers = dict(zip(map(str, before.index), before.to_numpy(dtype=float).tolist(), strict=True))
        undo = Undo(
            remove=[entry.label for entry in done if entry.what == "added"],
            restore=[
                Described(label=entry.label, description=numbers[entry.label])
                for entry in done
                if entry.what != "added"
            ],
        )
        return Changed(
            revision=_revision(recognizer.model),  # of this change; other clients may have changed more since then
            classes=n_classes,
            done=done,
            undo=undo,
            durable=self.folder is not None,
        )


def _read(folder: Path, options: dict[str, Any]) -> SavedModel:
    saved = load_saved(folder)
    check_model_answers(saved.model, folder)
    if "device" in saved.model.get_params():  # a device is not saved
        saved.model.set_params(device=options.get("device", "cpu"))
    return saved


def _revision(model: ZeroShotClassifier) -> str:
    names = "\0".join(map(str, model.classes_.tolist())).encode()
    content = (names, np.ascontiguousarray(model.descriptions_).tobytes(), log_content(model))
    return hashlib.sha256(b"\0\0".join(content)).hexdigest()[:16]


def check_answers(model: ZeroShotClassifier) -> None:
    """Raise if the model cannot answer with its table of classes: one odd class would stop it for all."""
    rows = np.zeros((2, model.n_features_in_), dtype=np.float32)
    rows[1] = 1
    model.decision_function(rows)


def _add(recognizer: Recognizer, table: pd.DataFrame, replace: bool) -> list[Done]:
    before = recognizer.model.classes_.tolist()
    recognizer.add_classes(table, replace)
    check_answers(recognizer.model)
    labels = as_labels(recognizer.model, table.index)
    return [_done(recognizer, label, "changed" if label in before else "added") for label in labels]


def _remove(recognizer: Recognizer, names: list[str]) -> list[Done]:
    known = recognizer.model.classes_.tolist()
    labels = list(dict.fromkeys(as_labels(recognizer.model, names)))
    for label in labels:
        if label not in known:
            raise UnknownName("class", str(label), map(str, known))
    done = [_done(recognizer, label, "removed") for label in labels]
    recognizer.remove_classes(labels)
    return done


def _done(recognizer: Recognizer, label: Any, what: Literal["added", "changed", "removed"]) -> Done:
    row = recognizer.model.classes_.tolist().index(label)
    return Done(label=str(label), seen=bool(recognizer.model.seen_code_[row] >= 0), what=what)


def _table(recognizer: Recognizer, classes: list[Described]) -> pd.DataFrame:
    width = recognizer.model.descriptions_.shape[1]
    for described in classes:
        if (n := len(described.description)) != width:
            raise BadInput(f"Class {described.label!r} has {n} numbers, but classes here have {width}.")
    names = [described.label for described in classes]
    if len(set(names)) < len(names):
        raise BadInput("A class is described twice; give each class once.")
    columns = getattr(recognizer.model, "attribute_names_in_", None)
    return pd.DataFrame([described.description for described in classes], index=names, columns=columns)


# Attributes as the web app shows them: in groups, with a range.

_SEPARATORS = ("::", ":", "=", " ", "_")


def attributes_of(model: ZeroShotClassifier) -> list[Attribute]:
    """One entry per attribute, in the model's order; attributes without names are numbered."""
    table = model.descriptions_
    names = [str(name) for name in getattr(model, "attribute_names_in_", [])]
    names = names or [f"attribute {number}" for number in range(table.shape[1])]
    low, high = table.min(axis=0).astype(float), table.max(axis=0).astype(float)
    binary = ((table == 0) | (table == 1)).all(axis=0)
    return [
        Attribute(name=name, group=group, label=label, low=low[m], high=high[m], binary=bool(binary[m]))
        for m, (name, (group, label)) in enumerate(zip(names, grouped(names), strict=True))
    ]


def grouped(names: list[str]) -> list[tuple[str, str]]:
    """The group and the label of each name, by the first separator that puts several names into one group.

    >>> grouped(["base a", "base o", "mark acute", "mark grave"])[2]
    ('mark', 'acute')
    >>> grouped(["has_wing_color::blue", "has_wing_color::red", "has_bill::long", "has_bill::short"])[0]
    ('has wing color', 'blue')
    >>> grouped(["stripes", "horns"])
    [('', 'stripes'), ('', 'horns')]
    """
    for separator in _SEPARATORS:
        pairs = [name.partition(separator) for name in names]
        sizes = Counter(first for first, found, rest in pairs if found and rest)
        if sizes and sum(size for size in sizes.values() if size > 1) > len(names) / 2:
            return [
                (_words(first), _words(rest)) if found and rest and sizes[first] > 1 else ("", _words(name))
                for name, (first, found, rest) in zip(names, pairs, strict=True)
            ]
    return [("", _words(name)) for name in names]


def _words(name: str) -> str:
    return " ".join(name.replace("_", " ").split())


LARGEST = 1e6  # an attribute's value; larger ones are no description and would drown all others
_FORMULA = ("=", "+", "-", "@", "'")  # a spreadsheet that opens the exported table would run it


def table_of(new: NewClass, recognizer: Recognizer, sentences: ModelTextEncoder) -> pd.DataFrame:
    """The description of a new class, as a table of one row with the model's attributes."""
    name = clean_class_name(new.name)
    if new.text is not None:
        if new.attributes or new.like is not None or new.rest is not None:
            raise BadInput("Give a sentence or attributes, not both.")
        text = " ".join(visible(new.text).split())
        return sentences.describe(pd.DataFrame({"text": [text]}, index=[name]))
    if sentences and not new.attributes and new.like is None and new.rest is None:
        return sentences.describe(pd.DataFrame(index=[name]))
    known = recognizer.descriptions
    known.columns = known.columns.astype(str)
    for attribute, value in new.attributes.items():
        if attribute not in known.columns:
            raise UnknownName("attribute", attribute[:80], known.columns)
        if abs(value) > LARGEST:
            raise BadInput(f"The attribute {attribute!r} is {value:g}; values here lie between ±{LARGEST:g}.")
    values = _start(new, known, recognizer.model) | new.attributes
    missing = next((attribute for attribute in known.columns if attribute not in values), None)
    if missing is not None:
        raise BadInput(
            f"The attribute {missing!r} has no value; give it, or `like` a class, or a number for the `rest`."
        )
    return pd.DataFrame([[values[attribute] for attribute in known.columns]], index=[name], columns=known.columns)


def _start(new: NewClass, known: pd.DataFrame, model: ZeroShotClassifier) -> dict[str, float]:
    """The attributes that a new class begins with: of the class that it is like, or the same number for all."""
    if new.like is not None:
        (label,) = as_labels(model, [new.like])
        if label not in known.index:
            raise UnknownName("class", new.like, map(str, known.index))
        alike: dict[str, float] = known.loc[label].astype(float).to_dict()
        return alike
    if new.rest is None:
        return {}
    if abs(new.rest) > LARGEST:
        raise BadInput(f"`rest` is {new.rest:g}; values here lie between ±{LARGEST:g}.")
    return dict.fromkeys(known.columns, new.rest)


def clean_class_name(name: str) -> str:
    """A class's name that can be shown, written and read back anywhere."""
    clean = " ".join(name.split())
    validate_class_name(clean)
    if clean.startswith(_FORMULA):
        raise BadInput(f"A class's name may not begin with {clean[0]}, which spreadsheets take for a formula.")
    return clean


def validate_class_name(name: str) -> None:
    """Reject control characters, half characters and empty names; also the answer where no class fits."""
    if not name.strip() or visible(name) != name or not name.isprintable():
        raise BadInput("A class's name must be text that can be shown, without control characters; choose another.")
    if name.lower() == NONE_OF_THESE:
        raise BadInput(f"No class can be called {name!r}, which is the answer where none fits; choose another name.")
