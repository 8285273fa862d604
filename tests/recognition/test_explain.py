from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from firstsight.evaluation import fit_on
from firstsight.methods import (
    ESZSL,
    KernelPrototypes,
    TransductiveKernelPrototypes,
    ZeroShotClassifier,
    all_methods,
)
from firstsight.recognition import Recognizer, answers, explain

METHODS = [word for word, method in all_methods().items() if not method.shared_space]


@pytest.fixture(scope="module")
def fitted(small):
    """Each method, fitted once."""
    models: dict[str, ZeroShotClassifier] = {}

    def make(word: str) -> ZeroShotClassifier:
        if word not in models:
            cls = all_methods()[word]
            seed = {"random_state": 0} if "random_state" in cls().get_params() else {}
            models[word] = fit_on(cls(**{**cls.quick, **seed}), small)
        return models[word]

    return make


def _explained(model, X, steps=explain.STEPS):
    """The two best classes of each sample as positions in `classes_`, and why the first is ahead."""
    scores = model.decision_function(X, classes=list(model.classes_))
    pairs = np.argsort(-scores, axis=1)[:, :2]
    best = np.take_along_axis(scores, pairs, axis=1)
    return pairs, explain.explain(model, X, pairs, best, model.descriptions_, model.seen_code_, steps=steps)


def _scores_of(model, x, descriptions):
    """Through the public door: classes that the model only knows the descriptions of."""
    names = [f"new {number}" for number in range(len(descriptions))]
    table = pd.DataFrame(np.asarray(descriptions), index=names)
    return model.decision_function(x[None], classes=table)[0].astype(np.float64)


def _sum(why):
    listed = [part.contribution for part in why.supporting + why.against]
    return sum(listed) + why.other_attributes.contribution + why.other.contribution


# Completeness ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", METHODS)
def test_what_is_shown_adds_up_to_the_lead_for_every_method(word, fitted, small):
    model = fitted(word)
    found = Recognizer(model).predict(small.features[::96], top=2, why=True)
    for why, scores in zip(found.why, found.scores.astype(np.float64), strict=True):
        assert why.lead == pytest.approx(scores[0] - scores[1], abs=1e-6 * np.abs(scores).max())
        assert _sum(why) == pytest.approx(why.lead, abs=1e-9 * np.abs(scores).max())
        other = why.other
        assert other.contribution == pytest.approx(other.stacking + other.training_samples)


@pytest.mark.parametrize("word", [word for word in METHODS if not all_methods()[word].transductive])
def test_attributes_account_for_all_that_follows_from_the_descriptions(word, fitted, small):
    model = fitted(word)
    X = small.features[::96]
    pairs, found = _explained(model, X)
    for x, pair, one in zip(X, pairs, found, strict=True):
        s = _scores_of(model, x, model.descriptions_[pair])
        assert one.contributions.sum() == pytest.approx(s[0] - s[1], abs=1e-5 * np.abs(s).max())


@pytest.mark.parametrize("word", ["kernel-prototypes", "eszsl", "deep-embedding"])
def test_among_classes_that_training_did_not_see_there_is_nothing_but_attributes(word, fitted, small):
    found = Recognizer(fitted(word)).predict(
        small.features[small.test_unseen][::15], classes=list(small.unseen_classes), top=2, why=True
    )
    assert {why.other.text for why in found.why} == {"nothing else"}
    for why, scores in zip(found.why, found.scores, strict=True):
        assert abs(why.other.contribution) < 1e-5 * np.abs(scores).max()


@pytest.mark.parametrize("scaling", [None, "standard"])
def test_contributions_to_a_bilinear_score_are_its_own_terms(small, scaling):
    model = fit_on(ESZSL(feature_penalty=0.02, attribute_scaling=scaling), small)
    A = small.description_matrix.astype(np.float64)
    S = A[np.isin(small.class_names, small.seen_classes)]
    A = A if scaling is None else (A - S.mean(axis=0)) / S.std(axis=0)
    X = small.features[small.test_unseen][:5]
    for x, (w, r), one in zip(X, *_explained(model, X), strict=True):
        terms = (x @ model.weights_) * (A[w] - A[r])
        np.testing.assert_allclose(one.contributions, terms, atol=1e-5 * abs(terms).max() + 1e-6)


class _Product(ZeroShotClassifier):
    """s(x, a) = x₀ a₀ a₁ a₂: what a score is that no attribute adds to alone."""

    def __init__(self, *, feature_scaling=None, attribute_scaling=None):
        self.feature_scaling = feature_scaling
        self.attribute_scaling = attribute_scaling

    def _fit(self, X, y, S):
        pass

    def _scores(self, X, E, seen):
        return X[:, :1] * E.prod(axis=1)


