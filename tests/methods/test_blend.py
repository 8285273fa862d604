from __future__ import annotations

import json
from copy import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from firstsight.errors import BadInput, UnreadableFile
from firstsight.evaluation.calibration import calibrate
from firstsight.evaluation.scores import TaskScores
from firstsight.methods import (
    ESZSL,
    QFSL,
    SAE,
    Blend,
    Cosine,
    KernelPrototypes,
    TransductiveBlend,
    TransductiveKernelPrototypes,
    ZeroShotClassifier,
)
from firstsight.methods import blend as blending
from firstsight.methods.blend import choose, mix, weight_grid
from firstsight.persistence.class_table import remove_classes
from firstsight.persistence.model_folder import load, save
from firstsight.persistence.model_schema import digest_of


class Noise(ZeroShotClassifier):
    """Scores that say nothing: a hash of sample and class."""

    space = "latent"

    def __init__(self, feature_scaling=None, attribute_scaling=None):
        self.feature_scaling, self.attribute_scaling = feature_scaling, attribute_scaling

    def _fit(self, X, y, S):
        pass

    def _scores(self, X, E, seen):
        return np.sin(1e4 * (X.sum(axis=1)[:, None] + E.sum(axis=1)[None]))


class SeenAhead(ESZSL):
    """ESZSL with a constant of 5 off seen classes."""

    @property
    def _gamma(self):
        return 5.0

    def _scores(self, X, E, seen):
        return super()._scores(X, E, seen) - self._seen_constants(E, seen)


