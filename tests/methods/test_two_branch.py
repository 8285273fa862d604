from __future__ import annotations

import math

import numpy as np
import pytest

from firstsight.methods._gradient_training import RowsInMemory
from firstsight.methods.deep_embedding.two_branch import SEMANTIC, VISUAL, TwoBranch

pytest.importorskip("torch")

import torch


@pytest.fixture
def problem():
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(23, 7, generator=generator)
    y = torch.randint(0, 4, (23,), generator=generator)
    A = torch.rand(4, 5, generator=generator)
    return TwoBranch.draw(7, 5, 9, 4, generator), X, y, A


def eq_1_by_loops(net, X, y, A, separation, penalty):
    """The paper's Eq. 1 in plain Python: no batches, no matrix product, no autograd."""
    w = {name: weight.detach().double().numpy() for name, weight in net.weights.items()}

    def layer(vector, name):
        weight, bias = w[f"{name}.weight"], w[f"{name}.bias"]
        return [sum(weight[o][i] * vector[i] for i in range(len(vector))) + bias[o] for o in range(len(bias))]

    total = 0.0
    for x, label in zip(X.double().numpy(), y.tolist(), strict=True):
        phi = [max(v, 0.0) for v in layer(x, "visual")]
        hidden = [max(v, 0.0) for v in layer(A[label].double().numpy(), "semantic.0")]
        psi = [max(v, 0.0) for v in layer(hidden, "semantic.1")]
        logits = layer(phi, "classifier")
        cross_entropy = math.log(sum(math.exp(v) for v in logits)) - logits[label]
        total += sum((p - q) ** 2 for p, q in zip(phi, psi, strict=True)) + separation * cross_entropy
    norm = sum(float((weight**2).sum()) for weight in w.values())
    return total / len(X) + penalty * norm


def eq_4(net, X, y, A, separation):
    """Eq. 4 without η, for autograd."""
    embedded = net.visual(X)
    logits = embedded @ net.weights["classifier.weight"].T + net.weights["classifier.bias"]
    regression = (embedded - net.semantic(A).detach()[y]).square().sum(1).mean()
    return regression + separation * torch.nn.functional.cross_entropy(logits, y)


def test_the_loss_is_eq_1_computed_by_plain_loops(problem):
    net, X, y, A = problem
    regression, classification = net.visual_gradient(X, y, net.semantic(A).detach(), 7.0)
    norm = sum(weight.square().sum() for weight in net.weights.values())
    ours = (regression + 7.0 * classification + 0.3 * norm).item()
    assert ours == pytest.approx(eq_1_by_loops(net, X, y, A, 7.0, 0.3), rel=1e-5)


