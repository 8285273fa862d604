from __future__ import annotations

import csv
from html.parser import HTMLParser

import pytest

from firstsight.reporting.table import (
    Column,
    Table,
    TableCell,
    csv_table,
    html_table,
    latex_table,
    latex_text,
    markdown_table,
    signed,
    spread,
)

NASTY = "<b>&50% of $x_1^2$ | {a}\\~#\"'"


class Texts(HTMLParser):
    """What a browser would show, cell by cell."""

    def __init__(self, html):
        super().__init__()
        self.cells, self.tags = [], set()
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data


@pytest.fixture
def table():
    columns = [Column("method", is_number=False), Column("T1", NASTY), Column("H", NASTY)]
    rows = ["a space", [TableCell(NASTY), TableCell("1.0 ± 0.1", "paper 2.0", "best"), TableCell("–")]]
    rows.append(
        [
            TableCell("b", mark="ours"),
            TableCell("0.5", mark="second", sign="t", share=0.5),
            TableCell("failed", mark="failed"),
        ]
    )
    return Table("name", NASTY, columns, rows, [NASTY], [{"a": 1, "b": NASTY}, {"a": None, "c": 2.5}])


def test_html_shows_every_text_as_it_is(table):
    found = Texts(html_table(table))
    assert found.cells[:4] == [
        "",
        NASTY,
        "method",
        "T1",
    ]
    assert found.cells[5:9] == ["a space", NASTY, "1.0 ± 0.1paper 2.0", "–"]
    assert "b" not in found.tags
    assert "0.5t" in found.cells
    assert '<tr class="ours">' in html_table(table)
    assert 'style="--share:0.500"' in html_table(table)
    assert {"strong", "u"} <= found.tags


def test_latex_escapes_its_special_signs(table):
    text = latex_table(table)
    body = [line for line in text.splitlines() if not line.startswith("%")]
    assert r"\textless{}b\textgreater{}\&50\% of \$x\_1\textasciicircum{}2\$" in text
    assert r"\textbf{1.0 $\pm$ 0.1} {\scriptsize (paper 2.0)}" in text
    assert r"\underline{0.5}$^{\mathrm{t}}$" in text
    for line in body:
        if line.endswith(r"\\"):
            plain = line.replace(r"\&", "").replace(r"\multicolumn{3}", "&&").replace(r"\multicolumn{2}", "&")
            assert plain.count("&") == 2, line  # as many columns in every line
    assert latex_text("a\nb  c") == "a b c"


def test_markdown_keeps_its_columns(table):
    lines = markdown_table(table).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {4}
    assert "**1.0 ± 0.1** (paper 2.0)" in rows[3]
    assert "\\<b\\>" in rows[3]


def test_code_in_a_note_stays_code(table):
    table = Table("name", "", [Column("x")], [], ["`--out a_b` * is it"])
    assert markdown_table(table).splitlines()[-1] == "`--out a_b` \\* is it"


def test_csv_holds_the_tidy_figures_and_else_the_texts(table):
    lines = list(csv.reader(csv_table(table).splitlines()))
    assert lines == [["a", "b", "c"], ["1", NASTY, ""], ["", "", "2.5"]]
    plain = Table("name", "", [Column("x"), Column("y", "g")], [[TableCell("1"), TableCell("2")]])
    assert csv_table(plain) == "x,g y\n1,2\n"


def test_a_name_is_no_formula_in_a_spreadsheet():
    plain = Table("name", "", [Column("x")], [[TableCell("=1+2")], [TableCell("-3")]])
    assert csv_table(plain) == "x\n'=1+2\n-3\n"
    assert csv_table(Table("name", "", [], [], [], [{"x": "@a", "y": -3.5}])) == "x,y\n'@a,-3.5\n"


def test_a_spread_is_mean_and_sample_deviation():
    assert spread([]) == "–"
    assert spread([50.0]) == "50.0"
    assert spread([50.0, 51.0, 52.0]) == "51.0 ± 1.0"
    assert spread([-0.5], 2) == "−0.50"


@pytest.mark.parametrize(("value", "shown"), [(2.94, "+2.9"), (-2.96, "−3.0"), (0.04, "0.0"), (-0.04, "0.0")])
def test_a_difference_shows_its_sign_unless_it_is_nothing(value, shown):
    assert signed(value) == shown
