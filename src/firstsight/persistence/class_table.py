"""Add, change and remove classes of a fitted model without retraining."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from firstsight._io.terminal import logger
from firstsight.data.table_files import normalized, same_on_screen
from firstsight.errors import BadInput, UnknownName
from firstsight.methods import Candidates, IncrementalClassifier, ZeroShotClassifier

# A removed class leaves its index and its training codes behind, so that adding it back restores the model exactly:
# some methods treat a class that they had samples of differently. Rows of [label, index, seen code, unseen code].
_REMOVED = "removed_classes_"
_TAUGHT = "taught_classes_"  # labels of classes that were added, or described again, since training


def add_classes(model: ZeroShotClassifier, table: pd.DataFrame, replace: bool = False) -> ZeroShotClassifier:
    """Make a model that also knows the classes of a table; the model that was given stays as it is.

    Both share their weights: nothing is trained.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted.
    table : DataFrame
        Indexed by class, described like the others.
    replace : bool
        Whether a class that the model has already gets the new description; otherwise it is refused.

    Returns
    -------
    ZeroShotClassifier
        The model with more classes.
    """
    labels, A, _ = _checked(model, table)
    known = {label: index for index, label in enumerate(model.classes_.tolist())}
    indices = [known.get(label, -1) for label in labels.tolist()]
    present = [label for label in labels.tolist() if label in known]
    if present and not replace:
        raise BadInput(
            f"The model has class {present[0]!r}"
            + (f" and {len(present) - 1} more of these" if len(present) > 1 else "")
            + " already; give --replace (replace=True) to change descriptions, or other names."
        )
    _check_look_alikes([label for label in labels.tolist() if label not in known], list(known))
    changed = copy.copy(model)
    setattr(changed, _TAUGHT, list(dict.fromkeys([*getattr(model, _TAUGHT, []), *labels.tolist()])))
    changed.descriptions_ = model.descriptions_.copy()
    old = [row for row, index in enumerate(indices) if index >= 0]
    changed.descriptions_[[indices[row] for row in old]] = A[old]
    new = np.array([row for row, index in enumerate(indices) if index < 0], dtype=int)
    changed = _insert(changed, labels[new], A[new]) if len(new) else changed
    if isinstance(changed, IncrementalClassifier):
        changed.update_descriptions()
    return changed


def remove_classes(model: ZeroShotClassifier, names: Sequence[Any]) -> ZeroShotClassifier:
    """Make a model that cannot answer with these classes any more; the one given stays as it is.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted.
    names : sequence
        Classes, seen or unseen.

    Returns
    -------
    ZeroShotClassifier
        The model with fewer classes.
    """
    names = [names] if isinstance(names, str) else names
    known = {label: index for index, label in enumerate(model.classes_.tolist())}
    for name in names:
        if name not in known:
            raise UnknownName("class", str(name), map(str, known))
    indices = sorted({known[name] for name in names})
    if len(indices) == len(known):
        raise BadInput("These are all classes of the model; leave at least one to answer with.")
    keep = np.delete(np.arange(len(known)), indices)
    changed = copy.copy(model)
    unseen_code = getattr(model, "unseen_code_", np.full(len(known), -1))
    gone = [[model.classes_[i].item(), i, int(model.seen_code_[i]), int(unseen_code[i])] for i in indices]
    setattr(changed, _REMOVED, [*getattr(model, _REMOVED, []), *gone])
    if hasattr(model, _TAUGHT):
        setattr(changed, _TAUGHT, [label for label in getattr(model, _TAUGHT) if label not in set(names)])
    for name in ("classes_", "descriptions_", "seen_code_", "unseen_code_"):
        if hasattr(model, name):
            setattr(changed, name, getattr(model, name)[keep])
    moved = np.full(len(known) + 1, -1)  # the last entry answers for −1, "a class that is gone"
    moved[keep] = np.arange(len(keep))
    return _renumber_pool(changed, moved)


def as_labels(model: ZeroShotClassifier, names: Iterable[Any]) -> list[Any]:
    """Names from a file or a command line as the model's own labels: whole numbers if its classes are numbered."""
    names = [names] if isinstance(names, str) else list(names)
    if model.classes_.dtype.kind not in "iu":
        return [str(name) for name in names]
    try:
        return [int(name) for name in names]
    except ValueError:
        text = next(name for name in names if not str(name).strip().lstrip("-").isdecimal())
        raise BadInput(
            f"The classes of this model are numbers, and {str(text)!r} is not one; call classes by numbers."
        ) from None


def check_class_changes(model: ZeroShotClassifier) -> None:
    """Raise ValueError unless what a model from a file remembers of changed classes is what this module writes."""
    removed = getattr(model, _REMOVED, [])
    for row in removed if isinstance(removed, list) else [removed]:
        kinds = [type(value) for value in row] if isinstance(row, list) else []
        if kinds not in ([str, int, int, int], [int, int, int, int]):
            raise ValueError(f"{_REMOVED} holds {str(row)[:40]!r}, which is no label with three numbers")
        if not (0 <= row[1] < 2**31 and -1 <= row[2] < 2**31 and -1 <= row[3] < 2**31):
            raise ValueError(f"{_REMOVED} holds {str(row)[:40]!r}, with a number out of range")
    taught = getattr(model, _TAUGHT, [])
    if not isinstance(taught, list) or not all(type(label) in (str, int) for label in taught):
        raise ValueError(f"{_TAUGHT} is no list of labels")


