from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from firstsight.evaluation.scores import mean_class_accuracy
from firstsight.methods import KernelPrototypes
from firstsight.methods.kernel_prototypes.prior import fit_kernel, kernel
from firstsight.methods.kernel_prototypes.search import FEW_CLASSES, PrototypeSearch, hurdle

FIXED = {
    "power": 0.5,
    "shrinkage": 0.2,
    "nugget": 0.05,
    "noise": 1.5,
    "stretch": 1.1,
    "refinement": 0,
    "seen_handicap": 0.3,
}


SEARCHED = {"refinement": 0}  # the map takes longest, and one test has it


def rows_by_loop(X, y, model):
    """z of every row, from the formulas of the docstring, one row at a time; y are codes 0…k−1."""
    X = np.array([np.sign(x) * np.abs(x) ** 0.5 for x in X.astype(np.float64)])
    X = np.array([x / np.linalg.norm(x) for x in X])
    X = X - X.mean(axis=0)
    k = y.max() + 1
    means = np.array([X[y == c].mean(axis=0) for c in range(k)])
    W = sum(np.outer(x - means[c], x - means[c]) for x, c in zip(X, y, strict=True)) / (len(X) - k)
    level = np.trace(W) / len(W)
    L = np.linalg.cholesky(0.8 * W + (0.2 + 1e-4) * level * np.eye(len(W)))
    white = np.array([np.linalg.solve(L, x) for x in X])
    white = np.array([w / np.linalg.norm(w) for w in white])
    return white @ model.directions_ - model.offset_


def test_means_are_the_posterior_means_of_the_docstring(task):
    model = KernelPrototypes(**FIXED).fit(task.X, task.y, task.table)
    names = list(dict.fromkeys(task.y))  # codes follow the first appearance
    y = np.array([names.index(c) for c in task.y])
    S, U = task.table.loc[names].to_numpy(), task.table.loc[task.unseen].to_numpy()
    Z = rows_by_loop(task.X, y, model)
    means = np.array([Z[y == c].mean(axis=0) for c in range(20)])
    fitted = fit_kernel(S)
    inverse = np.linalg.inv(kernel(fitted, S, S) + 0.05 * np.eye(20) + np.diag(1.5 / np.bincount(y)))
    seen = (kernel(fitted, S, S) + 0.05 * np.eye(20)) @ inverse @ means
    new = 1.1 * kernel(fitted, U, S) @ inverse @ means
    errors = [inverse[c] @ means / inverse[c, c] for c in range(20)]
    unit = np.mean([e @ e for e in errors]) / 2
    assert model.unit_ == pytest.approx(unit, rel=1e-3)
    expected = -((Z[:, None] - np.vstack([seen, new])) ** 2).sum(axis=2) / 2
    expected[:, :20] -= 0.3 * unit
    found = model.decision_function(task.X, classes=[*names, *task.unseen])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * np.ptp(expected))


def test_classes_are_round_in_the_space(task):
    model = KernelPrototypes(**{**FIXED, "shrinkage": 0.0}).fit(task.X, task.y, task.table)
    names = list(dict.fromkeys(task.y))
    y = np.array([names.index(c) for c in task.y])
    rows = np.sqrt(np.abs(task.X)) * np.sign(task.X)
    white = (rows / np.linalg.norm(rows, axis=1, keepdims=True) - model.centre_) @ model.whitening_
    residuals = white - np.array([white[y == c].mean(axis=0) for c in range(20)])[y]
    varies = np.diag((task.X.std(axis=0) > 0).astype(float))  # a feature that is always zero stays so
    np.testing.assert_allclose(residuals.T @ residuals / (len(y) - 20), varies, atol=1e-2)


def test_a_class_described_later_gets_the_same_scores_bit_for_bit(task):
    before = KernelPrototypes(**SEARCHED).fit(task.X, task.y, task.table)
    after = KernelPrototypes(**SEARCHED).fit(task.X, task.y, task.table.loc[task.seen])
    np.testing.assert_array_equal(
        before.decision_function(task.X_unseen), after.decision_function(task.X_unseen, classes=task.table)
    )


