from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from firstsight.errors import BadInput
from firstsight.evaluation import evaluate, fit_on, harmonic_mean
from firstsight.methods import all_methods


class Recorder(BaseEstimator):
    """Answers with the nearest class mean that is not a secret; writes down how it was fitted and asked."""

    transductive = False
    extra_supervision = ""

    def __init__(self, setting="gzsl", log=None):
        self.setting = setting
        self.log = log

    def __sklearn_clone__(self):  # the log is shared by all clones
        return type(self)(setting=self.setting, log=self.log)

    def fit(self, X, y, descriptions, **more):
        self.fitted_ = True
        self.log.append({"setting": self.setting, "X": X, "y": y, "A": descriptions, **more})
        return self

    def predict(self, X, classes):
        self.log.append({"asked": classes, "rows": X})
        return np.array(classes)[np.arange(len(X)) % len(classes)]


class Transductive(Recorder):
    transductive = True


class Told(Transductive):
    extra_supervision = "which pool rows belong to unseen classes"


def _fits(log):
    return [entry for entry in log if "X" in entry]


def _asked(log):
    return [entry for entry in log if "asked" in entry]


def test_an_inductive_method_is_fitted_once_on_training_rows_alone(small):
    model = Recorder(log=[])
    evaluate(model, small)
    (fit,) = _fits(model.log)
    np.testing.assert_array_equal(fit["X"], small.features[small.train])
    assert fit["y"].tolist() == [small.class_names[c] for c in small.labels[small.train]]
    assert set(fit) == {"setting", "X", "y", "A"}  # no pool
    np.testing.assert_array_equal(fit["A"].loc[list(small.class_names)].to_numpy(), small.description_matrix)


def test_rows_and_candidates_are_those_of_the_two_settings(small):
    model = Recorder(log=[])
    evaluate(model, small)
    t1, ts, tr = _asked(model.log)
    unseen = {small.class_names[c] for c in small.labels[small.test_unseen]}
    for asked in (t1, ts):
        np.testing.assert_array_equal(asked["rows"], small.features[small.test_unseen])
    np.testing.assert_array_equal(tr["rows"], small.features[small.test_seen])
    assert set(t1["asked"]) == unseen
    assert sorted(ts["asked"]) == sorted(tr["asked"]) == sorted(small.class_names)


def test_figures_are_means_over_classes_of_the_answers(small):
    result = evaluate(Recorder(log=[]), small)
    classes = list(small.unseen_classes)
    truth = [small.class_names[c] for c in small.labels[small.test_unseen]]
    share = {name: [] for name in classes}
    for i, name in enumerate(truth):
        share[name].append(classes[i % len(classes)] == name)
    assert result.t1 == pytest.approx(np.mean([np.mean(rows) for rows in share.values()]))
    assert result.per_class["t1"] == pytest.approx({name: np.mean(rows) for name, rows in share.items()})
    assert result.h == pytest.approx(harmonic_mean(result.ts, result.tr))
    assert result.ts == pytest.approx(np.mean(list(result.per_class["ts"].values())))
    assert set(result.per_class["tr"]) == set(small.seen_classes)


def test_a_transductive_method_is_fitted_once_per_setting_with_the_pool_of_that_setting(small):
    model = Transductive(log=[])
    evaluate(model, small)
    zsl, gzsl = _fits(model.log)
    assert (zsl["setting"], gzsl["setting"]) == ("zsl", "gzsl")
    np.testing.assert_array_equal(zsl["X_unlabeled"], small.features[sorted(small.test_unseen)])
    everyone = sorted([*small.test_seen, *small.test_unseen])
    np.testing.assert_array_equal(gzsl["X_unlabeled"], small.features[everyone])
    for fit in (zsl, gzsl):
        np.testing.assert_array_equal(fit["X"], small.features[small.train])
        assert set(fit) == {"setting", "X", "y", "A", "X_unlabeled"}  # and nothing tells which row is which