def unsaid_changes(
    values: dict[str, Any], known: pd.DataFrame, new: pd.DataFrame
) -> tuple[pd.DataFrame, list[str], set[str]]:
    """What was taught to a model, or removed from it, since training, and a new table of classes does not say.

    Parameters
    ----------
    values : dict
        The model's fitted attributes.
    known : DataFrame
        Its class table.
    new : DataFrame
        The new table.

    Returns
    -------
    taught : DataFrame
        Classes that were added or described again, with their descriptions; in the order of the new table's columns
        where both tables have the same.
    removed : list of str
        Classes of the new table that were removed.
    forgotten : set of str
        Classes that were removed and are in neither table: no loss.
    """
    known, new = _with_text_labels(known), _with_text_labels(new)
    if set(known.columns) == set(new.columns):
        known = known[list(new.columns)]
    taught = []
    for name in map(str, values.get(_TAUGHT, [])):
        same = name in new.index and new.shape[1] == known.shape[1]
        if not same or not np.allclose(new.loc[name], known.loc[name], rtol=1e-5, atol=1e-8):
            taught.append(name)
    removed = [str(row[0]) for row in values.get(_REMOVED, [])]
    return known.loc[taught], [name for name in removed if name in new.index], set(removed) - set(new.index)


def with_classes(table: pd.DataFrame, taught: pd.DataFrame) -> pd.DataFrame:
    """A table of classes with these as well; where both describe a class, as `taught` does."""
    table = _with_text_labels(table)
    if not len(taught):
        return table
    counted = [str(number) for number in range(table.shape[1])]  # columns without names
    alike = list(taught.columns) == list(table.columns) or counted in (list(taught.columns), list(table.columns))
    if taught.shape[1] != table.shape[1] or not alike:
        raise BadInput(
            f"Classes that were taught to the model, such as {taught.index[0]!r}, have {taught.shape[1]} attributes "
            f"({taught.columns[0]}, …), but the table has others: {table.shape[1]} ({table.columns[0]}, …). Describe "
            "all classes alike, or give --overwrite (overwrite=True) to forget these."
        )
    taught = taught.set_axis(table.columns, axis="columns")
    return pd.concat([table.drop(index=taught.index, errors="ignore"), taught])


def _with_text_labels(table: pd.DataFrame) -> pd.DataFrame:
    index, columns = pd.Index([str(name) for name in table.index], name=table.index.name), map(str, table.columns)
    return table.set_axis(index, axis="index").set_axis(list(columns), axis="columns")


def _checked(model: ZeroShotClassifier, table: pd.DataFrame) -> Candidates:
    if not isinstance(table, pd.DataFrame):
        raise BadInput(f"Classes must come as a DataFrame indexed by class, but got {type(table).__name__}.")
    if len(table) == 0:
        raise BadInput("The table of classes has no rows; give one row per class.")
    # As objects: pandas would pass text to Arrow, which fails at half a character before it can be reported.
    table = table.set_axis(pd.Index(as_labels(model, table.index), dtype=object), axis="index")
    missing = table.isna()
    if missing.to_numpy().any():
        row, column = np.argwhere(missing.to_numpy())[0]
        raise BadInput(
            f"Class {table.index[row]!r} has no value (NaN) for attribute {table.columns[column]!r}; fill it in: every "
            "class needs every attribute."
        )
    return model.candidates(table)  # every check that a prediction with these classes would make


def _check_look_alikes(new: list[Any], known: list[Any]) -> None:
    """Reject a new name that looks the same as another; log one that a reader may take for another."""
    look = {normalized(str(name)): str(name) for name in known}
    for name in map(str, new):
        other = look.setdefault(normalized(name), name)
        if other != name and same_on_screen(name, other):
            raise BadInput(
                f"The class {name!r} looks the same as one that is there, but has other code points ({name!a}, and "
                f"{other!a}); write both the same way, with --replace (replace=True) to change the description."
            )
        if other != name:
            logger.warning("the class %r may be meant as %r; the model now knows both.", name, other)


def _insert(model: ZeroShotClassifier, labels: np.ndarray, A: np.ndarray) -> ZeroShotClassifier:
    removed = {label: rest for label, *rest in getattr(model, _REMOVED, [])}
    back = [(removed[label], row) for row, label in enumerate(labels.tolist()) if label in removed]
    fresh = [row for row, label in enumerate(labels.tolist()) if label not in removed]
    columns = {
        "classes_": labels,
        "descriptions_": A,
        "seen_code_": np.full(len(labels), -1),
        "unseen_code_": np.full(len(labels), -1),
    }
    size = len(model.classes_)
    order = [*range(size), *(size + row for row in fresh)]  # indices of the old table, then of the new one
    for (index, seen, unseen), row in sorted(back):
        order.insert(min(index, len(order)), size + row)
        columns["seen_code_"][row], columns["unseen_code_"][row] = seen, unseen
    take = np.array(order)
    for name, new in columns.items():
        if hasattr(model, name):
            setattr(model, name, np.concatenate([getattr(model, name), new])[take])
    if back:
        came = {labels[row].item() for _, row in back}
        setattr(model, _REMOVED, [row for row in getattr(model, _REMOVED) if row[0] not in came])
    moved = np.full(size + 1, -1)
    moved[take[take < size]] = np.flatnonzero(take < size)
    return _renumber_pool(model, moved)


def _renumber_pool(model: ZeroShotClassifier, moved: np.ndarray) -> ZeroShotClassifier:
    """Renumber what a transductive fit remembers of its pool: indices of classes, which have moved."""
    if hasattr(model, "pool_predictions_"):
        model.pool_predictions_ = moved[model.pool_predictions_]
    return model
