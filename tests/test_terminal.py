from __future__ import annotations

import logging

import pytest

from firstsight.terminal import counted, logger, say, set_volume, shown_on_screen


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
