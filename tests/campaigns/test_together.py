"""Several processes at once on one model folder, one folder of results, one cache: nothing is lost, nobody fails."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from campaigns.children import OK, TRACEBACK, Outcome, tell, worrying
from campaigns.operations import Refused, command, features_of, jobs_here, listing
from firstsight.evaluation import fit_on
from firstsight.experiments.records import RecordFile
from firstsight.methods import ESZSL
from firstsight.persistence.class_table import add_classes, remove_classes
from firstsight.persistence.model_folder import change, load, save

FORK = multiprocessing.get_context("fork")


def at_once(tasks: list[Callable[[], Any]]) -> list[Any]:
    """Each in a process of its own, all at the same time; what they return, or the text of what they raise."""
    answers = FORK.Queue()

    def run(number: int) -> None:
        try:
            answers.put((number, tasks[number](), ""))
        except BaseException:
            answers.put((number, None, traceback.format_exc()))

    children = [FORK.Process(target=run, args=(number,)) for number in range(len(tasks))]
    for child in children:
        child.start()
    found = {number: (value, error) for number, value, error in (answers.get(timeout=300) for _ in tasks)}
    for child in children:
        child.join()
    failed = [error for _, error in found.values() if error]
    assert not failed, f"{len(failed)} of {len(tasks)} failed, the first with:\n{failed[0]}"
    return [found[number][0] for number in range(len(tasks))]


def write_by_call(folder: Path, row: list[float], until: float) -> tuple[list[str], list[str]]:
    """Adds classes and removes every third of them again, until the time is over: those there must be, those gone."""
    there, gone = [], []
    while not there or time.monotonic() < until:
        name = f"call {len(there) + len(gone)}"
        with change(folder) as saved:
            saved.model = add_classes(saved.model, _table(saved.model, name, row))
        there.append(name)
        if len(there) % 3 == 0:
            with change(folder) as saved:
                saved.model = remove_classes(saved.model, [name])
            gone.append(there.pop())
    return there, gone


def write_by_command(folder: Path, row: list[float], until: float) -> tuple[list[str], list[str]]:
    there, gone = [], []
    table = folder.with_name("table.csv")
    names = load(folder).attribute_names_in_
    while not there or time.monotonic() < until:
        name = f"command {len(there) + len(gone)}"
        table.write_text("class," + ",".join(names) + f"\n{name}," + ",".join(map(str, row)) + "\n")
        command("classes", "add", folder, table)
        there.append(name)
        if len(there) % 3 == 0:
            command("classes", "remove", folder, name)
            gone.append(there.pop())
    return there, gone


def read_again_and_again(folder: Path, X: Any, until: float) -> int:
    count = 0
    while not count or time.monotonic() < until:
        model = load(folder)
        assert set(model.predict(X)) <= set(model.classes_)
        count += 1
    return count


def _table(model: Any, name: str, row: list[float]) -> pd.DataFrame:
    return pd.DataFrame([row], index=[name], columns=model.attribute_names_in_)


def write_and_read(small: Any, tmp_path: Path, seconds: float) -> None:
    folder = tmp_path / "model"
    save(fit_on(ESZSL(feature_penalty=0.02), small), folder)
    row, X, until = [0.5] * small.description_matrix.shape[1], small.features[:3], time.monotonic() + seconds
    writers = [lambda: write_by_call(folder, row, until), lambda: write_by_command(folder, row, until)]
    readers = [lambda: read_again_and_again(folder, X, until)] * 10
    found = at_once([*writers, *readers])
    written = found[:2]
    expected = {*small.class_names, *(name for there, _ in written for name in there)}
    known = load(folder).classes_.tolist()
    lost, back = expected - set(known), set(known) - expected
    changes = sum(len(there) + 2 * len(gone) for there, gone in written)
    reads = sum(found[2:])
    kinds = [OK] * (changes + reads - len(lost) - len(back)) + [TRACEBACK] * (len(lost) + len(back))
    outcomes = [Outcome(number, kind) for number, kind in enumerate(kinds)]
    tell(f"two writers and ten readers for {seconds:g} s, {changes} changes and {reads} reads", outcomes)
    assert not worrying(outcomes), f"lost: {sorted(lost)}; not removed: {sorted(back)}"
    assert all(there for there, _ in written)
    assert len(known) == len(set(known))
    assert listing(tmp_path) == sorted(
        ["model", "model/README.md", "model/arrays.safetensors", "model/model.json", "table.csv"]
    )


def test_two_writers_and_ten_readers_of_one_model(small, tmp_path):
    write_and_read(small, tmp_path, seconds=3)


@pytest.mark.campaign
def test_two_writers_and_ten_readers_of_one_model_for_a_minute(small, tmp_path):
    write_and_read(small, tmp_path, seconds=60)


def test_a_second_benchmark_in_the_same_folder_is_refused_with_a_sentence(operations, small, tmp_path):
    first = RecordFile(tmp_path / "results", "small")
    first.open()
    with jobs_here(tmp_path), pytest.raises(Refused) as refused:
        operations["benchmark"].run(tmp_path)
    assert "Another process is writing to" in str(refused.value)
    assert "Traceback" not in str(refused.value)
    first.close()
    with jobs_here(tmp_path):
        operations["benchmark"].run(tmp_path)
    assert operations["benchmark"].result(tmp_path)


def test_two_embeds_share_a_cache(operations, tmp_path):
    places = [tmp_path / "one", tmp_path / "two"]

    def embed(place: Path) -> None:
        place.mkdir()
        with jobs_here(tmp_path):
            operations["embed"].run(place)

    at_once([lambda: embed(places[0]), lambda: embed(places[1])])
    assert features_of(places[0] / "features.npz") == features_of(places[1] / "features.npz")
    assert not [name for name in listing(tmp_path) if "/." in name]
