"""Exceptions: mistakes of the caller, whose messages are safe to show, apart from bugs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class FirstsightError(Exception):
    """Base of everything firstsight raises on purpose; its message is one sentence meant for a person."""


class BadInput(FirstsightError, ValueError):
    """Something the caller gave is wrong. The message says what was expected, what came and what to do."""


class UnknownName(BadInput):
    """A name that nothing answers to; the message offers the nearest known one.

    Parameters
    ----------
    what : str
        What kind of thing was looked for.
    name : str
        What was asked for.
    known : iterable of str
        What there is.
    """

    def __init__(self, what: str, name: str, known: Iterable[str]):
        known = list(known)
        nearest = difflib.get_close_matches(name.lower(), [k.lower() for k in known], n=1, cutoff=0.5)
        hint = next((k for k in known if nearest and k.lower() == nearest[0]), None)
        offer = f"did you mean {hint!r}?" if hint else f"known are: {', '.join(map(str, known))}."
        super().__init__(f"Unknown {what} {name!r}; {offer}")
        self.nearest = hint


class MissingPackage(BadInput, ImportError):
    """A package of an optional extra is not installed; the message has the command that installs it."""


class UnreadableFile(BadInput):
    """A file is missing, truncated, foreign or not allowed to be read."""


class StaleCheckpoint(BadInput):
    """A checkpoint that this fit cannot go on from, because it is another fit's or cannot be read.

    Parameters
    ----------
    message : str
        One sentence.
    path : Path
        The checkpoint.
    """

    def __init__(self, message: str, path: Path):
        super().__init__(message)
        self.path = path


class InUse(BadInput):
    """Another process is writing to the same place."""


class NotCalibrated(BadInput, AttributeError):
    """Confidence was asked of a model without calibration. An AttributeError, so that `hasattr` says no."""


class CannotWrite(FirstsightError, OSError):
    """Writing failed (full disk, no permission); whatever was there before is untouched."""


class FirstsightWarning(UserWarning):
    """Something deserves a look, but the work goes on."""
