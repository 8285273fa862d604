"""From pictures and words to a model, on the command line, with a tiny backbone made on the spot."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before huggingface_hub is imported: no test may ask the network

from firstsight._io.disk_samples import DiskSamples
from firstsight.data import load_dataset, read_descriptions, read_features
from firstsight.data.feature_files import read_feature_file
from firstsight.persistence.model_folder import load_saved
from firstsight.persistence.model_schema import PictureCounts

# A class is a mix of three colours; its description says how much of each.
MIXES = {"rose": (9, 0, 1), "leaf": (1, 9, 0), "sea": (0, 2, 9), "sun": (8, 8, 0), "lilac": (7, 0, 8), "ice": (1, 8, 8)}
FAST = ["rounds=2", "embedding_dim=32", "iterations=40", "round_iterations=2", "learning_rate=0.01", "separation=1000"]
UNSEEN = {"peach": (9, 5, 2), "plum": (5, 0, 5)}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("FIRSTSIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def paint(folder: Path, mixes: dict, count: int = 8, seed: int = 0) -> Path:
    random = np.random.default_rng(seed)
    for name, mix in mixes.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = np.array(mix) * 25 + random.normal(scale=20, size=(40, 40, 3))
            Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / name / f"{number}.png")
    return folder


def tabulate(path: Path, mixes: dict) -> Path:
    lines = ["class,red,green,blue", *(f"{name},{','.join(map(str, mix))}" for name, mix in mixes.items())]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_embed_writes_features_names_classes_and_the_backbone(cli, backbone, tmp_path):
    paint(tmp_path / "in", MIXES, count=2)
    (tmp_path / "in" / "sea" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 not much of a picture")
    Image.new("CMYK", (50, 40), (0, 200, 200, 0)).save(tmp_path / "in" / "sea" / "cmyk.jpg")
    done = cli("embed", tmp_path / "in", "--backbone", backbone, "--out", tmp_path / "f.npz")
    assert done.code == 0, done
    assert done.out == ""
    assert "skipped sea/broken.jpg: " in done.err
    assert "13 pictures, 24 features each, 6 classes; 1 skipped" in done.err
    found = read_feature_file(tmp_path / "f.npz")
    assert found.features.shape == (13, 24)
    assert found.names[:2] == ["ice/0.png", "ice/1.png"]
    assert found.labels == [name.split("/")[0] for name in found.names]
    assert found.backbone["name"] == "tiny"
    assert found.backbone["dim"] == 24
    assert len(found.backbone["fingerprint"]) == 32
    assert [name for name, _ in found.skipped] == ["sea/broken.jpg"]
    rows, names = read_features(tmp_path / "f.npz")
    np.testing.assert_array_equal(rows, found.features)
    assert list(names) == found.names
    # As rows that may stay on the disk, in a folder that a table of classes makes a data set.
    assert cli("embed", tmp_path / "in", "--backbone", backbone, "--out", tmp_path / "data" / "features.npy").code == 0
    np.testing.assert_array_equal(DiskSamples(tmp_path / "data" / "features.npy")[:], found.features)
    table = pd.read_csv(tmp_path / "data" / "samples.csv")
    assert table["sample"].tolist() == found.names
    assert table["class"].tolist() == found.labels


def test_a_flat_folder_has_no_labels(cli, backbone, tmp_path):
    paint(tmp_path / "in", {"sea": (0, 2, 9)}, count=2)
    assert cli("embed", tmp_path / "in" / "sea", "--backbone", backbone, "--out", tmp_path / "f.npz").code == 0
    assert read_feature_file(tmp_path / "f.npz").labels is None


# A process that dies as soon as it has written the first shard of its cache.
DYING = """
import os, signal
from firstsight.encoders.images import FeatureCache

def flush_and_die(cache, flush=FeatureCache.flush):
    flush(cache)
    os.kill(os.getpid(), signal.SIGKILL)