def test_unseen_descriptions_do_not_change_the_fit(task):
    other = task.table.copy()
    other.loc[task.unseen] = 5 * other.loc[task.unseen].to_numpy() + 3
    one, two = (KernelPrototypes(**SEARCHED).fit(task.X, task.y, table) for table in (task.table, other))
    assert one.settings_ == two.settings_
    assert one.search_ == two.search_
    for name in ("directions_", "seen_means_", "weights_", "offset_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_the_handicap_has_no_say_among_unseen_classes(task):
    one, two = (KernelPrototypes(**{**FIXED, "seen_handicap": h}).fit(task.X, task.y, task.table) for h in (0.0, 5.0))
    among = {"classes": list(task.unseen)}
    np.testing.assert_array_equal(
        one.decision_function(task.X_unseen, **among), two.decision_function(task.X_unseen, **among)
    )
    assert np.isin(two.predict(task.pool), task.unseen).mean() > np.isin(one.predict(task.pool), task.unseen).mean()


def test_the_search_reports_what_it_tried_and_keeps_given_parameters(task):
    model = KernelPrototypes(shrinkage=0.45).fit(task.X, task.y, task.table)
    report = json.loads(json.dumps(model.search_))
    assert report["tasks"] >= 4
    assert report["chosen"] == model.settings_
    assert {line["settings"]["shrinkage"] for line in report["tried"]} == {0.45}
    assert all(len(line["scores"]) == report["tasks"] for line in report["tried"])
    assert model.settings_["refinement"] == 80
    best = max(np.mean(line["scores"]) for line in report["tried"])
    taken = [line for line in report["tried"] if line["taken"]][-1]
    assert np.mean(taken["scores"]) >= best - 0.05
    assert mean_class_accuracy(task.y_unseen, model.predict(task.X_unseen, classes=list(task.unseen))) > 0.7


def test_with_all_parameters_given_or_without_search_nothing_is_tried(task):
    for parameters in (FIXED, {"search": False}):
        model = KernelPrototypes(**parameters).fit(task.X, task.y, task.table)
        assert model.search_["tried"] == []
    assert model.settings_["power"] == 0.5


def test_a_hidden_layer_adds_what_the_docstring_says(task):
    one, two = (KernelPrototypes(**{**FIXED, "hidden": h}).fit(task.X, task.y, task.table) for h in (0, 8))
    assert one.hidden_ == {}
    rows = np.sqrt(np.abs(task.X)) * np.sign(task.X)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True) - two.centre_
    white = rows @ two.whitening_
    linear = white / np.linalg.norm(white, axis=1, keepdims=True) @ two.directions_ - two.offset_
    layer = two.hidden_
    units = np.array([[max(row @ layer["inward"][:, j] + layer["bias"][j], 0) for j in range(8)] for row in rows])
    np.testing.assert_allclose(two.embed(task.X), linear + units @ layer["outward"], atol=1e-4)
    e = one.directions_.shape[1]
    assert two.embed(task.X).shape[1] == e + 8
    np.testing.assert_allclose(np.sqrt(2) * two.embed(task.X)[:, :e], one.embed(task.X), atol=1e-4)


def test_the_search_says_whether_there_is_a_hidden_layer(task, monkeypatch):
    monkeypatch.setattr("firstsight.methods.kernel_prototypes.maps.PASSES", 1)
    for gain, tried in ((0.01, None), (-0.01, 1)):
        monkeypatch.setattr(PrototypeSearch, "_gain", lambda *_, gain=gain: gain)
        model = KernelPrototypes(refinement=1).fit(task.X, task.y, task.table)
        assert model.settings_["hidden"] == (0 if tried else 512)
        assert bool(model.hidden_) == (tried is None)
        assert model.search_["gains_of_layer"] == [gain] * (tried or model.search_["tasks"])
    for parameters in (SEARCHED, {"search": False}, {"refinement": 1, "hidden": 0}):
        model = KernelPrototypes(**parameters).fit(task.X, task.y, task.table)
        assert (model.settings_["hidden"], model.search_["gains_of_layer"]) == (0, [])


@pytest.mark.parametrize(("k", "taken"), [(8, False), (24, True)])
def test_a_gain_must_be_surer_where_classes_are_few(k, taken, monkeypatch):
    # Tasks gain 0 and 0.04 in turn: more than half a standard error on average, less than three.
    def value(search, settings):
        gains = 0.02 * (1 + (-1.0) ** np.arange(len(search.tasks)))
        return gains if settings.stretch == 1.1 else np.zeros(len(search.tasks))

    monkeypatch.setattr(PrototypeSearch, "value", value)
    X, y, A = toy(k=k)
    model = KernelPrototypes(refinement=0).fit(X, y, A)
    assert model.settings_["stretch"] == (1.1 if taken else 1.0)
    assert hurdle(FEW_CLASSES) == hurdle(1000) < hurdle(FEW_CLASSES - 1) < hurdle(4)


def toy(k=6, rows=8, d=12, a=4, seed=0):
    rng = np.random.default_rng(seed)
    A = rng.uniform(size=(k + 2, a))
    y = np.repeat(np.arange(k), rows)
    return A[y] @ rng.normal(size=(a, d)) + 0.1 * rng.normal(size=(len(y), d)), y, A


CASES = {
    "two seen classes": toy(k=2),
    "three seen classes": toy(k=3),
    "four seen classes": toy(k=4),
    "one row per class": toy(rows=1),
    "two rows per class": toy(rows=2),
    "more dimensions than rows": toy(rows=2, d=60),
    "one dimension": toy(d=1),
    "constant descriptions": (*toy()[:2], np.ones((8, 4))),
    "descriptions of zeros": (*toy()[:2], np.zeros((8, 4))),
    "duplicate descriptions": (*toy()[:2], toy()[2][[0, 0, 1, 1, 2, 3, 3, 0]]),
    "one attribute": toy(a=1),
    "rows of zeros": (np.zeros((48, 12)), *toy()[1:]),
    "rows that are all the same": (np.ones((48, 12)), *toy()[1:]),
    "very large numbers": (1e18 * toy()[0], toy()[1], 1e18 * toy()[2]),
    "very small numbers": (1e-18 * toy()[0], toy()[1], 1e-18 * toy()[2]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("parameters", [{}, {"search": False}, {"search": False, "hidden": 8}])
def test_odd_input_gets_finite_scores(case, parameters):
    X, y, A = CASES[case]
    model = KernelPrototypes(**parameters).fit(X, y, A)
    assert np.isfinite(model.decision_function(X)).all()
    later = pd.DataFrame(A[:1] + 1, index=[99])
    assert np.isfinite(model.decision_function(X, classes=later)).all()


def test_two_classes_without_descriptions_make_an_ordinary_classifier():
    X, y, _ = toy(k=2, rows=30)
    assert (KernelPrototypes().fit(X, y).predict(X) == y).mean() > 0.9
