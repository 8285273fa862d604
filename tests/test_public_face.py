"""The public face: every name is there, typed, and a type checker finds what a user gets wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import firstsight

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(firstsight.__file__).parent

# What somebody would write who uses everything once; never run, only checked.
SCRIPT = """
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.pipeline import make_pipeline

import firstsight
from firstsight import (
    ESZSL,
    Choice,
    DeepEmbedding,
    Recognizer,
    Result,
    TransductiveDeepEmbedding,
    ZeroShotDataset,
)


def python_first(X: ArrayLike, y: ArrayLike, table: pd.DataFrame) -> np.ndarray:
    model = DeepEmbedding(separation=100.0, random_state=0).fit(X, y, table)
    scores: np.ndarray = model.decision_function(X, classes=table)
    print(scores.shape, model.score(X, y, classes=table), model.diagnostics_["collapsed"], model.attribute_names_in_)
    TransductiveDeepEmbedding(setting="gzsl").fit(X, y, table, X_unlabeled=X)
    firstsight.save(model, "model")
    return firstsight.load("model").predict(X, classes=["zebra", "okapi"])


def compare(data: ZeroShotDataset) -> pd.DataFrame:
    result: Result = firstsight.evaluate(ESZSL(feature_penalty=0.02), data)
    print(result, result.t1, result.h)
    choice: Choice = firstsight.tune(ESZSL(), data, objective="h", grid={"feature_penalty": [0.1, 1.0]})
    best: Mapping[str, object] = choice.best
    print(best, choice.table.shape)
    table: pd.DataFrame = firstsight.benchmark(
        [ESZSL(), make_pipeline(firstsight.SJE())], [data, "glyphs"], seeds=2, out="records"
    )
    firstsight.report("records", "page")
    print(len(firstsight.read_records("records")))
    return table


def pictures() -> None:
    table: pd.DataFrame = firstsight.describe("classes.csv", encoder="some/encoder")
    print(firstsight.embed("pictures", backbone="some/backbone").features.shape)
    birds: Recognizer = firstsight.learn("pictures", classes=table, backbone="some/backbone")
    print(birds.predict("new.jpg", top=5).to_frame())
    print(birds.predict(["one.jpg", np.zeros((8, 8, 3), dtype=np.uint8)]).as_json())
    birds.save("model")
    print(firstsight.Recognizer.load("model").classes)


data = firstsight.load_dataset("glyphs")
unseen: pd.DataFrame = data.descriptions.loc[data.unseen_classes]
print(firstsight.audit(data).ok, compare(data), unseen, firstsight.__version__, sorted(firstsight.all_methods()))
try:
    pictures()
except firstsight.BadInput as error:
    print(error)
"""

MISTAKES = """
import firstsight

firstsight.this_does_not_exist
firstsight.ESZSL(feature_penalties=3.0)
firstsight.evaluate(firstsight.ESZSL(), firstsight.load_dataset("glyphs")).t1.upper()
firstsight.learn("pictures", clases="table.csv")
firstsight.DeepEmbedding().predikt([[1.0]])
"""


def _mypy(folder: Path, text: str) -> list[str]:
    (folder / "script.py").write_text(text)
    cache, settings = ROOT / ".mypy_cache", ROOT / "pyproject.toml"
    if (
        not cache.is_dir()
    ):  # `make check` has not run: types of torch are no part of our face, and take a minute to read
        cache, settings = folder / "cache", folder / "mypy.ini"
        skipped = "[mypy-torch.*,sklearn.*,scipy.*,matplotlib.*,onnx.*,transformers.*]\nfollow_imports = skip\n"
        settings.write_text("[mypy]\nstrict = True\n" + skipped + "ignore_missing_imports = True\n")
    options = ["--config-file", settings, "--cache-dir", cache, "--no-error-summary"]
    command = [sys.executable, "-m", "mypy", *map(str, options), "script.py"]
    paths = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, cwd=folder, env=paths, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode in (0, 1), done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("script.py:") and "error:" in line]


def test_a_strict_type_checker_accepts_the_whole_face_and_finds_every_planted_mistake(tmp_path):
    pytest.importorskip("mypy")
    text = SCRIPT + MISTAKES
    found = {int(line.split(":")[1]): line for line in _mypy(tmp_path, text)}
    planted = {number for number, line in enumerate(text.splitlines(), 1) if line in MISTAKES.splitlines()[3:] and line}
    assert len(planted) == 5
    assert set(found) == planted, "\n".join(found.values())


def test_every_public_name_can_be_had():
    for name in firstsight.__all__:
        assert getattr(firstsight, name) is not None


def test_no_public_name_is_a_part_of_the_package():
    # After `import firstsight.x`, the attribute x is the module, whatever it was before.
    modules = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not modules & set(firstsight.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="this_does_not_exist"):
        firstsight.this_does_not_exist  # noqa: B018
