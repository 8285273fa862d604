from __future__ import annotations

import json

import pytest

from firstsight.errors import BadInput, UnreadableFile
from firstsight.reporting.results import read_results


def test_parts_of_a_record_may_be_null(read, synthetic):
    bare = synthetic.record(seed=0)
    null = {**synthetic.full_record("CUB", "eszsl", "zsl", 1), **dict.fromkeys(("rounds", "touched"))}
    assert read([bare, null]).by_seed("CUB", "eszsl", "t1") == {0: bare["t1"], 1: null["t1"]}


def test_the_newer_record_of_a_cell_counts(read, synthetic):
    failed = synthetic.record(status="failed", error="No.", t1=None)
    results = read([failed, synthetic.record(t1=51.0)])
    assert results.by_seed("CUB", "eszsl", "t1") == {0: 51.0}
    assert not results.failed


def test_records_stand_in_the_papers_order_whatever_finished_first(read, synthetic):
    cells = [("glyphs", "dap", "zsl", 0), ("CUB", "rn", "zsl", 0), ("CUB", "dap", "gzsl", 0), ("CUB", "dap", "zsl", 1)]
    cells.append(("CUB", "dap", "zsl", 0))
    found = read([synthetic.record(*cell) for cell in cells]).records
    assert [(r.dataset, r.method, r.setting, r.seed) for r in found] == [
        ("CUB", "dap", "zsl", 0),
        ("CUB", "dap", "zsl", 1),
        ("CUB", "dap", "gzsl", 0),
        ("CUB", "rn", "zsl", 0),
        ("glyphs", "dap", "zsl", 0),
    ]


def test_studies_stay_out_of_the_tables(read, synthetic):
    results = read([synthetic.record(), synthetic.record(seed=1, study="separation", variant={"separation": 1.0})])
    assert (len(results.tables), len(results.studies)) == (1, 1)
    assert results.by_seed("CUB", "eszsl", "t1") == {0: 50.0}


def test_two_splits_under_one_name_are_refused_and_under_two_names_not(read, synthetic):
    read([synthetic.record(), synthetic.record(dataset="SUN", split="other")])
    with pytest.raises(BadInput, match=r"CUB come from different splits"):
        read([synthetic.record(split="a"), synthetic.record(seed=1, split="b")])
    with pytest.raises(BadInput, match="CUB come from different feature files"):
        read([synthetic.record(features="a"), synthetic.record(seed=1, features="b")])


def test_a_record_of_another_version_is_refused(read, synthetic):
    with pytest.raises(BadInput, match="version 2"):
        read([synthetic.record(), synthetic.record(seed=1, schema=2)])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("t1", "high"),
        ("seed", 0.5),
        ("method", 5),
        ("t1", True),
        ("per_class", [1]),
        ("per_class", {"t1": {"ox": "good"}}),
        ("confusion", [["ox", "yak"]]),
        ("confusion", [["ox", "yak", "often"]]),
        ("rounds", [{"t1": 5.0}]),
        ("seen_unseen", {"curve": [1.0, 2.0]}),
        ("space", 3),
        ("given", [1]),
        ("tuned", {"set_by_hand": 3}),
        ("setting", "some"),
    ],
)
def test_a_field_that_is_not_what_it_should_be_is_named(read, synthetic, field, value):
    with pytest.raises(UnreadableFile, match=field):
        read([synthetic.record(**{field: value})])


def test_a_figure_that_is_not_a_number_is_no_figure(read, synthetic):
    assert read([synthetic.record(t1=float("nan"))]).by_seed("CUB", "eszsl", "t1") == {}


def test_a_line_cut_off_by_a_kill_is_passed_over_and_a_broken_one_in_the_middle_is_named(synthetic, tmp_path):
    synthetic.write(tmp_path, [synthetic.record(), synthetic.record(seed=1)])
    path = tmp_path / "CUB.jsonl"
    whole = path.read_text()
    path.write_text(whole[:-40])
    assert len(read_results(tmp_path).records) == 1
    path.write_text(whole.replace('{"schema"', '{"sch', 1))
    with pytest.raises(UnreadableFile, match="line 1"):
        read_results(tmp_path)


@pytest.mark.parametrize("content", [None, "", "\n\n"])
def test_nothing_to_report_is_said(tmp_path, content):
    if content is not None:
        (tmp_path / "CUB.jsonl").write_text(content)
    with pytest.raises(BadInput, match="firstsight benchmark"):
        read_results(tmp_path)


def test_one_file_is_enough(synthetic, tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps(synthetic.record()) + "\n")
    (tmp_path / "b.jsonl").write_text("not a record\n{}\n")
    assert len(read_results(tmp_path / "a.jsonl").records) == 1


def test_methods_are_grouped_by_space_in_the_papers_order(results):
    groups = dict(results.by_space(results.methods))
    assert list(groups) == ["semantic space", "visual space", "latent space"]
    assert [heading for heading, _ in results.by_space(["rn"])] == ["latent space"]
    assert groups["semantic space"] == ["dap", "iap", "cmt", "devise"]
    assert groups["latent space"][-3:] == ["qfsl", "deep-embedding", "transductive-deep-embedding"]
    assert results.label("qfsl") == "qfsl † *"
    assert [m for m in results.methods if not results.is_inductive(m)] == ["qfsl", "transductive-deep-embedding"]
