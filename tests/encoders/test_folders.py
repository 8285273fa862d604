"""Which files of a folder are pictures, and of which class."""

from __future__ import annotations

import pytest

from firstsight.encoders import find_pictures
from firstsight.errors import BadInput


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_sub_folders_are_classes_however_deep_the_pictures_lie(tmp_path):
    touch(tmp_path, "ox/b.JPG", "ox/more/a.png", "okapi/c.jpeg", "ox/notes.txt", ".hidden/x.png", "ox/.x.png", "r.md")
    paths, classes = find_pictures(tmp_path)
    assert [p.name for p in paths] == ["c.jpeg", "b.JPG", "a.png"]
    assert classes == ["okapi", "ox", "ox"]


def test_a_flat_folder_has_no_classes_and_one_picture_is_a_folder_of_one(tmp_path):
    touch(tmp_path, "b.png", "a.png")
    assert find_pictures(tmp_path) == ([tmp_path / "a.png", tmp_path / "b.png"], None)
    assert find_pictures(tmp_path / "b.png") == ([tmp_path / "b.png"], None)


def test_what_is_unclear_is_one_sentence(tmp_path):
    with pytest.raises(BadInput, match="holds no pictures"):
        find_pictures(tmp_path)
    with pytest.raises(BadInput, match="There is no folder"):
        find_pictures(tmp_path / "none")
    touch(tmp_path, "ox/a.png", "b.png", "c.txt")
    with pytest.raises(BadInput, match=r"both directly \(b\.png"):
        find_pictures(tmp_path)
    with pytest.raises(BadInput, match="neither a folder nor a picture"):
        find_pictures(tmp_path / "c.txt")


def test_links_are_followed_but_not_in_circles(tmp_path):
    touch(tmp_path, "far/away/a.png", "in/okapi/b.png")
    (tmp_path / "in" / "ox").symlink_to(tmp_path / "far" / "away")
    (tmp_path / "in" / "okapi" / "loop").symlink_to(tmp_path / "in")
    paths, classes = find_pictures(tmp_path / "in")
    assert [path.name for path in paths] == ["b.png", "a.png"]
    assert classes == ["okapi", "ox"]
