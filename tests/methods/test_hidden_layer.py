from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firstsight.methods.kernel_prototypes import maps as module
from firstsight.methods.kernel_prototypes.maps import SEPARATION, hidden_layer, layer_grads
from firstsight.methods.kernel_prototypes.prior import PrototypeSettings, closeness, mean_weights
from firstsight.methods.kernel_prototypes.search import fit_prototypes
from firstsight.methods.kernel_prototypes.space import class_statistics, labelled_moments

pytest.importorskip("torch")

import torch
from torch.nn.functional import cross_entropy

SETTINGS = PrototypeSettings(nugget=0.05, noise=1.0, stretch=1.1, refinement=5, hidden=16)


@pytest.fixture
def case():
    """Rows of eight classes, their class statistics and a kernel."""
    rng = np.random.default_rng(0)
    A, y = rng.normal(size=(8, 3)), np.arange(160) % 8
    rows = (A[y] @ rng.normal(size=(3, 12)) + rng.normal(size=(160, 12))).astype(np.float32)
    K = np.exp(-((A[:, None] - A) ** 2).sum(axis=2) / 6)
    return rows, y, class_statistics(rows, y, labelled_moments(rows, y, 8), 0.3), K


def learned(case, units=16):
    rows, y, statistics, K = case
    return hidden_layer(rows, y, K + 0.05 * np.eye(8), 1 / statistics.counts, units)


def embed(found, rows):
    layer, offset, _ = found
    return layer.units(rows) @ layer.outward - offset


def test_the_gradients_are_those_of_the_objective():
    rng = np.random.default_rng(0)
    n, q, units, k = 30, 7, 5, 6
    X, P, target = rng.normal(size=(n, q)), rng.normal(size=(k, units)), rng.integers(0, k, n)
    weights = [torch.tensor(rng.normal(size=s), requires_grad=True) for s in ((q, units), units, (units, k), k)]
    U, b, C, c = weights
    hidden, labels = torch.relu(torch.tensor(X) @ U + b), torch.tensor(target)
    entropy = cross_entropy(hidden @ C + c, labels)
    ((hidden - torch.tensor(P)[labels]).square().sum(1).mean() + SEPARATION * entropy).backward()
    grads, found = layer_grads(X, target, P, [w.detach().numpy() for w in weights])
    for grad, weight in zip(grads, weights, strict=True):
        np.testing.assert_allclose(grad, weight.grad, rtol=1e-5, atol=1e-5)
    assert found == pytest.approx(entropy.item())


def test_means_are_those_of_the_rows_with_a_spread_of_one_and_the_same_every_time(case):
    found, (rows, y, *_) = learned(case), case
    Z, means = embed(found, rows), found[2]
    np.testing.assert_allclose(means, [Z[y == c].mean(axis=0) for c in range(8)], atol=1e-4)
    assert ((Z - means[y]) ** 2).sum() / (160 - 8) / Z.shape[1] == pytest.approx(1, rel=1e-4)
    np.testing.assert_array_equal(means, learned(case)[2])


def test_the_cut_to_the_span_changes_no_difference_between_scores(case):
    """Of any row, with the means of classes or with what the Gaussian process predicts from them."""
    found, (rows, y, statistics, K) = learned(case), case
    units = found[0].units(rows)
    means = np.array([units[y == c].mean(axis=0) for c in range(8)])
    weights = mean_weights(K + 0.05 * np.eye(8), 1 / statistics.counts, np.eye(8))
    for of in (np.eye(8), K[:3] @ weights):  # both are taken about the mean of the means
        whole = closeness((units - means.mean(axis=0)).astype(np.float64), of @ (means - means.mean(axis=0)))
        cut = closeness(embed(found, rows).astype(np.float64), of @ found[2])
        scale = found[0].outward.T @ found[0].outward
        np.testing.assert_allclose(scale, scale[0, 0] * np.eye(len(scale)), atol=1e-3 * scale[0, 0])
        whole, cut = (scores - scores[:, :1] for scores in (whole * scale[0, 0], cut))
        np.testing.assert_allclose(cut, whole, atol=1e-3 * np.abs(whole).max())


def test_a_hidden_layer_tells_classes_apart_that_no_linear_map_can():
    """Each class lies on two opposite sides of the middle: all linear means are the same."""
    rng = np.random.default_rng(0)
    y = np.arange(2800) % 8
    axes = np.linalg.qr(rng.normal(size=(12, 8)))[0].T
    rows = (rng.choice([-3, 3], size=2800)[:, None] * axes[y] + 0.3 * rng.normal(size=(2800, 12))).astype(np.float32)
    X, y, test, truth = rows[:2000], y[:2000], rows[2000:], y[2000:]
    statistics = class_statistics(X, y, labelled_moments(X, y, 8), 0.3)
    found = learned((X, y, statistics, np.eye(8)), units=64)
    assert (closeness(statistics.space(test), statistics.means).argmax(axis=1) == truth).mean() < 0.6
    assert (closeness(embed(found, test), found[2]).argmax(axis=1) == truth).mean() > 0.95


def test_classes_come_to_lie_where_the_others_predict_them(case, monkeypatch):
    """The more so, the less it counts that they lie apart."""
    _, _, statistics, K = case
    among, noise_of = K + 0.05 * np.eye(8), 1 / statistics.counts

    def error(found):
        """Of the means predicted from the other classes, over their own spread."""
        means, total = found[2], 0.0
        for c in range(8):
            others = np.arange(8) != c
            weights = mean_weights(among[np.ix_(others, others)], noise_of[others], means[others])
            total += ((means[c] - among[c, others] @ weights) ** 2).sum()
        return total / (means**2).sum()

    errors = []
    for separation in (3e4, 300.0, 30.0):
        monkeypatch.setattr(module, "SEPARATION", separation)
        errors.append(error(learned(case)))
    assert errors[0] > errors[1] > 1.1 * errors[2]


def test_scores_of_both_maps_add_up_in_their_own_units(case):
    rows, y, statistics, K = case
    both = fit_prototypes(statistics, K, SETTINGS, rows, y)
    one = fit_prototypes(statistics, K, replace(SETTINGS, hidden=0), rows, y)
    found = learned(case)
    means, among = found[2], K + 0.05 * np.eye(8)
    inverse = np.linalg.inv(among + np.diag(1 / statistics.counts))
    unit = np.mean([((row @ means) / row[c]) @ ((row @ means) / row[c]) for c, row in enumerate(inverse)]) / 2
    other = closeness(embed(found, rows), among @ inverse @ means)
    expected = (closeness(one.space(rows), one.means) / one.unit + other / unit) * one.unit / 2
    np.testing.assert_allclose(closeness(both.space(rows), both.means), expected, rtol=1e-3, atol=1e-3)
    assert both.unit == pytest.approx(one.unit)
