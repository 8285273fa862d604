"""Names that a person takes for one and a program for two."""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Sequence


def squeezed(name: str) -> str:
    """A name without what a reader overlooks: case, spaces, underscores, hyphens, invisible marks, composed letters.

    >>> squeezed("Polar_Bear") == squeezed("polar bear")
    True
    """
    text = unicodedata.normalize("NFKC", name).casefold()
    text = "".join(letter for letter in text if unicodedata.category(letter) not in ("Cc", "Cf"))
    return re.sub(r"[\s_-]+", "", text)


def same_on_screen(one: str, other: str) -> bool:
    """Whether two names differ in their code points alone, such as é in one piece and in two."""
    return unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)


def nearest_name(name: str, names: Sequence[str]) -> str | None:
    """The name that is the same when both are `squeezed`, else the one that looks most like it."""
    same = {squeezed(known): known for known in reversed(names)}.get(squeezed(name))
    return same or next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.75)), None)
