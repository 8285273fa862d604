from __future__ import annotations

import json
from pathlib import Path

import pytest

from firstsight.errors import UnreadableFile
from firstsight.experiments.records import Record, RecordFile, line_of, read_records

RESULTS = Path(__file__).resolve().parents[2] / "results"


@pytest.mark.parametrize("file", sorted(RESULTS.glob("*.jsonl")), ids=lambda path: path.name)
def test_every_record_of_the_project_is_read_and_written_as_it_is(file):
    lines = file.read_bytes().splitlines(keepends=True)
    assert lines
    for line in lines:
        written = line_of(Record.model_validate_json(line))
        assert json.loads(written) == json.loads(line)
        assert written == line  # down to the order of the keys


def test_tidying_rewrites_no_line(tmp_path, record):
    odd = '{"status" : "done",  "schema":1, "of a newer version": {"x": [1e-05, null]}, ' + json.dumps(record())[1:]
    file = tmp_path / "small.jsonl"
    file.write_text(odd + "\n" + json.dumps(record(seed=1)) + "\n" + json.dumps(record(seed=1)) + "\n")
    held = RecordFile(tmp_path, "small")
    held.open()
    held.close()
    assert file.read_text() == odd + "\n" + json.dumps(record(seed=1)) + "\n"


def test_inner_parts_are_typed(write, record):
    calibrated = {"constant": 1, "ts": 40.0, "tr": 40.0, "h": 40.0}
    curve = {"ausuc": 30.5, "best_h": 45.0, "curve": [[0, 90.0], [50.0, 0.0]], "calibrated": calibrated}
    (found,) = read_records(write(record(seen_unseen=curve, confusion=[["ox", "okapi", 3]])))
    assert found.seen_unseen.calibrated.h == 40.0
    assert found.seen_unseen.curve == [(0.0, 90.0), (50.0, 0.0)]
    assert found.confusion == [("ox", "okapi", 3)]


def test_a_figure_that_is_no_number_is_none(write, record):
    text = json.dumps(record(t1=float("nan"), per_class={"t1": {"ox": float("inf")}}))
    assert "NaN" in text
    (found,) = read_records(write(text))
    assert (found.t1, found.per_class) == (None, {"t1": {"ox": None}})


DEEP = '{"a":' * 5000 + "1" + "}" * 5000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"t1": "50"}, "t1: input should be a valid number"),
        ({"seed": True}, "seed: input should be a valid integer"),
        ({"seed": 1.5}, "seed"),
        ({"dataset": 3}, "dataset: input should be a valid string"),
        ({"setting": "other"}, "setting: input should be 'zsl' or 'gzsl'"),
        ({"status": "perhaps"}, "status"),
        ({"variant": []}, "variant"),
        ({"variant": None}, "variant"),
        ({"confusion": [["ox", 3]]}, "confusion"),
        ({"seen_unseen": {"ausuc": 1.0, "best_h": 1.0, "curve": [[1]]}}, "curve"),
        ({"rounds": [{"t1": 5.0}]}, "round"),
        ({"tuned": {"objective": "zsl"}}, "tuned"),
        ({"per_class": {"t1": [1]}}, "per_class"),
    ],
)
def test_a_wrong_type_is_one_sentence_that_says_where(write, record, change, said):
    with pytest.raises(UnreadableFile, match=r"small\.jsonl, line 1, is not a benchmark record") as caught:
        read_records(write(record(**change)))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("key", ["schema", "status", "dataset", "method", "setting", "seed", "variant", "study"])
def test_a_missing_key_is_one_sentence(write, record, key):
    short = {name: value for name, value in record().items() if name != key}
    with pytest.raises(UnreadableFile, match=f"{key}: field required"):
        read_records(write(short))


@pytest.mark.parametrize(
    "line",
    [
        DEEP,
        "[" * 5000,
        '{"schema": 1, "variant": ' + DEEP + "}",
        '{"schema": ' + "9" * 5000 + "}",
        '{"dataset": "\\ud800"}',
    ],
    ids=["objects", "lists", "inside", "a long number", "half a character"],
)
def test_depth_and_length_end_in_a_sentence(write, record, line):
    with pytest.raises(UnreadableFile, match="line 1, is not a benchmark record"):
        read_records(write(line, record()))


def test_the_documented_tables_are_those_of_the_schemas():
    import runpy

    tool = runpy.run_path(str(RESULTS.parent / "tools" / "document_schemas.py"))
    text = tool["DOCUMENT"].read_text(encoding="utf-8")
    assert tool["documented"](text) == text, "run python tools/document_schemas.py"
