"""What the charts draw, read from their axes."""

from __future__ import annotations

import numpy as np
import pytest

from firstsight.errors import BadInput, UnreadableFile
from firstsight.report.architecture import architecture_picture
from firstsight.report.classes import class_chart, class_table, confused_pairs, confusion_chart, confusion_table
from firstsight.report.curves import rounds_chart, study_chart, tradeoff_chart
from firstsight.report.maps import map_picture, read_maps
from firstsight.report.picture import Picture, png_of, short, slug
from firstsight.report.sections import all_sections


def _lines(axis):
    return {line.get_label(): line.get_xydata() for line in axis.lines if not line.get_label().startswith("_")}


def test_rounds_are_means_over_seeds_of_what_each_round_reached(read, synthetic):
    def rounds(*figures):
        first, *later = ({"round": i + 1, "t1": f, "selected": 5} for i, f in enumerate(figures))
        return [first, *({**one, "pseudo_label_accuracy": 80.0} for one in later)]

    records = [synthetic.record(seed=0, rounds=rounds(50, 60)), synthetic.record(seed=1, rounds=rounds(54, 62))]
    picture = rounds_chart(read(records), "CUB")
    accuracy, pseudo = picture.figure.axes
    np.testing.assert_allclose(_lines(accuracy)["T1"], [[1, 52], [2, 61]])
    np.testing.assert_allclose(_lines(pseudo)["conventional"], [[2, 80]])  # nothing was labelled before round 1
    assert "T1 goes from 52.0 to 61.0" in picture.alt


def test_a_study_draws_one_panel_per_method_and_shades_what_collapsed(results):
    figure = study_chart(results, "CUB", "separation").figure
    assert [axis.get_title() for axis in figure.axes] == ["deep-embedding", "transductive-deep-embedding"]
    for axis in figure.axes:
        assert set(_lines(axis)) == {"T1", "ts", "tr", "H"}
        assert [label.get_text() for label in axis.get_xticklabels()] == ["0", "1", "10", "30", "100", "300", "1000"]
        places = axis.get_xticks()
        assert (np.diff(places) > 0).all()  # zero, which has no logarithm, comes first
        assert len([patch for patch in axis.patches if patch.get_label() != ""]) == 2  # λ = 0 and 1
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["T1", "ts", "tr", "H", "collapsed, or hardly trained"]


@pytest.mark.parametrize("low_first", [True, False])
def test_every_value_of_every_panel_of_a_study_is_inside_the_axis_that_they_share(read, synthetic, low_first):
    def record(method, value, t1, **more):
        return synthetic.record(method=method, t1=t1, study="separation", variant={"separation": value}, **more)

    low, high = ("deep-embedding", "transductive-deep-embedding")[:: 1 if low_first else -1]
    records = [record(low, 0.0, 2.0, collapsed=True), record(low, 1000.0, 46.0)]
    records += [record(high, 0.0, 2.0, collapsed=True), record(high, 1000.0, 94.4)]
    for axis in study_chart(read(records), "CUB", "separation").figure.axes:
        bottom, top = axis.get_ylim()
        assert bottom == 0
        assert 94.4 < top < 105


def test_where_all_has_collapsed_noise_does_not_fill_the_picture(read, synthetic):
    study = {"study": "separation", "variant": {"separation": 0.0}, "collapsed": True}
    picture = study_chart(read([synthetic.record(t1=2.0, **study)]), "CUB", "separation")
    assert picture.figure.axes[0].get_ylim() == (0, 10)


def test_a_study_of_one_setting_says_what_it_shows_and_what_the_tables_are_made_with(read, synthetic):
    study = {"study": "separation", "variant": {"separation": 10.0}}
    records = [synthetic.record(setting="gzsl", **study), synthetic.record(parameters={"separation": 300.0})]
    picture = study_chart(read(records), "CUB", "separation")
    assert picture.alt == "ts, tr, H of eszsl on CUB with λ from 10 to 10."
    assert picture.notes == ["One seed.", "In the tables above, λ is 300."]


def test_study_figures_are_those_of_the_records(results):
    wanted = {
        r["variant"]["separation"]: r["t1"]
        for r in results.studies
        if (r["dataset"], r["method"], r["setting"]) == ("CUB", "deep-embedding", "zsl")
    }
    drawn = _lines(study_chart(results, "CUB", "separation").figure.axes[0])["T1"]
    np.testing.assert_allclose(drawn[:, 1], [wanted[v] for v in sorted(wanted)])


