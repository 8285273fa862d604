"""Add labelled samples to a fitted model, correct their labels, and undo both: the model keeps a log of its samples."""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from firstsight._io.terminal import counted
from firstsight.data.table_files import nearest_name
from firstsight.errors import BadInput
from firstsight.methods import IncrementalClassifier, ZeroShotClassifier, all_methods
from firstsight.persistence.class_table import as_labels

# The log has a row per sample and label. Rows that count stand in the order in which the method got them, so that they
# can be removed from it by position. Features are kept because undoing a new label restores the one before.
_LOG, _LABELS = "sample_log_", "sample_log_labels_"
# `calls` numbers the calls; `replaced_by` is the call that gave the same sample another label, 0 if the row counts.
_DTYPES = {"features": "f", "fingerprints": "u", "calls": "i", "replaced_by": "i"}


@dataclass(frozen=True, eq=False)
class AddedSamples:
    """What a call has added to a model, or taken back.

    Attributes
    ----------
    change : str
        The name of this change, by which it is undone; empty if nothing was added.
    added, removed : dict
        Samples that each class got and lost. A sample whose label was corrected is in both.
    repeated : int
        Samples left out because they had been added with the same label, in this call or before.
    trained : int
        Samples left out because the model was fitted on them with their label.
    skipped : sequence of (str, str)
        Images that could not be read, with the reason.
    """

    change: str = ""
    added: dict[Any, int] = field(default_factory=dict)
    removed: dict[Any, int] = field(default_factory=dict)
    repeated: int = 0
    trained: int = 0
    skipped: Sequence[tuple[str, str]] = ()

    def __str__(self) -> str:
        parts = [
            f"{name}: {number:+,}"
            for counts, sign in ((self.added, 1), (self.removed, -1))
            for name, number in ((str(label), sign * n) for label, n in counts.items())
        ]
        notes = {
            "added before with the same label": self.repeated,
            "trained on before (their labels stay)": self.trained,
        }
        left_out = [f"{number:,} {note}, left out" for note, number in notes.items() if number]
        return "; ".join((parts or ["nothing was added"]) + left_out)


@dataclass(frozen=True, eq=False)
class _Log:
    """The rows of the log, as arrays of one length and a list of labels."""

    features: np.ndarray
    fingerprints: np.ndarray
    calls: np.ndarray
    replaced_by: np.ndarray
    labels: list[Any]

    @classmethod
    def of(cls, model: ZeroShotClassifier) -> _Log:
        none = {
            "features": np.empty((0, model.n_features_in_), dtype=np.float32),
            "fingerprints": np.empty(0, dtype=np.uint64),
            "calls": np.empty(0, dtype=np.int64),
            "replaced_by": np.empty(0, dtype=np.int64),
        }
        return cls(**getattr(model, _LOG, none), labels=getattr(model, _LABELS, []))

    def store(self, model: ZeroShotClassifier) -> None:
        for name in (_LOG, _LABELS):
            vars(model).pop(name, None)
        if self.labels:
            setattr(model, _LOG, {name: getattr(self, name) for name in _DTYPES})
            setattr(model, _LABELS, self.labels)

    def take(self, rows: Any) -> _Log:
        arrays = {name: getattr(self, name)[rows] for name in _DTYPES}
        return _Log(**arrays, labels=[self.labels[row] for row in np.arange(len(self.labels))[rows].tolist()])

    def __add__(self, other: _Log) -> _Log:
        arrays = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in _DTYPES}
        return _Log(**arrays, labels=[*self.labels, *other.labels])

    @property
    def counts(self) -> np.ndarray:
        """Whether each row counts."""
        counting: np.ndarray = self.replaced_by == 0
        return counting

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """Positions among the method's added samples of rows that count."""
        found: np.ndarray = (np.cumsum(self.counts) - 1)[rows]
        return found

    def change_of(self, call: int) -> str:
        """The name of a call's change: a later call that gets the same number has other samples, so another name."""
        rows = np.flatnonzero(self.calls == call)
        samples = zip(self.fingerprints[rows].tolist(), (str(self.labels[row]) for row in rows.tolist()), strict=True)
        content = repr(sorted(samples))  # undoing other calls changes the order of rows
        return f"{call}-{hashlib.sha256(content.encode('utf-8', 'replace')).hexdigest()[:16]}"

    def call_of(self, change: str) -> int | None:
        """The call with this change; None if the log has no such call."""
        number = change.partition("-")[0]
        call = int(number) if number.isascii() and number.isdecimal() and len(number) < 18 else 0
        return call if call in self.calls and self.change_of(call) == change else None


