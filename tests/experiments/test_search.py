from __future__ import annotations

import json

import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import firstsight
from firstsight.errors import BadInput, UnknownName, UnreadableFile
from firstsight.evaluation import evaluate
from firstsight.experiments.choices import read_choice
from firstsight.methods import ESZSL, SJE, DeepEmbedding
from jobs_here import Here

pytestmark = pytest.mark.usefixtures("in_process")

GRID = {"feature_penalty": [1e-3, 1.0, 1e3], "attribute_penalty": [1e-2, 1.0]}


def _tune(small, estimator=None, **more):
    more = {"grid": GRID, "processes": 1, "progress": False, **more}
    return firstsight.tune(estimator or ESZSL(), small, **more)


def test_the_best_candidate_has_the_highest_mean_over_the_folds(small):
    choice = _tune(small, objective="t1")
    table = choice.table
    assert len(table) == 6
    folds = small.validation_folds(3)
    for _, row in table.iterrows():
        made = ESZSL(feature_penalty=row["feature_penalty"], attribute_penalty=row["attribute_penalty"])
        scores = [100 * evaluate(made, fold).t1 for fold in folds]
        assert [row[f"T1 fold {n}"] for n in (1, 2, 3)] == pytest.approx(scores, abs=0.00501)
    best = table.loc[table["T1"].idxmax()]
    assert choice.best == {name: best[name] for name in GRID}
    assert choice.estimator.get_params() == ESZSL(**choice.best).get_params()
    assert not hasattr(choice.estimator, "classes_")
    assert len(choice.model.seen_classes_) == 14
    assert choice.model is choice.model


def test_values_that_a_preset_stands_for_are_the_defaults(small):
    quick = DeepEmbedding(embedding_dim=8, iterations=1, random_state=0)
    own = quick.resolved_parameters()["penalty"]
    choice = _tune(small, quick, grid={"penalty": [own, 10 * own]}, objective="t1", folds=2)
    assert quick.penalty is None
    assert choice.result.default == {"penalty": own}
    assert "else the defaults" in choice.result.rule


def test_a_race_starts_its_worker_processes_once(small, monkeypatch):
    started = []

    class Counted(Here):
        def __init__(self, threads):
            started.append(threads)
            super().__init__(threads)

    monkeypatch.setattr("firstsight.experiments.executors._LocalProcess", Counted)
    choice = _tune(small, objective="t1", race=True, folds=3)
    assert {len(candidate.t1) for candidate in choice.result.candidates} == {1, 3}  # it has raced in two turns
    assert len(started) == 1


def test_both_objectives_share_their_fits_and_say_where_they_disagree(small):
    both = _tune(small, objective="both")
    assert both.chosen == {
        "zsl": _tune(small, objective="t1").best,
        "gzsl": _tune(small, objective="h").best,
    }
    if both.chosen["zsl"] != both.chosen["gzsl"]:
        with pytest.raises(BadInput, match="chosen"):
            both.best  # noqa: B018


def test_a_pipeline_is_tuned_by_the_names_of_its_steps(small):
    pipe = make_pipeline(StandardScaler(), SJE(epochs=2, random_state=7))
    choice = _tune(small, pipe, grid={"sje__margin": [0.1, 1.0]}, folds=2)
    assert set(choice.best) == {"sje__margin"}
    assert choice.estimator["sje"].epochs == 2
    fitted = choice.fit()
    assert fitted["sje"].margin == choice.best["sje__margin"]


def test_what_is_set_on_the_estimator_is_not_searched(small):
    choice = _tune(small, ESZSL(feature_penalty=7.0), grid=None, folds=1)
    assert set(choice.best) == {"attribute_penalty"}
    assert choice.chosen["gzsl"]["feature_penalty"] == 7.0
    assert choice.result.fixed == {"feature_penalty": 7.0}


def test_a_search_goes_on_in_its_folder(small, tmp_path):
    told = []
    first = _tune(small, out=tmp_path / "trials", progress=told.append)
    assert len(told) == 18
    told.clear()
    again = _tune(small, out=tmp_path / "trials", progress=told.append)
    assert told == []
    assert again.table.equals(first.table)


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"objective": "hh"}, UnknownName, "objective 'hh'"),
        ({"search": "random"}, UnknownName, "search 'random'"),
        ({"grid": {"feature_penlty": [1.0]}}, UnknownName, "did you mean 'feature_penalty'"),
        ({"grid": {"feature_penalty": [-1.0]}}, BadInput, "feature_penalty"),
        ({"grid": {"feature_penalty": []}}, BadInput, "no value for 'feature_penalty'"),
        ({"grid": {"feature_penalty": [object()]}}, BadInput, "must be numbers, text"),
        ({"trials": 3}, BadInput, "`trials` belong to"),
        ({"search": "optuna", "objective": "both"}, BadInput, "Optuna maximises one figure"),
    ],
)
def test_a_mistake_is_one_sentence(small, more, error, said):
    with pytest.raises(error, match=said):
        _tune(small, **more)


DEEP = '{"a":' * 5000 + "1" + "}" * 5000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"folds": "3"}, "folds"),
        ({"folds": 0}, "folds"),
        ({"chosen": {"other": {}}}, "chosen"),
        ({"chosen": []}, "chosen"),
        ({"chosen": {}}, "chosen"),
        ({"candidates": [{"parameters": 3}]}, "candidates"),
        ({"schema": 2}, "schema"),
        ({"method": None}, "method"),
    ],
)
def test_a_choice_file_with_wrong_types_is_one_sentence(small, tmp_path, change, said):
    path = _tune(small, folds=1).save(tmp_path / "choice.json")
    assert read_choice(path).chosen
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UnreadableFile, match="is not what `firstsight tune --json` writes") as caught:
        read_choice(path)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", [DEEP, "[]", "", "{", '{"method": ' + DEEP + "}"], ids=range(5))
def test_a_foreign_file_is_one_sentence(tmp_path, text):
    (tmp_path / "choice.json").write_text(text)
    with pytest.raises(UnreadableFile, match="is not what `firstsight tune --json` writes"):
        read_choice(tmp_path / "choice.json")
