"""The glyphs are real letters, described as Unicode describes them, and the same ones every time."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import time
import unicodedata

import numpy as np
import pytest
from PIL import Image, ImageDraw

from firstsight.data import glyphs
from firstsight.errors import FirstsightError

NO_SUCH_LETTER = "\U0010ffff"  # no character by definition: fonts answer with their box


@pytest.fixture(scope="module")
def made():
    """The whole data set and the processor seconds that it took, without any cache."""
    start = time.process_time()
    dataset = glyphs.load_glyphs(cache=False)
    return dataset, time.process_time() - start


@pytest.fixture(scope="module")
def dataset(made):
    return made[0]


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The cache folder of a data set with one face, so that cache tests take less than a second."""
    monkeypatch.setenv("FIRSTSIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(glyphs, "FACES", ("DejaVuSans",))
    monkeypatch.setattr(glyphs, "DRAWINGS_PER_FACE", 5)
    return tmp_path / "cache"


def test_the_counts_are_those_of_the_docstring(dataset):
    assert len(dataset.class_names) == 173
    assert len(dataset.unseen_classes) == 40
    assert len(glyphs.FACES) == 16
    assert dataset.features.shape == (11_072, 512)
    assert dataset.images.shape == (11_072, 32, 32)
    assert len(dataset.train) + len(dataset.test_seen) + len(dataset.test_unseen) == 11_072
    assert (np.bincount(dataset.labels) == 64).all()


def test_a_fifth_of_every_seen_class_is_held_out(dataset):
    held_out = np.bincount(dataset.labels[dataset.test_seen], minlength=173)
    seen = np.isin(dataset.class_names, dataset.seen_classes)
    assert (held_out[seen] == 13).all()
    assert (held_out[~seen] == 0).all()


def test_bases_and_marks_of_unseen_classes_are_seen_in_at_least_two_others(dataset):
    seen = np.isin(dataset.class_names, dataset.seen_classes)
    needed = dataset.description_matrix[~seen].any(axis=0)
    assert (dataset.description_matrix[seen].sum(axis=0)[needed] >= 2).all()


def test_every_part_of_a_description_is_seen(dataset):
    seen = np.isin(dataset.class_names, dataset.seen_classes)
    assert dataset.description_matrix[seen].any(axis=0).all()


def test_descriptions_are_unicodes_decomposition(dataset):
    for letter, description in zip(dataset.class_names, dataset.description_matrix, strict=True):
        base, mark = (chr(int(code, 16)) for code in unicodedata.decomposition(letter).split())
        named = [name for name, value in zip(dataset.attribute_names, description, strict=True) if value]
        assert named[0] == f"base {base}"
        assert named[1].removeprefix("mark ").upper() in unicodedata.name(mark)
        assert len(named) == 2


def test_no_two_classes_share_a_description(dataset):
    assert len(np.unique(dataset.description_matrix, axis=0)) == 173


@pytest.mark.parametrize("face", glyphs.FACES)
def test_every_letter_is_drawn_and_never_the_box_for_a_missing_one(face):
    letters = glyphs.single_mark_letters()
    font = glyphs._open_face(face, letters)
    box = font.getmask(NO_SUCH_LETTER)
    drawn = {bytes(font.getmask(letter)) for letter in letters}
    assert bytes(box) not in drawn
    assert all(any(picture) for picture in drawn)
    assert len(drawn) == len(letters)


@pytest.mark.parametrize("face", glyphs.FACES)
def test_a_letter_without_its_mark_is_another_picture(face):
    letters = glyphs.single_mark_letters()
    font = glyphs._open_face(face, letters)
    for letter in letters:
        plain = np.asarray(glyphs._large(glyphs.base_and_mark(letter)[0], font))
        assert (np.asarray(glyphs._large(letter, font)) != plain).any()


def test_letters_fit_their_pictures():
    letters = glyphs.single_mark_letters()
    for face in glyphs.FACES:
        font = glyphs._open_face(face, letters)
        for letter in letters:
            picture = np.asarray(glyphs._large(letter, font))
            assert not picture[[0, -1]].any()
            assert not picture[:, [0, -1]].any()


def test_a_font_that_lacks_a_letter_is_refused():
    with pytest.raises(FirstsightError, match="has no ǰ"):
        glyphs._open_face("DejaVuSansMono-Oblique", ["é", "ǰ"])


def test_a_missing_font_is_named():
    with pytest.raises(FirstsightError, match=r"Papyrus\.ttf is missing"):
        glyphs._open_face("Papyrus", ["é"])


def test_no_picture_is_blank(dataset):
    # The noise alone spans about 100 grey levels; ink spans more.
    assert (np.ptp(dataset.images.reshape(len(dataset.images), -1).astype(int), axis=1) > 120).all()
    assert np.allclose(np.linalg.norm(dataset.features, axis=1), 1, atol=1e-5)


def test_letters_are_drawn_the_same_twice_whatever_is_drawn_beside_them(dataset):
    codes = [3, 50]
    again = glyphs.draw_letters([dataset.class_names[code] for code in codes])
    rows = np.flatnonzero(np.isin(dataset.labels, codes))
    assert again.tobytes() == dataset.images[rows].tobytes()
    assert glyphs.oriented_gradients(again).tobytes() == dataset.features[rows].tobytes()


def test_the_global_random_state_is_neither_used_nor_moved():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = glyphs.draw_letters(["é"])
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert (glyphs.draw_letters(["é"]) == first).all()


def test_oriented_gradients_equal_a_plain_loop():
    picture = glyphs.draw_letters(["š"])[7]
    grey = picture.astype(float)
    histogram = np.zeros((8, 8, 8))
    for row in range(32):
        for column in range(32):
            above, below = max(row - 1, 0), min(row + 1, 31)
            left, right = max(column - 1, 0), min(column + 1, 31)
            down = (grey[below, column] - grey[above, column]) / (below - above)
            across = (grey[row, right] - grey[row, left]) / (right - left)
            degrees = np.degrees(np.arctan2(down, across)) % 180
            lower = int(degrees // 22.5) % 8
            share = degrees / 22.5 - degrees // 22.5
            strength = np.sqrt(down**2 + across**2)
            histogram[row // 4, column // 4, lower] += (1 - share) * strength
            histogram[row // 4, column // 4, (lower + 1) % 8] += share * strength
    expected = histogram.ravel() / np.sqrt((histogram**2).sum())
    # Directions are rounded to 1/4096 of a bin and strengths to 1/16 of a grey level.
    np.testing.assert_allclose(glyphs.oriented_gradients(picture[None])[0], expected, atol=2e-4)


# --- the same bits on every processor --------------------------------------------------------------------
#
# IEEE 754 rounds + − × ÷ √ and conversions exactly. Everything else (trigonometry, sums in an order of the library's
# choice, BLAS) may differ in the last places between processors. So glyphs.py uses such functions only where their
# result is rounded to coarse steps at once, and the tests below show that no result lies near the middle of two steps.

EXACT = {
    *("uint8", "int32", "int64", "float32", "float64", "ndarray", "asarray", "arange", "empty", "empty_like", "zeros"),
    *("repeat", "sort", "unique", "flatnonzero", "isin", "meshgrid", "moveaxis", "stack", "load", "savez", "random"),
    *("clip", "rint", "maximum", "sqrt", "radians", "pi"),  # √ and × are rounded exactly
    "bincount",  # whole numbers only: test_votes_are_whole_numbers_whose_sums_are_exact
}
INEXACT = {"cos", "sin", "arctan2"}


def test_every_function_of_numpy_here_is_exact_or_is_disturbed_below():
    tree = ast.parse(inspect.getsource(glyphs))
    used = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and getattr(n.value, "id", "") == "np"}
    assert used == EXACT & used | INEXACT
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.MatMult)]  # left to BLAS


def test_no_direction_is_near_the_middle_between_two_steps():
    span = np.arange(-510, 511)
    steps = glyphs._direction(span[:, None], span)
    away_from_middle = np.abs(steps - np.floor(steps) - 0.5)
    assert away_from_middle.min() > 1e-5
    assert 1000 * np.spacing(np.abs(steps).max()) < 1e-5  # arctan2, × and ÷ are wrong by a few of these at most


def test_votes_are_whole_numbers_whose_sums_are_exact():
    below, votes_below, votes_above = glyphs._votes()
    assert all(np.issubdtype(table.dtype, np.integer) for table in (below, votes_below, votes_above))
    strongest = int((votes_below + votes_above).max()) * glyphs.CELL**2  # in one bin of one cell
    assert strongest < 2**53
    assert strongest**2 * (glyphs.SIDE // glyphs.CELL) ** 2 < 2**63


class _Disturbed:
    """NumPy or a generator whose inexact results are off by −2 to 2 units in the last place."""

    def __init__(self, real, names, rng):
        self.real, self.names, self.rng, self.calls = real, names, rng, 0

    def __getattr__(self, name):
        return self._disturbing(getattr(self.real, name)) if name in self.names else getattr(self.real, name)

    def _disturbing(self, function):
        def disturbed(*arguments, **options):
            self.calls += 1
            result = np.asarray(function(*arguments, **options))
            result = result + self.rng.integers(-2, 3, size=result.shape) * np.spacing(result)
            return result if result.ndim else float(result)

        return disturbed


@pytest.mark.parametrize("seed", [1, 2])
def test_features_are_the_same_bits_where_every_inexact_operation_is_off_by_two_units(dataset, monkeypatch, seed):
    codes = np.arange(seed, 173, 8)
    rng = np.random.default_rng(seed)
    disturbed = _Disturbed(np, INEXACT, rng)

    class Dice:
        default_rng = staticmethod(lambda key: _Disturbed(np.random.default_rng(key), {"uniform", "normal"}, rng))

    disturbed.random = Dice
    monkeypatch.setattr(glyphs, "np", disturbed)
    glyphs._votes.cache_clear()
    try:
        images = glyphs.draw_letters([dataset.class_names[code] for code in codes])
        features = glyphs.oriented_gradients(images)
    finally:
        glyphs._votes.cache_clear()
    assert disturbed.calls > 1000
    rows = np.flatnonzero(np.isin(dataset.labels, codes))
    assert images.tobytes() == dataset.images[rows].tobytes()
    assert features.tobytes() == dataset.features[rows].tobytes()


@pytest.mark.parametrize("features", ["X86_V4", "X86_V4 X86_V3"])
def test_features_are_the_same_bits_without_some_instructions_of_the_processor(features):
    code = (
        "import hashlib; from firstsight.data import glyphs; images = glyphs.draw_letters('éŵ'); "
        "print(hashlib.sha256(images.tobytes() + glyphs.oriented_gradients(images).tobytes()).hexdigest())"
    )
    printed = []
    for disabled in ("", features):
        environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": disabled}
        child = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        if "NPY_DISABLE_CPU_FEATURES" in child.stderr and child.returncode:
            pytest.skip(f"this NumPy cannot do without {features}")
        assert child.returncode == 0, child.stderr
        printed.append(child.stdout)
    assert printed[0] == printed[1]


def test_features_do_not_depend_on_how_many_pictures_are_taken_at_once():
    images = glyphs.draw_letters(["ñ"])
    whole = glyphs.oriented_gradients(images)
    assert glyphs.oriented_gradients(images, at_once=5).tobytes() == whole.tobytes()


def test_an_empty_picture_has_zero_features():
    assert not glyphs.oriented_gradients(np.full((1, 32, 32), 7, dtype=np.uint8)).any()


def test_a_stripe_votes_for_its_own_direction_only():
    picture = Image.new("L", (32, 32))
    ImageDraw.Draw(picture).rectangle((0, 14, 31, 17), fill=255)
    votes = glyphs.oriented_gradients(np.asarray(picture)[None]).reshape(64, 8).sum(axis=0)
    assert votes[4] > 0  # 90°: brightness changes from top to bottom
    np.testing.assert_allclose(np.delete(votes, 4), 0, atol=1e-5)


def test_making_takes_less_than_ten_seconds(made):
    assert made[1] < 10


def test_the_second_load_reads_the_cache_and_gives_the_same(small, monkeypatch):
    first = glyphs.load_glyphs()
    monkeypatch.setattr(glyphs, "draw_letters", None)  # drawing again would fail
    second = glyphs.load_glyphs()
    assert second.images.tobytes() == first.images.tobytes()
    assert second.features.tobytes() == first.features.tobytes()
    assert [path.suffix for path in small.iterdir()] == [".npz"]


def test_without_cache_nothing_is_written(small):
    glyphs.load_glyphs(cache=False)
    assert not small.exists()


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text", "other arrays", "other shape", "one array"])
def test_a_damaged_cache_is_made_anew(small, damage):
    first = glyphs.load_glyphs()
    (file,) = small.iterdir()
    good = file.read_bytes()
    if damage == "empty":
        file.write_bytes(b"")
    elif damage == "cut":
        file.write_bytes(good[: len(good) // 2])
    elif damage == "flipped":
        middle = len(good) // 2
        file.write_bytes(good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :])
    elif damage == "text":
        file.write_text("not a cache")
    elif damage == "other arrays":
        np.savez(file, pictures=first.images)
    elif damage == "other shape":
        np.savez(file, images=first.images[1:], features=first.features[1:])
    else:
        with file.open("wb") as handle:
            np.save(handle, first.images)
    assert glyphs.load_glyphs().images.tobytes() == first.images.tobytes()
    assert glyphs._read_cache(len(first.class_names)) is not None


def test_a_cache_folder_that_cannot_be_written_is_no_error(small):
    small.write_text("a file where the folder should be")
    assert len(glyphs.load_glyphs().class_names) == 173


def test_the_cache_file_is_named_after_all_that_moves_pixels(small, monkeypatch):
    before = glyphs._cache_file()
    monkeypatch.setattr(glyphs, "version", lambda maker: "99")
    assert glyphs._cache_file().name == f"glyphs-v{glyphs.VERSION}-matplotlib99-pillow99-numpy99.npz" != before


def test_the_cache_folder_is_the_one_asked_for_then_the_users(tmp_path, monkeypatch):
    monkeypatch.setenv("FIRSTSIGHT_CACHE", str(tmp_path / "mine"))
    assert glyphs.cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("FIRSTSIGHT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert glyphs.cache_folder() == tmp_path / "xdg" / "firstsight"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert glyphs.cache_folder() == tmp_path / ".cache" / "firstsight"


def test_ridge_regression_to_descriptions_names_unseen_letters_far_above_chance(dataset):
    """Chance is 2.5 %; were it nearly perfect, the set would tell no two methods apart."""
    X, S = dataset.features, dataset.description_matrix
    target = S[dataset.labels[dataset.train]]
    x_mean, s_mean = X[dataset.train].mean(axis=0), target.mean(axis=0)
    centred = X[dataset.train] - x_mean
    weights = np.linalg.solve(centred.T @ centred + 0.1 * np.eye(512), centred.T @ (target - s_mean))
    unseen = np.unique(dataset.labels[dataset.test_unseen])
    described = (X[dataset.test_unseen] - x_mean) @ weights + s_mean
    among_unseen = unseen[(described @ S[unseen].T).argmax(axis=1)]
    among_all = (described @ S.T).argmax(axis=1)
    truth = dataset.labels[dataset.test_unseen]
    assert 0.6 < np.mean(among_unseen == truth) < 0.9
    assert 0.25 < np.mean(among_all == truth) < np.mean(among_unseen == truth) - 0.15