@pytest.fixture(scope="module")
def clip_like():
    """Samples around unit descriptions of 24 classes, in one space: 18 with samples."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(24, 12))
    y = np.repeat(np.arange(18), 12)
    return A[y] + 0.9 * rng.normal(size=(len(y), 12)), y, A


def _spread(part, X):
    """Mean over samples of the standard deviation of their scores across the seen classes."""
    return np.mean([np.std(row) for row in part.decision_function(X, classes=part.seen_classes_)])


@pytest.mark.parametrize("scaling", [None, "standard"])
def test_the_score_is_the_weighted_sum_of_scaled_scores_less_the_constant(task, scaling):
    parts = [("linear", SeenAhead()), ("auto", SAE(feature_scaling="unit"))]
    blend = Blend(parts, weights=[3, 1], seen_constant=0.4, feature_scaling=scaling, attribute_scaling=scaling)
    X = task.X[:, task.X.std(axis=0) > 0].astype(np.float64)
    blend.fit(X, task.y, task.table)
    codes = blend.seen_code_
    A = blend.descriptions_
    seen = np.argsort(codes)[(codes < 0).sum() :]  # of each code, its row in the table
    Z, B = X, A
    if scaling:
        Z, B = (X - X.mean(0)) / X.std(0), (A - A[seen].mean(0)) / A[seen].std(0)
    y = [codes[blend.classes_.tolist().index(name)] for name in task.y]
    alone = [SeenAhead().fit(Z, y, B[seen]), SAE(feature_scaling="unit").fit(Z, y, B[seen])]
    table = pd.DataFrame(B, index=np.where(codes >= 0, codes, 100 + np.arange(len(codes))))
    scores = [part.decision_function(Z[:7], classes=table) for part in alone]
    scales = [_spread(part, Z) for part in alone]
    expected = np.empty((7, len(A)))
    for i in range(7):
        for c, code in enumerate(codes):
            own = 5 if code >= 0 else 0
            expected[i, c] = 0.75 * (scores[0][i, c] + own) / scales[0] + 0.25 * scores[1][i, c] / scales[1]
            expected[i, c] -= 0.4 if code >= 0 else 0
    np.testing.assert_allclose(blend.decision_function(X[:7]), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(blend.scales_, scales, rtol=1e-12)
    np.testing.assert_allclose(blend.seen_penalties(A, codes), np.where(codes >= 0, 0.4, 0))
    # Without samples, the same: these parts score a class by its description alone, and nothing is taken off.
    described = blend.description_scores(X[:7], A)
    np.testing.assert_allclose(described, expected + np.where(codes >= 0, 0.4, 0), rtol=1e-9, atol=1e-9)


def test_a_part_with_all_the_weight_ranks_as_it_does_alone_and_others_are_not_evaluated(task, monkeypatch):
    alone = KernelPrototypes(search=False, refinement=0, seen_handicap=0.3).fit(task.X, task.y, task.table)
    parts = [("kernels", clone(alone)), ("noise", Noise())]
    constant = 0.3 * alone.unit_ / _spread(alone, task.X)
    blend = Blend(parts, weights=(1, 0), seen_constant=constant).fit(task.X, task.y, task.table)
    monkeypatch.setattr(Noise, "_scores", lambda *_: pytest.fail("a part without weight was asked"))
    names, scores = blend.top_k(task.X_unseen, len(task.table))
    expected, _ = alone.top_k(task.X_unseen, len(task.table))
    np.testing.assert_array_equal(names, expected)
    assert np.ptp(scores) > 0


def test_a_blend_of_one_part_is_that_part(task):
    X = task.X.astype(np.float64)
    alone = KernelPrototypes(search=False, refinement=0).fit(X, task.y, task.table)
    blend = Blend([("kernels", clone(alone))]).fit(X, task.y, task.table)
    np.testing.assert_allclose(
        blend.decision_function(X) * blend.scales_[0], alone.decision_function(X), rtol=1e-9, atol=1e-6
    )
    np.testing.assert_array_equal(blend.predict(X), alone.predict(X))
    assert blend.search_["tasks"] == 0


def test_noise_gets_no_weight(task):
    blend = Blend([("noise", Noise()), ("linear", ESZSL())]).fit(task.X, task.y, task.table)
    assert blend.weights_.tolist() == [0, 1]
    assert blend.search_["gains"]["noise"] > 0.2
    assert blend.search_["gains"]["linear"] == 0
    assert blend.diagnostics_["search"]["chosen"]["weights"] == [0, 1]


def _task(scores, codes, n_seen):
    return TaskScores(np.array(scores, dtype=float), np.array(codes), n_seen)


def test_the_weights_and_the_constant_are_those_with_the_highest_mean_of_t1_and_h():
    """Part a tells unseen classes apart, part b seen ones; both together get everything right with a constant of 1."""
    codes = [0, 1, 2, 3]  # two seen classes, two unseen
    a = _task([[2, 2, 0, 0], [2, 2, 0, 0], [1, 1, 1, 0], [1, 1, 0, 1]], codes, 2)
    b = _task([[3, 0, 0, 0], [0, 3, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]], codes, 2)
    weights, constant, report = choose([[a, b], [a, b]])
    both = mix([a, b], weights)
    assert 0 < weights[0] < 1
    assert (both.t1, both.shifted(constant).h) == (1.0, 1.0)
    # Alone, a has T1 1 and, whatever the constant, one of two seen classes right: H = 2·1·½/1.5. b has T1 ½ (it
    # names the first unseen class) and, at a constant over 1, ts ½ and tr 1: the same H.
    np.testing.assert_allclose(report["gains"], [1 - (1 + 2 / 3) / 2, 1 - (1 / 2 + 2 / 3) / 2], atol=1e-5)
    given, found, _ = choose([[a, b]], weights=np.array([0.0, 1.0]), constant=0.7)
    assert (given.tolist(), found) == ([0, 1], 0.7)


def test_a_shared_space_is_left_only_where_it_gains():
    codes = [0, 1, 2, 3]
    good = _task(np.eye(4), codes, 2)
    weights, _, _ = choose([[good, good]] * 3, start=[False, True])
    assert weights.tolist() == [0, 1]
    bad = _task(1 - np.eye(4), codes, 2)
    weights, _, _ = choose([[good, bad]] * 3, start=[False, True])
    assert weights[0] > 0.5


@pytest.mark.parametrize(("parts", "count"), [(1, 1), (2, 21), (3, 15), (4, 35)])
def test_the_grid_holds_all_weights_of_its_steps(parts, count):
    grid = np.array(list(weight_grid(parts)))
    np.testing.assert_allclose(grid.sum(axis=1), 1)
    assert len(np.unique(grid, axis=0)) == len(grid) == count
    assert (grid >= 0).all()


def test_without_parts_the_text_and_the_prototypes_are_blended_where_they_share_a_space(clip_like, task):
    X, y, A = clip_like
    blend = Blend().fit(X, y, A)
    assert list(blend.parts_) == ["cosine", "kernel-prototypes"]
    assert blend.search_["tasks"] > 3
    assert list(Blend().fit(X, y).parts_) == ["kernel-prototypes"]  # one-hot codes are no vectors of that space
    assert list(Blend(n_folds=1).fit(task.X[:, :5], task.y, task.table).parts_) == ["kernel-prototypes"]


def test_few_classes_leave_the_text_alone(clip_like):
    X, y, A = clip_like
    blend = Blend().fit(X[y < 3], y[y < 3], A)
    assert blend.weights_.tolist() == [1, 0]
    assert blend.seen_constant_ == 0


def test_no_part_is_given_an_unseen_description(task, monkeypatch):
    given = []
    fit = ESZSL._fit
    monkeypatch.setattr(ESZSL, "_fit", lambda self, X, y, S: (given.append(S.copy()), fit(self, X, y, S))[1])
    Blend([("a", ESZSL()), ("b", ESZSL(feature_penalty=3.0))]).fit(task.X, task.y, task.table)
    assert len(given) > 2
    units = task.table.loc[task.seen].to_numpy()
    units = units / np.linalg.norm(units, axis=1, keepdims=True)
    for S in given:
        nearest = np.abs(S[:, None] - units[None]).max(axis=2).min(axis=1)
        assert nearest.max() < 1e-6


def test_parts_use_the_settings_of_the_full_fit_on_simulated_tasks(task, monkeypatch):
    fitted = []
    fit = KernelPrototypes._fit
    monkeypatch.setattr(KernelPrototypes, "_fit", lambda self, X, y, S: (fit(self, X, y, S), fitted.append(self))[0])
    Blend([("kernels", KernelPrototypes(refinement=0)), ("linear", ESZSL())]).fit(task.X, task.y, task.table)
    first, *copies = fitted
    assert first.search
    assert len(copies) > 3
    for other in copies:
        assert not other.search
        assert other.settings_ == first.settings_


# Parameters


def test_parameters_of_parts_are_read_and_set_as_in_scikit_learn(task):
    blend = Blend([("text", Cosine()), ("linear", ESZSL(feature_penalty=2.0))], seen_constant=0.0)
    assert blend.get_params()["linear__feature_penalty"] == 2.0
    assert blend.get_params(deep=False)["estimators"] is blend.estimators
    blend.set_params(linear__feature_penalty=5.0, weights=[1, 2])
    assert blend.estimators[1][1].feature_penalty == 5.0
    blend.set_params(text=SAE())
    assert [type(part) for _, part in blend.estimators] == [SAE, ESZSL]
    copy = clone(blend)
    assert copy.estimators[1][1] is not blend.estimators[1][1]
    assert copy.get_params()["linear__feature_penalty"] == 5.0
    fitted = copy.fit(task.X, task.y, task.table)
    assert not hasattr(copy.estimators[1][1], "weights_")  # what is given is copied, never fitted
    resolved = fitted.resolved_parameters()
    assert resolved["estimators"] == ["text", "linear"]
    assert resolved["weights"] == pytest.approx([1 / 3, 2 / 3])
    assert resolved["linear__feature_penalty"] == 5.0
    json.dumps(resolved)
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        blend.set_params(nothing=1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"estimators": []}, "at least one part"),
        ({"estimators": ["eszsl", "eszsl"]}, "each under another name"),
        ({"estimators": ["ezsl"]}, "did you mean 'eszsl'"),
        ({"estimators": [ESZSL()]}, r"\(name, estimator\) pairs"),
        ({"estimators": [("a__b", ESZSL())]}, "without '__'"),
        ({"estimators": [("weights", ESZSL())]}, "no parameter of Blend"),
        ({"estimators": [("a", make_pipeline(StandardScaler(), ESZSL()))]}, "put the transformers before the blend"),
        ({"estimators": [("a", QFSL())]}, "learns from unlabelled samples"),
        ({"estimators": [("a", Blend())]}, "other than a blend"),
        ({"estimators": ["eszsl"], "weights": [1, 1]}, "must hold 1 finite"),
        ({"estimators": ["eszsl", "sae"], "weights": [1, -1]}, "none negative"),
        ({"estimators": ["eszsl", "sae"], "weights": [0, 0]}, "not all zero"),
        ({"estimators": ["eszsl", "sae"], "weights": ["a", "b"]}, "must hold 2 finite"),
        ({"n_folds": 0}, "n_folds"),
    ],
)
def test_what_cannot_be_blended_is_rejected_with_a_sentence(task, given, said):
    with pytest.raises(BadInput, match=said):
        Blend(**given).fit(task.X, task.y, task.table)


# Saved, changed, embedded


@pytest.fixture(scope="module")
def fitted(task):
    parts = [("kernels", KernelPrototypes(search=False, refinement=0)), ("linear", ESZSL(feature_penalty=0.5))]
    return Blend(parts, weights=np.array([0.4, 0.6])).fit(task.X, task.y, task.table)


def test_a_saved_blend_is_the_same_and_can_be_fitted_again(fitted, task, tmp_path):
    save(fitted, tmp_path / "model")
    back = load(tmp_path / "model")
    np.testing.assert_array_equal(back.decision_function(task.X_unseen), fitted.decision_function(task.X_unseen))
    assert back.search_ == fitted.search_
    assert [(name, type(part)) for name, part in back.estimators] == [("kernels", KernelPrototypes), ("linear", ESZSL)]
    assert back.get_params()["linear__feature_penalty"] == 0.5
    again = clone(back).fit(task.X, task.y, task.table)
    np.testing.assert_array_equal(again.decision_function(task.X_unseen), fitted.decision_function(task.X_unseen))


def _changed(folder, change):
    file = folder / "model.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    change(content)
    file.write_text(json.dumps({**content, "digest": digest_of(content)}), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c["parts"].pop(), "weights_ has shape"),
        (lambda c: c["parts"][0].update(method="Popen"), "'Popen', which is not a method"),
        (lambda c: c["parts"][1].update(method="SAE"), "do not belong together"),
        (lambda c: c["parts"][1]["values"].update(n_features_in_=3), "weights_ has shape"),
        (lambda c: c["parts"][1]["values"].update(classes_=[5]), "do not match"),
        (lambda c: c["parts"][1].update(name="kernels"), "weights_ has shape"),
        (lambda c: c["values"].update(parts_={}), "not a fitted attribute"),
    ],
)
def test_a_changed_folder_is_rejected(fitted, tmp_path, change, said):
    save(fitted, tmp_path / "model")
    _changed(tmp_path / "model", change)
    with pytest.raises(UnreadableFile, match=said):
        load(tmp_path / "model")


def test_parts_of_another_fit_are_found(fitted, task, tmp_path):
    other = Blend(list(fitted.estimators), weights=[1, 1]).fit(task.X[:, :4], task.y, task.table)
    wrong = Blend(list(fitted.estimators), weights=[1, 1]).fit(task.X, task.y, task.table)
    wrong.parts_ = {**wrong.parts_, "linear": other.parts_["linear"]}
    save(wrong, tmp_path / "model")
    with pytest.raises(UnreadableFile, match="the part 'linear' has other features"):
        load(tmp_path / "model")


def test_a_part_that_loading_would_not_find_is_not_saved(task, tmp_path):
    blend = Blend([("noise", Noise()), ("linear", ESZSL())], weights=[1, 1]).fit(task.X, task.y, task.table)
    with pytest.raises(BadInput, match="a Noise, which loading would not find"):
        save(blend, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_samples_and_classes_are_embedded_by_the_heaviest_part_that_can(fitted, task):
    part = fitted.parts_["kernels"]
    np.testing.assert_array_equal(fitted.embed(task.X_unseen), part.embed(task.X_unseen))
    points = fitted.embed_classes()
    seen = fitted.seen_code_ >= 0
    np.testing.assert_array_equal(points[seen], part.seen_means_[fitted.seen_code_[seen]])
    assert points.shape == (len(task.table), part.seen_means_.shape[1])
    fewer = remove_classes(fitted, fitted.seen_classes_[:-2])  # codes of the part are no numbers of classes
    np.testing.assert_array_equal(fewer.embed_classes(), points[np.isin(fitted.classes_, fewer.classes_)])
    assert not hasattr(Blend(["eszsl"]).fit(task.X, task.y, task.table), "embed")
    assert not hasattr(Blend(), "embed")


def test_a_blend_can_be_calibrated(small):
    blend = Blend(["eszsl", "sae"], n_folds=2).fit(*small.part("train"), small.descriptions)
    calibration = calibrate(blend, small)
    assert 0 < calibration.estimate["t1"] <= 1


def _with_samples(model, task):
    rows = np.concatenate([np.flatnonzero(task.y_unseen == name)[:2] for name in task.unseen[:2]])
    return copy(model).add_samples(task.X_unseen[rows], task.y_unseen[rows]), rows


def test_added_samples_reach_the_parts_that_can_learn_from_them(task):
    # eszsl cannot: to it, the class is still known by its description alone.
    settings = {"weights": [0.6, 0.4], "seen_constant": 0.5}
    parts = [("prototypes", KernelPrototypes(search=False, refinement=0)), ("eszsl", ESZSL())]
    model = Blend(parts, **settings).fit(task.X, task.y, task.table)
    changed, rows = _with_samples(model, task)
    prototypes = KernelPrototypes(search=False, refinement=0).fit(task.X, task.y, task.table)
    prototypes.add_samples(task.X_unseen[rows], task.y_unseen[rows])
    eszsl = ESZSL().fit(task.X, task.y, task.table)
    _, A, seen = prototypes.candidates(task.table)
    certainty = prototypes._certainty(prototypes._embed_classes(A), seen)
    expected = 0.6 / model.scales_[0] * (prototypes.decision_function(task.pool) + prototypes.seen_penalties(A, seen))
    expected += 0.4 / model.scales_[1] * eszsl.decision_function(task.pool)
    expected -= 0.5 * (0.6 * certainty + 0.4 * (eszsl.candidates(task.table)[2] >= 0))
    np.testing.assert_allclose(changed.decision_function(task.pool), expected, rtol=1e-3, atol=1e-3)
    assert np.array_equal(changed.remove_samples().decision_function(task.pool), model.decision_function(task.pool))


def test_a_saved_blend_keeps_added_samples_and_can_forget_them(task, tmp_path):
    parts = [("prototypes", KernelPrototypes(search=False, refinement=0)), "eszsl"]
    model = Blend(parts, weights=[1, 1]).fit(task.X, task.y, task.table)
    changed, _ = _with_samples(model, task)
    save(changed, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(loaded.decision_function(task.pool), changed.decision_function(task.pool))
    assert np.array_equal(loaded.remove_samples().decision_function(task.pool), model.decision_function(task.pool))


def test_parts_that_cannot_learn_say_so(task):
    model = Blend(["eszsl", "gfzsl"], weights=[1, 1]).fit(task.X, task.y, task.table)
    with pytest.raises(BadInput, match=r"None of the parts that count \(ESZSL, GFZSL\) can learn"):
        model.add_samples(task.X_unseen[:1], task.y_unseen[:1])


# Descriptions of two kinds


@pytest.fixture(scope="module")
def two_kinds(task):
    """The task's attributes, and a text of 32 numbers per class among them."""
    texts = np.random.default_rng(0).normal(size=(len(task.table), 32))
    described = pd.DataFrame(
        task.table.to_numpy(), index=task.table.index, columns=[f"a{i}" for i in range(task.table.shape[1])]
    )
    for number in range(32):
        described.insert(number + 1, f"words:{number}", texts[:, number])
    return described


