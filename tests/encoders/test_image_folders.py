"""Which files of a folder are pictures, and of which class."""

from __future__ import annotations

import os

import pytest
from PIL import Image

from firstsight.encoders import find_images, name_as_text, survey_images
from firstsight.encoders.image_folders import is_image, survey_together
from firstsight.errors import BadInput, UnreadableFile


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_sub_folders_are_classes_however_deep_the_pictures_lie(tmp_path):
    touch(tmp_path, "ox/b.JPG", "ox/more/a.png", "okapi/c.jpeg", "ox/notes.txt", ".hidden/x.png", "ox/.x.png", "r.md")
    paths, classes = find_images(tmp_path)
    assert [p.name for p in paths] == ["c.jpeg", "b.JPG", "a.png"]
    assert classes == ["okapi", "ox", "ox"]


def test_a_flat_folder_has_no_classes_and_one_picture_is_a_folder_of_one(tmp_path):
    touch(tmp_path, "b.png", "a.png")
    assert find_images(tmp_path) == ([tmp_path / "a.png", tmp_path / "b.png"], None)
    assert find_images(tmp_path / "b.png") == ([tmp_path / "b.png"], None)


def test_what_is_unclear_is_one_sentence(tmp_path):
    with pytest.raises(BadInput, match="holds no pictures"):
        find_images(tmp_path)
    with pytest.raises(BadInput, match="There is no folder"):
        find_images(tmp_path / "none")
    touch(tmp_path, "ox/a.png", "b.png", "c.txt")
    with pytest.raises(BadInput, match=r"both directly \(for example b\.png"):
        find_images(tmp_path)
    with pytest.raises(BadInput, match="neither a folder nor a picture"):
        find_images(tmp_path / "c.txt")


def test_links_are_followed_but_not_in_circles(tmp_path):
    touch(tmp_path, "far/away/a.png", "in/okapi/b.png")
    (tmp_path / "in" / "ox").symlink_to(tmp_path / "far" / "away")
    (tmp_path / "in" / "okapi" / "loop").symlink_to(tmp_path / "in")
    paths, classes = find_images(tmp_path / "in")
    assert [path.name for path in paths] == ["b.png", "a.png"]
    assert classes == ["okapi", "ox"]


def test_folders_that_link_to_each_other_give_every_picture_once(tmp_path):
    for top in "abcdef":
        touch(tmp_path, *(f"{top}/{number}.png" for number in range(7)))
    for top in "abcdef":
        for other in "abcdef":
            (tmp_path / top / f"to-{other}").symlink_to(tmp_path / other)
    found = survey_images(tmp_path)
    assert len(found.paths) == 42
    assert [path.parent.name for path in found.paths] == found.classes  # by the way without links
    assert found.remarks() == []


def test_a_picture_behind_two_names_counts_once_where_it_really_is(tmp_path):
    touch(tmp_path, "b/1.png", "b/2.png")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").symlink_to(tmp_path / "b" / "1.png")
    os.link(tmp_path / "b" / "2.png", tmp_path / "b" / "3.png")
    (tmp_path / "b" / "self.png").symlink_to(tmp_path / "b" / "self.png")
    found = survey_images(tmp_path)
    assert [path.name for path in found.paths] == ["1.png", "2.png", "self.png"]
    assert found.classes == ["b", "b", "b"]
    assert found.remarks() == [
        "1 sub-folder without a picture of its own: a.",
        "2 links lead to pictures that are there already; each picture counts once.",
    ]


def test_what_is_left_out_is_told_and_what_is_no_picture_is_not(tmp_path):
    touch(tmp_path, "ox/a.png", "ox/1.CR2", "ox/2.nef", "ox/3.dng", "ox/4.svg", "ox/Thumbs.db", "ox/README.txt")
    touch(tmp_path, "ox/.DS_Store", "ox/LICENSE")
    Image.new("RGB", (20, 20)).save(tmp_path / "ox" / "plain", "JPEG")
    Image.new("RGB", (20, 20)).save(tmp_path / "ox" / "saved.jpg_large", "JPEG")
    (tmp_path / "okapi").mkdir()
    found = survey_images(tmp_path)
    assert [path.name for path in found.paths] == ["a.png", "plain"]
    assert found.remarks() == [
        "left out 5 files in formats that are not read: 1.CR2, 2.nef, 3.dng, ….",
        "1 sub-folder without a picture of its own: okapi.",
    ]
    touch(tmp_path, "raw/b.arw")
    with pytest.raises(BadInput, match=r"holds no pictures .* 1 file in other formats: b\.arw"):
        survey_images(tmp_path / "raw")


def test_names_become_text_that_can_be_printed_and_written():
    assert name_as_text("Käfer 虫.png") == "Käfer 虫.png"
    assert name_as_text(os.fsdecode(b"caf\xe9.png")) == "caf\\xe9.png"
    assert name_as_text("\x1b[31mred\n\u202egnp.exe") == "\\x1b[31mred\\n\\u202egnp.exe"


def test_a_class_folder_whose_name_is_not_utf_8(tmp_path):
    folder = tmp_path / os.fsdecode(b"\xffox")
    try:
        touch(folder, "a.png")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert find_images(tmp_path)[1] == ["\\xffox"]
    with pytest.raises(BadInput, match="xffox/none"):
        find_images(folder / "none")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no such files here")
