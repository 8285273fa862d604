from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from firstsight.errors import BadInput, CannotWrite
from firstsight.experiments import executors
from firstsight.experiments.executors import ClusterProblem
from firstsight.recognition import Recognizer
from firstsight.recognition import shards as on_shards

pyarrow = pytest.importorskip("pyarrow")
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
    files = recognise.predict_shards(shards, tmp_path / "out", on_shard_done=lambda *what: told.append(what))
    assert [file.name for file in files] == ["part-0.parquet", "part-1.parquet", "part-2.parquet"]
    assert told == [(file, number, 3) for number, file in enumerate(files, start=1)]
    tables = [pd.read_parquet(file) for file in files]
    assert [table["row"].tolist() for table in tables] == [list(range(n)) for n in (100, 100, 88)]
    assert (
        np.concatenate([table["class"] for table in tables]).tolist() == recognise.predict(small.features, top=1).best
    )
    (ranked, *_) = recognise.predict_shards(shards[:1], tmp_path / "ranked", top=3, classes="unseen")
    wanted = recognise.predict(small.features[:100], top=3, classes="unseen").ranked()
    pd.testing.assert_frame_equal(pd.read_parquet(ranked), wanted, check_dtype=False)


def test_blocks_of_a_large_shard_are_numbered_through(recognise, shards, monkeypatch):
    from firstsight._io.disk_samples import DiskSamples

    monkeypatch.setattr(DiskSamples, "block", 7)
    (file,) = recognise.predict_shards(shards[:1], shards[0].parent / "out")
    table = pd.read_parquet(file)
    assert table["row"].tolist() == list(range(100))
    assert table["class"].tolist() == recognise.predict(shards[0], top=1).best


def test_a_run_that_was_stopped_does_what_is_missing_and_what_has_changed(recognise, shards, small, tmp_path):
    out, told = tmp_path / "out", []
    files = recognise.predict_shards(shards, out)
    before = [file.read_bytes() for file in files]
    files[1].unlink()
    np.save(shards[2], small.features[:5])
    recognise.predict_shards(shards, out, on_shard_done=lambda file, *_: told.append(file))
    assert told == files[1:]
    assert [file.read_bytes() for file in files[:2]] == before[:2]
    assert len(pd.read_parquet(files[2])) == 5
    for other in (lambda: recognise.predict_shards(shards, out, top=2), lambda: renamed().predict_shards(shards, out)):

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
            recognise.predict_shards([*shards, tmp_path / more], out)
    assert not out.exists()


def test_what_stands_where_answers_go_is_neither_waited_for_nor_lost(recognise, shards, tmp_path):
    place = tmp_path / "out" / "part-0.parquet"
    place.parent.mkdir()
    os.mkfifo(place)
    with pytest.raises(BadInput, match="is not a file of answers"):
        recognise.predict_shards(shards, tmp_path / "out")
    place.unlink()
    for about in (b"[]", b"[" * 100_000, b"\xff", b'{"model": 3}'):
        table = parquet.ParquetWriter(place, pyarrow.schema([("row", "int64")], metadata={"firstsight": about}))
        table.close()
        before = place.read_bytes()
        with pytest.raises(BadInput, match=r"is not a file of answers|of another model"):
            recognise.predict_shards(shards, tmp_path / "out")
        assert place.read_bytes() == before


def test_the_current_folder_and_the_one_above_are_answered_under_their_names(tmp_path, monkeypatch):
    (tmp_path / "birds" / "day").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "birds" / "day")
    places = on_shards._paths_of_answers([Path("."), Path("..")], Path("out"))
    assert [place.name for place in places.values()] == ["day.parquet", "birds.parquet"]


