"""Whether features and descriptions are vectors of one space, as the two towers of CLIP or SigLIP make them."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBERED = re.compile(r"(.*?)(\d+)", re.DOTALL)


def text_columns(encoder: str, width: int) -> list[str]:
    """The columns of descriptions that a text encoder made: `encoder:0`, `encoder:1`, …"""
    return [f"{encoder}:{number}" for number in range(width)]


def text_encoder_of(columns: Sequence[str] | None) -> str | None:
    """The text encoder that made descriptions with these columns; None if they are of another kind.

    >>> text_encoder_of(["clip:0", "clip:1"])
    'clip'
    >>> text_encoder_of(["striped", "hooved"]) is None
    True
    """
    first = re.fullmatch(r"(.+):0", columns[0], re.DOTALL) if columns is not None and len(columns) > 1 else None
    if columns is None or first is None or list(columns) != text_columns(first[1], len(columns)):
        return None
    return first[1]


def same_encoder(name: str, other: str) -> bool:
    """Whether two names stand for one model: that on the Hugging Face hub, or its folder's name.

    >>> same_encoder("openai/clip-vit-base-patch32", "clip-vit-base-patch32")
    True
    """
    return name.rstrip("/").rpartition("/")[2].lower() == other.rstrip("/").rpartition("/")[2].lower()


def in_shared_space(
    n_features: int, n_attributes: int, attribute_names: Sequence[str] | None = None, backbone: str | None = None
) -> bool:
    """Whether features and descriptions come from one vision-language model, as far as is known of them.

    They do if they are equally wide and nothing speaks against it: where both models are known, the text encoder must
    be the backbone; and columns with names such as "striped" are attributes, whatever their number.

    Parameters
    ----------
    n_features, n_attributes : int
        Width of features and of descriptions.
    attribute_names : sequence of str, optional
        Columns of the descriptions; those that `describe` wrote name the text encoder.
    backbone : str, optional
        The vision model that made the features.

    Returns
    -------
    bool
        Whether a method for shared spaces (`shared_space`) can compare the two directly.
    """
    if n_features != n_attributes:
        return False
    if (encoder := text_encoder_of(attribute_names)) is not None:
        return backbone is None or same_encoder(encoder, backbone)
    return attribute_names is None or _are_numbered(attribute_names)


def _are_numbered(columns: Sequence[str]) -> bool:
    """Whether columns are numbers with one prefix (`0`, `1`, … or `f1`, `f2`, …), which says nothing about content."""
    matches = [_NUMBERED.fullmatch(name) for name in columns]
    if not all(matches):
        return False
    prefixes, numbers = zip(*((match[1], int(match[2])) for match in matches if match), strict=True)
    return len(set(prefixes)) == 1 and list(numbers) == list(range(numbers[0], numbers[0] + len(numbers)))
