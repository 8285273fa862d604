"""One thing that the audit found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing that an audit noticed.

    Attributes
    ----------
    severity : {"error", "warning", "note"}
        An error forbids use, a warning deserves a look, a note informs.
    message : str
        One sentence.
    """

    severity: Literal["error", "warning", "note"]
    message: str