def test_a_disk_that_fills_is_one_sentence_and_finished_shards_are_kept(recognise, shards, tmp_path, monkeypatch):
    write, written = parquet.ParquetWriter.write_table, []

    def full(self, table):
        if len(written) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(table)
        write(self, table)

    monkeypatch.setattr(parquet.ParquetWriter, "write_table", full)
    with pytest.raises(CannotWrite, match="No space left"):
        recognise.predict_shards(shards, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["part-0.parquet"]
    monkeypatch.undo()
    assert len(recognise.predict_shards(shards, tmp_path / "out")) == 3


def test_answers_with_a_table_of_classes_are_of_what_it_says(recognise, shards, tmp_path):
    table = recognise.descriptions.iloc[:5]
    table.to_csv(tmp_path / "few.csv")
    out = tmp_path / "out"
    (file, *_) = recognise.predict_shards(shards, out, classes=str(tmp_path / "few.csv"))
    assert set(pd.read_parquet(file)["class"]) <= set(table.index)
    (1 - table).to_csv(tmp_path / "few.csv")
    with pytest.raises(BadInput, match="with other options"):
        recognise.predict_shards(shards, out, classes=str(tmp_path / "few.csv"))


@pytest.fixture(scope="module")
def client():
    """A cluster of one worker, a thread of this process."""
    distributed = pytest.importorskip("distributed")
    about = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.Client(**about, set_as_default=False) as connected:
        yield connected


def test_a_cluster_gives_the_files_that_this_machine_gives(calibrated, client, shards, tmp_path, monkeypatch):
    recognise = Recognizer(calibrated)
    asked = {"top": 2, "classes": recognise.descriptions.iloc[:5], "reject_share": 0.1}
    here = recognise.predict_shards(shards, tmp_path / "here", **asked)
    monkeypatch.chdir(tmp_path)  # workers are elsewhere
    told, own = [], [shard.relative_to(tmp_path) for shard in shards]

    def content(files):
        return [parquet.read_table(file).to_pydict() for file in files]

    there = recognise.predict_shards(
        own, "there", engine=client, on_shard_done=lambda *what: told.append(what), **asked
    )
    assert {file for file, *_ in told} == set(there)
    assert [counts for _, *counts in told] == [[1, 3], [2, 3], [3, 3]]
    assert content(there) == content(here)
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == [file.name for file in here]
    before = there[0].stat().st_mtime_ns
    there[1].unlink()
    recognise.predict_shards(own, "there", engine=client, on_shard_done=lambda *what: told.append(what), **asked)
    assert [what[0] for what in told[3:]] == [there[1]]
    assert there[0].stat().st_mtime_ns == before


def test_a_model_that_a_killed_process_left_for_the_workers_is_removed(calibrated, client, shards, tmp_path):
    out = tmp_path / "out"
    program = (
        "import os, sys; from pathlib import Path; from firstsight.recognition import shards\n"
        "from firstsight.recognition.recognizer import Recognizer\n"
        "with shards._saved_model(Path(sys.argv[2]), Recognizer.load(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    recognise = Recognizer(calibrated)
    recognise.save(tmp_path / "model")
    subprocess.run([sys.executable, "-c", program, tmp_path / "model", out], check=False)
    assert len(list(out.iterdir())) == 1  # what is left
    files = recognise.predict_shards(shards, out, engine=client)
    assert sorted(out.iterdir()) == files


def test_what_goes_wrong_on_a_cluster_is_one_sentence_and_finished_shards_are_kept(
    recognise, client, shards, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    write, written = parquet.ParquetWriter.write_table, []

    def full(self, table):
        if len(written) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(table)
        write(self, table)

    with monkeypatch.context() as patch:
        patch.setattr(parquet.ParquetWriter, "write_table", full)
        with pytest.raises(CannotWrite, match="No space left"):
            recognise.predict_shards(shards, out, engine=client)
    assert [path.name for path in out.iterdir()] == ["part-0.parquet"]
    with monkeypatch.context() as patch:
        patch.setattr(
            on_shards, "_paths_of_answers", lambda given, out: {shards[0].parent / "gone.npy": out / "gone.parquet"}
        )
        patch.setattr(on_shards, "_state", lambda shard: [])
        patch.setattr(on_shards.DiskSamples, "__init__", lambda self, path: None)
        patch.setattr(on_shards.DiskSamples, "shape", (9, 16))
        with pytest.raises(
            ClusterProblem, match=r"The worker at \S+ does not see .*gone\.npy; shards and answers must be"
        ):
            recognise.predict_shards(shards, out, engine=client)
    with monkeypatch.context() as patch:
        patch.setattr(on_shards, "installed_version", iter(["0.0.1", "0.0.2"]).__next__)
        with pytest.raises(ClusterProblem, match=r"has firstsight 0\.0\.2, and this is 0\.0\.1; install the same"):
            recognise.predict_shards(shards, out, engine=client)
    np.save(shards[2], np.full((3, 16), np.nan, "f4"))
    with pytest.raises(BadInput, match=r"part-2\.npy contains NaN"):
        recognise.predict_shards(shards, out, engine=client)
    assert sorted(path.name for path in out.iterdir()) == ["part-0.parquet", "part-1.parquet"]


def test_a_scheduler_that_does_not_answer_is_one_sentence_and_nothing_is_written(
    recognise, shards, tmp_path, monkeypatch
):
    pytest.importorskip("distributed")
    monkeypatch.setattr(executors, "ANSWER_SECONDS", 0.3)
    with pytest.raises(ClusterProblem, match=re.escape("No Dask scheduler answered at tcp://127.0.0.1:1 within 0.3")):
        recognise.predict_shards(shards, tmp_path / "out", engine="dask", scheduler="tcp://127.0.0.1:1")
    assert not (tmp_path / "out").exists()