def test_the_order_of_the_pool_does_not_tell_seen_from_unseen(small):
    # The index sets in an order of their own: the pool must still be in the order of row numbers.
    shuffled = replace(small, test_unseen=small.test_unseen[::-1], test_seen=small.test_seen[::-1])
    pools = []
    for data in (small, shuffled):
        model = Transductive(log=[])
        evaluate(model, data)
        pools.append([fit["X_unlabeled"] for fit in _fits(model.log)])
    for one, other in zip(*pools, strict=True):
        np.testing.assert_array_equal(one, other)
    unseen = np.isin(sorted([*small.test_seen, *small.test_unseen]), small.test_unseen)
    assert np.mean(unseen[1:] != unseen[:-1]) > 0.2  # they do alternate, so a concatenation would have shown


@pytest.mark.parametrize("setting", ["zsl", "gzsl"])
def test_a_method_with_extra_supervision_gets_the_unseen_rows_in_both_settings(small, setting):
    model = Told(log=[])
    evaluate(model, small, (setting,))
    (fit,) = _fits(model.log)
    assert fit["setting"] == setting
    np.testing.assert_array_equal(fit["X_unlabeled"], small.features[sorted(small.test_unseen)])


@pytest.mark.parametrize(("settings", "asked", "absent"), [(("zsl",), 1, ("ts", "tr", "h")), (("gzsl",), 2, ("t1",))])
def test_a_setting_that_was_not_asked_for_costs_nothing_and_gives_none(small, settings, asked, absent):
    model = Transductive(log=[])
    result = evaluate(model, small, settings)
    assert len(_fits(model.log)) == 1
    assert len(_asked(model.log)) == asked
    assert {name for name in ("t1", "ts", "tr", "h") if getattr(result, name) is None} == set(absent)


@pytest.mark.parametrize("settings", [(), ("gszl",), ("zsl", "all")])
def test_an_unknown_setting_is_refused(small, settings):
    model = Recorder(log=[])
    with pytest.raises(BadInput, match="must name zsl, gzsl or both"):
        evaluate(model, small, settings)
    assert not model.log


def test_without_test_rows_of_seen_classes_there_is_t1_alone(small):
    bare = replace(small, test_seen=small.test_seen[:0])
    model = Recorder(log=[])
    assert evaluate(model, bare, "zsl").t1 is not None
    with pytest.raises(BadInput, match=r"`test_seen` of .* has no rows.*setting zsl"):
        evaluate(model, bare)


@pytest.mark.parametrize("kind", [Recorder, Transductive])
def test_the_callers_estimator_is_not_changed(small, kind):
    model = kind(setting="as it was", log=[])
    result = evaluate(model, small)
    assert model.setting == "as it was"
    assert not hasattr(model, "fitted_")
    assert all(fitted is not model and fitted.fitted_ for fitted in result.models.values())


def test_fit_on_fits_the_estimator_itself_and_returns_it(small):
    model = Transductive(setting="zsl", log=[])
    assert fit_on(model, small) is model
    (fit,) = _fits(model.log)
    np.testing.assert_array_equal(fit["X_unlabeled"], small.features[sorted(small.test_unseen)])


@pytest.mark.parametrize("method", ["deep-embedding", "eszsl"])
def test_ts_cannot_exceed_t1_for_an_inductive_method(small, method):
    cls = all_methods()[method]
    seed = {"random_state": 0} if "random_state" in cls._get_param_names() else {}
    result = evaluate(cls(**cls.quick, **seed), small)
    # The same model and rows with more classes to choose from: each unseen row can only get worse.
    assert result.ts <= result.t1
    for name, accuracy in result.per_class["ts"].items():
        assert accuracy <= result.per_class["t1"][name]
    assert result.models["zsl"] is result.models["gzsl"]
    assert result.t1 > 0.3  # chance is 0.1: the comparison is about something
    assert result.seconds > 0
