from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from firstsight._io.files import (
    Allowance,
    atomic_path,
    csv_name,
    csv_of,
    csv_text,
    read_regular,
    remove_stale,
    require_file,
    scratch_folder,
    temporary_beside,
    write_atomically,
)
from firstsight.data.table_files import read_descriptions
from firstsight.errors import CannotWrite, UnreadableFile

OLD = "what was there before\n"


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "record.json"
    path.write_text(OLD)
    return path


def _python(code: str, *args, **more) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", code, *map(str, args)], stdout=subprocess.PIPE, text=True, **more)


@pytest.mark.parametrize("content", ["Zebra, ñandú\n", b"\x00\xff", lambda path: path.write_bytes(b"by a function")])
def test_text_bytes_and_what_a_function_writes_take_the_place_of_the_old_content(target, content):
    write_atomically(target, content)
    expected = {str: "Zebra, ñandú\n".encode(), bytes: b"\x00\xff"}.get(type(content), b"by a function")
    assert target.read_bytes() == expected
    assert os.listdir(target.parent) == ["record.json"]


def test_folders_on_the_way_are_made(tmp_path):
    write_atomically(tmp_path / "a" / "b" / "c.txt", "deep")
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "deep"


def test_a_writer_that_fails_leaves_the_old_file_and_no_temporary(target):
    def fails(path):
        path.write_text("half of")
        raise RuntimeError("a bug in the writer")

    with pytest.raises(RuntimeError, match="a bug in the writer"):
        write_atomically(target, fails)
    assert target.read_text() == OLD
    assert os.listdir(target.parent) == ["record.json"]


def test_nothing_is_visible_under_the_name_before_all_of_it_is_written(target):
    with atomic_path(target) as temporary:
        temporary.write_text("half of")
        assert target.read_text() == OLD
        assert temporary.parent == target.parent  # a rename is one step only within one file system
    assert target.read_text() == "half of"