def test_tradeoffs_name_the_largest_areas_and_leave_the_others_grey(results):
    picture = tradeoff_chart(results, "CUB")
    named = _lines(picture.figure.axes[0])
    assert len(named) == 6
    grey = [line for line in picture.figure.axes[0].lines if line.get_color() == "#BBBBBB"]
    assert len(grey) == 19 - 6
    legend = [text.get_text() for text in picture.figure.legends[0].get_texts()]
    assert legend[-3:] == ["the others", "the method as it is", "calibrated on validation classes"]
    assert any(text.startswith("transductive-deep-embedding (") for text in legend)


def test_a_curve_that_lacks_its_cross_is_explained(read, synthetic):
    curve = {"curve": [[0.0, 60.0], [40.0, 0.0]]}
    crossed = {**curve, "calibrated": {"ts": 20.0, "tr": 30.0, "h": 24.0}}
    cells = {"ale": crossed, "rn": curve}
    records = [synthetic.record(method=m, setting="gzsl", seen_unseen=own) for m, own in cells.items()]
    words = "A curve without a cross was not calibrated."
    assert words in tradeoff_chart(read(records), "CUB").notes
    assert words not in tradeoff_chart(read([{**r, "seen_unseen": crossed} for r in records]), "CUB").notes
    assert words not in tradeoff_chart(read([{**r, "seen_unseen": curve} for r in records]), "CUB").notes


def test_a_curve_without_area_or_calibration_is_drawn_all_the_same(read, synthetic):
    records = [synthetic.record(setting="gzsl", seen_unseen={"curve": [[0.0, 60.0], [40.0, 0.0]]})]
    figure = tradeoff_chart(read(records), "CUB").figure
    (drawn,) = _lines(figure.axes[0]).values()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["eszsl", "the method as it is"]
    np.testing.assert_allclose(drawn, [[0, 60], [40, 0]])


def test_classes_are_sorted_from_easy_to_hard_and_a_missing_one_is_not_zero(read, synthetic):
    records = [
        synthetic.record(method="dap", per_class={"t1": {"ox": 10.0, "yak": 90.0, "emu": 50.0}}),
        synthetic.record(method="rn", per_class={"t1": {"ox": 20.0, "yak": 80.0}}),
    ]
    axis = class_chart(read(records), "CUB").figure.axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["yak", "emu", "ox"]
    values = axis.images[0].get_array()
    np.testing.assert_allclose(values.filled(-1), [[90, 80], [50, -1], [10, 20]])


def test_of_many_classes_the_easiest_and_hardest_are_shown_and_that_is_said(read, synthetic):
    many = {f"kind {i}": i / 2 for i in range(200)}
    picture = class_chart(read([synthetic.record(per_class={"t1": many})]), "CUB")
    names = [label.get_text() for label in picture.figure.axes[0].get_yticklabels()]
    assert (len(names), names[0], names[-1]) == (60, "kind 199", "kind 0")
    assert "of 200 classes" in picture.notes[0]


def test_the_class_table_tells_how_many_share_the_highest(read, synthetic):
    figures = {"dap": 90.0, "rn": 100.0, "ale": 100.0}
    records = [synthetic.record(method=m, per_class={"t1": {"ox": v, "yak": v / 2 + 9}}) for m, v in figures.items()]
    heading, ox, _ = class_table(read(records)).rows
    assert heading == "CUB"
    assert [cell.text for cell in ox] == ["ox", "96.7", "90.0", "100.0", "ale and 1 more"]
    many = {f"kind {i}": float(i) for i in range(20)}
    heading, first, *_, last = class_table(read([synthetic.record(per_class={"t1": many})])).rows
    assert heading == "CUB: the 5 easiest, then the 5 hardest of 20"
    assert (first[0].text, last[0].text, last[-1].text) == ("kind 19", "kind 0", "eszsl")