FeatureCache.flush = flush_and_die
"""


def test_embed_that_is_killed_goes_on_where_it_was(processes, backbone, tmp_path, own_cache, monkeypatch):
    paint(tmp_path / "in", MIXES, count=50)  # more than a shard has room for
    words = ["embed", tmp_path / "in", "--backbone", backbone, "--batch-size", 4, "--runtime", "torch"]
    env = {"FIRSTSIGHT_CACHE": str(own_cache), "HF_HUB_OFFLINE": "1"}
    killed = processes.run(*words, "--out", tmp_path / "f.npz", before=DYING, **env)
    assert killed.code == -signal.SIGKILL
    assert not (tmp_path / "f.npz").exists()
    kept = sum(len(np.load(path)) for path in own_cache.glob("features/*/[!.]*.npy"))
    assert 0 < kept < 300
    done = processes.run(*words, "--out", tmp_path / "f.npz", **env)
    assert done.code == 0, done
    assert read_feature_file(tmp_path / "f.npz").features.shape == (300, 24)
    shards = [np.load(path) for path in own_cache.glob("features/*/[!.]*.npy")]
    assert sum(len(shard) for shard in shards) == 300  # what was kept was not computed again


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w: w.update({"--backbone": "nobody/nothing"}), ["could not be downloaded", "local folder"]),
        (lambda w: w.update({"--out": "f.csv"}), ["must end in .npz or .npy"]),
        (lambda w: w.update({"--runtime": "quick"}), ["runtime 'quick'"]),
    ],
)
def test_embed_refuses_with_one_sentence(cli, backbone, tmp_path, change, words):
    paint(tmp_path / "in", {"sea": (0, 2, 9)}, count=1)
    options = {"--backbone": str(backbone), "--out": str(tmp_path / "f.npz")}
    change(options)
    cli("embed", tmp_path / "in", *(w for pair in options.items() for w in pair)).is_refused_with(*words)


def test_a_folder_without_a_readable_picture_is_one_sentence(cli, backbone, tmp_path):
    (tmp_path / "in").mkdir()
    out = ["--backbone", backbone, "--out", tmp_path / "f.npz"]
    cli("embed", tmp_path / "in", *out).is_refused_with("holds no pictures")
    (tmp_path / "in" / "a.png").write_text("no picture")
    done = cli("embed", tmp_path / "in", *out)
    assert done.code == 2
    assert "0 of 1 picture" in done.err
    assert not (tmp_path / "f.npz").exists()


def test_describe_takes_attributes_writes_empty_tables_and_refuses_what_is_unclear(cli, tmp_path):
    pytest.importorskip("transformers")
    table = tabulate(tmp_path / "classes.csv", MIXES)
    assert cli("describe", table, "--out", tmp_path / "d.csv").code == 0
    np.testing.assert_array_equal(read_descriptions(tmp_path / "d.csv").to_numpy(), list(MIXES.values()))

    empty = tmp_path / "fill me in.csv"
    assert cli("describe", table, "--attributes", "warm,dark", "--out", empty).code == 0
    assert empty.read_text().splitlines()[:2] == ["class,warm,dark", "rose,,"]
    cli("describe", table, "--attributes", "warm", "--out", empty).is_refused_with("may be filled in already")
    cli("describe", empty, "--out", tmp_path / "x.csv").is_refused_with("'warm'", "no class")

    filled = empty.read_text().replace(",,", ",yes,20%").replace("rose,yes,20%", "rose,no,")
    empty.write_text(filled)
    done = cli("describe", empty, "--out", tmp_path / "d.csv")
    assert "1 of 12 values are missing" in done.err
    assert read_descriptions(tmp_path / "d.csv").loc["rose"].tolist() == pytest.approx([0, 0.2])

    cli("describe", table, "--encoder", "x/y", "--out", tmp_path / "x.csv").is_refused_with("has attributes")
    cli("describe", tmp_path / "none.csv", "--out", tmp_path / "x.csv").is_refused_with("does not exist")
    names = tmp_path / "names.csv"
    names.write_text("class\nrose\n")
    cli("describe", names, "--out", tmp_path / "x.csv").is_refused_with("could not be downloaded", "local folder")
    cli("describe", names, "--out", tmp_path / "x.csv", "--device", "nowhere").is_refused_with(
        "There is no device 'nowhere'"
    )
    cli("serve", tmp_path, "--device", "nowhere").is_refused_with("There is no device 'nowhere'")
    cli("describe", names, "--out", tmp_path / "x.csv", "--scale").is_refused_with("--scale is for attributes")
    names.write_text("class\nrose\nrose\n")
    cli("describe", names, "--out", tmp_path / "x.csv").is_refused_with("'rose' more than once")
    assert not (tmp_path / "x.csv").exists()


def test_learn_makes_a_model_that_knows_classes_without_pictures_and_says_what_to_expect(cli, backbone, tmp_path):
    pictures = paint(tmp_path / "in", MIXES)
    table = tabulate(tmp_path / "d.csv", {**MIXES, **UNSEEN})
    done = cli("learn", pictures, "--classes", table, "--backbone", backbone, "--out", tmp_path / "model")
    assert done.code == 0, done
    assert "8 classes: 6 from 48 pictures, 2 from their description alone" in done.err
    last = done.err.splitlines()[-1]
    assert "What to expect of classes without pictures" in last
    assert "chance" in last
    saved = load_saved(tmp_path / "model")
    model, made = saved.model, saved.provenance
    assert sorted(model.unseen_classes_) == sorted(UNSEEN)
    assert made.backbone.name == "tiny"
    assert made.pictures == PictureCounts(labelled=48, unlabelled=0, held_out=0, skipped=0)
    assert model.attribute_names_in_.tolist() == ["red", "green", "blue"]
    assert model.calibration_.n_folds == 10
    assert str(tmp_path) not in (tmp_path / "model" / "model.json").read_text()
    assert not list(tmp_path.glob("model.checkpoint*"))

    new = paint(tmp_path / "new", UNSEEN, seed=1)
    assert cli("embed", new, "--backbone", backbone, "--out", tmp_path / "new.npz").code == 0
    found = read_feature_file(tmp_path / "new.npz")
    right = model.predict(found.features, classes=sorted(UNSEEN)) == np.array(found.labels)
    assert right.mean() > 0.8

    done = cli(
        *("learn", pictures, "--classes", table, "--backbone", backbone, "--out", tmp_path / "second"),
        *("--unlabeled", new, "--method", "transductive-deep-embedding"),
        *(word for pair in FAST for word in ("--set", pair)),
    )
    assert done.code == 0, done
    saved = load_saved(tmp_path / "second")
    assert saved.file.method == "TransductiveDeepEmbedding"
    assert saved.provenance.pictures.unlabelled == 16


def test_learn_with_few_classes_says_that_it_cannot_estimate(cli, backbone, tmp_path):
    three = dict(list(MIXES.items())[:3])
    pictures = paint(tmp_path / "in", three, count=3)
    table = tabulate(tmp_path / "d.csv", {**three, **UNSEEN})
    done = cli("learn", pictures, "--classes", table, "--backbone", backbone, "--out", tmp_path / "model")
    assert done.code == 0, done
    assert "No estimate" in done.err.splitlines()[-1]
    assert load_saved(tmp_path / "model").file.calibration is None


def test_learn_refuses_before_the_long_part(cli, tmp_path):
    pytest.importorskip("transformers")
    pictures = paint(tmp_path / "in", MIXES, count=1)
    nowhere = ["--backbone", "nobody/nothing", "--out", tmp_path / "model"]
    most = {name: mix for name, mix in MIXES.items() if name != "sun"}
    table = tabulate(tmp_path / "d.csv", most)
    cli("learn", pictures, "--classes", table, *nowhere).is_refused_with("class 'sun'", "no such row")
    with table.open("a") as file:
        file.write("sun,8,8,0\nsun,8,8,1\n")
    cli("learn", pictures, "--classes", table, *nowhere).is_refused_with("'sun' more than once")
    tabulate(table, MIXES)
    cli("learn", pictures / "sun", "--classes", table, *nowhere).is_refused_with("one sub-folder per class")
    cli("learn", pictures, "--classes", tmp_path / "none.csv", *nowhere).is_refused_with("does not exist")
    cli("learn", pictures, "--classes", table, *nowhere).is_refused_with("could not be downloaded")
    words = ["--backbone", "x", "--out", pictures]
    cli("learn", pictures, "--classes", table, *words).is_refused_with("not a model folder")
    table.write_text(table.read_text().replace("8,8,0", "8,much,0"))
    cli("learn", pictures, "--classes", table, *nowhere).is_refused_with("'green'", "must hold numbers")


def test_an_inductive_method_refuses_pictures_without_labels(cli, backbone, tmp_path):
    pictures = paint(tmp_path / "in", MIXES, count=2)
    table = tabulate(tmp_path / "d.csv", {**MIXES, **UNSEEN})
    words = ["--classes", table, "--backbone", backbone, "--out", tmp_path / "model", "--unlabeled", pictures]
    cli("learn", pictures, *words, "--method", "eszsl").is_refused_with("eszsl", "--unlabeled")


def test_data_make_writes_a_folder_that_is_clean(cli, backbone, tmp_path):
    pictures = paint(tmp_path / "in", MIXES, count=5)
    table = tabulate(tmp_path / "d.csv", {**MIXES, **UNSEEN})
    assert cli("embed", pictures, "--backbone", backbone, "--out", tmp_path / "f.npz").code == 0
    done = cli("data", "make", tmp_path / "f.npz", "--classes", table, "--out", tmp_path / "x", "--unseen", "sea,sun")
    assert done.code == 0, done
    assert "4 seen and 2 unseen classes; 16 rows to train on, 4 and 10 to test" in done.err
    checked = cli("data", "check", tmp_path / "x")
    assert checked.code == 0
    assert "0 errors, 0 warnings" in checked.out
    assert load_dataset(tmp_path / "x").unseen_classes == ["sea", "sun"]
    again = cli("data", "make", tmp_path / "f.npz", "--classes", table, "--out", tmp_path / "x")
    again.is_refused_with("not an empty folder")
    paint(tmp_path / "flat", {"sea": (0, 2, 9)}, count=2)
    assert cli("embed", tmp_path / "flat" / "sea", "--backbone", backbone, "--out", tmp_path / "u.npz").code == 0
    words = ["--classes", table, "--out", tmp_path / "y"]
    cli("data", "make", tmp_path / "u.npz", *words).is_refused_with("says nothing about classes")


def test_learn_keeps_pictures_of_unseen_classes_to_test_on(cli, backbone, tmp_path):
    pictures = paint(tmp_path / "in", {**MIXES, **UNSEEN})
    table = tabulate(tmp_path / "d.csv", {**MIXES, **UNSEEN})
    lines = [f"{name},{'unseen' if name in UNSEEN else 'seen'}" for name in {**MIXES, **UNSEEN}]
    (tmp_path / "split.csv").write_text("\n".join(["class,split", *lines]) + "\n")
    words = ["learn", pictures, "--classes", table, "--backbone", backbone, "--set", "search=false"]
    one = cli(*words, "--out", tmp_path / "one", "--split", tmp_path / "split.csv")
    other = cli(*words, "--out", tmp_path / "other", "--unseen", "peach, plum")
    found = [load_saved(tmp_path / name).provenance.evaluation for name in ("one", "other")]
    assert found[0] == found[1]
    for done in (one, other):
        assert "8 classes: 6 from 48 pictures, 2 from their description alone" in done.err
        assert f"Held out: {found[0]['right_among_unseen']} of 16 pictures of 2 classes" in done.err.splitlines()[-1]
    cli(*words, "--out", tmp_path / "x", "--unseen", "peech").is_refused_with("did you mean 'peach'")


def test_quiet_says_only_what_went_wrong(cli, backbone, tmp_path):
    pictures = paint(tmp_path / "in", {"sea": (0, 2, 9)}, count=1)
    words = ["embed", pictures, "--backbone", backbone, "--out", tmp_path / "f.npz"]
    assert "1 picture, 24 features each, 1 class; none skipped" in cli(*words).err
    assert cli("--quiet", *words).err == ""
    (pictures / "sea" / "broken.png").write_text("no picture")
    (line,) = cli("--quiet", *words).err.splitlines()
    assert line.startswith("skipped sea/broken.png")
