from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from firstsight.errors import BadInput
from firstsight.evaluation import evaluate
from firstsight.experiments.choices import choose, grid_candidates
from firstsight.experiments.executors import open_workers
from firstsight.experiments.jobs import run_job
from firstsight.experiments.plan import Entry, Job
from firstsight.experiments.records import file_stem
from firstsight.experiments.session import Session
from firstsight.experiments.tune import Trials, remove_trials
from firstsight.methods import ESZSL

GRID = {"feature_penalty": [1e-3, 1.0, 1e3], "attribute_penalty": [1e-3, 1.0]}


@pytest.fixture
def trials(small, tmp_path, in_process):
    def make(method="eszsl", objectives=("zsl", "gzsl"), fixed=None, on_fit=lambda records: None):
        folds = small.validation_folds(3)
        entry, workers = Entry(method, method, fixed or {}), open_workers(processes=1)
        return Trials(tmp_path / "trials", folds, entry, list(objectives), 0, workers, on_fit)

    return make


def test_a_candidate_has_the_figures_of_the_protocol_on_every_fold(trials, small):
    both = trials().score([{"feature_penalty": 1.0}])
    for objective, figure in (("zsl", "t1"), ("gzsl", "h")):
        expected = [100 * getattr(evaluate(ESZSL(feature_penalty=1.0), f), figure) for f in small.validation_folds(3)]
        assert both[0].scores(objective) == pytest.approx(expected, abs=0.00501)


def test_an_inductive_method_is_fitted_once_for_both_objectives(trials, monkeypatch):
    fits, fit = [], ESZSL.fit
    monkeypatch.setattr(ESZSL, "fit", lambda self, *data, **more: fits.append(1) or fit(self, *data, **more))
    trials().score([{}])
    assert len(fits) == 3


def test_the_whole_grid_is_scored_in_its_order_and_nothing_twice(trials):
    fits = []
    found = trials(on_fit=fits.append).score(grid_candidates(GRID))
    assert [c.parameters for c in found] == grid_candidates(GRID)
    assert len(fits) == 18  # six candidates, three folds; a fit tells of both objectives at once
    assert choose(found, "zsl").mean("zsl") > min(c.mean("zsl") for c in found)  # there was something to choose
    fits.clear()
    assert trials(on_fit=fits.append).score(grid_candidates(GRID)) == found
    assert fits == []


def test_when_they_are_forgotten_only_what_others_put_there_stays(trials):
    first = trials()
    first.score([{}])
    remove_trials(first.folder, first.folds)
    assert not first.folder.exists()
    first.score([{}])
    (first.folder / "mine.txt").write_text("kept")
    (first.folder / "mine.jsonl").write_text("")
    (first.folder / ".checkpoints" / file_stem("small fold 1")).mkdir(parents=True)
    remove_trials(first.folder, first.folds)
    assert sorted(path.name for path in first.folder.iterdir()) == ["mine.txt"]


def test_a_candidate_that_cannot_be_fitted_says_why_and_the_rest_goes_on(trials):
    bad, good = trials().score([{"feature_penalty": -1.0}, {"feature_penalty": 1.0}])
    assert bad.scores("zsl") == bad.scores("gzsl") == []
    assert "feature_penalty" in bad.error
    assert good.scores("zsl")


def test_a_collapsing_candidate_does_not_stop_the_search(trials, quick):
    found = trials("deep-embedding", ["zsl"], quick["deep-embedding"]).score([{"separation": v} for v in (0.0, 300.0)])
    assert choose(found, "zsl").parameters == {"separation": 300.0}


def test_trials_with_other_fixed_parameters_are_refused(trials):
    trials().score([{}])
    with pytest.raises(BadInput, match=r"with feature_penalty=2; those are trials of another search: remove .*trials "):
        trials(fixed={"feature_penalty": 2.0}).score([{}])


def test_folds_share_one_file_of_features(trials, monkeypatch):
    numbers = set()
    order = Session._order

    def look(self, job):
        shared = self.files[job.dataset].shared
        numbers.add((shared.name, (shared / "features.npy").stat().st_ino))
        return order(self, job)

    monkeypatch.setattr(Session, "_order", look)
    trials().score([{}])
    assert len(numbers) == 3
    assert len({inode for _, inode in numbers}) == 1


def _poisoned(small):
    """The data set with NaN wherever tuning must not look: test rows, and descriptions of unseen classes.

    Assigned past the checks, which refuse NaN; whatever touches them gets NaN or is refused.
    """
    poisoned = replace(small)
    features, attributes = small.features.copy(), small.description_matrix.copy()
    features[np.concatenate([small.test_seen, small.test_unseen])] = np.nan
    attributes[np.isin(small.class_names, small.unseen_classes)] = np.nan
    object.__setattr__(poisoned, "features", features)
    object.__setattr__(poisoned, "description_matrix", attributes)
    return poisoned


@pytest.mark.parametrize("objective", ["zsl", "gzsl"])
@pytest.mark.parametrize("method", ["eszsl", "deep-embedding", "transductive-deep-embedding"])
def test_a_trial_cannot_touch_test_rows_or_unseen_descriptions(small, quick, method, objective):
    if method != "eszsl":
        pytest.importorskip("torch")

    def record(dataset):
        (found,) = run_job(Job(dataset.name, method, (objective,), 0, quick.get(method, {})), dataset, "f")
        return found

    assert record(_poisoned(small)).status == "failed"  # the poison works: an ordinary cell meets it
    clean, poisoned = (record(data.validation_folds(1)[0]) for data in (small, _poisoned(small)))
    figures = ("t1", "ts", "tr", "h", "per_class")
    assert poisoned.status == "done"
    assert [getattr(poisoned, name) for name in figures] == [getattr(clean, name) for name in figures]


def test_labels_of_test_rows_do_not_reach_the_folds(small):
    for fold in small.validation_folds(3):
        test = np.concatenate([small.test_seen, small.test_unseen])
        assert (fold.labels[test] == -1).all()
        used = np.concatenate([fold.train, fold.test_seen, fold.test_unseen])
        assert set(used) <= set(small.train)
        assert not set(fold.class_names) & set(small.unseen_classes)
