from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.metrics.pairwise import cosine_similarity

from firstsight.evaluation import mean_class_accuracy
from firstsight.methods import ConSE


def probabilities(model, X):
    return softmax(X @ model.weights_ + model.intercepts_, axis=1)


def test_the_score_is_the_cosine_to_the_mean_of_the_likeliest_descriptions(task):
    model = ConSE(top=3, attribute_scaling=None).fit(task.X, task.y, task.table)
    mixtures = []
    for p in probabilities(model, task.X_unseen):
        best = sorted(range(len(p)), key=lambda k: -p[k])[:3]
        mixtures.append(sum(p[k] * model.seen_descriptions_[k] for k in best) / sum(p[k] for k in best))
    np.testing.assert_allclose(
        model.decision_function(task.X_unseen), cosine_similarity(mixtures, task.A), rtol=1e-4, atol=1e-5
    )


def test_mixing_one_class_is_the_nearest_neighbour_of_its_description(task):
    model = ConSE(top=1).fit(task.X, task.y, task.table)
    winners = model.seen_descriptions_[probabilities(model, task.X_unseen).argmax(axis=1)]
    np.testing.assert_allclose(
        model.decision_function(task.X_unseen), cosine_similarity(winners, task.A), rtol=1e-4, atol=1e-5
    )


def test_more_classes_to_mix_than_there_are_means_all(task):
    scores = [ConSE(top=top).fit(task.X, task.y, task.table).decision_function(task.X_seen) for top in (20, 1000)]
    np.testing.assert_array_equal(*scores)


def test_a_new_class_is_named_from_its_description_alone(task):
    model = ConSE().fit(task.X, task.y, task.table.loc[task.seen])
    new = pd.DataFrame(task.table.loc[task.unseen])
    assert mean_class_accuracy(task.y_unseen, model.predict(task.X_unseen, classes=new)) > 0.6
