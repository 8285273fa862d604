from __future__ import annotations

import json
import re

import pytest

from firstsight.methods import all_methods


def test_every_method_is_listed_with_the_documented_fields(cli):
    done = cli("methods", "--json")
    assert (done.code, done.err) == (0, "")
    rows = json.loads(done.out)
    assert [row["name"] for row in rows] == list(all_methods())
    for row in rows:
        facts = ["name", "class", "space", "kind", "extra_supervision", "needs_torch", "reads_blocks", "reference"]
        assert list(row) == [*facts, "parameters", "grid"]
        assert set(row["grid"]) <= set(row["parameters"])
        assert row["space"] in ("semantic", "visual", "latent")
        assert row["kind"] in ("inductive", "transductive")
        assert row["reference"]
    of = {row["name"]: row for row in rows}
    assert of["deep-embedding"]["class"] == "DeepEmbedding"
    assert of["deep-embedding"]["kind"] == "inductive"
    assert of["transductive-deep-embedding"]["kind"] == "transductive"


def test_the_table_shows_every_name_whole_on_a_narrow_screen(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    shown = cli("methods").out
    for name in all_methods():
        assert name in shown


@pytest.mark.parametrize("name", list(all_methods()))
def test_every_method_can_be_shown(cli, name):
    done = cli("methods", name)
    assert (done.code, done.err) == (0, "")
    assert all_methods()[name].reference in done.out.replace("\n", " ")


def test_a_grid_of_words_is_shown_as_words(cli):
    assert re.search(r"direction +'visual' +visual, semantic", cli("methods", "sae").out)


def test_one_method_is_shown_with_its_formula_parameters_and_grid(cli):
    shown = cli("methods", "ESZSL").out
    assert "ICML 2015" in shown
    assert "‖X V Sᵀ − Y‖²" in shown
    assert re.search(r"feature_penalty +0\.288 +0\.1, 0\.288, 1", shown)
    assert ">>>" not in shown
    assert json.loads(cli("methods", "eszsl", "--json").out)["parameters"]["attribute_penalty"] == 0.624
    cli("methods", "eszls").is_refused_with("did you mean 'eszsl'?")
