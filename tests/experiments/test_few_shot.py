"""Accuracy with a few labelled samples of every unseen class."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold

import firstsight
from firstsight.errors import BadInput
from firstsight.evaluation import fit_on, mean_class_accuracy
from firstsight.evaluation.leakage import Watched
from firstsight.experiments.few_shot import BASELINES, LogisticClassifier, NearestMean, split_for
from firstsight.experiments.plan import few_shot_plan, make_plan, with_fixed_settings
from firstsight.experiments.records import read_records
from firstsight.methods import ESZSL, Blend, KernelPrototypes

pytestmark = pytest.mark.usefixtures("in_process")

PROTOTYPES = KernelPrototypes(search=False, refinement=0)


def run(estimators, data, out=None, **options):
    options = {"shots": [0, 1, 4], "seeds": 2, "processes": 1, "progress": False, **options}
    return firstsight.benchmark(estimators, data, out=out, **options)


def percent(y, predicted):
    return round(100 * mean_class_accuracy(y, predicted), 2)


def test_smaller_numbers_are_parts_of_larger_ones_and_the_test_is_the_same(small):
    wide, narrow, other = split_for(small, 4, 0), split_for(small, 2, 0), split_for(small, 4, 1)
    np.testing.assert_array_equal(wide.drawn[:, :2], narrow.drawn)
    assert not np.array_equal(wide.drawn, other.drawn)
    assert wide.drawn.shape == (10, 4)
    for name, rows in zip(small.unseen_classes, wide.drawn, strict=True):
        assert set(small.names_of(rows)) == {name}
    assert set(wide.rest.test_unseen) == set(small.test_unseen) - set(wide.drawn.ravel())
    assert set(wide.training(2).train) == set(small.train) | set(wide.drawn[:, :2].ravel())
    assert set(wide.training(2).test_unseen) == set(wide.rest.test_unseen)


def test_an_incremental_method_is_fitted_once_and_learns_the_samples_of_each_draw(small, monkeypatch):
    fits, fit = [], KernelPrototypes._fit
    monkeypatch.setattr(KernelPrototypes, "_fit", lambda self, X, y, S: (fits.append(len(X)), fit(self, X, y, S)))
    table = run(PROTOTYPES, small).set_index(["method", "shots", "seed"])
    assert fits == [len(small.train)]
    model = fit_on(copy.copy(PROTOTYPES), small)
    for shots, draw in [(0, 0), (1, 1), (4, 0)]:
        split = split_for(small, 4, draw)
        rows = split.drawn[:, :shots].ravel()
        learned = copy.copy(model).add_samples(small.features[rows], small.names_of(rows)) if shots else model
        X, y = split.rest.part("test_unseen")
        found = table.loc["kernel-prototypes", shots, draw]
        assert found["T1"] == percent(y, learned.predict(X, small.unseen_classes))
        assert found["ts"] == percent(y, learned.predict(X))
        X, y = small.part("test_seen")
        assert found["tr"] == percent(y, learned.predict(X))


def test_another_method_is_fitted_again_with_the_samples_among_its_training_samples(small, tmp_path):
    table = run(ESZSL(), small, tmp_path).set_index(["method", "shots", "seed"])
    split = split_for(small, 4, 1)
    rows = np.concatenate([small.train, split.drawn[:, 0]])
    model = ESZSL().fit(small.features[rows], small.names_of(rows), small.descriptions)
    X, y = split.rest.part("test_unseen")
    assert table.loc["eszsl", 1, 1]["T1"] == percent(y, model.predict(X, small.unseen_classes))
    records = [r for r in read_records(tmp_path) if r.method == "eszsl"]
    assert {(r.few_shot.learned_by, r.few_shot.held_out) for r in records} == {("refit", 4)}
    for record in records:
        assert record.touched.labelled_rows == len(small.train) + 10 * record.variant["shots"]
        assert record.touched.unseen_classes_labelled == 10 * (record.variant["shots"] > 0)
        assert (record.touched.test_rows_labelled, record.touched.unseen_descriptions_in_fit) == (0, False)


def test_a_label_of_a_remaining_test_sample_is_a_leak(small):
    split = split_for(small, 2, 0)
    watched = Watched(PROTOTYPES)
    fit_on(watched.estimator, split.rest, watched.fit)
    given, rest = split.labelled(2), split.rest.test_unseen[:3]
    honest = watched.with_samples(small.features[given], small.names_of(given))
    assert honest.touched(split.rest, given)["test_rows_labelled"] == 0
    rows = np.concatenate([given, rest])
    leaking = watched.with_samples(small.features[rows], small.names_of(rows))
    assert leaking.touched(split.rest, given)["test_rows_labelled"] == 3
    assert watched.touched(split.rest)["labelled_rows"] == len(small.train)  # the fit is as it was


@pytest.mark.parametrize("setting", ["zsl", "gzsl"])
def test_the_pool_of_a_transductive_method_is_what_is_left_of_the_test_samples(small, tmp_path, setting):
    method = ("pooled", firstsight.TransductiveKernelPrototypes(search=False))
    run(method, small, tmp_path, shots=[0, 3], settings=setting)
    records = [r for r in read_records(tmp_path) if r.method == "pooled"]
    left = len(small.test_unseen) - 3 * 10 + (len(small.test_seen) if setting == "gzsl" else 0)
    assert [r.touched.unlabelled_rows for r in records] == [left] * 4
    assert {r.few_shot.learned_by for r in records} == {"add_samples"}


def test_settings_that_a_fit_chose_are_not_searched_again(small):
    blend = fit_on(Blend(["eszsl", "sae"]), small)
    assert blend.search_["tasks"] > 0
    fixed = with_fixed_settings(blend)
    assert (fixed.weights, fixed.seen_constant) == (blend.weights_.tolist(), blend.seen_constant_)
    search = fit_on(GridSearchCV(ESZSL(), {"feature_penalty": [0.02, 5.0]}, cv=GroupKFold(2)), small)
    best = with_fixed_settings(search)
    assert isinstance(best, ESZSL)
    assert best.feature_penalty == search.best_params_["feature_penalty"]


def test_a_killed_run_resumes_and_other_test_samples_are_refused(small, tmp_path):
    whole = run([PROTOTYPES, ESZSL()], small, tmp_path)
    path = tmp_path / "small.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[::3]) + "\n")
    again = run([PROTOTYPES, ESZSL()], small, tmp_path)
    assert whole.drop(columns="seconds").equals(again.drop(columns="seconds"))
    assert len(path.read_text().splitlines()) == len(lines)
    more = run(PROTOTYPES, small, tmp_path, shots=[2, 4], seeds=3)  # other numbers, as many held out
    assert len(more) == 3 * 2 * 3
    with pytest.raises(BadInput, match="hold 4 samples of each unseen class out of the test, and now it is 5"):
        run(ESZSL(), small, tmp_path, shots=[5])


def test_baselines_learn_from_labelled_samples_alone(small):
    table = run(ESZSL(), small).set_index(["method", "shots", "seed"])
    assert set(BASELINES) < set(table.index.get_level_values("method"))
    assert not any((name, 0, 0) in table.index for name in BASELINES)
    split = split_for(small, 4, 0)
    rows = split.labelled(4)
    X, y = split.rest.part("test_unseen")
    units = small.features / np.linalg.norm(small.features, axis=1, keepdims=True)
    means = np.array([units[split.drawn[c]].mean(axis=0) for c in range(10)])
    cosine = X @ means.T / np.linalg.norm(means, axis=1)
    nearest = np.array(small.unseen_classes)[cosine.argmax(axis=1)]
    assert table.loc["nearest-mean", 4, 0]["T1"] == percent(y, nearest)
    logistic = LogisticRegression(C=10.0, tol=1e-5, max_iter=500).fit(units[rows], small.names_of(rows))
    answers = logistic.predict(X / np.linalg.norm(X, axis=1, keepdims=True))
    assert table.loc["logistic-regression", 4, 0]["T1"] == percent(y, answers)


def test_logistic_regression_is_solved_also_with_many_classes():
    """The more classes there are, the smaller is the gradient that the solver begins with."""
    random = np.random.default_rng(0)
    means = random.normal(size=(400, 300))
    y = np.repeat(np.arange(400), 3)
    X = means[y] + 0.5 * random.normal(size=(1200, 300))
    scores = LogisticClassifier().fit(X, y).decision_function(X, list(range(400)))
    assert (scores.argmax(axis=1) == y).mean() > 0.95


def test_a_baseline_names_a_class_without_labelled_samples():
    model = NearestMean().fit([[1.0, 0.0], [0.0, 1.0]], ["a", "b"])
    with pytest.raises(BadInput, match="no labelled sample of the class 'c'"):
        model.decision_function([[1.0, 1.0]], ["a", "c"])
    alone = LogisticClassifier().fit([[1.0, 0.0], [0.0, 1.0]], ["a", "b"])
    assert alone.decision_function([[1.0, 0.0]], ["b"]).shape == (1, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shots": [0, 12]}, "'kind .' of small has 12 test samples: ask for at most 11"),
        ({"shots": [1, -1]}, "must list whole numbers"),
        ({"shots": []}, "must list whole numbers"),
        ({"shots": [True]}, "must list whole numbers"),
        ({"shots": [0]}, "no labelled samples at all"),
        ({"shots": [1], "calibrate": True}, "leave `calibrate` out"),
        ({"shots": [1], "study": "defaults"}, "leave the study 'defaults' out"),
        ({"shots": [1], "seeds": 0}, "`seeds` must be at least 1"),
    ],
)
def test_what_cannot_be_run_is_refused(small, options, message):
    with pytest.raises(BadInput, match=message):
        run(ESZSL(), small, **options)


def test_a_transductive_method_that_would_be_fitted_again_is_refused(small):
    plan = make_plan("small", ["qfsl"])
    with pytest.raises(BadInput, match="qfsl learns from unlabelled samples of classes that have no labelled ones"):
        few_shot_plan(plan, [0, 1], 2)


def test_data_without_unseen_classes_has_nothing_to_label(small):
    from firstsight.data.dataset import TrainingSet

    fields = {name: getattr(small, name) for name in ("features", "labels", "class_names", "description_matrix")}
    nothing = np.array([], dtype=np.int64)
    data = TrainingSet("seen only", **fields, train=small.train, test_seen=small.test_seen, test_unseen=nothing)
    with pytest.raises(BadInput, match="seen only has no unseen classes"):
        run(ESZSL(), data)


def test_five_draws_unless_said_otherwise_and_random_methods_have_a_seed_per_draw(small):
    jobs = few_shot_plan(make_plan("small", ["sje", "kernel-prototypes"], seeds=5), [0, 1], 5)
    by_method = {name: [job for job in jobs if job.method == name] for name in ("sje", "kernel-prototypes")}
    assert [(job.seed, job.shots) for job in by_method["sje"]] == [(d, ((0, d), (1, d))) for d in range(5)]
    (job,) = by_method["kernel-prototypes"]
    assert len(job.cells()) == 2 * 5 * 2
    assert {cell.seed for cell in job.cells()} == set(range(5))
    assert len(run(ESZSL(), small, seeds=None, shots=[1], settings="zsl")) == 3 * 5


def test_cells_of_zero_shot_tables_are_others(small, tmp_path):
    run(ESZSL(), small, tmp_path)
    firstsight.benchmark(ESZSL(), small, out=tmp_path, processes=1, progress=False)
    plain = [r for r in read_records(tmp_path) if not r.study]
    assert [(r.method, r.setting, r.few_shot, r.variant) for r in plain] == [
        ("eszsl", "zsl", None, {}),
        ("eszsl", "gzsl", None, {}),
    ]
    assert replace(make_plan("small", ["eszsl"])[0]).cells()[0].variant == {}
