"""One thing that the audit found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """`message` is one sentence; an error forbids use, a warning deserves a look, a note informs."""

    severity: Literal["error", "warning", "note"]
    message: str
