from __future__ import annotations

import errno

import numpy as np
import pandas as pd
import pytest

from firstsight.errors import BadInput, CannotWrite
from firstsight.recognition import Recognizer

parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def recognise(eszsl):
    return Recognizer(eszsl)


@pytest.fixture
def shards(small, tmp_path):
    """Three files of features, of 100, 100 and 88 rows."""
    paths = [tmp_path / f"part-{number}.npy" for number in range(3)]
    for number, path in enumerate(paths):
        np.save(path, small.features[100 * number : 100 * (number + 1)])
    return paths


def test_every_shard_has_a_file_with_the_answers_of_one_call(recognise, shards, small, tmp_path):
    told = []
    files = recognise.answer_shards(shards, tmp_path / "out", told=lambda *what: told.append(what))
    assert [file.name for file in files] == ["part-0.parquet", "part-1.parquet", "part-2.parquet"]
    assert told == [(file, number, 3) for number, file in enumerate(files, start=1)]
    tables = [pd.read_parquet(file) for file in files]
    assert [table["row"].tolist() for table in tables] == [list(range(n)) for n in (100, 100, 88)]
    assert np.concatenate([table["class"] for table in tables]).tolist() == recognise(small.features, top=1).best
    (ranked, *_) = recognise.answer_shards(shards[:1], tmp_path / "ranked", top=3, classes="unseen")
    wanted = recognise(small.features[:100], top=3, classes="unseen").ranked()
    pd.testing.assert_frame_equal(pd.read_parquet(ranked), wanted, check_dtype=False)


def test_blocks_of_a_large_shard_are_numbered_through(recognise, shards, monkeypatch):
    from firstsight.disk_rows import DiskRows

    monkeypatch.setattr(DiskRows, "block", 7)
    (file,) = recognise.answer_shards(shards[:1], shards[0].parent / "out")
    table = pd.read_parquet(file)
    assert table["row"].tolist() == list(range(100))
    assert table["class"].tolist() == recognise(shards[0], top=1).best


def test_a_run_that_was_stopped_does_what_is_missing_and_what_has_changed(recognise, shards, small, tmp_path):
    out, told = tmp_path / "out", []
    files = recognise.answer_shards(shards, out)
    before = [file.read_bytes() for file in files]
    files[1].unlink()
    np.save(shards[2], small.features[:5])
    recognise.answer_shards(shards, out, told=lambda file, *_: told.append(file))
    assert told == files[1:]
    assert [file.read_bytes() for file in files[:2]] == before[:2]
    assert len(pd.read_parquet(files[2])) == 5
    for other in (lambda: recognise.answer_shards(shards, out, top=2), lambda: renamed().answer_shards(shards, out)):

        def renamed():
            return Recognizer(recognise.model).remove_classes(["kind q"])

        with pytest.raises(BadInput, match="answers of another model, or with other options"):
            other()


def test_a_missing_shard_another_width_and_two_of_one_name_are_refused_before_anything_is_written(
    recognise, shards, tmp_path
):
    out = tmp_path / "out"
    np.save(tmp_path / "wide.npy", np.zeros((3, 99), "f4"))
    (tmp_path / "b").mkdir()
    np.save(tmp_path / "b" / "part-0.npy", np.zeros((3, 16), "f4"))
    for more, said in (
        ("part-9.npy", r"There is no .*part-9\.npy"),
        ("wide.npy", r"wide\.npy has 99 features per row; the model was fitted with 16"),
        ("b/part-0.npy", r"Two shards would be answered in .*part-0\.parquet"),
    ):
        with pytest.raises(BadInput, match=said):
            recognise.answer_shards([*shards, tmp_path / more], out)
    assert not out.exists()


def test_a_disk_that_fills_is_one_sentence_and_finished_shards_are_kept(recognise, shards, tmp_path, monkeypatch):
    write, written = parquet.ParquetWriter.write_table, []

    def full(self, table):
        if len(written) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(table)
        write(self, table)

    monkeypatch.setattr(parquet.ParquetWriter, "write_table", full)
    with pytest.raises(CannotWrite, match="No space left"):
        recognise.answer_shards(shards, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["part-0.parquet"]
    monkeypatch.undo()
    assert len(recognise.answer_shards(shards, tmp_path / "out")) == 3