def test_a_part_learns_from_its_columns_alone(task, two_kinds, tmp_path):
    attributes = [name for name in two_kinds if name.startswith("a")]
    parts = [("attributes", KernelPrototypes(search=False, refinement=0), attributes), ("words", ESZSL(), slice(1, 33))]
    model = Blend(parts, weights=[0.7, 0.3], seen_constant=0.0).fit(task.X, task.y, two_kinds)
    of_attributes = KernelPrototypes(search=False, refinement=0).fit(task.X, task.y, two_kinds[attributes])
    of_words = ESZSL().fit(task.X, task.y, two_kinds.iloc[:, 1:33])
    known, A, seen = of_attributes.candidates(None)
    assert len(known) == len(two_kinds)
    expected = (
        0.7 / model.scales_[0] * (of_attributes.decision_function(task.pool) + of_attributes.seen_penalties(A, seen))
    )
    expected += 0.3 / model.scales_[1] * of_words.decision_function(task.pool)
    np.testing.assert_allclose(model.decision_function(task.pool), expected, rtol=1e-3, atol=1e-3)

    changed, rows = _with_samples(model, task)
    right = list(task.unseen[:2])
    gained = changed.decision_function(task.X_unseen[rows], right) - model.decision_function(task.X_unseen[rows], right)
    assert (gained[np.arange(4), [0, 0, 1, 1]] > 0).all()
    save(changed, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(loaded.decision_function(task.pool), changed.decision_function(task.pool))
    again = clone(loaded).fit(task.X, task.y, two_kinds)
    np.testing.assert_allclose(
        again.decision_function(task.pool), model.decision_function(task.pool), rtol=1e-4, atol=1e-4
    )
    assert model.embed_classes(task.unseen[:2]).shape[0] == 2


def test_attributes_and_texts_in_one_table_get_a_part_each_and_useless_texts_no_weight(task, two_kinds):
    model = Blend().fit(task.X, task.y, two_kinds)
    assert list(model.parts_) == ["kernel-prototypes-attributes", "kernel-prototypes-words"]
    assert [part.descriptions_.shape[1] for part in model.parts_.values()] == [two_kinds.shape[1] - 32, 32]
    assert model.weights_[0] > 0.8  # the words are noise
    assert list(Blend().fit(task.X, task.y, task.table).parts_) == ["kernel-prototypes"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["a1", "a99"], "a99.*did you mean"),
        ("a99", "a99.*did you mean"),
        ([1, 1], "each once"),
        ([400], "given column 400"),
        ([], "at least one"),
        ([True, False], "names, positions or a slice"),
        (1.5, "names, positions or a slice"),
    ],
)
def test_columns_that_there_are_not_are_rejected(task, two_kinds, columns, said):
    with pytest.raises(BadInput, match=said):
        Blend([("part", ESZSL(), columns)]).fit(task.X, task.y, two_kinds)