def test_the_class_mean_semantic_step_has_the_gradient_of_the_row_wise_one(problem):
    net, X, y, A = problem
    counts = torch.bincount(y)
    means, shares = net.class_means(RowsInMemory(X), y, counts), counts / len(y)
    weights = [net.weights[name] for name in SEMANTIC]
    by_class = torch.autograd.grad(net.semantic_loss(A, means, shares), weights)
    row_wise = (net.visual(X).detach() - net.semantic(A)[y]).square().sum() / len(X)
    by_row = torch.autograd.grad(row_wise, weights)
    for ours, theirs in zip(by_class, by_row, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    assert any(gradient.abs().max() > 1e-3 for gradient in by_row)


def test_class_means_are_those_of_each_class(problem):
    net, X, y, _ = problem
    means = net.class_means(RowsInMemory(X), y, torch.bincount(y, minlength=6))
    for c in range(4):
        torch.testing.assert_close(means[c], net.visual(X[y == c]).mean(0).detach())
    assert not means[4:].any()


@pytest.mark.parametrize("parts", [1, 3])
def test_the_gradient_is_that_of_eq_4_by_autograd(problem, parts):
    net, X, y, A = problem
    X = X - 0.5  # so that relu has two sides
    weights = [net.weights[name] for name in VISUAL]
    expected = torch.autograd.grad(eq_4(net, X, y, A, 7.0), weights)
    found = [torch.zeros_like(weight) for weight in weights]
    for rows, labels in zip(X.tensor_split(parts), y.tensor_split(parts), strict=True):
        net.visual_gradient(rows, labels, net.semantic(A).detach(), 7.0, whole=len(X))
        for total, weight in zip(found, weights, strict=True):
            total += weight.grad
    for total, gradient in zip(found, expected, strict=True):
        torch.testing.assert_close(total, gradient)


def test_adams_weight_decay_is_the_gradient_of_the_penalty(problem):
    """One Adam step moves every weight by −lr · sign(gradient): enough to read off the gradient's sign."""
    net, X, y, A = problem
    before = {name: weight.detach().clone() for name, weight in net.weights.items()}
    penalty, separation, rate = 0.3, 7.0, 1e-3
    norm = sum(net.weights[name].square().sum() for name in VISUAL)
    full = eq_4(net, X, y, A, separation) + penalty * norm
    gradients = torch.autograd.grad(full, [net.weights[name] for name in VISUAL])
    net.new_optimizers(penalty)
    net.set_learning_rates(rate, 0)
    net.visual_pass(RowsInMemory(X), y, A, separation, len(X), torch.Generator().manual_seed(1))
    for name, gradient in zip(VISUAL, gradients, strict=True):
        clear = gradient.abs() > 1e-4
        moved = net.weights[name].detach() - before[name]
        torch.testing.assert_close(moved[clear], -rate * gradient[clear].sign(), rtol=1e-2, atol=1e-6)
    for name in SEMANTIC:
        assert torch.equal(net.weights[name], before[name])


def test_the_semantic_pass_leaves_the_visual_branch_alone(problem):
    net, X, y, A = problem
    before = {name: net.weights[name].detach().clone() for name in VISUAL}
    net.new_optimizers(0.0)
    net.set_learning_rates(0, 1e-2)
    first = net.semantic_pass(RowsInMemory(X), y, A, torch.bincount(y), 1)
    assert net.semantic_pass(RowsInMemory(X), y, A, torch.bincount(y), 60) < first
    assert all(torch.equal(net.weights[name], before[name]) for name in VISUAL)


def test_absent_classes_are_masked_out_of_the_softmax(problem):
    net, X, y, A = problem
    few = y < 3
    absent = torch.tensor([False, False, False, True])
    masked = net.visual_gradient(X[few], y[few], net.semantic(A).detach(), 1.0, absent)[1]
    logits = net.visual(X[few]) @ net.weights["classifier.weight"][:3].T + net.weights["classifier.bias"][:3]
    torch.testing.assert_close(masked, torch.nn.functional.cross_entropy(logits, y[few]))


def test_a_wider_classifier_keeps_the_columns_it_had(problem):
    net, *_ = problem
    before = net.weights["classifier.weight"].detach().clone()
    net.widen_classifier(6, torch.Generator().manual_seed(0))
    assert net.weights["classifier.weight"].shape == (6, 9)
    assert torch.equal(net.weights["classifier.weight"][:4], before)


def test_distances_and_nearest_class_are_eq_2_by_plain_loops(problem):
    net, X, _, A = problem
    phi, psi = net.visual(X).detach().numpy(), net.semantic(A).detach().numpy()
    expected = np.array([[((p - q) ** 2).sum() for q in psi] for p in phi])
    np.testing.assert_allclose(net.squared_distances(X, net.semantic(A)).numpy(), expected, atol=1e-5)
    labels, gaps = net.nearest(X, A)
    np.testing.assert_array_equal(labels, expected.argmin(1))
    np.testing.assert_allclose(gaps, expected.min(1), atol=1e-5)


def test_the_hidden_layer_of_the_semantic_branch_has_the_papers_width():
    net = TwoBranch.draw(2048, 312, 1024, 150, torch.Generator())
    assert net.weights["semantic.0.weight"].shape == ((312 + 1024) // 2, 312)
    assert net.weights["visual.weight"].shape == (1024, 2048)
