"""Thumbnails for pages, bounded in pixels and bytes."""

from __future__ import annotations

import io
import os
from pathlib import Path

from PIL import Image

from firstsight.encoders.decoding import InMemory, Undecodable, decoded, quiet_pillow
from firstsight.encoders.images import read_content

SIDE = 224  # pixels: twice what a card shows at the least, for fine screens
BYTES = 12_000  # a thousand of them make a page of sixteen megabytes
_QUALITIES = (82, 65, 45, 25)


def thumbnail(source: str | os.PathLike[str] | bytes | InMemory, side: int = SIDE, most: int = BYTES) -> bytes | None:
    """A JPEG file of at most `side` pixels and `most` bytes; None if the picture cannot be read (any more)."""
    try:
        content = read_content(Path(source)) if isinstance(source, str | os.PathLike) else source
        with quiet_pillow, decoded(content) as picture:
            small = picture.copy() if isinstance(source, Image.Image) else picture
            small.thumbnail((side, side))
    except (OSError, ValueError, Undecodable):
        return None
    while True:
        for quality in _QUALITIES:
            file = io.BytesIO()
            small.save(file, "JPEG", quality=quality, optimize=True)
            if len(file.getvalue()) <= most or max(small.size) <= 16:
                return file.getvalue()
        small = small.resize((max(1, small.width * 2 // 3), max(1, small.height * 2 // 3)))
