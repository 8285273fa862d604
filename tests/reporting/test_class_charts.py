from __future__ import annotations

import numpy as np

from firstsight.reporting.charts import class_chart, confusion_chart
from firstsight.reporting.run_tables import confusion_table


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


def test_confusions_are_rows_per_run_of_the_leader(read, synthetic):
    pairs = [["ox", "yak", 4], ["yak", "ox", 10], ["ox", "ox", 99]]
    records = [synthetic.record(seed=s, t1=60.0, confusion=pairs[: 2 + s]) for s in range(2)]
    records += [synthetic.record(method="dap", t1=10.0, confusion=[["emu", "ox", 500]])]
    results = read(records)
    assert results.confused_pairs("CUB", "eszsl") == {("yak", "ox"): 10, ("ox", "yak"): 4}
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
