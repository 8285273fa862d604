"""One picture file → one upright RGB picture of a bounded size, whatever its format."""

from __future__ import annotations

import io
import threading

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

# Pillow's own limit against files that unpack to more memory than a machine has.
PIXEL_LIMIT = 178_956_970
# Below this a picture is decoded as it is, so that features are those of everybody else's pipeline.
LARGE = 16_000_000
# A large picture is first made smaller, but no side below this: several times what any backbone looks at.
ENOUGH = 1024
# A picture longer than this many times its width would be blown up by resizing its short side.
LONGEST = 16
_TINY = 16  # processors mistake the side of a picture three pixels high for its colours

_one_large_at_a_time = threading.Lock()


class Undecodable(Exception):
    """Why a file is no picture that can be used: a few words for a person."""


def decode_picture(content: bytes) -> Image.Image:
    """The first frame, turned as its EXIF says, on white where it is transparent, as 8-bit RGB.

    Pictures above 16 megapixels are reduced while or right after they are read, one at a time; those above the
    decompression-bomb limit are refused before anything is unpacked.
    """
    if not content:
        raise Undecodable("the file is empty")
    try:
        picture = Image.open(io.BytesIO(content))
        pixels = picture.width * picture.height
        if pixels > PIXEL_LIMIT:
            raise Image.DecompressionBombError
        if pixels <= LARGE:
            return _upright_rgb(picture)
        with _one_large_at_a_time:
            return _upright_rgb(_reduced(picture))
    except Image.DecompressionBombError:
        raise Undecodable(f"more than {PIXEL_LIMIT // 10**6} megapixels, the limit against harmful files") from None
    except UnidentifiedImageError:
        raise Undecodable("not a picture format that can be read") from None
    except MemoryError:
        raise Undecodable("too large for this machine's memory") from None
    except Exception as error:  # decoders answer damage with a dozen unrelated types
        raise Undecodable(f"damaged: {str(error).strip() or type(error).__name__}") from None


def _reduced(picture: Image.Image) -> Image.Image:
    size = (ENOUGH, ENOUGH)
    picture.draft(None, size)  # JPEG only: it is decoded at a fraction of its size, never below this one
    factor = min(picture.size) // ENOUGH
    if factor < 2 or picture.mode in ("P", "1"):  # colour numbers and bits cannot be averaged
        return picture
    orientation = picture.getexif()
    small = picture.reduce(factor)
    small.info = picture.info
    if orientation:
        small.info["exif"] = orientation.tobytes()
    return small


def _upright_rgb(picture: Image.Image) -> Image.Image:
    picture.load()
    turned = ImageOps.exif_transpose(picture)
    rgb = _without_alpha(_eight_bits(turned))
    width, height = rgb.size
    if max(width, height) > LONGEST * min(width, height):
        reach = LONGEST * min(width, height)
        rgb = ImageOps.fit(rgb, (min(width, reach), min(height, reach)))
    if min(rgb.size) < _TINY:
        rgb = rgb.resize((max(rgb.width, _TINY), max(rgb.height, _TINY)))
    return rgb


def _eight_bits(picture: Image.Image) -> Image.Image:
    """Deep grey pictures as 8-bit ones; Pillow itself would cut off everything above 255."""
    if picture.mode == "F":
        values = np.nan_to_num(np.asarray(picture))
        scale = 255.0 if values.max(initial=0) <= 1 else 1.0
    elif picture.mode == "I" or picture.mode.startswith("I;16"):
        values = np.asarray(picture)
        scale = 1.0 if picture.mode == "I" and values.max(initial=0) <= 255 else 255 / 65535
    else:
        return picture
    return Image.fromarray(np.clip(values * np.float32(scale) + np.float32(0.5), 0, 255).astype(np.uint8))


def _without_alpha(picture: Image.Image) -> Image.Image:
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    picture = picture.convert("RGBA")
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture).convert("RGB")
