from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from firstsight.errors import BadInput, CannotWrite, UnreadableFile
from firstsight.reporting import report as write_report
from firstsight.reporting.page import headlines

# One process makes the whole report for all that look at it (`--dist loadgroup`).
pytestmark = pytest.mark.xdist_group("report page")

VOID = {"wbr", "meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """The tags, images, links and text of a page; complains about tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.figures, self.drawings = [], 0
        self.open, self.links, self.names, self.text, self.style = [], [], set(), "", ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if attrs.get("role") == "img":
            self.figures.append(attrs["aria-label"])
        self.drawings += tag == "svg"
        self.links += [attrs[name] for name in ("href", "src") if name in attrs]
        self.names |= {attrs["id"]} if "id" in attrs else set()
        assert tag not in ("script", "iframe", "link", "object"), tag

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.text += data


@pytest.fixture(scope="module")
def folder(results, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    assert write_report(results.folder, out) == out / "index.html"
    return out


@pytest.fixture(scope="module")
def page(folder):
    return Page((folder / "index.html").read_text(encoding="utf-8"))


def test_the_page_needs_no_network_and_no_other_file(page):
    assert {re.match(r"#|\w+/|", link)[0] for link in page.links} == {"#", "tables/", "figures/"}
    assert set(re.findall(r"url\([^)]{10}", page.style)) == {"url(data:font/"}
    assert "@import" not in page.style


def test_its_links_lead_somewhere(folder, page):
    for link in page.links:
        if link.startswith("#"):
            assert link[1:] in page.names
        else:
            assert (folder / link).is_file(), link


def test_every_figure_is_on_the_page_with_words_for_those_who_cannot_see_it(folder, page):
    files = list((folder / "figures").iterdir())
    # four per data set; λ of two, one map, the overview, three rankings of inductive methods, the network
    assert len(files) == 3 * len(("tradeoff", "rounds", "classes", "confusion")) + 2 + 1 + 1 + 3 + 1
    small = [path for path in files if path.stem.startswith(("tradeoff", "confusion"))]  # one drawing for all widths
    assert len(page.figures) == 2 * len(files) - len(small) == page.drawings
    assert all(len(words) > 40 for words in page.figures)
    for path in files:
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            assert min(picture.size) > 200


def test_every_table_is_there_in_three_formats(folder):
    names = {path.stem for path in (folder / "tables").iterdir()}
    expected = {"conventional", "generalized", "significance", "calibration", "spaces", "per_class", "confusion"}
    assert names == expected | {"ranks", "failures", "audit", "costs", "parameters"}
    for name in names:
        for end in ("csv", "tex", "md"):
            assert (folder / "tables" / f"{name}.{end}").stat().st_size > 0


def test_the_page_says_what_it_is_made_of_and_who_leads(page):
    assert "3 data sets, 19 methods, 317 records, 4 failed" in page.text
    assert "4 failed cells" in page.text
    assert "The optimiser left the road: loss is <nan> & 100 % of rows are lost." in page.text
    assert re.search(r"CUB\d\d\.\dT1 by transductive-deep-embedding †, paper 67\.8\d\d\.\dH by", page.text)


def _headlines(results):
    found = headlines(results)
    return {dataset: [f"{metric} {value} by {by}" for metric, value, by in found[dataset]] for dataset in found}


def test_who_is_told_more_leads_no_headline_and_is_told_where_it_is_above(read, synthetic):
    figures = {"rn": 60.0, "ale": 50.0, "qfsl": 70.0}
    records = [synthetic.record("glyphs", method=m, t1=v) for m, v in figures.items()]
    records += [synthetic.record("glyphs", m, "gzsl", h=100 - v) for m, v in figures.items()]
    for record in records:
        record["extra_supervision"] = "it knows more" if record["method"] == "qfsl" else ""
    told = ["T1 60.0 by rn (extra supervision, not ranked: qfsl * 70.0)", "H 50.0 by ale"]
    assert _headlines(read(records)) == {"glyphs": told}
    alone = read([r for r in records if r["method"] == "qfsl"])
    assert _headlines(alone) == {"glyphs": ["T1 70.0 by qfsl *", "H 30.0 by qfsl *"]}


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"eszsl": 100.0, "gfzsl": 99.96, "rn": 90.0}, "T1 100.0 by eszsl and gfzsl"),
        ({"ale": 70.0, "eszsl": 70.0, "gfzsl": 70.0, "rn": 60.0}, "T1 70.0 by ale and 2 more"),
        ({"eszsl": 70.1, "gfzsl": 70.0}, "T1 70.1 by eszsl, paper 53.9"),
    ],
)
def test_who_shares_the_lead_is_in_the_headline(read, synthetic, figures, said):
    assert _headlines(read([synthetic.record(method=m, t1=v) for m, v in figures.items()])) == {"CUB": [said]}