def require_incremental(model: ZeroShotClassifier) -> IncrementalClassifier:
    """Return the model, or raise `BadInput` if it cannot learn from added samples."""
    if not isinstance(model, IncrementalClassifier) or not model.can_add_samples:
        others = {name: cls for name, cls in all_methods().items() if cls is not type(model)}
        able = [name for name, cls in others.items() if issubclass(cls, IncrementalClassifier)]
        raise BadInput(
            f"{type(model).__name__} cannot learn from more samples without another fit; put them into the training "
            f"folder and run `firstsight learn` again, or use a method that can: {', '.join(able)}."
        )
    return model


def described_labels(model: ZeroShotClassifier, labels: Sequence[Any]) -> list[Any]:
    """The labels of samples as the model has them; raise `BadInput` for a class that it has no description of."""
    known = model.classes_.tolist()
    converted = as_labels(model, labels)
    unknown = [str(label) for label in dict.fromkeys(converted) if label not in set(known)]
    if unknown:
        nearest = nearest_name(unknown[0], [str(name) for name in known])
        others = f" (nor of {counted(len(unknown) - 1, 'other class')})" if len(unknown) > 1 else ""
        raise BadInput(
            f"The model has no description of the class {unknown[0]!r}{others}"
            f"{f'; did you mean {nearest!r}?' if nearest else '.'} Add the class first: `firstsight classes add MODEL "
            "TABLE`, Recognizer.add_classes(table), or in the web app."
        )
    return converted


def add_samples(
    model: ZeroShotClassifier,
    features: np.ndarray,
    labels: Sequence[Any],
    fingerprints: np.ndarray,
    names: Sequence[Any] | None = None,
) -> tuple[ZeroShotClassifier, AddedSamples]:
    """Make a model that has also learned from these labelled samples; the model that was given stays as it is.

    A sample that was added with another label before gets the new one; one that was added with the same label is left
    out. Nothing is fitted again.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted; its method is an `IncrementalClassifier`.
    features : array (m, d)
        In the order of the model's features.
    labels : sequence (m,)
        A described class for each.
    fingerprints : array (m,) of uint64
        What tells two samples apart; equal for the same image.
    names : sequence (m,), optional
        What the samples are called in an error message.

    Returns
    -------
    model : ZeroShotClassifier
        The changed model, which shares its other arrays with the one that was given.
    added : AddedSamples
        What was added.
    """
    require_incremental(model)
    labels, log = described_labels(model, labels), _Log.of(model)
    _check_only_user(model, log)
    rows = _distinct(labels, fingerprints, names)
    call = int(log.calls.max(initial=0)) + 1
    current = {print_: row for row, print_ in enumerate(log.fingerprints.tolist()) if log.replaced_by[row] == 0}
    before = [current.get(int(fingerprints[row])) for row in rows]
    known = [row is not None and log.labels[row] == labels[i] for i, row in zip(rows, before, strict=True)]
    new = [row for row, is_known in zip(rows, known, strict=True) if not is_known]
    old = np.array([b for b, is_known in zip(before, known, strict=True) if b is not None and not is_known], dtype=int)
    repeated = len(labels) - len(new)
    if not new:
        return model, AddedSamples(repeated=repeated)
    changed = copy.copy(model)
    assert isinstance(changed, IncrementalClassifier)
    if len(old):
        changed.remove_samples(log.positions(old))
    X = np.ascontiguousarray(features[new], dtype=np.float32)
    changed.add_samples(X, np.array([labels[row] for row in new]))
    replaced = log.replaced_by.copy()
    replaced[old] = call
    more = _Log(X, fingerprints[new], np.full(len(new), call), np.zeros(len(new), int), [labels[row] for row in new])
    log = _Log(log.features, log.fingerprints, log.calls, replaced, log.labels) + more
    log.store(changed)
    removed = _counts(log.labels[row] for row in old.tolist())
    return changed, AddedSamples(log.change_of(call), _counts(more.labels), removed, repeated)


def undo_samples(model: ZeroShotClassifier, change: str | None = None) -> tuple[ZeroShotClassifier, AddedSamples]:
    """Make a model without the samples of one call of `add_samples`; labels that the call replaced are restored.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted.
    change : str, optional
        Which call (`AddedSamples.change`); left out, the last one.

    Returns
    -------
    model : ZeroShotClassifier
        The changed model; the one that was given stays as it is.
    undone : AddedSamples
        What was removed, and which labels are restored (`added`).
    """
    if not isinstance(change, str | None):
        raise BadInput(f"`change` must be the name of a change, such as `AddedSamples.change`; got {change!r}.")
    log = _Log.of(model)
    _check_only_user(model, log)
    if not log.labels:
        raise BadInput("No labelled samples were added to this model, so there is nothing to undo.")
    call = int(log.calls.max()) if change is None else log.call_of(change)
    if call is None:
        raise BadInput("These samples are not in the model any more, so there is nothing to undo.")
    changed = copy.copy(model)
    assert isinstance(changed, IncrementalClassifier)
    gone, replaced = log.calls == call, log.replaced_by.copy()
    # What took the place of a row of this call takes the place of the row before it.
    later = dict(zip(log.fingerprints[gone].tolist(), replaced[gone].tolist(), strict=True))
    for row in np.flatnonzero(replaced == call).tolist():
        replaced[row] = later.get(int(log.fingerprints[row]), 0)
    if (counting := np.flatnonzero(gone & log.counts)).size:
        changed.remove_samples(log.positions(counting))
    back = np.flatnonzero(~log.counts & (replaced == 0))
    if len(back):
        restored = log.take(back).labels
        changed.add_samples(log.features[back], np.array(described_labels(changed, restored)))
    after = _Log(log.features, log.fingerprints, log.calls, replaced, log.labels)
    # The method has the restored samples last.
    after.take(np.r_[np.setdiff1d(np.flatnonzero(~gone), back), back]).store(changed)
    removed, restored_counts = _counts(log.take(counting).labels), _counts(log.take(back).labels)
    return changed, AddedSamples(added=restored_counts, removed=removed)


