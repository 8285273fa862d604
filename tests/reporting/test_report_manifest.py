"""A report that takes the place of another: what the other one wrote goes, all else stays."""

from __future__ import annotations

import pytest

from firstsight.errors import CannotWrite
from firstsight.reporting import report as write_report
from firstsight.reporting.page import NAME, replacing

OLD = {"tables/gone.csv": "1", "figures/gone.png": b"\x89", "tables/both.csv": "old", "index.html": "old page"}
NEW = {"tables/both.csv": "new", "index.html": "new page"}


def _write(folder, contents):
    with replacing(folder, contents):
        for name, content in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def _files(folder):
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return found - {NAME}


def test_files_that_the_new_report_does_not_have_are_removed(tmp_path):
    _write(tmp_path, OLD)
    assert _files(tmp_path) == set(OLD)
    _write(tmp_path, NEW)
    assert _files(tmp_path) == set(NEW)
    assert (tmp_path / "tables" / "both.csv").read_text() == "new"


def test_what_others_put_there_or_have_changed_stays(tmp_path):
    (tmp_path / "tables").mkdir()
    for name in ("mine.txt", "tables/mine.csv"):
        (tmp_path / name).write_text("mine")
    _write(tmp_path, OLD)
    (tmp_path / "tables" / "gone.csv").write_text("1, and what I noted")
    _write(tmp_path, NEW)
    _write(tmp_path, NEW)
    assert _files(tmp_path) == {*NEW, "mine.txt", "tables/mine.csv", "tables/gone.csv"}


@pytest.mark.parametrize("name", ["index.html", "tables/both.csv"])
def test_what_no_report_wrote_is_not_replaced(tmp_path, name):
    (tmp_path / "tables").mkdir()
    (tmp_path / name).write_text("mine")
    with pytest.raises(CannotWrite, match=r"is not as a report wrote it.*choose another --out"):
        _write(tmp_path, NEW)
    assert _files(tmp_path) == {name}
    assert (tmp_path / name).read_text() == "mine"


def test_a_page_behind_a_link_is_not_replaced(tmp_path):
    (tmp_path / "page.html").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "index.html").symlink_to(tmp_path / "page.html")
    with pytest.raises(CannotWrite, match="is not as a report wrote it"):
        _write(tmp_path / "out", NEW)
    assert (tmp_path / "page.html").read_text() == "mine"


def test_a_page_that_is_now_a_link_to_itself_is_not_replaced(tmp_path):
    _write(tmp_path, NEW)
    (tmp_path / "index.html").unlink()
    (tmp_path / "index.html").symlink_to("index.html")
    with pytest.raises(CannotWrite, match="is not as a report wrote it"):
        _write(tmp_path, NEW)


@pytest.mark.parametrize("name", ["../outside.txt", "tables/../../outside.txt", "{outside}", "notes/a.txt", "a.txt"])
def test_a_list_that_names_other_places_removes_nothing_there(tmp_path, name):
    outside, folder = tmp_path / "outside.txt", tmp_path / "out"
    _write(folder, OLD)
    (folder / "notes").mkdir()
    for path in (outside, folder / "notes" / "a.txt", folder / "a.txt"):
        path.write_text("1")
    digest = next(line[:64] for line in (folder / NAME).read_text().splitlines() if line.endswith("gone.csv"))
    with (folder / NAME).open("a") as file:
        file.write(f"{digest}  {name.format(outside=outside)}\n")
    _write(folder, NEW)
    assert outside.exists()
    assert _files(folder) == {*NEW, "notes/a.txt", "a.txt"}


def test_what_lies_behind_a_link_is_not_removed(tmp_path):
    folder, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    _write(folder, OLD)
    (folder / "figures").rename(elsewhere)
    (folder / "figures").symlink_to(elsewhere)
    (folder / "tables" / "gone.csv").rename(tmp_path / "kept.csv")
    (folder / "tables" / "gone.csv").symlink_to(tmp_path / "kept.csv")
    _write(folder, NEW)
    assert (elsewhere / "gone.png").exists()
    assert (folder / "tables" / "gone.csv").is_symlink()
    assert (tmp_path / "kept.csv").exists()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"a list of something else\n"])
def test_a_report_whose_list_is_damaged_is_left_alone_until_the_same_one_is_written_again(tmp_path, content):
    _write(tmp_path, OLD)
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(CannotWrite, match="is not as a report wrote it"):
        _write(tmp_path, NEW)
    assert _files(tmp_path) == set(OLD)
    _write(tmp_path, OLD)
    _write(tmp_path, NEW)
    assert _files(tmp_path) == set(NEW)


def test_after_a_kill_the_next_report_knows_the_files_of_both(tmp_path):
    _write(tmp_path, OLD)
    half = {"tables/half.csv": "2", **NEW}
    writing = replacing(tmp_path, half)
    writing.__enter__()  # and never leave: the process was killed
    (tmp_path / "tables" / "half.csv").write_text("2")
    assert _files(tmp_path) == {*OLD, "tables/half.csv"}
    assert (tmp_path / "index.html").read_text() == "old page"
    _write(tmp_path, NEW)
    assert _files(tmp_path) == set(NEW)


def test_a_file_that_cannot_be_removed_is_one_sentence(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    _write(tmp_path, {"figures/gone.png": b"1"})
    told = r"complete, but .*gone.png .* \(Operation not permitted\); remove it"
    with pytest.raises(CannotWrite, match=told), replacing(tmp_path, {"index.html": "new page"}):
        monkeypatch.setattr("pathlib.Path.unlink", refuse)


def test_sections_that_have_vanished_leave_no_files_and_links_lead_somewhere(synthetic, tmp_path):
    lost = synthetic.full_record("glyphs", "rn", "gzsl", 0, status="failed", error="No.")
    first = synthetic.write(tmp_path / "first", [synthetic.record("CUB", "rn"), lost])
    then = synthetic.write(tmp_path / "then", [synthetic.record("CUB", "rn")])
    write_report(first, tmp_path / "out")
    assert (tmp_path / "out" / "tables" / "failures.csv").exists()
    write_report(then, tmp_path / "out")
    write_report(then, tmp_path / "fresh")
    assert _files(tmp_path / "out") == _files(tmp_path / "fresh")
    assert not (tmp_path / "out" / "tables" / "failures.csv").exists()
    for name in (NAME, "index.html"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()


def test_the_page_is_written_after_what_it_links_to_and_before_anything_is_removed(synthetic, tmp_path, monkeypatch):
    record = synthetic.record("CUB", "rn")
    failed = {**record, "seed": 1, "status": "failed"}
    write_report(synthetic.write(tmp_path / "first", [record, failed]), tmp_path / "out")
    order = []
    from firstsight.reporting import page

    def watch(path, content):
        order.append((path.name, (tmp_path / "out" / "tables" / "failures.csv").exists()))
        return page_write(path, content)

    page_write = page.write_atomically
    monkeypatch.setattr(page, "write_atomically", watch)
    write_report(synthetic.write(tmp_path / "then", [record]), tmp_path / "out")
    assert [entry for entry in order if entry[0] == "index.html"] == [("index.html", True)]
    assert not (tmp_path / "out" / "tables" / "failures.csv").exists()
