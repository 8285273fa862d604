from __future__ import annotations

import pytest

from firstsight.reporting.accuracy_tables import accuracy_table


def _row(table, method):
    return next(row for row in table.rows if not isinstance(row, str) and row[0].text.split()[0] == method)


def test_seeds_become_mean_and_deviation_beside_the_published_figure_and_the_difference(read, synthetic):
    table = accuracy_table(read([synthetic.record(seed=s, t1=52.9 + s) for s in range(3)]), "zsl")
    _, cell = _row(table, "eszsl")
    assert cell.text == "53.9 ± 1.0"
    assert cell.detail == "paper 53.9, 0.0"
    (line,) = table.tidy
    assert (line["mean"], line["deviation"], line["seeds"]) == (53.9, 1.0, 3)
    assert (line["published"], line["difference"]) == (53.9, 0.0)


@pytest.mark.parametrize(("t1", "said"), [(51.0, "paper 53.9, −2.9"), (60.04, "paper 53.9, +6.1")])
def test_a_difference_has_its_sign(read, synthetic, t1, said):
    assert _row(accuracy_table(read([synthetic.record(t1=t1)]), "zsl"), "eszsl")[1].detail == said


def test_data_sets_without_published_figures_show_none(read, synthetic):
    table = accuracy_table(read([synthetic.record(dataset="ANIMALS42"), synthetic.record(dataset="glyphs")]), "zsl")
    assert [cell.detail for cell in _row(table, "eszsl")] == ["", "", ""]
    assert not [note for note in table.notes if "paper" in note]


@pytest.mark.parametrize(("datasets", "said"), [(["CUB", "glyphs"], "Ours in the paper"), (["glyphs"], "")])
def test_the_papers_name_stands_only_where_its_figure_does(read, synthetic, datasets, said):
    table = accuracy_table(read([synthetic.record(d, "deep-embedding") for d in datasets]), "zsl")
    assert _row(table, "deep-embedding")[0].detail == said


def test_nothing_is_neither_best_nor_second(read, synthetic):
    figures = {"ale": 0.0, "sje": 12.0, "rn": 0.04}
    table = accuracy_table(read([synthetic.record(method=m, t1=v) for m, v in figures.items()]), "zsl")
    assert {m: _row(table, m)[1].mark for m in figures} == {"ale": "", "sje": "best", "rn": ""}


def test_best_and_second_are_marked_and_equals_share_a_place(read, synthetic):
    figures = {"dap": 40.0, "ale": 60.0, "sje": 60.04, "rn": 50.0}
    table = accuracy_table(read([synthetic.record(method=m, t1=v) for m, v in figures.items()]), "zsl")
    marks = {m: _row(table, m)[1].mark for m in figures}
    assert marks == {"dap": "", "ale": "best", "sje": "best", "rn": "second"}


def test_who_is_told_more_is_shown_and_takes_no_place(read, synthetic):
    figures = {"ale": 50.0, "rn": 60.0, "qfsl": 70.0}
    records = [synthetic.record(method=m, t1=v) for m, v in figures.items()]
    records[-1]["extra_supervision"] = "it knows more"
    table = accuracy_table(read(records), "zsl")
    assert [(_row(table, m)[1].text, _row(table, m)[1].mark) for m in figures] == [
        ("50.0", "second"),
        ("60.0", "best"),
        ("70.0", ""),
    ]


def test_nothing_is_best_alone(read, synthetic):
    assert _row(accuracy_table(read([synthetic.record()]), "zsl"), "eszsl")[1].mark == ""


def test_a_failed_cell_is_shown_as_failed_and_a_missing_one_as_a_dash(read, synthetic):
    lost = {"status": "failed", "error": "No.", "t1": None}
    records = [synthetic.record(**lost), synthetic.record(method="ale", dataset="SUN")]
    records += [synthetic.record(method="ale", seed=0), synthetic.record(method="ale", seed=1, **lost)]
    table = accuracy_table(read(records), "zsl")
    failed, absent = _row(table, "eszsl")[1:]
    assert (failed.text, failed.mark, failed.detail) == ("failed", "failed", "paper 53.9")
    assert (absent.text, absent.detail) == ("–", "paper 54.5")
    assert "1 of 2 seeds failed" in _row(table, "ale")[1].detail