def test_the_same_records_make_the_same_files(synthetic, tmp_path):
    records = [synthetic.full_record("ANIMALS42", m, s, 0) for m in ("dap", "rn") for s in ("zsl", "gzsl")]
    place = synthetic.write(tmp_path / "records", records)
    for name in ("one", "other"):
        write_report(place, tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert len(files) > 10
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes(), file


def test_the_least_of_records_makes_a_page_that_says_how_to_get_the_rest(synthetic, tmp_path):
    place = synthetic.write(tmp_path / "records", [synthetic.record()])
    page = Page(write_report(place, tmp_path / "out").read_text(encoding="utf-8"))
    for words in ("--setting gzsl", "--seeds 5", "--study separation", "--study map"):
        assert words in page.text
    assert "Not in these records" in page.text
    assert {path.name for path in (tmp_path / "out" / "figures").iterdir()} == {"overview.png"}


def test_the_commands_it_gives_exist(synthetic, tmp_path):
    from typer.main import get_command

    from firstsight.cli.main import app

    page = write_report(synthetic.write(tmp_path / "records", [synthetic.record()]), tmp_path / "out").read_text()
    known = {word for option in get_command(app).commands["benchmark"].params for word in option.opts}
    given = set(re.findall(r"--[a-z-]+", " ".join(re.findall(r"<code>(firstsight benchmark[^<]*)</code>", page))))
    assert given
    assert given <= known


def test_names_from_records_are_text_and_nothing_else(synthetic, tmp_path):
    nasty = '<script>alert("x")</script>&amp; $\\alpha_1'
    records = [synthetic.full_record("glyphs", "rn", s, 0) for s in ("zsl", "gzsl")]
    for record in records:
        record |= {"dataset": nasty, "method": nasty, "space": nasty, "extra_supervision": nasty, "features": nasty}
        record["touched"] |= {"note": nasty}
        record |= {"parameters": {nasty: nasty}, "versions": {nasty: nasty}, "warnings": [nasty]}
        record["per_class"] = {k: {nasty: 50.0} for k in record["per_class"]}
    records[0]["confusion"] = [[nasty, nasty + "2", 4]]
    place = synthetic.write(
        tmp_path / "records", [*records, {**records[0], "seed": 1, "status": "failed", "error": nasty}]
    )
    page = Page(write_report(place, tmp_path / "out").read_text(encoding="utf-8"))  # which refuses scripts
    assert page.text.count(nasty) > 10


def test_two_data_sets_whose_files_would_have_one_name_keep_both(synthetic, tmp_path):
    for number, name in enumerate(("my set", "my/set")):
        synthetic.write(tmp_path / "records", [{**synthetic.full_record("ANIMALS42", "rn", "zsl", 0), "dataset": name}])
        (tmp_path / "records" / "my_set.jsonl").rename(tmp_path / "records" / f"{number}.jsonl")
    write_report(tmp_path / "records", tmp_path / "out")
    names = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    assert {"classes-my_set.png", "classes-my_set-2.png"} <= names


def test_bad_records_leave_an_older_report_as_it_was(synthetic, tmp_path):
    place = synthetic.write(tmp_path / "records", [synthetic.record(split="a"), synthetic.record(seed=1, split="b")])
    (tmp_path / "index.html").write_text("old")
    with pytest.raises(BadInput, match="different splits"):
        write_report(place, tmp_path)
    assert (tmp_path / "index.html").read_text() == "old"
    assert not (tmp_path / "tables").exists()


def test_somebody_elses_page_is_refused_before_anything_is_drawn(synthetic, tmp_path):
    place = synthetic.write(tmp_path / "records", [synthetic.record()])
    (tmp_path / "index.html").write_text("my home page")
    with pytest.raises(CannotWrite, match=r"index.html is not as a report wrote it"):
        write_report(place, tmp_path, lambda done, of: pytest.fail("drawn"))
    assert (tmp_path / "index.html").read_text() == "my home page"


def test_a_damaged_map_is_refused_before_the_folder_is_made(synthetic, tmp_path):
    place = synthetic.write(tmp_path / "records", [synthetic.record()])
    path = synthetic.write_map(place) / "maps" / "CUB.npz"
    path.write_bytes(b"PK half of a map")
    with pytest.raises(UnreadableFile, match="is not a map"):
        write_report(place, tmp_path / "out")
    np.savez_compressed(path, visual_all_points=np.zeros((10**7, 2)))
    with pytest.raises(UnreadableFile, match=r"is not a map.*`visual_all_points` .* claims 160,000,000 bytes"):
        write_report(place, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_to_is_told_before_anything_is_drawn(synthetic, tmp_path, monkeypatch):
    place = synthetic.write(tmp_path / "records", [synthetic.record()])
    (tmp_path / "file").write_text("old")
    monkeypatch.setattr("firstsight.reporting.page.all_sections", lambda *_: pytest.fail("drew first"))
    with pytest.raises(CannotWrite, match="choose another --out"):
        write_report(place, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "old"


def test_somebody_elses_page_has_none_of_this_projects_facts(synthetic, tmp_path):
    records = [synthetic.record("ponds", m, s, space="latent") for m in ("mine", "eszsl") for s in ("zsl", "gzsl")]
    text = Page(write_report(synthetic.write(tmp_path / "records", records), tmp_path / "out").read_text()).text
    assert "Benchmark report" in text
    assert not re.search("CUB|ANIMALS42|ResNet|deep-embedding|in the paper|paper says", text)


def test_what_a_project_says_of_its_records_is_on_its_page(synthetic, tmp_path):
    place = synthetic.write(tmp_path / "records", [synthetic.record("ponds")])
    lines = ['title = "Frogs & toads"', 'about = "Seen from `afar`."', 'ours = ["eszsl"]']
    lines += ["[links]", 'home = "https://example.org/?a&b"', "[notes]", 'conventional = ["Ponds are wet."]']
    (place / "report.toml").write_text("\n".join(lines))
    html = write_report(place, tmp_path / "out").read_text()
    assert "<h1>Frogs &amp; toads</h1>" in html
    assert "Seen from <code>afar</code>." in html
    assert '<a href="https://example.org/?a&amp;b">home</a>' in html
    assert html.count("Ponds are wet.") == 1
    assert "Ponds are wet." in (tmp_path / "out" / "tables" / "conventional.md").read_text()


def test_pictures_come_before_the_first_table(page, folder):
    html = (folder / "index.html").read_text(encoding="utf-8")
    assert html.index("<svg") < html.index('<section id="conventional"')
