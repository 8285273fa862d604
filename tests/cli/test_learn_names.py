"""From names alone to a model, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from firstsight.recognition import Recognizer


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FIRSTSIGHT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def names(tmp_path) -> Path:
    (tmp_path / "names.csv").write_text("class\nred fox\nwolf\nowl\n")
    return tmp_path / "names.csv"


def test_a_model_of_names_is_learned_extended_and_asked(cli, dual_encoder, names, tmp_path):
    model = tmp_path / "model"
    done = cli("learn", "--classes", names, "--backbone", dual_encoder, "--out", model)
    assert done.code == 0, done
    assert "cosine knows 3 classes by their description alone, without a labelled picture" in done.err
    assert "No estimate: how often it is right takes labelled pictures to say" in done.err
    assert "What to expect" not in done.err
    for label in ("wolf", "owl"):
        (tmp_path / "new" / label).mkdir(parents=True)
        pixels = np.random.default_rng(len(label)).integers(0, 256, size=(40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "new" / label / "1.png")
    asked = cli("predict", model, tmp_path / "new", "--json", tmp_path / "answers.json")
    assert asked.code == 0, asked
    assert "of 2 right" in asked.err  # what `learn` says about measuring is true
    answers = json.loads((tmp_path / "answers.json").read_text())
    assert {answer["class"] for answer in answers} <= {"red fox", "wolf", "owl"}
    assert "2 classes added" in cli("classes", "add", model, "--name", "horse", "--name", "bird").err
    assert "1 class added" in cli("classes", "add", model, "--name", "zebra", "--text", "a striped horse").err
    (tmp_path / "more.csv").write_text("class,text\nzebra,a grey striped horse\nzebra,a striped horse\n")
    assert "0 classes added, 1 changed" in cli("classes", "add", model, tmp_path / "more.csv", "--replace").err
    assert Recognizer.load(model).classes["class"].tolist() == ["red fox", "wolf", "owl", "horse", "bird", "zebra"]


def test_prompts_may_be_given_several_times(cli, dual_encoder, names, tmp_path):
    words = ["--prompt", "a photo of a {}.", "--prompt", "a drawing of a {}."]
    done = cli("learn", "--classes", names, "--backbone", dual_encoder, "--out", tmp_path / "model", *words)
    assert "2 texts per class" in done.err
    assert Recognizer.load(tmp_path / "model").provenance.text_encoder.prompts == words[1::2]
    done = cli("describe", names, "--encoder", dual_encoder, "--out", tmp_path / "d.csv", *words)
    assert "3 classes, 12 columns each" in done.err


def test_what_makes_no_model_is_one_sentence(cli, dual_encoder, names, tmp_path):
    out = ["--out", tmp_path / "model"]
    cli("learn", "--classes", names, *out).is_refused_with("no text tower", "vision-language model")
    (tmp_path / "unnamed.csv").write_text("red fox\nwolf\nowl\n")
    cli("learn", "--classes", tmp_path / "unnamed.csv", "--backbone", dual_encoder, *out).is_refused_with(
        "single column, 'red fox'", "with the column 'class'"
    )
    cli("learn", "--classes", names, "--backbone", dual_encoder, "--method", "eszsl", *out).is_refused_with(
        "eszsl learns from labelled images", "cosine"
    )
    cli("learn", "--classes", names, "--backbone", dual_encoder, *out)
    cli("classes", "add", tmp_path / "model").is_refused_with("--name")
    cli("classes", "add", tmp_path / "model", "--name", "a", "--name", "b", "--text", "c").is_refused_with("2 names")
