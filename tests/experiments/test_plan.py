from __future__ import annotations

import json
from pathlib import Path

import pytest

from firstsight.errors import BadInput, UnknownName
from firstsight.experiments.plan import (
    Job,
    TunedParameters,
    choose_methods,
    longest_first,
    make_plan,
    missing,
    parameters_hash,
)
from firstsight.experiments.records import FEW_SHOT, Record
from firstsight.methods import all_methods
from firstsight.methods.deep_embedding import PRESETS
from least_record import LEAST_RECORD


def _cells(jobs):
    return [(cell.method, cell.setting, cell.seed) for job in jobs for cell in job.cells()]


def test_an_inductive_method_is_fitted_once_per_seed_for_both_settings():
    jobs = make_plan("small", ["deep-embedding"], seeds=2)
    assert [(job.settings, job.seed) for job in jobs] == [(("zsl", "gzsl"), 0), (("zsl", "gzsl"), 1)]


@pytest.mark.parametrize("method", ["transductive-deep-embedding", "qfsl"])
def test_a_transductive_method_is_trained_for_each_setting(method):
    jobs = make_plan("small", [method], seeds=1)
    assert [job.settings for job in jobs] == [("zsl",), ("gzsl",)]


def test_a_method_without_chance_is_run_with_one_seed():
    assert [job.seed for job in make_plan("small", ["eszsl"], seeds=5)] == [0]


def test_all_is_every_method_and_every_cell_is_planned_once():
    pytest.importorskip("torch")  # without it, the methods that need it are left out (test_without_torch.py)
    jobs = make_plan("small", choose_methods("all"), seeds=2)
    cells = _cells(jobs)
    assert len(set(cells)) == len(cells)
    assert {method for method, _, _ in cells} == set(all_methods())


def test_methods_are_named_in_any_case_and_once():
    assert choose_methods("ESZSL, DeepEmbedding,eszsl") == ["eszsl", "deep-embedding"]


@pytest.mark.parametrize(("words", "error"), [("eszls", UnknownName), (" , ", BadInput)])
def test_an_unknown_method_or_none_is_refused(words, error):
    with pytest.raises(error):
        choose_methods(words)


def _done(job, **more):
    values = {**LEAST_RECORD, "seconds": 1.0, "given": job.given, "parameters_hash": parameters_hash(job), **more}
    return [Record.model_validate_json(json.dumps({**values, **cell._asdict()})) for cell in job.cells()]


def test_only_what_has_no_finished_record_is_missing():
    jobs = make_plan("small", ["eszsl", "deep-embedding"], seeds=2)
    eszsl, first, _ = jobs
    there = [*_done(eszsl), _done(first)[0], *_done(jobs[2], status="failed")]
    assert _cells(missing(jobs, there)) == [
        ("deep-embedding", "gzsl", 0),  # a fit answers both settings, but one of the lines is there
        ("deep-embedding", "zsl", 1),
        ("deep-embedding", "gzsl", 1),
    ]


def test_a_cell_that_is_there_with_other_parameters_is_refused():
    (job,) = make_plan("small", ["eszsl"], given={"eszsl": {"feature_penalty": 3.0}})
    (other,) = make_plan("small", ["eszsl"])
    assert missing([job], _done(job)) == []
    with pytest.raises(BadInput, match=r"eszsl \(zsl, seed 0\) with feature_penalty=3,.*its default parameters"):
        missing([other], _done(job))


@pytest.mark.parametrize("method", ["eszsl", "deep-embedding", "transductive-deep-embedding"])
def test_a_cell_from_before_the_defaults_changed_is_refused(monkeypatch, method):
    (job, *_) = make_plan("small", [method], ("zsl",))
    there = _done(job, parameters_hash=parameters_hash(job))
    assert missing([job], there) == []
    if method == "eszsl":
        monkeypatch.setitem(all_methods()[method].__init__.__kwdefaults__, "feature_penalty", 7.0)
    else:
        monkeypatch.setitem(PRESETS["validated"], "penalty", 7.0)
    with pytest.raises(BadInput, match="from when its default parameters were others"):
        missing([job], there)


