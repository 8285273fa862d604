from __future__ import annotations

from pathlib import Path

import pytest

from firstsight.errors import UnreadableFile
from firstsight.reporting.results import ReportSettings, read_settings

PROJECT = Path(__file__).resolve().parents[2]


def test_without_a_file_nothing_is_said(tmp_path):
    assert read_settings(tmp_path) == ReportSettings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title = 3", "title: input should be a valid string"),
        ("our = []", "our: extra inputs are not permitted; it may have title, about, links, ours"),
        ("ours = 'rn'", "ours: input should be a valid list"),
        ("title = ", "cannot be read"),
        ("links = {home = 'javascript:alert(1)'}", "begins with https://"),
    ],
)
def test_a_file_that_is_not_as_it_should_be_is_one_sentence(tmp_path, text, words):
    (tmp_path / "report.toml").write_text(text)
    with pytest.raises(UnreadableFile, match=words):
        read_settings(tmp_path)


def test_the_documentation_names_every_setting():
    text = (PROJECT / "docs" / "report.md").read_text(encoding="utf-8")
    assert not [name for name in ReportSettings.model_fields if f"`{name}`" not in text]


def test_this_projects_own_settings_are_read_and_name_what_is_there():
    found = read_settings(PROJECT / "results")
    records = "".join(path.read_text(encoding="utf-8") for path in (PROJECT / "results").glob("*.jsonl"))
    assert found.ours
    assert all(f'"method":"{method}"' in records for method in found.ours)
