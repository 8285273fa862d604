from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from firstsight.methods.parts import hidden_layer
from firstsight.methods.parts.hidden_layer import TEMPERATURE, layer_slopes, with_hidden_layer
from firstsight.methods.parts.prototypes import class_statistics, closeness, fit_prototypes
from firstsight.methods.parts.whitened_space import moments_of

SETTINGS = {"nugget": 0.05, "noise": 1.0, "stretch": 1.1, "refinement": 5, "hidden": 16}


@pytest.fixture
def case():
    """Rows of eight classes, their class statistics and a kernel."""
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=(8, 3)), np.arange(160) % 8
    rows = (A[y] @ rng.normal(size=(3, 12)) + rng.normal(size=(160, 12))).astype(np.float32)
    K = np.exp(-((A[:, None] - A) ** 2).sum(axis=2) / 6)
    return rows, y, class_statistics(rows, y, moments_of(rows, y, 8), 0.3), K


def learned(case, units=16):
    rows, y, statistics, K = case
    return with_hidden_layer(statistics.space, rows, y, statistics.means, K, 1 / statistics.counts, 0.05, 1.1, units)


def test_the_slopes_are_the_derivatives_of_both_cross_entropies():
    rng = np.random.default_rng(0)
    (n, q, e, units, k, drawn), draw = (30, 7, 4, 5, 6, 2), rng.normal
    Z, X, P, target = draw(size=(n, e)), draw(size=(n, q)), draw(size=(k, e + units)), rng.integers(0, k, n)
    kept = 2.0 * (rng.random((n, units)) > 0.5)
    M, U, b = weights = [torch.tensor(draw(size=s), requires_grad=True) for s in ((e + units, e), (q, units), units)]
    hidden = torch.relu(torch.tensor(X) @ U + b) * torch.tensor(kept)
    places = torch.cat([torch.tensor(Z), hidden], dim=1) @ M
    scores = -(places[:, None] - torch.tensor(P) @ M).square().sum(2) / 2 / TEMPERATURE
    labels = torch.tensor(target)
    new = labels < drawn
    (cross_entropy(scores, labels) + cross_entropy(scores[new][:, :drawn], labels[new])).backward()
    found = layer_slopes(Z, X, target, P, [w.detach().numpy() for w in weights], kept, drawn)
    for slope, weight in zip(found, weights, strict=True):
        np.testing.assert_allclose(slope, weight.grad, atol=1e-7)


def test_without_a_step_nothing_is_changed(case, monkeypatch):
    monkeypatch.setattr(hidden_layer, "PASSES", 0)
    (space, means), (rows, _, statistics, _) = learned(case), case
    np.testing.assert_array_equal(space(rows), statistics.space(rows))
    np.testing.assert_array_equal(means, statistics.means)


def test_means_are_those_of_the_rows_in_the_new_space_and_the_same_every_time(case):
    (space, means), (rows, y, statistics, _) = learned(case), case
    Z = space(rows)
    np.testing.assert_allclose(means, [Z[y == c].mean(axis=0) for c in range(8)], atol=1e-4)
    assert np.abs(means - statistics.means).max() > 0.1
    np.testing.assert_array_equal(means, learned(case)[1])


def test_a_hidden_layer_tells_classes_apart_that_no_linear_map_can():
    """Each class lies on two opposite sides of the middle: all linear means are the same."""
    rng = np.random.default_rng(0)
    y = np.arange(8800) % 8
    axes = np.linalg.qr(rng.normal(size=(12, 8)))[0].T
    rows = (rng.choice([-3, 3], size=8800)[:, None] * axes[y] + 0.3 * rng.normal(size=(8800, 12))).astype(np.float32)
    X, y, test, truth = rows[:8000], y[:8000], rows[8000:], y[8000:]
    statistics = class_statistics(X, y, moments_of(X, y, 8), 0.3)
    space, means = learned((X, y, statistics, np.eye(8)), units=64)
    assert (closeness(statistics.space(test), statistics.means).argmax(axis=1) == truth).mean() < 0.6
    assert (closeness(space(test), means).argmax(axis=1) == truth).mean() > 0.95


def test_scores_of_both_maps_add_up_in_their_own_units(case):
    rows, y, statistics, K = case
    both = fit_prototypes(statistics, K, SETTINGS, rows, y)
    one = fit_prototypes(statistics, K, {**SETTINGS, "hidden": 0}, rows, y)
    space, means = learned(case)
    among = K + 0.05 * np.eye(8)
    inverse = np.linalg.inv(among + np.diag(1 / statistics.counts))
    unit = np.mean([((row @ means) / row[c]) @ ((row @ means) / row[c]) for c, row in enumerate(inverse)]) / 2
    other = closeness(space(rows), among @ inverse @ means)
    expected = (closeness(one.space(rows), one.means) / one.unit + other / unit) * one.unit / 2
    np.testing.assert_allclose(closeness(both.space(rows), both.means), expected, rtol=1e-3, atol=1e-3)
    assert both.unit == pytest.approx(one.unit)
