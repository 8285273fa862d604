"""Labels and names that NumPy would change, cannot sort or cannot hold are an error before anything is learned."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from firstsight.errors import BadInput, FirstsightWarning
from firstsight.methods import ESZSL, SAE, all_methods
from firstsight.persistence.class_table import add_classes

X = np.random.default_rng(0).normal(size=(4, 3))


def described(names):
    return pd.DataFrame(np.eye(len(names)), index=pd.Index(names, dtype=object))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["a\0", "a", "a\0", "a"], "NUL"),  # NumPy's fixed-width text makes one class of the two
        (["\ud800x", "b", "b", "\ud800x"], "half a character"),
        (["a", 1, "a", 1], "mixes labels of different types.*a number and text"),
        (["a", None, "a", None], "mixes labels of different types.*NoneType and text"),
        ([2**63, 1, 1, 2**63], "does not fit into 64 bits"),
        ([2**70, 1, 1, 2**70], "does not fit into 64 bits"),
    ],
)
def test_labels_that_cannot_be_kept_are_an_error(labels, words):
    for y in (labels, pd.Series(labels, dtype=object), np.array(labels, dtype=object)):
        with pytest.raises(BadInput, match=words):
            ESZSL().fit(X, y, described(list(dict.fromkeys(labels))))
        with pytest.raises(BadInput, match=words):
            ESZSL().fit(X, y)


@pytest.mark.parametrize("name", ["b\0", "\udfff", 2**63])
def test_so_are_classes_that_are_described(name):
    two = [1, 2] if isinstance(name, int) else ["a", "b"]
    with pytest.raises(BadInput, match=r"NUL|half a character|64 bits"):
        ESZSL().fit(X, two * 2, described([*two, name]))
    model = ESZSL().fit(X, two * 2)
    table = pd.DataFrame([[1.0, 0.0]], index=pd.Index([name], dtype=object))
    for ask in (lambda: add_classes(model, table), lambda: model.predict(X, classes=table)):
        with pytest.raises(BadInput, match=r"NUL|half a character|64 bits"):
            ask()


def test_attributes_are_not_merged_either():
    table = pd.DataFrame(np.eye(2), index=["a", "b"], columns=["wing", "wing\0"])
    with pytest.raises(BadInput, match="NUL"):
        ESZSL().fit(X, list("abab"), table)


def test_a_number_and_its_text_are_told_apart():
    with pytest.raises(BadInput, match="a number and a text are different classes"):
        ESZSL().fit(X, [0, 1, 0, 1], described(["0", "1"]))


@pytest.mark.parametrize("method", [method for method in all_methods().values() if not method.shared_space])
def test_features_lost_in_rounding_are_a_warning(method, task):
    """A fit on features × 1e-30 either still tells classes apart, or is refused, or says that it does not."""
    given = dict(method.quick, **({"random_state": 0} if "random_state" in method().get_params() else {}))
    pool = {"X_unlabeled": task.X_unseen * 1e-30} if method.transductive else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = method(**given).fit(task.X * 1e-30, task.y, task.table, **pool)
        except BadInput:
            return
    answers = set(model.predict(task.X * 1e-30, classes=model.seen_classes_).tolist())
    told = [one for one in caught if issubclass(one.category, FirstsightWarning)]
    assert len(answers) > 1 or told


def test_usual_features_are_not_warned_of(task):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SAE().fit(task.X, task.y, task.table)