# With unlabelled samples


@pytest.fixture(scope="module")
def with_pool():
    """Samples around descriptions of 20 classes: 15 with samples, 5 in the pool beside some of the others."""
    rng = np.random.default_rng(1)
    A = pd.DataFrame(rng.normal(size=(20, 8)), index=[f"class {c:02d}" for c in range(20)])
    W = rng.normal(size=(8, 12))

    def samples(of):
        return (A.to_numpy()[of] @ W + 1.5 * rng.normal(size=(len(of), 12))).astype(np.float32)

    y = np.repeat(np.arange(15), 12)
    of_pool = np.repeat(np.arange(10, 20), 10)
    return samples(y), A.index[y], A, samples(of_pool), of_pool


def _pool_parts(**more):
    return [("prototypes", TransductiveKernelPrototypes(search=False, **more)), ("eszsl", ESZSL())]


def test_a_blend_with_a_pool_adds_the_scores_of_parts_that_have_learned_from_it(with_pool):
    X, y, A, pool, _ = with_pool
    model = TransductiveBlend(_pool_parts(), weights=[3, 1], seen_constant=0.4).fit(X, y, A, X_unlabeled=pool)
    seen = np.isin(A.index, model.seen_classes_)
    parts = [part.fit(X, y, A if part.transductive else A[seen], **({"X_unlabeled": pool} if part.transductive else {}))
             for _, part in _pool_parts()]  # fmt: skip
    expected = 0
    for weight, part in zip([0.75, 0.25], parts, strict=True):
        _, described, codes = part.candidates(A)
        own = part.seen_penalties(described, codes)
        doubt = np.zeros(len(A))
        if part.transductive:  # a class that the pool holds is no stranger
            doubt[~seen] = part.doubt_[part.unseen_code_[~seen]]
        certainty = np.where(seen, 1.0, 1 - doubt if part.transductive else 0.0)
        expected = expected + weight * ((part.decision_function(pool, A) + own) / _spread(part, X) - 0.4 * certainty)
    np.testing.assert_allclose(model.decision_function(pool, A), expected, rtol=1e-4, atol=1e-5)
    assert model.parts_["prototypes"].doubt_.max() < 1


