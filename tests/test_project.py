"""What the project says of itself in several places is the same in all of them."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_classifiers_claim_the_versions_of_python_that_the_workflow_runs():
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    run = re.findall(r"\d\.\d+", re.search(r"python: \[(.*?)\]", workflow)[1])
    claimed = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line]
    assert claimed == run
    assert PROJECT["project"]["requires-python"] == f">={run[0]}"


def test_the_readme_and_the_workflow_run_what_ci_runs():
    lines = re.findall(r"^make (?:-j2 )?([\w ]+)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    goals = " ".join(lines).split()
    said = (ROOT / "README.md").read_text(encoding="utf-8")
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert len(goals) == 3
    for goal in goals:
        assert f"`make {goal}`" in said
        assert f"run: make {goal}\n" in workflow


def test_the_version_to_cite_is_that_of_the_project():
    assert re.search(rf"^version: \"?{re.escape(PROJECT['project']['version'])}\"?$", CITATION, re.MULTILINE)


def test_an_expected_failure_that_succeeds_is_a_failure():
    assert PROJECT["tool"]["pytest"]["ini_options"]["xfail_strict"] is True


def test_the_changelog_is_short_and_in_the_form_of_keep_a_changelog():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert versions
    for version in versions:
        assert re.match(r"\[(Unreleased|\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d)", version)
        assert len(version.splitlines()) <= 60
        kinds = re.findall(r"^### (.*)$", version, flags=re.MULTILINE)
        assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_every_page_of_the_site_is_in_a_table_of_contents():
    pages = {
        path.relative_to(ROOT / "docs").with_suffix("").as_posix(): path.read_text(encoding="utf-8")
        for folder in ("docs", "docs/research")
        for path in (ROOT / folder).glob("*.md")
    }
    contents = [block for text in pages.values() for block in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL)]
    patterns = [line for block in contents for line in block.splitlines()]
    patterns += [f"research/{line}" for line in patterns]
    missing = {page for page in pages if not any(fnmatch(page, pattern) for pattern in patterns)} - {"index"}
    assert not missing, "put them into docs/guide.md or docs/behind.md"


def test_every_example_has_a_title_and_draws_something():
    examples = sorted((ROOT / "examples").glob("plot_*.py"))
    assert len(examples) >= 11
    for example in examples:
        text = example.read_text(encoding="utf-8")
        title = re.match(r'"""\n(.+)\n(=+)\n', text)
        assert title, f"{example.name} does not begin with its title"
        assert len(title[1]) == len(title[2]), f"{example.name}: the line under the title has another length"
        assert "plt.show()" in text
