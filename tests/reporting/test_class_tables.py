from __future__ import annotations

from firstsight.reporting.run_tables import class_table


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