@pytest.mark.parametrize("setting", ["zsl", "gzsl"])
def test_the_pool_of_a_simulated_task_holds_what_the_setting_says_and_no_label(with_pool, setting, monkeypatch):
    X, y, A, pool, of_pool = with_pool
    given = []
    real = blending._fit_part

    def fit_part(part, X, y, table, pool):
        given.append((part, X, y, table, pool))
        return real(part, X, y, table, pool)

    monkeypatch.setattr(blending, "_fit_part", fit_part)
    rows = np.flatnonzero(of_pool >= 15) if setting == "zsl" else np.arange(len(pool))
    model = TransductiveBlend(_pool_parts(), setting=setting, n_folds=2).fit(X, y, A, X_unlabeled=pool[rows])
    assert model.search_["tasks"] == 2
    assert {part.setting for part, *_ in given if part.transductive} == {setting}
    label_of = {row.tobytes(): label for row, label in zip(X, y, strict=True)}
    for _, rows_of_task, codes, table, unlabeled in given[2:]:
        learned = {label_of[row.tobytes()] for row in rows_of_task}
        met = [label_of[row.tobytes()] for row in unlabeled]
        assert len(learned) == codes.max() + 1 < len(table) == 15
        assert not set(map(bytes, rows_of_task)) & set(map(bytes, unlabeled))
        if setting == "zsl":
            assert learned.isdisjoint(met)
        else:
            assert learned & set(met)
            assert set(met) - learned