def test_a_collapse_is_told(read, synthetic):
    assert "collapsed" in _row(accuracy_table(read([synthetic.record(collapsed=True)]), "zsl"), "eszsl")[1].detail


def test_the_generalized_table_has_three_figures_per_data_set_under_its_name(results):
    table = accuracy_table(results, "gzsl")
    assert [(c.group, c.title) for c in table.columns[1:]] == [
        (dataset, title) for dataset in ("CUB", "ANIMALS42", "glyphs") for title in ("ts", "tr", "H")
    ]
    assert len(table.tidy) == 19 * 9
    assert [row for row in table.rows if isinstance(row, str)] == ["semantic space", "visual space", "latent space"]


def test_notes_tell_what_the_marks_mean_and_what_differs_from_the_paper(results):
    notes = " ".join(accuracy_table(results, "gzsl").notes)
    for words in (
        "† transductive",
        "* gets extra supervision, and is therefore not ranked: its unl",
        "CMT*",
        "fine-tuned backbone",
    ):
        assert words in notes
    assert "The paper's features are ResNet-101, which those of these records need not be." in notes


def test_a_setting_without_records_has_no_table(read, synthetic):
    assert accuracy_table(read([synthetic.record()]), "gzsl") is None


TUNED = {"objective": "gzsl", "folds": 3, "candidates": 4, "search": "grid"}


def test_each_cell_says_whether_its_parameters_were_tuned(read, synthetic):
    how = {"ale": {"tuned": TUNED, "given": {"a": 1}}, "rn": {"given": {"a": 1}}, "sje": {}}
    records = [synthetic.record(method=m, **own) for m, own in how.items()]
    records += [synthetic.record("SUN", "ale"), synthetic.record("SUN", "ale", seed=1, tuned=TUNED)]
    table = accuracy_table(read(records), "zsl")
    signs = {m: [cell.sign for cell in _row(table, m)[1:]] for m in how}
    assert signs == {"ale": ["t", "m"], "rn": ["h", ""], "sje": ["", ""]}
    told = next(note for note in table.notes if note.startswith("Behind a figure"))
    for sign in (
        "t: tuned on validation",
        "h: parameters set by hand",
        "m: not the same",
        "without a sign: the method's",
    ):
        assert sign in told
    assert {line["parameters"] for line in table.tidy} == {"tuned", "by hand", "default", "mixed", None}


def test_signs_that_do_not_occur_are_not_explained(read, synthetic):
    told = " ".join(accuracy_table(read([synthetic.record()]), "zsl").notes)
    assert "without a sign: the method's own defaults." in told
    assert "tuned" not in told


def test_variants_and_methods_unknown_to_the_paper_have_rows_of_their_own(read, synthetic):
    names = ["eszsl", "eszsl gentle", "eszsl strict", "MyMethod"]
    records = [synthetic.record(method=m, t1=50.0 + i, estimator="MyMethod") for i, m in enumerate(names)]
    table = accuracy_table(read(records), "zsl")
    shown = {row[0].text: row[1].detail for row in table.rows if not isinstance(row, str)}
    assert shown.keys() == set(names)
    assert {name: detail for name, detail in shown.items() if detail} == {"eszsl": "paper 53.9, −3.9"}


def test_the_projects_own_methods_are_picked_out(synthetic, tmp_path):
    from firstsight.reporting.results import read_results

    synthetic.write(tmp_path, [synthetic.record(method=m) for m in ("rn", "mine")])
    (tmp_path / "report.toml").write_text('ours = ["mine"]')
    table = accuracy_table(read_results(tmp_path), "zsl")
    assert {row[0].text: row[0].mark for row in table.rows if not isinstance(row, str)} == {"rn": "", "mine": "ours"}
