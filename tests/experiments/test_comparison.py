from __future__ import annotations

import inspect
import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import firstsight
from firstsight.errors import BadInput, UnknownName
from firstsight.experiments.plan import entries_of, identity_of
from firstsight.experiments.records import read_records
from firstsight.methods import ESZSL, SAE, SJE, TransductiveDeepEmbedding
from least_record import LEAST_CHOICE

pytestmark = pytest.mark.usefixtures("in_process")

FIGURES = ["T1", "ts", "tr", "H"]


class Mine(ESZSL):
    """As a class of a notebook is: no process finds it by a word."""


class Nearest(BaseEstimator):
    """No method of firstsight's: only fit, and scores of classes."""

    def fit(self, X, y, descriptions):
        self.table_ = descriptions
        self.W_ = np.linalg.lstsq(X, descriptions.loc[y].to_numpy(), rcond=None)[0]
        return self

    def decision_function(self, X, classes):
        return -((X @ self.W_)[:, None] - self.table_.loc[classes].to_numpy()[None]).__pow__(2).sum(axis=2)

    def predict(self, X, classes):
        return np.array(classes)[self.decision_function(X, classes).argmax(axis=1)]


def test_a_search_that_an_instance_has_turned_off_stays_off():
    (entry,) = entries_of(firstsight.KernelPrototypes(search=False))
    assert entry.make({}, 0, "zsl").search is False


def _percent(result):
    return [round(100 * value, 2) for value in (result.t1, result.ts, result.tr, result.h)]


@pytest.mark.parametrize(
    "estimator",
    [ESZSL(feature_penalty=3.0), Mine(), make_pipeline(StandardScaler(), ESZSL()), Nearest()],
    ids=["own", "notebook", "pipeline", "foreign"],
)
def test_a_row_has_the_figures_of_evaluate(small, tmp_path, estimator):
    table = firstsight.benchmark([estimator], [small], out=tmp_path, processes=1, progress=False)
    assert table[FIGURES].to_numpy().tolist() == [_percent(firstsight.evaluate(estimator, small))]
    assert {record.status for record in read_records(tmp_path)} == {"done"}
    assert table["error"].isna().all()


def test_variants_of_one_method_stand_side_by_side_under_their_names(small, tmp_path):
    pair = {"weak": ESZSL(feature_penalty=1e-3), "strong": ESZSL(feature_penalty=400.0), "eszsl": ESZSL()}
    table = firstsight.benchmark(pair, small, out=tmp_path, processes=1, progress=False)
    assert table["method"].tolist() == ["weak", "strong", "eszsl"]
    for name, estimator in pair.items():
        row = table.loc[table["method"] == name, FIGURES].to_numpy().tolist()[0]
        assert row == _percent(firstsight.evaluate(estimator, small))
    by_name = {record.method: record for record in read_records(tmp_path)}
    assert (by_name["weak"].estimator, by_name["eszsl"].estimator) == ("eszsl", None)
    assert by_name["strong"].given == {"feature_penalty": 400.0}
    assert by_name["strong"].space == "latent"


def test_what_is_finished_is_not_fitted_again_and_an_edited_class_is_refused(small, tmp_path, monkeypatch):
    first = firstsight.benchmark(Mine(), small, out=tmp_path, progress=False)
    before = (tmp_path / "small.jsonl").read_bytes()
    again = firstsight.benchmark(Mine(), small, out=tmp_path, progress=False)
    assert again.equals(first)
    assert (tmp_path / "small.jsonl").read_bytes() == before
    monkeypatch.setattr("inspect.getsource", lambda cls: "class Mine(ESZSL): ...  # edited")
    with pytest.raises(BadInput, match=r"Mine .* from when its parameters or its code were others"):
        firstsight.benchmark(Mine(), small, out=tmp_path, progress=False)


class Base(ESZSL):
    """A class between one's own and the library's."""


class Derived(Base):
    pass


def _halved(X):
    return X / 2