def test_a_pool_of_unseen_classes_is_weighed_by_t1_and_any_pool_by_h():
    # Part 0 has the better T1, part 1 the better H: it finds the seen class.
    y = np.array([0, 0, 1, 1, 2, 2])
    right, weak = np.eye(3)[y], np.eye(3)[[1, 1, 1, 1, 2, 2]]
    first = weak.copy()
    second = right.copy()
    second[4:, 1:] = [[0.9, 0.2], [0.9, 0.2]]
    tasks = [[TaskScores(scores, y, 1) for scores in (first, second)]] * 4
    assert choose(tasks, metric="t1")[0][0] > choose(tasks, metric="h")[0][0]


def test_without_parts_the_two_methods_that_learn_from_a_pool_are_blended():
    parts = TransductiveBlend()._default_parts(None, None)
    assert [name for name, *_ in parts] == ["transductive-kernel-prototypes", "transductive-deep-embedding"]


def test_a_blend_with_a_pool_learns_added_samples_and_is_saved_with_them(with_pool, tmp_path):
    X, y, A, pool, of_pool = with_pool
    model = TransductiveBlend(_pool_parts(), weights=[1, 1], seen_constant=0.2).fit(X, y, A, X_unlabeled=pool)
    before = model.decision_function(pool, A)
    model.add_samples(pool[-3:], A.index[of_pool[-3:]])
    assert model.decision_function(pool, A)[-1].argmax() == of_pool[-1]
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").decision_function(pool, A), model.decision_function(pool, A))
    np.testing.assert_allclose(model.remove_samples().decision_function(pool, A), before, rtol=1e-5, atol=1e-6)
