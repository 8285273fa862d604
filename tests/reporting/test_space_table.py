from __future__ import annotations

from firstsight.reporting.run_tables import space_table


def _texts(table):
    return [[cell.text for cell in row] for row in table.rows if not isinstance(row, str)]


def test_spaces_stand_beside_what_the_project_says_of_them(read, synthetic, tmp_path):
    facts = {"compactness": 0.5, "separability": -0.25, "hubness": None, "embedding": {"compactness": 0.4}}
    methods = (("dap", "semantic"), ("rn", "latent"), ("deep-embedding", "latent"))
    records = [synthetic.record(method=m, space=space, space_facts=facts) for m, space in methods]
    bare = space_table(read(records))
    assert [column.title for column in bare.columns[:2]] == ["method", "compact\u00a0↓"]
    claims = ["[claims]", 'title = "paper says"', 'semantic = "compact"', 'latent = "separable"', 'rn = "both"']
    (tmp_path / "records" / "report.toml").write_text("\n".join(claims))
    table = space_table(read(records))
    assert table.columns[1].title == "paper says"
    claims = {row[0]: row[1:] for row in _texts(table)}
    figures = ["0.50", "−0.25", "–"]
    said = {"dap": "compact", "rn": "both", "deep-embedding": "separable"}
    assert claims == {method: [claim, *figures] for method, claim in said.items()}
    assert table.rows[1][2].detail == "own 0.40"
    assert any(note.startswith("–: not recorded, or there is no such number. Hubness") for note in table.notes)
    whole = [{**record, "space_facts": {**facts, "hubness": 0.5}} for record in records]
    assert not any("–:" in note for note in space_table(read(whole)).notes)
