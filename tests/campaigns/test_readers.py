"""Whatever is done to a file: it is read as it was, or refused with one sentence, in bounded memory and time."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from campaigns.children import Outcome, run_in_children, tell, worrying
from campaigns.mutating import BY_SUFFIX, mutate_bytes
from campaigns.readers import Files, Reader, make_readers

LONG = int(os.environ.get("FIRSTSIGHT_CAMPAIGN_MUTATIONS", "700"))  # of every reader
SHORT = 20
CORPUS = Path(__file__).with_name("corpus")  # what ever failed: corpus/<reader>/<number>/<files>
NAMES = [
    "model folder", "model folder, signed", "checkpoint", "cache entry", "records",
    "tuned choice", "features .npz", "features .csv", "features .parquet", "features .npy", "data set .npz",
    "data set .mat v5", "data set .mat v5 packed", "data set .mat v7.3", "data set .csv", "data set .parquet",
    "class descriptions", "class table", "backbone", "rows on the disk", "answers", "report settings",
    "labels of pictures",
]  # fmt: skip


@pytest.fixture(scope="session")
def readers(small, calibrated, backbone, tmp_path_factory) -> dict[str, Reader]:
    def record(**more: Any) -> dict:
        base = {"schema": 1, "status": "done", "error": None, "dataset": "small", "method": "eszsl", "setting": "zsl",
                "seed": 0, "variant": {}, "study": "", "given": {}, "split": "s", "t1": 50.0}  # fmt: skip
        return {**base, **more}

    return make_readers(small, calibrated, record, backbone, tmp_path_factory.mktemp("readers"))


def damaged(reader: Reader, number: int, seed: int) -> Files:
    """The reader's files, one of them damaged in a way that follows from two numbers."""
    random = np.random.default_rng([seed, number])
    name = str(random.choice(reader.mutated))
    change = BY_SUFFIX.get(Path(name).suffix, mutate_bytes)
    files = {**reader.files, name: change(reader.files[name], random)}
    try:
        return reader.sign(files)
    except Exception:  # what cannot even be signed is tried as it is
        return files


def read(reader: Reader, files: Files, expected: Any) -> None:
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        for name, content in files.items():
            (folder / name).write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = reader.read(folder)
        if reader.digest:
            assert found == expected, "other content than was written, and nobody noticed"
    finally:
        shutil.rmtree(folder)


def hunt(readers: dict[str, Reader], name: str, count: int) -> None:
    reader, seed = readers[name], zlib.crc32(name.encode())
    expected = _expected(reader)
    numbers = range(max(5, round(count * reader.share)))
    outcomes = run_in_children(lambda number: read(reader, damaged(reader, number, seed), expected), numbers)
    line = tell(f"damaged: {name}", outcomes)
    wrong = worrying(outcomes)
    _keep(name, [damaged(reader, outcome.place, seed) for outcome in wrong[:5]])
    assert not wrong, "\n".join([line, *map(_shown, wrong[:5])])


def _expected(reader: Reader) -> Any:
    """What the files in order say: read twice, so that a campaign that compares knows what is equal."""
    with tempfile.TemporaryDirectory() as place:
        for file, content in reader.files.items():
            Path(place, file).write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return reader.read(Path(place))


def _keep(name: str, failures: list[Files]) -> None:
    """Beside the campaign, where $FIRSTSIGHT_CAMPAIGN_KEEP names a folder: to be looked at, and added to the corpus."""
    if place := os.environ.get("FIRSTSIGHT_CAMPAIGN_KEEP"):
        for number, files in enumerate(failures):
            folder = Path(place, name, str(number))
            folder.mkdir(parents=True, exist_ok=True)
            for file, content in files.items():
                (folder / file).write_bytes(content)


def _shown(outcome: Outcome) -> str:
    return f"{outcome.place} {outcome.kind}: {outcome.detail}"


def test_every_reader_is_tried(readers):
    assert list(readers) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_file_is_refused_or_read_as_it_was(readers, name):
    hunt(readers, name, SHORT)


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_thousands_of_damaged_files_are_refused_or_read_as_they_were(readers, name):
    hunt(readers, name, LONG)


def test_what_ever_failed_is_refused_or_read_as_it_was(readers):
    cases = sorted(path for path in CORPUS.glob("*/*") if path.is_dir())
    assert cases, "the corpus is empty"
    expected = {path.parent.name: _expected(readers[path.parent.name]) for path in cases}

    def one(case: Path) -> None:
        name = case.parent.name
        files = {path.name: path.read_bytes() for path in case.iterdir()}
        read(readers[name], {**readers[name].files, **files}, expected[name])

    outcomes = run_in_children(one, cases)
    tell("corpus", outcomes)
    assert not worrying(outcomes), "\n".join(f"{cases[o.place]}: {_shown(o)}" for o in worrying(outcomes))