def added_fingerprints(model: ZeroShotClassifier) -> np.ndarray:
    """Fingerprints of the samples that were added to a model."""
    return _Log.of(model).fingerprints


def added_features(model: ZeroShotClassifier) -> np.ndarray:
    """Features (m, d) of the samples that were added to a model and count."""
    log = _Log.of(model)
    return log.features if log.counts.all() else log.features[log.counts]


def log_content(model: ZeroShotClassifier) -> bytes:
    """What changes with every sample that is added and every label that is replaced; nothing without such."""
    log = _Log.of(model)
    labels = "\0".join(str(label) for label in log.labels).encode("utf-8", "replace")
    return labels + log.fingerprints.tobytes() + log.replaced_by.tobytes()


def check_sample_log(model: ZeroShotClassifier) -> None:
    """Raise ValueError unless the log of a model from a file is one that this module writes."""
    if not hasattr(model, _LOG) and not hasattr(model, _LABELS):
        return
    arrays, labels = getattr(model, _LOG, None), getattr(model, _LABELS, None)
    if not isinstance(arrays, dict) or set(arrays) != set(_DTYPES) or not isinstance(labels, list) or not labels:
        raise ValueError(f"{_LOG} and {_LABELS} do not belong together")
    for name, kind in _DTYPES.items():
        shape = (len(labels), model.n_features_in_) if name == "features" else (len(labels),)
        if arrays[name].dtype.kind != kind or arrays[name].shape != shape:
            raise ValueError(f"{_LOG} holds {name} of {arrays[name].dtype} and shape {arrays[name].shape}")
    if not all(type(label) in (str, int) for label in labels):
        raise ValueError(f"{_LABELS} is no list of labels")
    try:
        _check_only_user(model, _Log.of(model))
    except BadInput as error:
        raise ValueError(str(error)) from None


def logged_calls(
    values: dict[str, Any], arrays: Mapping[str, np.ndarray], forgotten: Container[str] = ()
) -> list[tuple[np.ndarray, list[Any], np.ndarray]]:
    """Features, labels and fingerprints that each call added, of a model with these fitted attributes and arrays.

    Samples whose label was replaced later, or is among the forgotten ones, are left out.
    """
    if not count_added(values):
        return []
    log = _Log(**{name: arrays[f"{_LOG}/{name}"] for name in _DTYPES}, labels=values[_LABELS])
    log = log.take(log.counts & np.array([str(label) not in forgotten for label in log.labels]))
    calls = [log.take(log.calls == call) for call in np.unique(log.calls)]
    return [(call.features, call.labels, call.fingerprints) for call in calls]


def count_added(values: dict[str, Any]) -> int:
    """How many samples and replaced labels the log holds of a model with these fitted attributes."""
    labels = values.get(_LABELS, [])
    return len(labels) if isinstance(labels, list) else 0


def _check_only_user(model: ZeroShotClassifier, log: _Log) -> None:
    added = getattr(model, "added_samples_", {}).get("codes")
    if added is not None and len(added) != int(log.counts.sum()):
        raise BadInput(
            f"{len(added)} samples were added to the model and {int(log.counts.sum())} are in its log; add and remove "
            "them with a Recognizer alone (add_images, correct, remove_images), not with the model's own add_samples."
        )


def _distinct(labels: Sequence[Any], fingerprints: np.ndarray, names: Sequence[Any] | None) -> list[int]:
    """Rows of distinct samples; raise `BadInput` if one sample has two labels."""
    first: dict[int, int] = {}
    for row, print_ in enumerate(fingerprints.tolist()):
        other = first.setdefault(print_, row)
        if labels[other] != labels[row]:
            a, b = (str(other), str(row)) if names is None else (str(names[other]), str(names[row]))
            raise BadInput(
                f"The same image has two labels: {a!r} is of {str(labels[other])!r} and {b!r} of "
                f"{str(labels[row])!r}; keep one of them."
            )
    return list(first.values())


def _counts(labels: Any) -> dict[Any, int]:
    return dict(Counter(labels))