def test_pipes_and_devices_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert not is_image(tmp_path / "pipe")
    with pytest.raises(BadInput, match="neither a folder nor a picture"):
        find_images(tmp_path / "pipe")
    with pytest.raises(BadInput, match="neither a folder nor a picture"):
        find_images("/dev/zero")


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="no such permissions here")
@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_folder_without_permission_is_one_sentence(tmp_path, mode):
    touch(tmp_path, "ox/a.png", "okapi/b.png")
    above = [folder for folder in tmp_path.parents if "pytest-" in str(folder)]  # pytest shuts these to others
    for folder in (tmp_path, *above):
        folder.chmod(0o755)
    (tmp_path / "ox").chmod(mode)
    root = os.geteuid() == 0
    try:
        if root:
            os.seteuid(65534)
        with pytest.raises(UnreadableFile, match=r"ox could not be opened \(Permission denied\)"):
            find_images(tmp_path)
        with pytest.raises(UnreadableFile, match="could not be opened"):
            find_images(tmp_path / "ox")
    finally:
        if root:
            os.seteuid(0)
        (tmp_path / "ox").chmod(0o755)


def test_a_file_of_labels_says_what_pictures_show_and_its_last_word_counts(tmp_path):
    for name in ("a.png", "b.png", "stranger.png"):
        Image.new("L", (4, 4)).save(tmp_path / name)
    (tmp_path / "labels.csv").write_text('file,class\na.png,cat\nb.png,"dog, old"\na.png,=cow\nc.png,gone\n')
    paths, classes = find_images(tmp_path)
    assert [path.name for path in paths] == ["a.png", "b.png"]
    assert classes == ["=cow", "dog, old"]
    (tmp_path / "labels.csv").write_text("picture,what\na.png,cat\n")
    with pytest.raises(BadInput, match="columns file and class"):
        find_images(tmp_path)
    (tmp_path / "labels.csv").write_text("file,class\nelse.png,cat\n")
    with pytest.raises(BadInput, match="names none of the 3 pictures"):
        find_images(tmp_path)


def test_pictures_that_a_file_of_labels_does_not_name_count_by_their_sub_folder(tmp_path):
    touch(tmp_path, "a.png", "stray.png", "cats/b.png", "cats/c.png", "cats/deep/e.png", "dogs/d.png")
    (tmp_path / "labels.csv").write_text("file,class\na.png,owl\ncats/b.png,dogs\ngone\x1b.png,owl\n")
    found = survey_images(tmp_path)
    assert [path.name for path in found.paths] == ["a.png", "b.png", "c.png", "e.png", "d.png"]
    assert found.classes == ["owl", "dogs", "cats", "cats", "dogs"]
    left_out, contradiction, absent = found.remarks()
    assert left_out.startswith("left out 1 picture in no sub-folder that labels.csv does not name: stray.png;")
    assert contradiction == "labels.csv contradicts the sub-folder of cats/b.png ('dogs'); labels.csv counts."
    assert absent == "labels.csv names 1 file that is no picture in its folder: gone\\x1b.png."


def test_a_sub_folder_that_is_no_class_contradicts_nothing(tmp_path):
    touch(tmp_path, "images/1.png", "images/2.png")
    (tmp_path / "labels.csv").write_text("file,class\nimages/1.png,cat\nimages/2.png,dog\n")
    assert survey_images(tmp_path).classes == ["cat", "dog"]
    assert survey_images(tmp_path).remarks() == []


def test_several_folders_are_one_and_every_picture_counts_once(tmp_path, monkeypatch):
    touch(tmp_path, "one/ox/1.png", "one/okapi/1.png", "two/ox/1.png", "two/3.png")
    (tmp_path / "two" / "labels.csv").write_text("file,class\n3.png,yak\n")
    (tmp_path / "two" / "ox" / "again.png").symlink_to(tmp_path / "one" / "ox" / "1.png")
    monkeypatch.chdir(tmp_path)
    found = survey_together(["one", tmp_path / "two"])
    assert found.place == tmp_path
    names = [path.relative_to(found.place).as_posix() for path in found.paths]
    expected = {"one/okapi/1.png": "okapi", "one/ox/1.png": "ox", "two/3.png": "yak", "two/ox/1.png": "ox"}
    assert dict(zip(names, found.classes, strict=True)) == expected
    assert found.remarks() == ["1 link leads to pictures that are there already; each picture counts once."]
    assert survey_together(["one"]) == survey_images("one")


def test_a_picture_of_two_classes_in_two_folders_is_named(tmp_path):
    touch(tmp_path, "one/ox/1.png", "two/yak/2.png", "flat/4.png")
    (tmp_path / "two" / "yak" / "same.png").symlink_to(tmp_path / "one" / "ox" / "1.png")
    with pytest.raises(BadInput, match=r"same\.png is of class 'ox' in one folder and of 'yak' in another"):
        survey_together([tmp_path / "one", tmp_path / "two"])
    with pytest.raises(BadInput, match="flat must have one sub-folder per class"):
        survey_together([tmp_path / "one", tmp_path / "flat"])
    with pytest.raises(BadInput, match="list of folders is empty"):
        survey_together([])
