from __future__ import annotations

from firstsight.reporting.accuracy_tables import calibration_table


def _texts(table):
    return [[cell.text for cell in row] for row in table.rows if not isinstance(row, str)]


def test_calibrated_figures_stand_beside_those_as_they_are(read, synthetic):
    fixed = {"constant": 0.5, "ts": 40.0, "tr": 60.0, "h": 48.0}
    whole = synthetic.record(setting="gzsl", seen_unseen={"ausuc": 33.3, "calibrated": fixed})
    part = synthetic.record(setting="gzsl", method="rn", seen_unseen={"ausuc": 20.0, "calibrated": None})
    table = calibration_table(read([whole, part]))
    assert _texts(table) == [["eszsl", "33.3", "30.0", "48.0"], ["rn", "20.0", "30.0", "–"]]
    assert table.notes[-1] == "H cal. is – where a method was not calibrated."
    line = next(line for line in table.tidy if line["method"] == "eszsl")
    assert (line["calibrated_ts"], line["calibrated_constant"]) == (40.0, 0.5)


def test_calibration_of_fewer_seeds_than_h_is_told(read, synthetic):
    fixed = {"constant": 0.5, "ts": 40.0, "tr": 60.0, "h": 48.0}
    found = [{"ausuc": 33.3, "calibrated": own} for own in (fixed, None, None)]
    records = [synthetic.record(setting="gzsl", seed=s, seen_unseen=own) for s, own in enumerate(found)]
    table = calibration_table(read(records))
    assert _texts(table) == [["eszsl", "33.3 ± 0.0", "31.0 ± 1.0", "48.0"]]
    assert table.notes[2:] == ["Calibrated for fewer seeds than H is of: eszsl on CUB (1 of 3)."]


def test_without_calibration_there_is_no_column_of_dashes(read, synthetic):
    table = calibration_table(read([synthetic.record(setting="gzsl", seen_unseen={"ausuc": 33.3})]))
    assert [column.title for column in table.columns] == ["method", "AUSUC", "H"]
    assert _texts(table) == [["eszsl", "33.3", "30.0"]]
    assert "--calibrated-h" in table.notes[1]