def test_confusions_are_rows_per_run_of_the_leader(read, synthetic):
    pairs = [["ox", "yak", 4], ["yak", "ox", 10], ["ox", "ox", 99]]
    records = [synthetic.record(seed=s, t1=60.0, confusion=pairs[: 2 + s]) for s in range(2)]
    records += [synthetic.record(method="dap", t1=10.0, confusion=[["emu", "ox", 500]])]
    results = read(records)
    assert confused_pairs(results, "CUB", "eszsl") == {("yak", "ox"): 10, ("ox", "yak"): 4}
    axis = confusion_chart(results, "CUB").figure.axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["yak  →  ox", "ox  →  yak"]
    assert [bar.get_width() for bar in axis.patches] == [10, 4]


def test_methods_without_confusions_are_named_and_not_counted(read, synthetic):
    pairs = {"sae": [["ox", "yak", 4]], "ale": [["ox", "yak", 8]], "eszsl": [], "gfzsl": []}
    t1 = {"sae": 90.0, "ale": 80.0, "eszsl": 100.0, "gfzsl": 100.0}
    results = read([synthetic.record(method=m, t1=t1[m], confusion=own) for m, own in pairs.items()])
    picture = confusion_chart(results, "CUB")
    assert picture.title == "CUB: what sae confuses most"
    assert picture.notes == [
        "No method of the 2 with confusions has a higher T1.",
        "Without confusions in their records: eszsl, gfzsl.",
    ]
    heading, row = confusion_table(results).rows
    assert heading == "CUB, 2 of 4 methods"
    assert [cell.text for cell in row] == ["ox", "yak", "6.0", "2"]


def test_without_their_records_there_are_no_charts(read, synthetic):
    bare = read([synthetic.record(), synthetic.record(setting="gzsl")])
    for draw in (rounds_chart, tradeoff_chart, class_chart, confusion_chart):
        assert draw(bare, "CUB") is None
    assert study_chart(bare, "CUB", "separation") is None
    assert read_maps(bare.folder, bare.splits) == []
    assert map_picture({}, "CUB") is None


def _map(folder):
    ((dataset, arrays),) = read_maps(folder, {})
    return map_picture(arrays, dataset)


def test_a_map_has_six_panels_with_dots_and_from_the_second_on_squares(synthetic, tmp_path):
    picture = _map(synthetic.write_map(tmp_path, classes=5))
    axes = [axis for part in picture.figure.subfigs for axis in part.axes]
    assert [axis.get_title() for axis in axes] == [
        f"{space}, {which}"
        for which in ("seen and unseen classes", "unseen classes")
        for space in ("Visual space", "Inductive embedding", "Transductive embedding")
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
    assert "numbers tell the classes apart" in " ".join(picture.notes)


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


def test_the_architecture_names_layers_sizes_and_losses():
    figure = architecture_picture(features=2048, attributes=312).figure
    said = " ".join(text.get_text() for text in figure.axes[0].texts)
    for words in ("2048 → 1024", "312 → 668", "‖φ(x) − ψ(a)‖²", "λ", "cross-entropy", "η"):
        assert words in said  # (312 + 1024) / 2 = 668


@pytest.mark.parametrize(
    ("sizes", "joint", "source"),
    [
        ({"deep-embedding": 256, "rn": 2048}, 256, "these records"),
        ({"deep-embedding": 256, "transductive-deep-embedding": 512}, 1024, "the paper"),
        ({"rn": 2048}, 1024, "the paper"),  # a space of its own
    ],
)
def test_the_architecture_has_the_size_of_the_records_where_they_have_one(read, synthetic, sizes, joint, source):
    records = [synthetic.record(method=m, parameters={"embedding_dim": size}) for m, size in sizes.items()]
    section = next(s for s in all_sections(read(records), []) if s.name == "architecture")
    (picture,) = section.blocks
    assert picture.notes[0] == f"The joint space has {joint} dimensions, as in {source}."
    assert f"d → {joint}" in " ".join(text.get_text() for text in picture.figure.axes[0].texts)


def test_names_with_dollars_and_letters_without_a_shape_are_drawn(read, synthetic, recwarn):
    results = read([synthetic.record(confusion=[["$a_{", "鳥", 3]])])
    chart = confusion_chart(results, "CUB")
    assert isinstance(chart, Picture)
    from firstsight.report.picture import plain_text

    with plain_text():
        chart = confusion_chart(results, "CUB")
    assert png_of(chart).startswith(b"\x89PNG")
    assert not list(recwarn)


def test_names_become_files_and_labels():
    assert slug("../CUB 200") == "CUB_200"
    assert slug("///") == "unnamed"
    assert short("x" * 40, 10) == "x" * 9 + "…"
