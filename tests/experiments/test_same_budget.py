from __future__ import annotations

import pytest

import firstsight
from firstsight.errors import InUse
from firstsight.evaluation import fit_on, harmonic_mean, score_task
from firstsight.experiments.choices import read_choices
from firstsight.methods import ESZSL

pytestmark = pytest.mark.usefixtures("in_process")


def _tune_all(small, tmp_path, words=("gfzsl", "eszsl"), **more):
    return firstsight.tune_all(list(words), small, out=tmp_path / "tuned", **{"processes": 1, "folds": 6, **more})


def test_each_method_has_the_same_budget_and_its_own_file(small, tmp_path):
    told = []
    gfzsl, eszsl = _tune_all(small, tmp_path, progress=told.append)
    for choice in (gfzsl, eszsl):
        file = choice.result
        of_folds = [len(c.t1) for c in file.candidates]
        assert len(file.candidates) == 6
        assert set(of_folds) <= {2, 6}  # a third of the folds, or all of them
        assert 1 <= of_folds.count(6) <= 3  # the defaults and the best for each objective
        assert file.fits == sum(of_folds)
        assert file.rule.startswith("the highest mean among candidates whose gain over the defaults exceeds")
        assert (file.folds, file.calibrated, file.race) == (6, True, True)
        assert file.independent_folds == pytest.approx(14 / 5)
    assert len(told) == gfzsl.result.fits + eszsl.result.fits
    assert sorted(p.name for p in (tmp_path / "tuned").iterdir()) == ["small-eszsl.json", "small-gfzsl.json"]
    assert [f.method for _, f in read_choices(tmp_path / "tuned")] == ["eszsl", "gfzsl"]


def test_h_is_the_one_with_the_best_constant_of_the_fold(small, tmp_path):
    (choice,) = _tune_all(small, tmp_path, ["eszsl"], folds=3, progress=False)
    fold = small.validation_folds(3)[0]
    curve = score_task(fit_on(ESZSL(), fold), fold, "gzsl").curve
    highest = max(harmonic_mean(ts, tr) for ts, tr in zip(curve.ts, curve.tr, strict=True))
    default = next(c for c in choice.result.candidates if c.parameters == choice.result.default)
    assert default.h[0] == pytest.approx(100 * highest, abs=0.00501)


def test_what_is_there_is_read_and_not_made_again(small, tmp_path):
    first = _tune_all(small, tmp_path, progress=False)
    told = []
    again = _tune_all(small, tmp_path, progress=told.append)
    assert told == []
    assert [c.chosen for c in again] == [c.chosen for c in first]
    assert all(one.table.equals(other.table) for one, other in zip(again, first, strict=True))
    assert [c.result for c in again] == [c.result for c in first]


def test_another_search_in_its_place_is_told_and_kept(small, tmp_path, capsys):
    _tune_all(small, tmp_path, ["eszsl"], progress=False)
    before = (tmp_path / "tuned" / "small-eszsl.json").read_bytes()
    assert _tune_all(small, tmp_path, ["eszsl"], folds=3, progress=False) == []
    assert (tmp_path / "tuned" / "small-eszsl.json").read_bytes() == before


def test_a_second_search_beside_the_first_is_refused(small, tmp_path):
    refused = []

    def again(records):
        if not refused:
            with pytest.raises(InUse, match="Another process is writing to") as error:
                _tune_all(small, tmp_path, ["eszsl"], progress=False)
            refused.append(error)

    (choice,) = _tune_all(small, tmp_path, ["eszsl"], progress=again)
    assert len(refused) == 1
    assert choice.result.candidates


def test_what_has_nothing_to_search_does_not_stop_the_others(small, tmp_path):
    (choice,) = _tune_all(small, tmp_path, ["cosine", "eszsl"], folds=1, progress=False)
    assert choice.entry.name == "eszsl"
