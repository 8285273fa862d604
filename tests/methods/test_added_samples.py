"""Labelled samples that are added to a fitted model."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest

import firstsight
from firstsight.errors import BadInput
from firstsight.evaluation.scores import harmonic_mean, mean_class_accuracy
from firstsight.methods import ESZSL, KernelPrototypes, TransductiveKernelPrototypes
from firstsight.methods.kernel_prototypes.prior import kernel
from firstsight.persistence.class_table import add_classes, remove_classes

FIXED = {"power": 0.5, "shrinkage": 0.2, "nugget": 0.05, "noise": 1.5, "stretch": 1.0, "seen_handicap": 0.3}


@pytest.fixture(scope="module")
def model(task):
    return KernelPrototypes(**FIXED, refinement=0, hidden=0).fit(task.X, task.y, task.table)


def some_of(task, classes, each):
    """Row numbers of `each` unseen samples of each class."""
    return np.concatenate([np.flatnonzero(task.y_unseen == name)[:each] for name in classes])


def added(model, X, y):
    """A copy of the model with more samples: the fitted one serves other tests."""
    return copy.copy(model).add_samples(X, y)


def test_means_are_those_of_one_gaussian_process_over_all_class_means(model, task):
    # Two unseen classes with 3 samples each, and a seen one with 2 more: per coordinate, all observations at once.
    rows = some_of(task, task.unseen[:2], 3)
    X = np.vstack([task.X_unseen[rows], task.X_seen[:2]])
    y = np.concatenate([task.y_unseen[rows], np.repeat(task.y_seen[0], 2)])
    changed = added(model, X, y)
    e, names = model.seen_means_.shape[1], list(dict.fromkeys(task.y))
    observed = [*names, task.unseen[0], task.unseen[1], task.y_seen[0]]
    everything = [*names, *task.unseen]
    position = [everything.index(name) for name in observed]
    A = task.table.loc[everything].to_numpy()
    K = kernel(model.kernel_, A, A) + FIXED["nugget"] * np.eye(len(A))
    B = K[:20, :20] + np.diag(1.5 / np.array([(task.y == name).sum() for name in names]))
    means = np.vstack([B @ model.weights_, *(model.embed(X[y == name]).mean(axis=0) for name in observed[20:])])
    evidence = model.evidence_
    for d in range(e):
        noise = evidence["within"][d] / evidence["signal"][d] / np.array([3, 3, 2])
        joint = K[np.ix_(position, position)] + np.diag(np.r_[np.diag(B)[:20] - np.diag(K)[:20], noise])
        expected = K[:, position] @ np.linalg.solve(joint, means[:, d])
        found = changed.embed_classes(everything)[:, d]
        # A class without samples is predicted without its nugget, which no other class's samples reach anyway.
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_parts_across_the_fitted_classes_have_the_same_gaussian_process(task):
    # Twenty classes span 19 of 36 directions; samples of two new ones have parts in the others.
    rng = np.random.default_rng(0)
    X, X_new = (np.hstack([part, 0.2 * rng.normal(size=(len(part), 20))]) for part in (task.X, task.X_unseen))
    rows, old, names = some_of(task, task.unseen[:2], 3), list(dict.fromkeys(task.y)), task.unseen[:2]
    model = KernelPrototypes(**FIXED, refinement=0, hidden=0).fit(X, task.y, task.table)
    evidence = model.evidence_
    evidence["across"][0] = across_variance = 0.2  # as if means of seen classes had shown it
    e, D = model.seen_means_.shape[1], model.directions_.astype(float)
    model.add_samples(X_new[rows], task.y_unseen[rows])
    whitened = model.added_samples_["rows"].astype(float).reshape(2, 3, -1).mean(axis=1) - evidence["centre"]
    across = whitened - whitened @ D @ np.linalg.pinv(D)
    A = task.table.loc[[*old, *names]].to_numpy()
    K = kernel(model.kernel_, A, A) + FIXED["nugget"] * np.eye(len(A))
    noise = np.diag(FIXED["noise"] / evidence["counts"])
    C = K[20:, 20:] - K[20:, :20] @ np.linalg.solve(K[:20, :20] + noise, K[:20, 20:])
    expected = C @ np.linalg.solve(C + evidence["across"][2] / across_variance / 3 * np.eye(2), across)
    found = model.embed_classes(names)[:, e:] @ np.linalg.pinv(model.directions_[:, e:])
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    assert not model.embed_classes(old)[:, e:].any()


@pytest.mark.parametrize("k", [12, 40])
def test_predicted_means_are_believed_as_much_as_they_deserve(k):
    # Classes of a known Gaussian process, far apart from each other: with 12 of them, what a class has across the
    # others is most of its distance from the mean that these predict.
    rng = np.random.default_rng(0)
    names = [f"class{c:02d}" for c in range(k + 40)]
    table = pd.DataFrame(rng.normal(size=(len(names), 6)), index=names)
    means = table.to_numpy() @ rng.normal(size=(6, 60)) + rng.normal(size=(len(names), 60))
    labels = np.repeat(names, 15)
    X = (np.repeat(means, 15, axis=0) + rng.normal(size=(len(labels), 60))).astype(np.float32)
    seen = np.isin(labels, names[:k])
    model = KernelPrototypes(**FIXED | {"power": 1.0}, refinement=0, hidden=0).fit(X[seen], labels[seen], table)
    true = [model.embed(X[labels == name]).mean(axis=0) for name in names[k:]]
    errors = np.square(true - model.embed_classes(names[k:])).sum(axis=1).mean()
    believed = model.evidence_["signal"].sum() * model.evidence_["across"][2]
    assert 0.5 < believed / errors < 1.5


def test_the_order_of_samples_and_calls_does_not_matter(model, task):
    rows = some_of(task, task.unseen[:3], 2)
    X, y = task.X_unseen[rows], task.y_unseen[rows]
    at_once = added(model, X, y)
    one_by_one = copy.copy(model)
    for i in np.random.default_rng(0).permutation(len(y)):
        one_by_one.add_samples(X[[i]], y[[i]])
    scores, expected = (m.decision_function(task.pool) for m in (one_by_one, at_once))
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4 * np.ptp(expected))


def test_removing_samples_restores_the_fit_exactly(model, task):
    changed = added(model, task.X_unseen[:4], task.y_unseen[:4])
    between = changed.decision_function(task.pool)
    changed.add_samples(task.X_unseen[4:6], task.y_unseen[4:6])
    assert np.array_equal(changed.remove_samples().decision_function(task.pool), between)
    changed.remove_samples([3, 1]).remove_samples([0]).remove_samples()
    assert np.array_equal(changed.decision_function(task.pool), model.decision_function(task.pool))
    assert vars(changed).keys() == vars(model).keys()
    with pytest.raises(BadInput, match="none to remove"):
        changed.remove_samples()


def test_the_fitted_model_that_was_copied_stays_as_it_was(model, task):
    before = model.decision_function(task.pool)
    added(model, task.X_unseen[:9], task.y_unseen[:9])
    assert np.array_equal(model.decision_function(task.pool), before)


@pytest.mark.parametrize("parameters", [{}, {"hidden": 16}, {"setting": "gzsl"}])
def test_saved_models_keep_added_samples_and_can_forget_them(task, tmp_path, parameters):
    settings = {**FIXED, "refinement": 4, "search": False} | parameters
    if "setting" in parameters:
        model = TransductiveKernelPrototypes(**settings, cap=10).fit(task.X, task.y, task.table, X_unlabeled=task.pool)
    else:
        model = KernelPrototypes(**settings).fit(task.X, task.y, task.table)
    changed = added(model, task.X_unseen[:5], task.y_unseen[:5])
    firstsight.save(changed, tmp_path / "model")
    loaded = firstsight.load(tmp_path / "model")
    assert np.array_equal(loaded.decision_function(task.pool), changed.decision_function(task.pool))
    assert not np.array_equal(loaded.decision_function(task.pool), model.decision_function(task.pool))
    loaded.remove_samples()
    assert np.array_equal(loaded.decision_function(task.pool), model.decision_function(task.pool))


def test_a_class_gets_the_direction_that_no_seen_class_has(task):
    # Samples of the new class differ from all others in the last feature, of which descriptions know nothing.
    rng = np.random.default_rng(3)
    X, X_new = np.hstack([task.X, 0.01 * rng.normal(size=(len(task.X), 1))]), task.X_unseen[:40]
    y_new = np.where(np.arange(40) % 2, task.unseen[0], task.unseen[1])
    X_new = np.hstack([X_new, np.where(y_new == task.unseen[0], 0.5, -0.5)[:, None]])
    model = KernelPrototypes(**FIXED, refinement=0, hidden=0).fit(X.astype(np.float32), task.y, task.table)
    model.evidence_["across"][0] = 1.0  # as if means of seen classes had shown such variance
    model.add_samples(X_new[:20].astype(np.float32), y_new[:20])
    assert (model.predict(X_new[20:].astype(np.float32), classes=task.unseen[:2]) == y_new[20:]).mean() >= 0.9


@pytest.mark.parametrize("each", [5, 100], ids=["fit with few samples", "fit with many"])
def test_labels_never_lower_accuracy_in_expectation(each):
    data = firstsight.load_dataset("glyphs")
    (X, y), (X_unseen, y_unseen), (X_seen, y_seen) = map(data.part, ("train", "test_unseen", "test_seen"))
    few = pd.Series(y).groupby(y).cumcount().to_numpy() < each
    X, y = X[few], y[few]
    model = KernelPrototypes(search=False, refinement=0).fit(X, y, data.descriptions)

    def metrics(model, rest):
        ts = mean_class_accuracy(y_unseen[rest], model.predict(X_unseen[rest]))
        tr = mean_class_accuracy(y_seen, model.predict(X_seen))
        among_unseen = model.predict(X_unseen[rest], classes=data.unseen_classes)
        return mean_class_accuracy(y_unseen[rest], among_unseen), harmonic_mean(ts, tr)

    draws = []
    for draw in range(6):
        order = np.random.default_rng(draw).permutation(len(y_unseen))
        ranks = pd.Series(y_unseen[order]).groupby(y_unseen[order]).cumcount().to_numpy()
        models = [model, *(added(model, X_unseen[r], y_unseen[r]) for r in (order[ranks < k] for k in (1, 2, 5)))]
        draws.append([metrics(m, order[ranks >= 5]) for m in models])
    gains = np.diff(draws, axis=1)  # (draws, steps, T1 and H)
    error = gains.std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert (gains.mean(axis=0) > -2 * error).all()
    assert (np.mean(draws, axis=0)[-1] > np.mean(draws, axis=0)[0]).all()


def test_a_class_that_was_removed_comes_back_without_the_samples_that_were_removed(model, task):
    name = task.unseen[0]
    changed = added(model, task.X_unseen[task.y_unseen == name][:2], [name, name])
    without = remove_classes(changed, [name])
    back = add_classes(without, task.table.loc[[name]])
    assert np.array_equal(back.decision_function(task.pool), changed.decision_function(task.pool))
    plain = add_classes(copy.copy(without).remove_samples(), task.table.loc[[name]])
    assert np.array_equal(plain.decision_function(task.pool), model.decision_function(task.pool))


def test_a_class_may_be_described_again_before_or_after_its_samples_are_added(model, task):
    name, other = task.unseen[:2]
    table, rows = task.table.loc[[other]].set_axis([name]), some_of(task, [name], 1)
    after = add_classes(added(model, task.X_unseen[rows], [name]), table, replace=True)
    before = added(add_classes(model, table, replace=True), task.X_unseen[rows], [name])
    assert np.array_equal(after.decision_function(task.pool), before.decision_function(task.pool))
    back = add_classes(after, task.table.loc[[name]], replace=True).remove_samples()
    assert np.array_equal(back.decision_function(task.pool), model.decision_function(task.pool))


def test_labels_that_come_and_go_leave_nothing_behind(model, task):
    # One of two classes has a sample at any time, so the model never has none.
    changed, names = added(model, task.X_unseen[:1], task.unseen[:1]), task.unseen[:2]
    for turn in range(6):
        changed.add_samples(task.X_unseen[:1], [names[(turn + 1) % 2]]).remove_samples([0])
    expected = added(model, task.X_unseen[:1], task.unseen[:1])
    assert len(changed.added_samples_["descriptions"]) == 1
    assert np.array_equal(changed.decision_function(task.pool), expected.decision_function(task.pool))


def test_labels_that_cannot_be_added_are_rejected_and_change_nothing(model, task):
    changed = copy.copy(model)
    with pytest.raises(BadInput, match=r"class04x.*did you mean 'class04'"):
        changed.add_samples(task.X[:1], ["class04x"])
    with pytest.raises(BadInput, match="2 rows and y 1"):
        changed.add_samples(task.X[:2], ["class04"])
    with pytest.raises(BadInput, match="positions from 0 to 0"):
        added(model, task.X_unseen[:1], task.y_unseen[:1]).remove_samples([1])
    assert vars(changed).keys() == vars(model).keys()


def test_a_method_that_cannot_update_says_so(task):
    with pytest.raises(BadInput, match="ESZSL cannot learn from more samples"):
        ESZSL().fit(task.X, task.y, task.table).add_samples(task.X[:1], task.y[:1])


def test_an_update_in_a_pool_keeps_what_the_pool_said_of_other_classes(task):
    model = TransductiveKernelPrototypes(**FIXED, refinement=0, hidden=0, cap=10, search=False)
    model.fit(task.X, task.y, task.table, X_unlabeled=task.pool)
    changed = added(model, task.X_unseen[:1], task.y_unseen[:1])
    others = [name for name in task.unseen if name != task.y_unseen[0]]
    before, after = (m.embed_classes(others) for m in (model, changed))
    assert np.linalg.norm(after[:, : before.shape[1]] - before) < 0.5 * np.linalg.norm(before)
    assert changed.predict(task.X_unseen[:1]) == task.y_unseen[:1]