def test_contributions_are_integrated_gradients_in_the_limit():
    A = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    model = _Product().fit([[1.0], [2.0]], [0, 1], A)
    x, pairs, scores = np.array([[3.0], [3.0]]), np.array([[1, 0], [1, 2]]), np.array([[6.0, 0.0], [6.0, 0.0]])
    found = explain.explain(model, x, pairs, scores, A, model.seen_code_, steps=1)
    # From (1, 0, 0) to (1, 1, 2): ∂s/∂a₁ = 3·1·2t and ∂s/∂a₂ = 3·1·t, over t from 0 to 1 and times 1 and 2, are 3 each.
    assert found[0].contributions.tolist() == [0, 3, 3]
    # From (0, 1, 2) to (1, 1, 2): only a₀ differs.
    assert found[1].contributions.tolist() == [6, 0, 0]
    # From (0, 0, 0) to (1, 1, 2), each of the three has a third; steps bring the cubic score there.
    A[0] = 0
    errors = [
        np.abs(
            explain.explain(model, x[:1], pairs[:1], scores[:1], A, model.seen_code_, steps=steps)[0].contributions - 2
        ).max()
        for steps in (1, 4, 32)
    ]
    assert errors[0] > 10 * errors[1] > 100 * errors[2]  # of the order of 1/steps²


# The strongest contributions matter -----------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["eszsl", "sje", "sae", "gfzsl", "kernel-prototypes", "dem", "conse"])
def test_taking_the_strongest_attributes_away_changes_the_score_as_stated(word, fitted, small):
    """Taken from the answer, and given to the runner-up: the mean of what both change the lead by."""
    model, X = fitted(word), small.features[::6]
    stated, changed, weakest = [], [], []
    for x, (w, r), one in zip(X, *_explained(model, X), strict=True):
        a, b = model.descriptions_[[w, r]]
        order = np.argsort(-one.contributions)
        for chosen, changes in ((order[:2], changed), (np.argsort(np.abs(one.contributions))[:2], weakest)):
            without, given = a.copy(), b.copy()
            without[chosen], given[chosen] = b[chosen], a[chosen]
            s = _scores_of(model, x, [a, without, given, b])
            changes.append((s[0] - s[1] + s[2] - s[3]) / 2)
        stated.append(one.contributions[order[:2]].sum())
    stated, changed = np.array(stated), np.array(changed)
    strong = stated > 0.1 * stated.max()
    assert strong.mean() > 0.5
    assert (changed[strong] > 0).mean() > 0.9, "what speaks for the answer is missed without it"
    assert np.corrcoef(stated, changed)[0, 1] > 0.7
    assert np.abs(changed - stated).sum() < 0.3 * stated.sum()
    assert np.abs(weakest).sum() < 0.5 * changed.sum()
    if word in ("eszsl", "sje"):  # linear in what the table says but for its unit length
        assert np.abs(changed - stated).sum() < 0.1 * stated.sum()


# What is not due to attributes ----------------------------------------------------------------------------------------


def test_the_constant_taken_off_seen_classes_and_training_samples_are_told_apart(fitted, small):
    model = fitted("kernel-prototypes")
    constant = model.settings_["seen_handicap"] * model.unit_
    assert constant > 0
    kinds = set()
    X = small.features[::3]
    for x, pair, one in zip(X, *_explained(model, X), strict=True):
        seen = model.seen_code_[pair] >= 0
        kinds.add(tuple(seen))
        assert one.stacking == pytest.approx(constant * (float(seen[1]) - float(seen[0])))
        # Classes of the same descriptions under other names have no samples: what they lack is what samples add.
        by_description = np.subtract(*_scores_of(model, x, model.descriptions_[pair]))
        by_samples = one.lead - one.stacking - by_description
        assert one.training_samples == pytest.approx(by_samples, abs=1e-5 * np.abs(one.scores).max())
    assert len(kinds) == 4


def test_a_shift_that_was_asked_for_is_part_of_calibrated_stacking(calibrated, small):
    X = small.features[np.concatenate([small.test_unseen, small.test_seen])]
    shift = calibrated.calibration_.seen_shift * calibrated.calibration_.spread
    assert shift != 0
    found = Recognizer(calibrated).predict(X, top=2, shift_seen=True, why=True)
    seen = np.isin(found.classes, small.seen_classes)
    for why, (first, second) in zip(found.why, seen, strict=True):
        assert why.other.stacking == pytest.approx(shift * (float(second) - float(first)))
        assert ("calibrated stacking" in why.other.text) == (first != second)
        assert _sum(why) == pytest.approx(why.lead)


