"""`glyphs`, the built-in data set: accented letters in matplotlib's fonts, described by Unicode's decomposition.

A letter is a base and a mark (é is e + acute), so a class nobody has labelled is a new combination of known
parts. The pictures are made on the spot in seconds: nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from firstsight._io.files import cache_folder, write_atomically
from firstsight.data.dataset import ZeroShotDataset, held_out_of
from firstsight.errors import CannotWrite, FirstsightError

# Raise it with every change that moves a pixel, a feature or a split: old cache files are then left alone.
VERSION = 2

# Named, not searched for: the folder also holds fonts that answer for every letter with a box (LastResort)
# or with another sign (Computer Modern has Æ, υ or a bracket at the place of À).
FACES = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique"),
    *("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique"),
    *("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic"),
    *("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta"),
)
DRAWINGS_PER_FACE = 4
UNSEEN_CLASSES = 40
TEST_SHARE = 0.2

SIDE = 32
CELL = 4
ORIENTATIONS = 8

_SEED = 20
_FINE = 3  # letters are drawn this many times larger and shrunk after turning, so edges stay smooth


def load_glyphs(cache: bool = True) -> ZeroShotDataset:
    """173 accented letters, 40 of them unseen, in 11,072 grey pictures of 32×32.

    Features are histograms of oriented gradients (512); descriptions are one-hot base ⊕ one-hot mark. With
    `cache`, pictures and features are kept in `cache_folder()` and only made when no good file is there.
    """
    letters = single_mark_letters()
    pictures = _read_cache(len(letters)) if cache else None
    if pictures is None:
        images = draw_letters(letters)
        pictures = images, oriented_gradients(images)
        if cache:
            _write_cache(*pictures)
    images, features = pictures

    descriptions, attribute_names = describe(letters)
    labels = np.repeat(np.arange(len(letters)), len(images) // len(letters))
    train, test_seen, test_unseen = _split(labels, choose_unseen(letters))
    return ZeroShotDataset(
        name="glyphs",
        features=features,
        labels=labels,
        class_names=tuple(letters),
        description_matrix=descriptions,
        train=train,
        test_seen=test_seen,
        test_unseen=test_unseen,
        attribute_names=attribute_names,
        images=images,
    )


# --- which letters, and how they are described -----------------------------------------------------------


def single_mark_letters() -> list[str]:
    """The letters that are one ASCII letter with one mark and that every face can draw."""
    latin = map(chr, range(0x00C0, 0x0180))  # Latin-1 Supplement and Latin Extended-A
    beyond = "ƠơƯưẀẁẂẃẄẅỲỳ"  # all that every face has of the later blocks
    return [letter for letter in (*latin, *beyond) if _is_one_base_with_one_mark(letter)]


def base_and_mark(letter: str) -> tuple[str, str]:
    """`("e", "acute")` for é: Unicode's own decomposition, the mark in Unicode's words."""
    base, mark = tuple(unicodedata.normalize("NFD", letter))
    return base, unicodedata.name(mark).removeprefix("COMBINING ").removesuffix(" ACCENT").lower()


def describe(letters: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Descriptions (letters, bases + marks), a one for the base, a one for the mark; and column names."""
    parts = [(f"base {base}", f"mark {mark}") for base, mark in map(base_and_mark, letters)]
    names = (*sorted({base for base, _ in parts}), *sorted({mark for _, mark in parts}))
    column = {name: number for number, name in enumerate(names)}
    descriptions = np.zeros((len(letters), len(names)), dtype=np.float32)
    for row, (base, mark) in enumerate(parts):
        descriptions[row, [column[base], column[mark]]] = 1
    return descriptions, names


def choose_unseen(letters: Sequence[str], count: int = UNSEEN_CLASSES) -> np.ndarray:
    """Class codes of `count` letters whose base and whose mark both stay in at least two seen letters.

    Two, because a base met under one mark only cannot be told apart from that mark.
    """
    parts = [(("base", base), ("mark", mark)) for base, mark in map(base_and_mark, letters)]
    left = Counter(part for pair in parts for part in pair)
    unseen: list[int] = []
    for code in np.random.default_rng(_SEED).permutation(len(letters)):
        if len(unseen) < count and all(left[part] > 2 for part in parts[code]):
            left.subtract(parts[code])
            unseen.append(int(code))
    return np.sort(unseen)


def _is_one_base_with_one_mark(letter: str) -> bool:
    parts = unicodedata.normalize("NFD", letter)
    return len(parts) == 2 and parts[0].isascii() and unicodedata.combining(parts[1]) != 0