@pytest.mark.parametrize(
    ("make", "edited"),
    [
        (lambda: Derived(), "Base"),
        (lambda: make_pipeline(StandardScaler(), Derived()), "Base"),
        (lambda: make_pipeline(FunctionTransformer(_halved), ESZSL()), "_halved"),
        (lambda: GridSearchCV(Derived(), {"feature_penalty": [1.0]}, cv=GroupKFold(2)), "Derived"),
    ],
)
def test_code_of_every_step_and_base_belongs_to_a_fit(monkeypatch, make, edited):
    before = identity_of(make())
    assert identity_of(make()) == before
    getsource = inspect.getsource
    monkeypatch.setattr("inspect.getsource", lambda one: getsource(one) + "#" * (one.__name__ == edited))
    assert identity_of(make()) != before
    monkeypatch.setattr("inspect.getsource", lambda one: getsource(one) + "#" * (one.__name__ == "ESZSL"))
    assert identity_of(make()) == before  # an installed method's records bear its version


def test_code_that_was_typed_in_is_told_apart_by_what_it_does():
    def typed(number):
        space = {"__name__": "__main__", "ESZSL": ESZSL}
        exec(f"class Mine(ESZSL):\n def _fit(self, X, y, S):\n  f = lambda: {number}\n  super()._fit(X, y, S)", space)
        return identity_of(space["Mine"]())

    assert typed(1) == typed(1)
    assert typed(1) != typed(2)


def test_what_tuning_does_not_cover_is_logged(small, caplog):
    choice = firstsight.tune("eszsl", small, grid={"feature_penalty": [1.0]}, folds=1, progress=False)
    firstsight.benchmark(["eszsl", "sae"], small, tuned=choice, settings="gzsl", progress=False)
    assert [record.message for record in caplog.records] == ["Not tuned on small, and run with their defaults: sae."]


def test_a_transductive_method_in_a_pipeline_gets_a_pool_that_went_through_the_steps(small, quick):
    seen = {}

    class Spy(TransductiveDeepEmbedding):
        def _fit(self, X, y, S, pool, U):
            seen["mean"] = pool.mean(), X.mean()
            super()._fit(X, y, S, pool, U)

    scaled = make_pipeline(StandardScaler(), Spy(**quick["transductive-deep-embedding"]))
    shifted = replace(small, features=small.features + 100)
    firstsight.evaluate(scaled, shifted, ["gzsl"])
    assert np.abs(seen["mean"]).max() < 1  # and not about 100


def test_seeds_reach_what_is_random_and_only_that(small, tmp_path):
    pipe = make_pipeline(StandardScaler(), SJE(epochs=1))
    table = firstsight.benchmark([pipe, SAE()], small, seeds=2, progress=False, processes=1)
    assert table[["method", "seed"]].to_numpy().tolist() == [
        ["StandardScaler+SJE", 0],
        ["StandardScaler+SJE", 1],
        ["sae", 0],
    ]
    assert table["T1"][0] != table["T1"][1]


def test_a_choice_is_used_and_recorded(small, tmp_path):
    choice = firstsight.tune(
        ESZSL(), small, grid={"feature_penalty": [1.0, 300.0]}, folds=2, processes=1, progress=False
    )
    firstsight.benchmark(["eszsl"], small, tuned=choice, out=tmp_path / "a", processes=1, progress=False)
    firstsight.benchmark(["eszsl"], small, tuned=choice.save(tmp_path / "c.json"), out=tmp_path / "b", processes=1)
    for folder in ("a", "b"):
        for record in read_records(tmp_path / folder):
            assert record.given == choice.best
            assert (record.tuned.objective, record.tuned.folds, record.tuned.candidates) == ("gzsl", 2, 2)


def test_a_cell_that_fails_is_a_row_with_its_error(small):
    class Broken(ESZSL):
        def _fit(self, X, y, S):
            raise ZeroDivisionError("on purpose")

    table = firstsight.benchmark([Broken(), "eszsl"], small, processes=1, progress=False)
    assert table["error"].fillna("").tolist() == ["ZeroDivisionError: on purpose", ""]
    assert table["T1"].isna().tolist() == [True, False]


@pytest.mark.parametrize(
    ("estimators", "more", "error", "said"),
    [
        ([ESZSL(), ESZSL(feature_penalty=3.0)], {}, BadInput, "Two estimators would be called 'eszsl'"),
        ([], {}, BadInput, "No estimator was named"),
        (["eszls"], {}, UnknownName, "did you mean 'eszsl'"),
        ([("sae", ESZSL())], {}, BadInput, "'sae' is the name of another method"),
        ([("", ESZSL())], {}, BadInput, "must be a text"),
        ([3], {}, BadInput, "got int"),
        (["eszsl"], {"seeds": 0}, BadInput, "`seeds` must be at least 1"),
        (["eszsl"], {"settings": "gzls"}, UnknownName, "did you mean 'gzsl'"),
        (["eszsl"], {"study": "separation"}, BadInput, "leave eszsl out"),
        (["eszsl"], {"values": [1.0]}, BadInput, "`values` belong to"),
        (["eszsl"], {"tuned": "nowhere.json"}, BadInput, "There is no nowhere.json"),
    ],
)
def test_a_mistake_is_one_sentence(small, tmp_path, estimators, more, error, said):
    with pytest.raises(error, match=said):
        firstsight.benchmark(estimators, small, out=tmp_path / "new", **more)
    assert not (tmp_path / "new").exists()


