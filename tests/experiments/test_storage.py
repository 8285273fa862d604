from __future__ import annotations

import json
import multiprocessing

import pytest

from firstsight._io.files import _mark
from firstsight.errors import BadInput, CannotWrite, UnreadableFile
from firstsight.experiments.records import Record, RecordFile, read_records, records_file


def test_what_is_appended_is_read_back(tmp_path, record):
    file = RecordFile(tmp_path / "new" / "folder", "small")
    file.open()
    two = [Record(**record()), Record(**record(setting="gzsl", method="Gerät"))]
    file.append(two)
    file.close()
    assert read_records(tmp_path / "new" / "folder") == two


def test_the_newest_line_of_a_cell_counts(write, record):
    path = write(record(status="failed"), record(seed=1), record(t1=60.0))
    assert [(r.seed, r.status, r.t1) for r in read_records(path)] == [(0, "done", 60.0), (1, "done", 50.0)]


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"setting": "gzsl"}, {"variant": {"separation": 1.0}}, {"study": "map"}, {"dataset": "big"}]
)
def test_cells_that_differ_in_any_part_of_their_name_are_different(write, record, other):
    assert len(read_records(write(record(), record(**other)))) == 2


def test_a_cut_off_last_line_is_passed_over_and_then_removed(write, record, tmp_path):
    path = write(record(), json.dumps(record(seed=1))[:40], end="")
    before = path.read_bytes()
    assert read_records(path) == [Record(**record())]
    assert path.read_bytes() == before  # reading changes nothing
    file = RecordFile(tmp_path, "small")
    file.open()
    file.append([Record(**record(seed=1))])
    file.close()
    assert read_records(path) == [Record(**record()), Record(**record(seed=1))]
    assert len(path.read_text().splitlines()) == 2


def test_a_last_line_that_lacks_only_its_end_is_kept(write, record, tmp_path):
    path = write(record(), record(seed=1), end="")
    file = RecordFile(tmp_path, "small")
    file.open()
    file.append([Record(**record(seed=2))])
    file.close()
    assert [r.seed for r in read_records(path)] == [0, 1, 2]


def test_opening_removes_lines_that_newer_ones_replace(write, record, tmp_path):
    path = write(record(status="failed"), record(), record())
    file = RecordFile(tmp_path, "small")
    file.open()
    file.close()
    assert len(path.read_text().splitlines()) == 1
    assert read_records(path) == [Record(**record())]


@pytest.mark.parametrize("line", ["{", "nonsense", "[]", '{"schema": 1}', "3"])
def test_a_broken_line_in_the_middle_is_refused_and_left_as_it_is(write, record, tmp_path, line):
    path = write(record(), line, record(seed=1))
    before = path.read_bytes()
    for read in (lambda: read_records(tmp_path), RecordFile(tmp_path, "small").open):
        with pytest.raises(UnreadableFile, match="line 2, is not a benchmark record"):
            read()
    assert path.read_bytes() == before


def test_records_of_another_version_are_refused_and_left_as_they_are(write, record, tmp_path):
    path = write(record(schema=2))
    before = path.read_bytes()
    for read in (lambda: read_records(tmp_path), RecordFile(tmp_path, "small").open):
        with pytest.raises(BadInput, match="records of version 2, and this firstsight reads version 1"):
            read()
    assert path.read_bytes() == before


def test_all_files_of_a_folder_are_read(tmp_path, record):
    for name in ("CUB", "glyphs"):
        file = RecordFile(tmp_path, name)
        file.open()
        file.append([Record(**record(dataset=name))])
        file.close()
    assert [r.dataset for r in read_records(tmp_path)] == ["CUB", "glyphs"]


@pytest.mark.parametrize("place", ["nowhere", ""])
def test_a_place_without_records_is_told(tmp_path, place):
    with pytest.raises(UnreadableFile, match="firstsight benchmark"):
        read_records(tmp_path / place)


def _try_to_open(folder, answers):
    try:
        RecordFile(folder, "small").open()
    except BadInput as error:
        answers.put(str(error))
    else:
        answers.put("opened")


def test_a_second_benchmark_in_the_same_file_is_refused(tmp_path, record):
    file = RecordFile(tmp_path, "small")
    file.open()
    fork = multiprocessing.get_context("fork")
    for words in ("Another process is writing", "opened"):
        answers = fork.Queue()
        process = fork.Process(target=_try_to_open, args=(tmp_path, answers))
        process.start()
        assert words in answers.get(timeout=300)
        process.join()
        file.close()


STRANGE = ["..", ".", "", " ", "../up", "/etc/passwd", "my birds/2 (old)", "my_birds/2 (old)", ".hidden", "a\0b",
           "-rf", "~", "é" * 300, "e" * 300, "e" * 301, "\ud800", "C:\\data", "*.jsonl"]  # fmt: skip


def test_a_name_never_becomes_a_path_and_no_two_names_share_a_file(tmp_path):
    files = [records_file(tmp_path, name) for name in STRANGE]
    for file in files:
        assert file.parent == tmp_path
        assert not file.name.startswith((".", "-"))
        assert len(file.name.encode("utf-8")) < 200
        file.touch()
    assert len(set(files)) == len(STRANGE)


def test_a_plain_name_is_its_own_file_name(tmp_path):
    for name in ("CUB", "glyphs", "ANIMALS42", "my.birds-2", "çiğ"):
        assert records_file(tmp_path, name).name == f"{name}.jsonl"


def test_opening_removes_what_a_killed_rewriting_left_and_nobody_elses_files(tmp_path, write, record):
    write(record())
    ours = f"{_mark(tmp_path / 'small.jsonl')}99999999-ab12cd34.jsonl"
    others = [".small.jsonl.swp", ".small.jsonl.backup12", ".other.jsonl.ab12_cd3.jsonl"]
    for name in (ours, *others):
        (tmp_path / name).write_text("half")
    file = RecordFile(tmp_path, "small")
    file.open()
    file.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, "small.jsonl"])


@pytest.mark.parametrize("text", ["a note of mine", '{"mine": 1', '{"schema": 1}', '{"schema": 2'])
def test_a_last_line_that_is_no_beginning_of_a_record_is_refused_and_left(write, record, tmp_path, text):
    path = write(record(), text, end="")
    if text == '{"schema": 2':  # a kill may have cut this off
        assert len(read_records(path)) == 1
        return
    with pytest.raises(UnreadableFile, match="line 2, is not a benchmark record"):
        RecordFile(tmp_path, "small").open()
    assert path.read_text().endswith(text)


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(CannotWrite, match="choose another place"):
        RecordFile(tmp_path / "file" / "results", "small").open()
    assert (tmp_path / "file").read_text() == "old"


def test_a_finished_cell_stays_finished_when_running_it_again_fails(write, record):
    path = write(record(t1=60.0), record(status="failed", t1=None), record(seed=1, status="failed", t1=None))
    again = record(seed=1, t1=70.0)
    write(*path.read_text().splitlines(), again)
    assert [(r.seed, r.status, r.t1) for r in read_records(path)] == [(0, "done", 60.0), (1, "done", 70.0)]


def test_a_disk_without_locks_is_written_with_a_warning(tmp_path, record, monkeypatch, caplog):
    monkeypatch.setattr("firstsight.experiments.records.lock", lambda handle, wait: None)  # as flock's ENOLCK leads to
    file = RecordFile(tmp_path, "small")
    with caplog.at_level("WARNING", logger="firstsight"):
        file.open()
    file.append([Record(**record())])
    file.close()
    assert len(read_records(tmp_path)) == 1
    assert "run one benchmark at a time" in caplog.text