def _split(labels: np.ndarray, unseen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows for train, test_seen and test_unseen; each seen class gives the same share to test_seen."""
    rng = np.random.default_rng(_SEED)
    is_unseen = np.isin(labels, unseen)
    held_out = np.zeros(len(labels), dtype=bool)
    for seen in np.unique(labels[~is_unseen]):
        rows = np.flatnonzero(labels == seen)
        held_out[rng.choice(rows, size=held_out_of(len(rows), TEST_SHARE), replace=False)] = True
    return np.flatnonzero(~is_unseen & ~held_out), np.flatnonzero(held_out), np.flatnonzero(is_unseen)


# --- pictures --------------------------------------------------------------------------------------------


def draw_letters(letters: Sequence[str]) -> np.ndarray:
    """Grey pictures (letters × faces × drawings, 32, 32), white on black, in that order.

    Every letter has its own random stream: which other letters are drawn does not change its pictures.
    """
    fonts = [_open_face(face, letters) for face in FACES]
    images = np.empty((len(letters), len(fonts) * DRAWINGS_PER_FACE, SIDE, SIDE), dtype=np.uint8)
    for letter, pictures in zip(letters, images, strict=True):
        rng = np.random.default_rng([_SEED, ord(letter)])
        large = [_large(letter, font) for font in fonts]
        clean = [_vary(picture, rng) for picture in large for _ in range(DRAWINGS_PER_FACE)]
        ink = np.stack(clean) * rng.uniform(0.6, 1.0, size=(len(clean), 1, 1))
        paper = rng.uniform(0, 32, size=(len(clean), 1, 1))
        noise = rng.normal(scale=12, size=pictures.shape)
        pictures[:] = np.clip(np.rint(paper + ink * (255 - paper) / 255 + noise), 0, 255)
    return images.reshape(-1, SIDE, SIDE)


def _open_face(face: str, letters: Sequence[str]) -> ImageFont.FreeTypeFont:
    import matplotlib  # here, because a cached data set needs neither fonts nor the time of this import
    from matplotlib.ft2font import FT2Font

    path = Path(matplotlib.get_data_path(), "fonts", "ttf", f"{face}.ttf")
    if not path.is_file():
        raise FirstsightError(f"matplotlib's font {path} is missing; reinstall matplotlib to draw the glyphs.")
    known = FT2Font(str(path)).get_charmap()
    missing = [letter for letter in letters if ord(letter) not in known]
    if missing:  # else the font would draw its box for "no such letter" and we would label it as one
        raise FirstsightError(f"The font {path} has no {''.join(missing)}; install another matplotlib.")
    # 22 of 32 pixels leave room for Å above and Ģ below. The basic layout is always there; the other one
    # depends on how Pillow was built.
    return ImageFont.truetype(path, size=22 * _FINE, layout_engine=ImageFont.Layout.BASIC)


def _large(letter: str, font: ImageFont.FreeTypeFont) -> Image.Image:
    """The letter on a fixed baseline, so that its size and the place of its mark mean something."""
    picture = Image.new("L", (SIDE * _FINE, SIDE * _FINE))
    ImageDraw.Draw(picture).text((SIDE * _FINE / 2, 23.5 * _FINE), letter, fill=255, font=font, anchor="ms")
    return picture


def _vary(large: Image.Image, rng: np.random.Generator) -> np.ndarray:
    """One 32×32 drawing: turned, sized and shifted a little."""
    angle = np.radians(rng.uniform(-7, 7))
    cosine, sine = _rounded(np.cos(angle)), _rounded(np.sin(angle))
    width, height = map(_rounded, rng.uniform(0.85, 1.05, size=2))
    middle = SIDE * _FINE / 2
    x, y = (middle + _rounded(shift * _FINE) for shift in rng.uniform(-1.2, 1.2, size=2))
    # PIL asks where each new pixel comes from: the turn and the sizes are those of the way back. Plain floats, because
    # the product of two matrices may be rounded differently on another processor.
    xx, xy, yx, yy = cosine / width, sine / width, -sine / height, cosine / height
    matrix = (xx, xy, middle - (xx * x + xy * y), yx, yy, middle - (yx * x + yy * y))
    turned = large.transform(large.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)
    return np.asarray(turned.reduce(_FINE))


def _rounded(value: float) -> float:
    """A multiple of 2⁻³⁰: far coarser than the last bits of a cosine, which differ between processors."""
    return round(float(value) * 2**30) / 2**30


# --- features --------------------------------------------------------------------------------------------


def oriented_gradients(images: np.ndarray, at_once: int = 256) -> np.ndarray:
    """Histograms of oriented gradients (n, 8 · 8 · 8) of grey pictures (n, 32, 32) of bytes, each of length 1.

    Every pixel votes with the strength of its gradient for the two of the eight directions (0 to 180°) that
    are nearest to its own, in proportion; votes are summed over cells of 4×4 pixels. Takes `at_once` pictures
    at a time, so that working memory does not grow with their number.

    The result is the same to the last bit on every processor: votes are whole numbers (`_votes`), so sums and sums
    of squares are exact, and the last three steps (square root, division, float32) are rounded exactly by IEEE 754.
    """
    width = (SIDE // CELL) ** 2 * ORIENTATIONS
    below, votes_below, votes_above = _votes()
    cells = np.arange(SIDE) // CELL
    first_bin = ((SIDE // CELL) * cells[:, None] + cells) * ORIENTATIONS  # of each pixel's cell
    features = np.empty((len(images), width), dtype=np.float32)
    for start in range(0, len(images), at_once):
        batch = images[start : start + at_once].astype(np.int32)
        down, right = _doubled_gradient(batch, 1), _doubled_gradient(batch, 2)
        gradient = (down + _STEEPEST) * (2 * _STEEPEST + 1) + right + _STEEPEST  # its position in the tables
        here = first_bin + np.arange(len(batch))[:, None, None] * width
        orientation = below[gradient]
        histograms = np.zeros(len(batch) * width)
        for bins, votes in ((orientation, votes_below), ((orientation + 1) % ORIENTATIONS, votes_above)):
            # Sums of whole numbers below 2⁵³ are exact in float64.
            histograms += np.bincount((here + bins).ravel(), votes[gradient].ravel(), minlength=len(histograms))
        whole = histograms.reshape(len(batch), width).astype(np.int64)
        length = np.sqrt((whole * whole).sum(axis=1, keepdims=True).astype(np.float64))
        features[start : start + at_once] = whole / np.maximum(length, 1)  # an empty picture stays zero
    return features


_STEEPEST = 2 * 255  # gradients are doubled, so that (right neighbour − left neighbour) / 2 is a whole number
# Votes are at most 722 · 8 · 4096; sixteen of them, squared, 64 times, still fit an int64.
_STRENGTH_STEPS = 8
_SHARE_STEPS = 4096


@cache
def _votes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each doubled gradient (down, right): the direction below its own, its vote for that one and for the next.

    Votes are whole numbers. Strength and direction are rounded to steps on which every processor agrees: a square root
    is rounded exactly everywhere, and no direction of a pair of whole numbers within ±510 is nearer than 1e-5 steps to
    the middle between two steps, while an arctangent is wrong by 1e-10 of them at most (tests/data/test_glyphs.py
    tries all pairs).
    """
    span = np.arange(-_STEEPEST, _STEEPEST + 1)
    down, right = np.meshgrid(span, span, indexing="ij")
    strength = np.rint(np.sqrt(down * down + right * right) * _STRENGTH_STEPS).astype(np.int64)
    steps = np.rint(_direction(down, right)).astype(np.int64) % (ORIENTATIONS * _SHARE_STEPS)
    share = steps % _SHARE_STEPS
    below = steps // _SHARE_STEPS
    return below.ravel(), (strength * (_SHARE_STEPS - share)).ravel(), (strength * share).ravel()


def _direction(down: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Direction of gradients in steps, before rounding: 180° are 8 · 4096 steps."""
    steps: np.ndarray = np.arctan2(down, right) * (ORIENTATIONS * _SHARE_STEPS / np.pi)
    return steps


def _doubled_gradient(images: np.ndarray, axis: int) -> np.ndarray:
    """Twice the central difference; at the border twice the difference to the only neighbour."""
    pixels = np.moveaxis(images, axis, -1)
    doubled = np.empty_like(pixels)
    doubled[..., 1:-1] = pixels[..., 2:] - pixels[..., :-2]
    doubled[..., 0] = 2 * (pixels[..., 1] - pixels[..., 0])
    doubled[..., -1] = 2 * (pixels[..., -1] - pixels[..., -2])
    return np.moveaxis(doubled, -1, axis)


# --- cache -----------------------------------------------------------------------------------------------


def _cache_file() -> Path:
    # matplotlib brings the fonts, Pillow draws them, NumPy throws the dice: a new one may move pixels.
    makers = "-".join(f"{maker}{version(maker)}" for maker in ("matplotlib", "pillow", "numpy"))
    return cache_folder() / f"glyphs-v{VERSION}-{makers}.npz"


def _read_cache(letters: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Pictures and features, or None where the file is missing, broken or not ours: it is then made anew."""
    try:
        with np.load(_cache_file(), allow_pickle=False) as stored:
            images, features = stored["images"], stored["features"]
    except Exception:  # a damaged file breaks in a dozen ways, and the answer to all of them is the same
        return None
    rows = letters * len(FACES) * DRAWINGS_PER_FACE
    width = (SIDE // CELL) ** 2 * ORIENTATIONS
    ours = images.shape == (rows, SIDE, SIDE) and features.shape == (rows, width)
    return (images, features) if ours and images.dtype == np.uint8 and features.dtype == np.float32 else None


def _write_cache(images: np.ndarray, features: np.ndarray) -> None:
    with contextlib.suppress(CannotWrite):  # the cache only saves time; a read-only home is no reason to fail
        write_atomically(_cache_file(), lambda path: np.savez(path, images=images, features=features))
