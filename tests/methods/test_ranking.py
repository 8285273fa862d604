from __future__ import annotations

import pytest

from firstsight.methods._ranking_losses import hardest_hinge, random_wrong_class, ranked_hinge, summed_hinge, violations

pytest.importorskip("torch")

import torch


@pytest.fixture
def scored():
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(9, 5, generator=generator, dtype=torch.float64)
    scores[0, 2] += 10  # a row that violates no margin
    y = torch.tensor([2, 0, 1, 2, 3, 4, 0, 1, 4])
    return scores, y


def hinges_by_loops(scores, y, margin):
    """For each row the list of [m + F(x,c) − F(x,y)]₊ over the wrong classes."""
    return [
        [max(0.0, margin + scores[i, c].item() - scores[i, y[i]].item()) for c in range(scores.shape[1]) if c != y[i]]
        for i in range(len(y))
    ]


@pytest.mark.parametrize("margin", [0.1, 1.0, 4.0])
def test_the_summed_hinge_is_the_double_loop(scored, margin):
    rows = hinges_by_loops(*scored, margin)
    assert summed_hinge(*scored, margin).item() == pytest.approx(sum(map(sum, rows)) / len(rows))


@pytest.mark.parametrize("margin", [0.1, 1.0, 4.0])
def test_the_hardest_hinge_keeps_the_largest_term_of_each_row(scored, margin):
    rows = hinges_by_loops(*scored, margin)
    assert hardest_hinge(*scored, margin).item() == pytest.approx(sum(map(max, rows)) / len(rows))


@pytest.mark.parametrize("margin", [0.1, 1.0, 4.0])
def test_the_ranked_hinge_weights_each_row_by_the_harmonic_number_of_its_rank(scored, margin):
    expected = 0.0
    for row in hinges_by_loops(*scored, margin):
        r = sum(term > 0 for term in row)
        if r:
            expected += sum(1 / i for i in range(1, r + 1)) / r * sum(row)
    assert ranked_hinge(*scored, margin).item() == pytest.approx(expected / len(scored[1]))


def test_a_row_never_violates_its_own_class(scored):
    scores, y = scored
    found = violations(scores.requires_grad_(True), y, 1.0)
    assert (found[torch.arange(len(y)), y] == 0).all()
    assert (found[0] == 0).all()
    found.sum().backward()
    wrong = (found > 0).sum(1)
    assert torch.equal(scores.grad[torch.arange(len(y)), y], -wrong.double())


def test_with_two_classes_the_three_losses_are_one():
    scores, y = torch.tensor([[0.3, 0.1], [0.2, 0.9], [1.0, 3.0]]), torch.tensor([0, 0, 1])
    values = [loss(scores, y, 1.0).item() for loss in (summed_hinge, hardest_hinge, ranked_hinge)]
    assert values == pytest.approx([values[0]] * 3)


def test_wrong_classes_are_drawn_evenly_and_never_the_right_one():
    y = torch.arange(4).repeat(5000)
    wrong = random_wrong_class(y, 4, torch.Generator().manual_seed(0))
    counts = torch.zeros(4, 4).index_put_((y, wrong), torch.ones(len(y)), accumulate=True)
    assert (counts.diagonal() == 0).all()
    others = counts[~torch.eye(4, dtype=torch.bool)]
    assert ((others - 5000 / 3).abs() < 200).all()
