from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import firstsight
from firstsight.errors import BadInput

PROGRAM = Path(sys.executable).with_name("firstsight")


def _program(*words, **more):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=300, **more)


def test_the_installed_program_says_its_version():
    done = _program("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, firstsight.__version__ + "\n", "")
    module = subprocess.run([sys.executable, "-m", "firstsight", "--version"], capture_output=True, text=True)
    assert (module.returncode, module.stdout, module.stderr) == (0, done.stdout, "")


def test_the_installed_program_answers_a_mistake_with_one_sentence(tmp_path):
    done = _program("data", "check", "no/such/place", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: There is no data set 'no/such/place'; accepted are")


def test_every_command_has_help(cli):
    words = ["demo", "evaluate", "fit", "methods", "predict"]
    shown = cli("--help")
    assert shown.code == 0
    for word in words:
        assert word in shown.out
        assert cli(word, "--help").code == 0


@pytest.mark.parametrize(
    "words", [["fitt"], ["fit"], ["evaluate", "x", "--seed", "-1"], ["evaluate", "x", "--setting", "some"]]
)
def test_a_command_that_cannot_be_parsed_exits_with_2_and_no_traceback(cli, words):
    done = cli(*words)
    assert done.code == 2
    assert done.err
    assert "Traceback" not in done.err


def test_a_bug_keeps_its_traceback(cli, monkeypatch):
    monkeypatch.setattr("firstsight.methods.all_methods", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli("methods")


def test_a_long_message_stays_on_one_line_and_brackets_are_not_markup(cli, monkeypatch):
    def refuses():
        raise BadInput("Column '[red]x[/]' is\n  strange: " + "word " * 100)

    monkeypatch.setattr("firstsight.methods.all_methods", refuses)
    cli("methods").is_refused_with("Column '[red]x[/]' is strange: word word")


def test_ctrl_c_is_one_sentence_and_130(cli, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("firstsight.methods.all_methods", interrupted)
    done = cli("methods")
    assert done.code == 130
    (line,) = done.err.splitlines()
    assert line.startswith("error: Interrupted; nothing that was there before is lost.")