def test_what_a_fit_begins_with_does_not_depend_on_the_seed_or_the_setting():
    jobs = make_plan("small", ["transductive-deep-embedding"], seeds=2)
    assert len({parameters_hash(job) for job in jobs}) == 1
    (other,) = make_plan("small", ["deep-embedding"], ("zsl",), given={"deep-embedding": {"preset": "paper"}})
    (default,) = make_plan("small", ["deep-embedding"], ("zsl",))
    assert parameters_hash(other) != parameters_hash(default)


def test_calibration_goes_back_to_generalized_cells_that_were_finished_without_it():
    jobs = make_plan("small", ["eszsl", "sae"])
    calibrated = {"constant": 0.5, "ts": 1.0, "tr": 1.0, "h": 1.0}
    curve = {"ausuc": 1.0, "best_h": 1.0, "curve": []}
    with_it, without = ({"seen_unseen": {**curve, "calibrated": c}} for c in (calibrated, None))
    there = [*_done(jobs[0], **with_it), *_done(jobs[1], **without)]
    assert missing(jobs, there) == []
    assert _cells(missing(jobs, there, calibrate=True)) == [("sae", "gzsl", 0)]


def test_settings_tuned_to_different_parameters_need_two_fits_and_the_same_ones_need_one():
    def tuned(zsl, gzsl):
        values = {"zsl": zsl, "gzsl": gzsl}
        return {"eszsl": {s: TunedParameters({"feature_penalty": v}, {"folds": 3}) for s, v in values.items()}}

    two = make_plan("small", ["eszsl"], tuned=tuned(1.0, 2.0))
    assert [(job.settings, job.given) for job in two] == [
        (("zsl",), {"feature_penalty": 1.0}),
        (("gzsl",), {"feature_penalty": 2.0}),
    ]
    (one,) = make_plan("small", ["eszsl"], tuned=tuned(1.0, 1.0))
    assert (one.settings, one.tuned) == (("zsl", "gzsl"), {"folds": 3, "set_by_hand": []})


def test_what_is_given_by_hand_beats_what_was_tuned():
    tuned = {"eszsl": {"zsl": TunedParameters({"feature_penalty": 1.0, "attribute_penalty": 2.0}, {})}}
    (job,) = make_plan("small", ["eszsl"], ("zsl",), given={"eszsl": {"feature_penalty": 9.0}}, tuned=tuned)
    assert job.given == {"feature_penalty": 9.0, "attribute_penalty": 2.0}


def test_variants_of_a_study_are_cells_of_their_own():
    variants = [{"separation": 0.0}, {"separation": 10.0}]
    study = make_plan("small", ["deep-embedding"], ("zsl",), study="separation", variants=variants)
    table = make_plan("small", ["deep-embedding"], ("zsl",))
    assert len(missing(study, _done(table[0]))) == 2
    assert len({job.fingerprint() for job in study + table}) == 3


def test_long_jobs_come_first_as_earlier_records_know_them():
    jobs = make_plan("small", ["eszsl", "dem", "transductive-deep-embedding"], ("zsl",))
    assert [job.method for job in longest_first(jobs, [])] == ["transductive-deep-embedding", "dem", "eszsl"]
    known = [r for job, s in zip(jobs, (7e4, 2.0, 5.0), strict=True) for r in _done(job, seconds=s)]
    assert [job.method for job in longest_first(jobs, known)] == ["eszsl", "transductive-deep-embedding", "dem"]


RECORDS = sorted((Path(__file__).parents[2] / "results").glob("*.jsonl"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_is_known_again_exactly_while_its_parameters_are_what_the_method_begins_with(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["status"] != "done" or record["study"] == FEW_SHOT:  # whose variant is of the data, not the method
            continue
        names = ("dataset", "method", "seed", "given", "variant", "study")
        job = Job(settings=(record["setting"],), **{name: record[name] for name in names})
        now = job.entry.kind(**{**job.given, **job.variant}).resolved_parameters()
        # What is None now is found by the fit; where a default has moved, the record must not pass for one of today.
        had = record["parameters"]
        for name in (name for name in now if name.endswith("batch_size") and name in had):  # few rows make smaller ones
            now[name] = min(now[name], had[name])
        same = all(had.get(name) == value for name, value in now.items() if value is not None)
        assert (parameters_hash(job) == record["parameters_hash"]) == same, job.name
