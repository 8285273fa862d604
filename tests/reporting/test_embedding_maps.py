from __future__ import annotations

import numpy as np
import pytest

from firstsight.errors import BadInput, UnreadableFile
from firstsight.reporting.embedding_maps import map_figure, read_maps


def _map(folder):
    ((dataset, arrays),) = read_maps(folder, {})
    return map_figure(dataset, arrays)


def test_a_map_has_six_panels_with_dots_and_from_the_second_on_squares(synthetic, tmp_path):
    picture = _map(synthetic.write_map(tmp_path, classes=5))
    axes = [axis for part in picture.figure.subfigs for axis in part.axes]
    assert [part.get_suptitle() for part in picture.figure.subfigs] == ["Seen and unseen classes", "Unseen classes"]
    assert [axis.get_title() for axis in axes] == 2 * [
        "Visual space",
        "Inductive embedding",
        "Transductive embedding",
    ]
    for number, axis in enumerate(axes):
        dots = [c for c in axis.collections if len(c.get_offsets()) == 40]
        squares = [c for c in axis.collections if len(c.get_offsets()) == 1]
        assert (len(dots), len(squares)) == (5, 0 if number % 3 == 0 else 5)
    legends = [[text.get_text() for text in part.legends[0].get_texts()] for part in picture.figure.subfigs]
    assert [name.endswith("(seen)") for name in legends[0]] == [False, False, True, True, True]
    assert not any(name.endswith("(seen)") for name in legends[1])


def test_a_visual_space_without_squares_is_explained(synthetic, tmp_path):
    path = synthetic.write_map(tmp_path) / "maps" / "CUB.npz"
    assert any("Visual space has no squares" in note for note in _map(tmp_path).notes)
    arrays = dict(np.load(path))
    np.savez(path, **{**arrays, "visual_all_classes": arrays["inductive_all_classes"]})
    assert not any("no squares" in note for note in _map(tmp_path).notes)


def test_classes_beyond_the_colours_are_numbered(synthetic, tmp_path):
    picture = _map(synthetic.write_map(tmp_path, classes=12))
    axis = picture.figure.subfigs[0].axes[1]
    assert [text.get_text() for text in axis.texts] == [str(i + 1) for i in range(12)]
    assert "Numbers tell classes of similar colour apart." in picture.notes


def test_twenty_classes_have_twenty_colours_and_the_thirtieth_repeats_one_and_says_so(synthetic, tmp_path):
    def colours(classes):
        picture = _map(synthetic.write_map(tmp_path, classes=classes))
        panel = picture.figure.subfigs[0].axes[0]
        return {tuple(dots.get_facecolor()[0]) for dots in panel.collections}, picture.notes

    found, notes = colours(20)
    assert len(found) == 20
    assert "Colours repeat." not in notes
    found, notes = colours(30)
    assert len(found) < 30
    assert "Colours repeat." in notes


def test_a_map_of_another_split_is_refused(synthetic, tmp_path):
    with pytest.raises(BadInput, match="another split"):
        read_maps(synthetic.write_map(tmp_path), {"CUB": "something else"})


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: {"all_labels": arrays["all_labels"][:-1]},
        lambda arrays: {"all_labels": arrays["all_labels"] - 1},
        lambda arrays: {"all_labels": arrays["all_labels"] + 1},
        lambda arrays: {"unseen_names": np.array("one")},
        lambda arrays: {"unseen_seen": arrays["unseen_seen"][:-1]},
        lambda arrays: {"visual_all_points": arrays["visual_all_points"][:, :1]},
        lambda arrays: {"visual_all_points": np.full_like(arrays["visual_all_points"], np.nan)},
        lambda arrays: {"visual_all_points": arrays["visual_all_points"].astype(str)},
        lambda arrays: {"inductive_all_classes": arrays["inductive_all_classes"][:3]},
        lambda arrays: {"inductive_all_classes": arrays["inductive_all_classes"][:, 0]},
    ],
)
def test_a_map_that_cannot_be_drawn_is_refused_when_it_is_read(synthetic, tmp_path, change):
    path = synthetic.write_map(tmp_path) / "maps" / "CUB.npz"
    arrays = dict(np.load(path))
    np.savez(path, **{**arrays, **change(arrays)})
    with pytest.raises(UnreadableFile, match="damaged"):
        read_maps(tmp_path, {})


@pytest.mark.parametrize("kept", [0, 1, 200, 5000])
def test_a_map_file_that_was_cut_off_is_refused(synthetic, tmp_path, kept):
    path = synthetic.write_map(tmp_path) / "maps" / "CUB.npz"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(UnreadableFile, match="not a map"):
        read_maps(tmp_path, {})


def test_a_map_file_whose_bytes_were_changed_is_refused(synthetic, tmp_path):
    path = synthetic.write_map(tmp_path) / "maps" / "CUB.npz"
    np.savez_compressed(path, **dict(np.load(path)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255  # zlib, not zipfile or NumPy, may be the one to notice
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match="not a map"):
        read_maps(tmp_path, {})