def test_a_search_of_scikit_learn_is_evaluated(small):
    search = GridSearchCV(ESZSL(), {"feature_penalty": [1e-3, 1.0, 1e3]}, cv=GroupKFold(3))
    result = firstsight.evaluate(search, small)
    best = result.models["zsl"].best_params_["feature_penalty"]
    assert _percent(result) == _percent(firstsight.evaluate(ESZSL(feature_penalty=best), small))


def test_the_study_of_defaults_runs_what_tuning_has_changed_and_nothing_else(small, tmp_path, caplog):
    grid = {"feature_penalty": [0.288, 1e6]}  # the default, and one that cannot win
    kept = firstsight.tune("eszsl", small, objective="both", grid=grid, folds=3, processes=1, progress=False)
    assert kept.chosen == {"zsl": {"feature_penalty": 0.288}, "gzsl": {"feature_penalty": 0.288}}
    other = firstsight.tune("sae", small, objective="t1", grid={"encoding_weight": [7.0]}, processes=1, progress=False)
    more = {"tuned": [kept, other], "out": tmp_path, "processes": 1, "progress": False}
    tuned = firstsight.benchmark(["eszsl", "sae"], small, **more)
    plain = firstsight.benchmark(["eszsl", "sae"], small, study="defaults", **more)
    assert (tuned["method"].tolist(), plain["method"].tolist()) == (["eszsl", "sae"], ["sae"])
    alone = firstsight.benchmark(["eszsl", "sae"], small, processes=1, progress=False)
    assert plain["T1"].tolist() == alone["T1"].tolist()[1:]
    records = read_records(tmp_path)
    assert {r.method: r.tuned.kept_defaults for r in records if r.tuned} == {"eszsl": True, "sae": False}
    assert [r.method for r in records if r.study] == ["sae", "sae"]
    nothing = firstsight.benchmark("eszsl", small, study="defaults", **(more | {"tuned": kept}))
    assert (len(nothing), nothing["T1"].tolist()) == (0, [])
    assert "kept every default" in caplog.text


@pytest.mark.parametrize(
    ("estimator", "chosen", "said"),
    [
        ("eszsl", {"nonsense": 1}, "Unknown parameter of eszsl 'nonsense'"),
        ("eszsl", {"feature_penalty": "large"}, "'feature_penalty' parameter of ESZSL must be"),
        ({"mine": Mine()}, {"nonsense": 1}, "Invalid parameter 'nonsense'"),
    ],
)
def test_what_a_file_of_choices_asks_for_is_judged_before_anything_runs(small, tmp_path, estimator, chosen, said):
    path = tmp_path / "choice.json"
    method = estimator if isinstance(estimator, str) else "mine"
    choice = {**LEAST_CHOICE, "method": method, "split": small.split_hash, "chosen": {"zsl": chosen}}
    path.write_text(json.dumps(choice))
    with pytest.raises(BadInput, match=said) as caught:
        firstsight.benchmark(estimator, small, tuned=path, out=tmp_path / "results", processes=1)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("link", [".data", ".data/small", ".data/other", ".checkpoints", ".checkpoints/small"])
def test_hidden_folders_of_a_run_are_no_links_to_other_peoples_files(small, tmp_path, link):
    foreign = tmp_path / "foreign"
    for place in (foreign, foreign / "birds"):
        place.mkdir()
        (place / "features.npy").write_text("years of work")
    (tmp_path / "results" / link).parent.mkdir(parents=True)
    (tmp_path / "results" / link).symlink_to(foreign)
    with pytest.raises(BadInput, match=r"is a link, .*remove the link"):
        firstsight.benchmark("eszsl", small, out=tmp_path / "results", processes=1)
    assert len(list(foreign.rglob("features.npy"))) == 2