def test_a_written_file_may_be_read_by_whom_the_umask_allows(target):
    mask = os.umask(0o027)
    try:
        write_atomically(target, "new")
    finally:
        os.umask(mask)
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_full_disk_is_one_sentence_and_the_old_file_stays(target):
    def full(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(CannotWrite) as caught:
        write_atomically(target, full)
    message = str(caught.value)
    assert str(target) in message
    assert "No space left on device" in message
    assert "untouched" in message
    assert "\n" not in message
    assert target.read_text() == OLD
    assert os.listdir(target.parent) == ["record.json"]


def test_a_disk_that_fills_up_half_way_leaves_the_old_file(target):
    code = """
import resource, sys
from firstsight.errors import CannotWrite
from firstsight._io.files import write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # the system refuses more, as a full disk does
try:
    write_atomically(sys.argv[1], b"x" * 10_000)
except CannotWrite as error:
    print(error)
"""
    message = _python(code, target).communicate(timeout=300)[0]
    assert "Could not write" in message
    assert len(message.splitlines()) == 1
    assert target.read_text() == OLD
    assert os.listdir(target.parent) == ["record.json"]


def test_a_place_that_cannot_exist_is_one_sentence(target):
    with pytest.raises(CannotWrite, match=r"Could not write .*record\.json/inside\.txt"):
        write_atomically(target / "inside.txt", "a file is no folder")
    assert target.read_text() == OLD


def test_a_process_killed_while_writing_leaves_the_old_file(target):
    code = """
import sys, time
from firstsight._io.files import write_atomically

def slowly(path):
    with path.open("w") as file:
        file.write("half of"), file.flush()
        print("writing", flush=True)
        time.sleep(60)

write_atomically(sys.argv[1], slowly)
"""
    process = _python(code, target)
    assert process.stdout.readline() == "writing\n"
    process.kill()
    assert process.wait(timeout=300) == -signal.SIGKILL
    process.stdout.close()
    assert target.read_text() == OLD
    assert len(os.listdir(target.parent)) == 2
    write_atomically(target, "new")  # the next writer removes what the dead one left
    assert target.read_text() == "new"
    assert os.listdir(target.parent) == ["record.json"]


def test_what_living_processes_are_writing_stays(target):
    with atomic_path(target) as other:
        write_atomically(target, "meanwhile")
        assert other.exists()
        other.write_text("last")
    assert target.read_text() == "last"


def test_folders_of_dead_processes_are_removed_and_nothing_else(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait(timeout=300)
    mine = temporary_beside(tmp_path / "model")
    theirs = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{dead.pid}-"))
    for folder in (mine, theirs, tmp_path / ".model", tmp_path / "model", tmp_path / ".models.x-1-2"):
        folder.mkdir()
        (folder / "weights").write_text("heavy")
    remove_stale(tmp_path / "model")
    assert not theirs.exists()
    assert len(os.listdir(tmp_path)) == 4


def test_a_link_is_written_through(target):
    link = target.with_name("link.json")
    link.symlink_to(target.name)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_device_and_a_folder_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "circle").symlink_to("round")
    (tmp_path / "round").symlink_to("circle")
    for name in ("pipe", "folder", "circle"):
        with pytest.raises(CannotWrite, match="not a file"):
            write_atomically(tmp_path / name, "new")
    assert sorted(os.listdir(tmp_path)) == ["circle", "folder", "pipe", "round"]
    assert (tmp_path / "circle").is_symlink()


def test_a_long_name_leaves_room_for_a_temporary_one(tmp_path):
    write_atomically(tmp_path / ("ü" * 120 + ".json"), "long")
    assert len(os.listdir(tmp_path)) == 1


def test_only_regular_files_are_opened(tmp_path, target):
    assert require_file(target) == target
    os.mkfifo(tmp_path / "pipe")
    for path, word in ((tmp_path / "pipe", "pipe"), (tmp_path, "a folder"), (tmp_path / "no", "does not exist")):
        with pytest.raises(UnreadableFile, match=word):
            require_file(path)
    with pytest.raises(UnreadableFile, match="cannot be opened"):
        require_file("a\0b")


def test_a_file_may_unpack_to_a_hundred_times_its_size_and_64_mebibytes(target):
    allowance = Allowance(target)
    allowance.take((64 << 20) + 100 * len(OLD), "everything")
    with pytest.raises(UnreadableFile, match=r"one more byte in .* claims 1 bytes"):
        allowance.take(1, "one more byte")


@pytest.mark.parametrize(
    ("cell", "written"),
    [("=1+1", "'=1+1"), ("@a", "'@a"), ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"), ("-0.5", "-0.5"), ("ox", "ox")],
)
def test_a_cell_that_a_spreadsheet_would_run_gets_an_apostrophe(cell, written):
    assert csv_text(cell) == written
    assert csv_of(pd.DataFrame({"class": [cell, "x"], "share": [0.25, -1]})) == f"class,share\n{written},0.25\nx,-1.0\n"


@pytest.mark.parametrize("name", ["=1+1", "'=1+1", "''-x", "-3", "'-3", "'tis", "-", "@", "ox", "'", "+1e5"])
def test_a_table_is_read_back_as_it_was_whatever_its_names_begin_with(tmp_path, name):
    table = pd.DataFrame([[0.5, 1.0]], index=pd.Index([name], name="class"), columns=[f"{name}a", "legs"])
    (tmp_path / "t.csv").write_text(csv_of(table, index=True))
    assert csv_name(csv_text(name)) == name
    pd.testing.assert_frame_equal(read_descriptions(tmp_path / "t.csv"), table.astype("float32"))


def test_a_scratch_folder_is_private_and_those_of_killed_processes_go_after_a_day(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = "from firstsight._io.files import scratch_folder as s\nwith s() as f: print(f, flush=True); input()"
    child = _python(code, env={**os.environ, "TMPDIR": str(tmp_path)}, stdin=subprocess.PIPE)
    left = Path(child.stdout.readline().strip())
    os.utime(left, (0, 0))
    with scratch_folder() as own:
        assert own.stat().st_mode & 0o777 == 0o700
        assert left.is_dir(), "its process lives"
        child.kill()
        child.wait()
        os.utime(left)
        with scratch_folder():
            assert left.is_dir(), "it was in use a moment ago"
        os.utime(left, (0, 0))
        with scratch_folder():
            assert list(tmp_path.iterdir()) != [own]
            assert not left.exists()
            assert own.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_clock_that_was_put_back_does_not_keep_half_written_files(target):
    gone = _python("")
    gone.wait()
    left = temporary_beside(target)
    left = left.with_name(left.name.replace(str(os.getpid()), str(gone.pid)))
    left.write_text("half")
    os.utime(left, (2**33, 2**33))
    remove_stale(target)
    assert not left.exists()


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)], ids=["pipe", "device"])
def test_only_regular_files_are_read_whoever_reads_them(tmp_path, make):
    """Nobody waits for a pipe's other end, and no device is read without end."""
    from firstsight.experiments.choices import read_choices
    from firstsight.experiments.records import read_records
    from firstsight.persistence.model_folder import load
    from firstsight.reporting.results import NAME, read_settings

    (tmp_path / "m").mkdir()
    for place in ("m/model.json", "a.jsonl", "b.json", NAME):
        make(tmp_path / place)
    for read, place in ((read_records, "a.jsonl"), (read_choices, "b.json"), (load, "m"), (read_settings, "")):
        with pytest.raises(UnreadableFile, match="not a regular file"):
            read(tmp_path / place)
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(tmp_path / "a.jsonl")