def test_what_a_pool_taught_of_a_class_is_no_attributes_contribution(small):
    """The pool's means belong to exact descriptions: no attribute may be credited with the step to them."""
    model = fit_on(TransductiveKernelPrototypes(search=False, setting="zsl"), small)
    unseen = model.seen_code_ < 0
    assert len(model.unseen_means_) == unseen.sum()
    X = small.features[small.test_unseen][::9]
    scores = model.decision_function(X, classes=model.unseen_classes_)
    pairs = np.flatnonzero(unseen)[np.argsort(-scores, axis=1)[:, :2]]
    given = X, pairs, -np.sort(-scores, axis=1)[:, :2]
    found = explain.explain(model, *given, model.descriptions_, model.seen_code_)
    near = explain.explain(model, *given, model.descriptions_ + 1e-4, model.seen_code_)
    for one, other in zip(found, near, strict=True):
        np.testing.assert_allclose(one.contributions, other.contributions, atol=0.01 * np.abs(one.contributions).max())
    assert max(abs(one.training_samples) for one in found) > 0.01 * max(one.lead for one in found)


# What is written ------------------------------------------------------------------------------------------------------


def test_an_attribute_that_both_classes_share_has_no_say_and_less_is_called_less(small):
    model = fit_on(ESZSL(feature_penalty=0.02), small)  # of unit length: all numbers differ, the table's do not
    A = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 1, 0]], dtype=np.float32)
    x = small.features[:1]
    scores = _scores_of(model, x[0], A)[None]
    one = explain.explain(model, x, np.array([[0, 1]]), scores, A, np.array([-1, -1]))[0]
    assert one.contributions[[0, 1, 5]].tolist() == [0, 0, 0]
    why = one.reasons("this", "that", list(small.attribute_names))
    told = {part.attribute: part for part in why.supporting + why.against}
    assert {name: part.more for name, part in told.items()} == {
        "trait 2": True,
        "trait 3": False,
        "trait 4": False,
    }
    for m, name in enumerate(small.attribute_names):
        if name in told:
            word = "more" if name == "trait 2" else "less"
            supports = one.contributions[m] > 0
            assert told[name] in (why.supporting if supports else why.against)
            assert told[name].text.startswith(f"{word} of {name} ({'+' if supports else '-'}")
    assert why.text.startswith("this instead of that (")
    assert why.other_attributes.count == 0


def test_texts_say_as_many_digits_as_a_reader_needs_to_add_them_up():
    c = np.array([50.0, -20.0, 3.0, 0.25, 0.25])
    one = explain.Explanation((-100.0, -330.0), c, np.array([True, True, False, True, True]), 190.0)
    why = one.reasons("Mallard", "Gadwall", list("abcde"), shown=1)
    assert why.columns() == {
        "compared": "Mallard instead of Gadwall (+230.0)",
        "for": "more of a (+50.0)",
        "against": "more of b (-20.0)",
        "other_attributes": "3 other attributes (+3.5)",
        "other": "calibrated stacking, which holds back seen classes (+190.0); training samples of the classes (+6.5)",
    }


def test_every_output_has_the_same_reasons(fitted, small):
    found = Recognizer(fitted("kernel-prototypes")).predict(small.features[:4], why=True)
    table, entries = found.to_frame(), found.as_json()
    for row, entry in enumerate(entries):
        for column, text in found.why[row].columns().items():
            assert table.iloc[row][column] == text
        assert entry["why"] == found.why[row].model_dump(by_alias=True)
        assert entry["why"]["class"] == found.classes[row, 0]


def test_samples_of_many_pairs_and_wide_tables_are_explained_as_if_alone(fitted, small, monkeypatch):
    model, X = fitted("kernel-prototypes"), small.features[::30]
    _, together = _explained(model, X)
    monkeypatch.setattr(explain, "_BLOCK_BYTES", 1)  # one description at a time
    monkeypatch.setattr(explain, "_ROWS", 2)
    told = []
    monkeypatch.setattr(answers, "explain", explain.explain)
    Recognizer(model).predict(X, why=True, progress=lambda n, total: told.append((n, total)))
    assert told[-1] == (len(X), len(X))
    assert [n for n, _ in told] == sorted({n for n, _ in told})
    for x, one in zip(X, together, strict=True):
        alone = _explained(model, x[None])[1][0]
        scale = np.abs(one.scores).max()
        np.testing.assert_allclose(alone.contributions, one.contributions, atol=1e-5 * scale)
        assert alone.lead == pytest.approx(one.lead, abs=1e-5 * scale)


def test_kernel_prototypes_with_a_hidden_layer_are_explained_completely(small):
    model = fit_on(KernelPrototypes(search=False, refinement=2, hidden=8, attribute_scaling="unit"), small)
    found = Recognizer(model).predict(small.features[::96], top=2, why=True)
    for why in found.why:
        assert _sum(why) == pytest.approx(why.lead)
