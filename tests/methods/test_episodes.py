from __future__ import annotations

import numpy as np
import pytest

from firstsight.methods.kernel_prototypes.maps import TEMPERATURE, episode_grad, episodic_map
from firstsight.methods.kernel_prototypes.prior import PrototypeSettings

pytest.importorskip("torch")

import torch
from torch.nn.functional import cross_entropy


def test_the_gradient_is_that_of_both_cross_entropies():
    rng = np.random.default_rng(0)
    Z, P, target, drawn = rng.normal(size=(30, 4)), rng.normal(size=(6, 4)), rng.integers(0, 6, 30), 2
    T = torch.tensor(np.eye(4) + 0.1 * rng.normal(size=(4, 4)), requires_grad=True)
    scores = -((torch.tensor(Z) @ T)[:, None] - torch.tensor(P) @ T).square().sum(2) / 2 / TEMPERATURE
    labels = torch.tensor(target)
    new = labels < drawn
    (cross_entropy(scores, labels) + cross_entropy(scores[new][:, :drawn], labels[new])).backward()
    np.testing.assert_allclose(episode_grad(Z, target, P, T.detach().numpy(), drawn), T.grad, atol=1e-10)


@pytest.mark.parametrize(("classes", "steps"), [(8, 0), (3, 20)])
def test_without_steps_or_with_too_few_classes_the_map_is_the_identity(classes, steps):
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(40, 5)), np.arange(40) % classes
    settings = PrototypeSettings(nugget=0.03, refinement=steps)
    T = episodic_map(Z, y, rng.normal(size=(classes, 5)), np.eye(classes), np.full(classes, 0.1), settings)
    np.testing.assert_array_equal(T, np.eye(5))
