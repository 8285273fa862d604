from __future__ import annotations

import logging

import pytest

from firstsight._io.terminal import counted, logger, say, screen, set_volume, shown_on_screen, visible, write_out


@pytest.mark.parametrize(
    ("quiet", "verbose", "heard"),
    [(False, False, ["bad", "well"]), (True, False, ["bad"]), (False, True, ["bad", "well", "detail"])],
)
def test_the_volume_decides_what_reaches_the_screen(capsys, quiet, verbose, heard):
    with shown_on_screen():
        set_volume(quiet, verbose)
        logger.warning("bad")
        say("well")
        logger.debug("detail")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == heard


def test_a_library_says_nothing_on_the_screen_and_leaves_the_logger_as_it_was(capsys, caplog):
    before = (logger.level, logger.propagate, list(logger.handlers))
    with shown_on_screen():
        pass
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
    with caplog.at_level(logging.INFO, logger="firstsight"):
        say("[red]as it is[/]")
    assert capsys.readouterr() == ("", "")
    assert caplog.messages == ["[red]as it is[/]"]


def test_one_is_singular():
    assert counted(1, "class") == "1 class"
    assert counted(1200, "class") == "1,200 classes"
    assert counted(0, "picture") == "0 pictures"


HOSTILE = "zebra\x1b[2J\x07\x9b31m\r\u202ered"
SHOWN = "zebra\\x1b[2J\\x07\\x9b31m\\x0d\\u202ered"


def test_control_characters_of_a_name_are_shown_and_not_obeyed(capsys):
    with shown_on_screen():
        say(f"Class {HOSTILE} has no pictures.")
    screen().print(f"chosen: {HOSTILE}")
    out, err = capsys.readouterr()
    assert err == f"Class {SHOWN} has no pictures.\n"
    assert out == f"chosen: {SHOWN}\n"


def test_control_characters_in_a_cell_of_a_table_are_shown(capsys):
    from rich.table import Table

    table = Table("name")
    table.add_row(HOSTILE)
    screen().print(table)
    assert SHOWN in capsys.readouterr().out


def test_a_file_gets_the_very_characters_and_a_screen_does_not(capsys, monkeypatch):
    write_out(f"{HOSTILE}\tand\n")
    assert capsys.readouterr().out == f"{HOSTILE}\tand\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    write_out(f"{HOSTILE}\tand\n")
    assert capsys.readouterr().out == f"{SHOWN}\tand\n"
    assert visible("ñandú “é” 动物") == "ñandú “é” 动物"


def test_a_name_with_ends_of_lines_stays_in_its_line(capsys):
    with shown_on_screen():
        say("Class two\nlines\there\u2028and there has no pictures.")
    assert capsys.readouterr().err == "Class two\\nlines\\there\\u2028and there has no pictures.\n"
