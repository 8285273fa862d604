"""Labelled samples that are added to a saved model, corrected and taken back: the log, the folder, what is rejected."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from firstsight.errors import BadInput, UnreadableFile
from firstsight.evaluation import fit_on
from firstsight.methods import ESZSL, Blend, Cosine, KernelPrototypes, TransductiveKernelPrototypes
from firstsight.persistence.added_samples import add_samples, undo_samples
from firstsight.persistence.class_table import remove_classes
from firstsight.persistence.model_folder import load, save


@pytest.fixture(scope="module")
def model(small):
    return fit_on(KernelPrototypes(search=False, refinement=0, hidden=0), small)


@pytest.fixture(scope="module")
def rows(small):
    """Features, labels and fingerprints of three samples of each of two unseen classes."""
    X, y = small.part("test_unseen")
    chosen = np.concatenate([np.flatnonzero(y == name)[:3] for name in small.unseen_classes[:2]])
    return X[chosen], y[chosen].tolist(), np.arange(1, 7, dtype=np.uint64)


def scores(model, small):
    return model.decision_function(small.features)


def test_added_samples_are_those_of_the_method_itself(model, small, rows):
    X, y, prints = rows
    changed, added = add_samples(model, X, y, prints)
    assert np.array_equal(scores(changed, small), scores(copy.copy(model).add_samples(X, y), small))
    assert added.added == {y[0]: 3, y[3]: 3}
    assert not np.array_equal(scores(changed, small), scores(model, small))  # the model that was given is as it was
    assert str(added) == f"{y[0]}: +3; {y[3]}: +3"


def test_a_sample_that_comes_again_does_not_count_twice(model, small, rows):
    X, y, prints = rows
    once, _ = add_samples(model, X, y, prints)
    both = np.r_[prints[:2], prints[:2], prints]
    again, added = add_samples(model, X[[0, 1, 0, 1, 0, 1, 2, 3, 4, 5]], [*y[:2], *y[:2], *y], both)
    assert (added.repeated, sum(added.added.values())) == (4, 6)
    assert np.array_equal(scores(again, small), scores(once, small))
    more, added = add_samples(once, X[:4], y[:4], prints[:4])
    assert more is once
    assert (added.change, added.repeated, added.added) == ("", 4, {})


def test_a_new_label_replaces_the_one_before_and_undoing_restores_it(model, small, rows):
    X, y, prints = rows
    right, _ = add_samples(model, X, y, prints)
    wrong, _ = add_samples(model, X, [*y[:2], y[3], *y[3:]], prints)
    corrected, added = add_samples(wrong, X[[2]], [y[2]], prints[[2]])
    assert (added.added, added.removed) == ({y[2]: 1}, {y[3]: 1})
    np.testing.assert_allclose(scores(corrected, small), scores(right, small), rtol=1e-4, atol=1e-4)
    undone, taken = undo_samples(corrected, added.change)
    assert (taken.added, taken.removed) == ({y[3]: 1}, {y[2]: 1})
    np.testing.assert_allclose(scores(undone, small), scores(wrong, small), rtol=1e-4, atol=1e-4)


def test_calls_are_undone_in_any_order(model, small, rows):
    """The same sample gets three labels in turn; what is left is what the remaining calls say."""
    X, y, prints = rows
    others = [y[0], y[3], small.unseen_classes[4]]
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0], [0, 2, 1], [2, 0, 1]):
        changed, changes = add_samples(model, X[[5]], [y[5]], prints[[5]])[0], []
        for label in others:
            changed, added = add_samples(changed, X[[0]], [label], prints[[0]])
            changes.append(added.change)
        left = dict(enumerate(others))
        for number in order:
            changed, _ = undo_samples(changed, changes[number])
            del left[number]
            expected = add_samples(model, X[[5]], [y[5]], prints[[5]])[0]
            if left:
                expected = add_samples(expected, X[[0]], [left[max(left)]], prints[[0]])[0]
            np.testing.assert_allclose(scores(changed, small), scores(expected, small), rtol=1e-4, atol=1e-4)
        with pytest.raises(BadInput, match="not in the model any more"):
            undo_samples(changed, changes[0])
        changed, _ = undo_samples(changed)
        assert vars(changed).keys() == vars(model).keys()
        assert np.array_equal(scores(changed, small), scores(model, small))
        with pytest.raises(BadInput, match="nothing to undo"):
            undo_samples(changed)


def test_a_change_is_not_undone_by_the_name_of_another_one(model, rows):
    X, y, prints = rows
    first, added = add_samples(model, X[:1], y[:1], prints[:1])
    empty, _ = undo_samples(first)
    other, _ = add_samples(empty, X[1:2], y[1:2], prints[1:2])  # it has the number of the first one
    for change in (added.change, "1", "", "x", "9" * 40):
        with pytest.raises(BadInput, match="not in the model any more"):
            undo_samples(other, change)


def test_a_saved_model_keeps_the_log(model, small, rows, tmp_path):
    X, y, prints = rows
    changed, added = add_samples(model, X, y, prints)
    changed, corrected = add_samples(changed, X[:1], [y[3]], prints[:1])
    save(changed, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(scores(loaded, small), scores(changed, small))
    loaded, _ = undo_samples(loaded)
    loaded, _ = undo_samples(loaded, added.change)
    assert np.array_equal(scores(loaded, small), scores(model, small))
    assert corrected.removed == {y[0]: 1}


@pytest.mark.parametrize(
    "method",
    [
        Cosine(),
        Blend([("prototypes", KernelPrototypes(search=False, refinement=0, hidden=0)), ("eszsl", ESZSL())]),
        TransductiveKernelPrototypes(search=False, refinement=0, hidden=0),
    ],
    ids=lambda method: type(method).__name__,
)
def test_every_method_that_can_is_corrected_saved_and_restored(method, small, tmp_path):
    data = replace(small, features=small.features[:, :6]) if isinstance(method, Cosine) else small
    fitted = fit_on(method, data)
    before = scores(fitted, data)
    X, y = data.part("test_unseen")
    changed, added = add_samples(fitted, X[:4], y[:4].tolist(), np.arange(1, 5, dtype=np.uint64))
    other = next(name for name in data.unseen_classes if name != y[0])
    changed, _ = add_samples(changed, X[:1], [other], np.array([1], dtype=np.uint64))
    save(changed, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(scores(loaded, data), scores(changed, data))
    assert not np.allclose(scores(loaded, data), before)
    loaded, _ = undo_samples(loaded, added.change)
    assert loaded.seen_classes_.tolist() == sorted({*data.seen_classes, other}, key=loaded.classes_.tolist().index)
    loaded, _ = undo_samples(loaded)
    np.testing.assert_allclose(scores(loaded, data), before, rtol=1e-5, atol=1e-6)


def test_another_fit_forgets_what_was_added(model, small, rows):
    X, y, prints = rows
    changed, _ = add_samples(model, X, y, prints)
    again = fit_on(changed, small)
    assert vars(again).keys() == vars(model).keys()
    assert np.array_equal(scores(again, small), scores(model, small))


def test_what_cannot_be_added_leaves_the_model_as_it_was(model, small, rows):
    X, y, prints = rows
    before = scores(model, small)
    with pytest.raises(BadInput, match=r"no description of the class 'kind Q'; did you mean 'kind q'\?.*classes add"):
        add_samples(model, X[:1], ["kind Q"], prints[:1])
    with pytest.raises(BadInput, match=r"The same image has two labels: 'a.png' is of 'kind .' and 'b.png' of"):
        add_samples(model, X[[0, 0]], [y[0], y[3]], prints[[0, 0]], ["a.png", "b.png"])
    with pytest.raises(BadInput, match=r"ESZSL cannot learn from more samples.*learn` again.*kernel-prototypes"):
        add_samples(fit_on(ESZSL(), small), X, y, prints)
    blend = fit_on(Blend(["eszsl", "kernel-prototypes"], weights=[1, 0], seen_constant=0), small)
    with pytest.raises(BadInput, match=r"Blend cannot learn from more samples.*method that can: cosine, kernel"):
        add_samples(blend, X, y, prints)
    direct = copy.copy(model).add_samples(X[:2], y[:2])
    with pytest.raises(BadInput, match="2 samples were added to the model and 0 are in its log"):
        add_samples(direct, X, y, prints)
    with pytest.raises(BadInput, match=r"name of a change.*got 1"):
        undo_samples(direct, 1)
    assert np.array_equal(scores(model, small), before)
    assert not hasattr(model, "sample_log_")


def test_undoing_a_label_of_a_class_that_is_gone_says_what_to_do(model, rows):
    X, y, prints = rows
    changed, _ = add_samples(model, X[:1], [y[0]], prints[:1])
    changed, _ = add_samples(changed, X[:1], [y[3]], prints[:1])
    without = remove_classes(changed, [y[0]])
    with pytest.raises(BadInput, match=rf"no description of the class '{y[0]}'.*Add the class first"):
        undo_samples(without)


def test_a_model_with_added_samples_is_not_replaced_unnoticed(model, rows, tmp_path):
    X, y, prints = rows
    save(add_samples(model, X, y, prints)[0], tmp_path / "model")
    with pytest.raises(BadInput, match=r"6 labelled samples were added to the model in .*--overwrite"):
        save(model, tmp_path / "model", overwrite=False)
    save(model, tmp_path / "model")
    save(model, tmp_path / "model", overwrite=False)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda log: log.pop("calls"),
        lambda log: log.update(calls=log["calls"][:-1]),
        lambda log: log.update(features=log["features"][:, :-1]),
        lambda log: log.update(fingerprints=log["fingerprints"].astype(np.float32)),
        lambda log: log.update(replaced_by=log["replaced_by"] + 1),
    ],
)
def test_a_log_that_does_not_belong_to_the_model_is_rejected(model, rows, tmp_path, spoil):
    changed, _ = add_samples(model, *rows)
    changed.sample_log_ = dict(changed.sample_log_)
    spoil(changed.sample_log_)
    save(changed, tmp_path / "model")
    with pytest.raises(UnreadableFile):
        load(tmp_path / "model")
