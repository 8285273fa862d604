"""Pictures → features: the right numbers, in order, once per picture."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from firstsight._io.files import temporary_beside
from firstsight.encoders import ImageEncoder
from firstsight.encoders import images as pictures
from firstsight.encoders.images import FeatureCache
from firstsight.errors import BadInput, UnreadableFile

pytest.importorskip("torch")

import torch


def by_hand(folder, paths, take):
    """What transformers' own pipeline gives, one picture at a time."""
    from transformers import AutoImageProcessor, AutoModel

    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    model = AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        rows = [
            take(model, processor(Image.open(p).convert("RGB"), return_tensors="pt")["pixel_values"]) for p in paths
        ]
    return torch.stack(rows).numpy()


@pytest.mark.parametrize(
    ("kind", "take", "dim"),
    [
        ("resnet", lambda m, x: m(x).pooler_output[0, :, 0, 0], 12),
        ("vit", lambda m, x: m(x).pooler_output[0], 16),
        ("dinov2", lambda m, x: m(x).pooler_output[0], 16),
        ("clip", lambda m, x: m.visual_projection(m.vision_model(x).pooler_output)[0], 10),
        ("siglip", lambda m, x: m.vision_model(x).pooler_output[0], 16),
    ],
)
def test_features_are_those_that_transformers_gives_by_hand(kind, take, dim, make_backbone, save_pictures, tmp_path):
    folder = make_backbone(kind)
    paths = save_pictures(tmp_path / "in", 5)
    encoder = ImageEncoder(folder, batch_size=2, runtime="torch")
    encoded = encoder.encode(paths)
    assert encoded.features.shape == (5, dim)
    assert encoded.features.dtype == np.float32
    assert encoded.files == [str(p) for p in paths]
    assert encoder.dim == dim
    np.testing.assert_allclose(encoded.features, by_hand(folder, paths, take), rtol=1e-4, atol=1e-5)


def test_a_folder_of_weights_without_a_pooling_layer_still_loads(make_backbone, save_pictures, tmp_path):
    folder = make_backbone("vit-without-pooler")
    assert ImageEncoder(folder).encode(save_pictures(tmp_path / "in", 2)).features.shape == (2, 16)


@pytest.mark.parametrize("kind", ["resnet", "clip"])
def test_pytorch_and_onnx_runtime_agree(kind, make_backbone, save_pictures, tmp_path):
    folder = make_backbone(kind)
    paths = save_pictures(tmp_path / "in", 5)
    found = [ImageEncoder(folder, runtime=r, cache=False, batch_size=3).encode(paths) for r in ("torch", "onnx")]
    assert np.abs(found[0].features).max() > 0
    np.testing.assert_allclose(found[0].features, found[1].features, atol=1e-4)


def test_bfloat16_gives_features_with_fewer_digits_kept_apart(resnet, save_pictures, tmp_path, own_cache):
    paths = save_pictures(tmp_path, 3)
    exact = ImageEncoder(resnet, runtime="torch").encode(paths)
    rough = ImageEncoder(resnet, precision="bfloat16").encode(paths)
    assert rough.cached == 0  # what the other has kept is of no use here
    assert rough.features.dtype == np.float32
    assert not np.array_equal(rough.features, exact.features)
    np.testing.assert_allclose(rough.features, exact.features, rtol=0.05, atol=0.02)
    assert ImageEncoder(resnet, precision="bfloat16").encode(paths).cached == 3
    assert len(list((own_cache / "features").iterdir())) == 2


def test_onnx_runtime_has_no_other_precision(resnet):
    with pytest.raises(BadInput, match="use the runtime torch"):
        ImageEncoder(resnet, runtime="onnx", precision="bfloat16")
    with pytest.raises(BadInput, match="did you mean 'bfloat16'"):
        ImageEncoder(resnet, precision="bfloat")


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without CUDA")
def test_a_device_that_is_not_there_is_refused_before_anything_is_read(resnet):
    with pytest.raises(BadInput, match="There is no device 'cuda'"):
        ImageEncoder(resnet, device="cuda")


def test_auto_exports_the_backbone_only_where_the_pictures_are_many(
    resnet, save_pictures, tmp_path, own_cache, monkeypatch
):
    few, many = save_pictures(tmp_path / "in", 2), save_pictures(tmp_path / "many", 6, seed=1)
    monkeypatch.setattr("firstsight.encoders.backbone.PAYS_FROM", 5)
    ImageEncoder(resnet).encode(few)
    assert not list(own_cache.glob("backbones/*.onnx"))
    ImageEncoder(resnet).encode(many)
    assert len(list(own_cache.glob("backbones/*.onnx"))) == 1
    # Both caches are looked into, whichever runtime filled them.
    assert ImageEncoder(resnet).encode(few + many).cached == 8

    (export,) = own_cache.glob("backbones/*.onnx")
    export.write_bytes(export.read_bytes()[:100])  # a damaged export is made anew
    again = ImageEncoder(resnet, runtime="onnx", cache=False).encode(few).features
    np.testing.assert_allclose(again, ImageEncoder(resnet).encode(few).features, atol=1e-4)


def test_a_second_run_computes_nothing_and_gives_the_same(resnet, save_pictures, tmp_path, monkeypatch):
    paths = save_pictures(tmp_path / "in", 4)
    first = ImageEncoder(resnet).encode(paths)

    def forbidden(*_):
        raise AssertionError("the model was loaded for nothing")

    monkeypatch.setattr(pictures, "open_runtime", forbidden)
    renamed = [p.rename(p.with_name("b" + p.name)) for p in paths]  # content counts, not the name
    again = ImageEncoder(resnet)
    second = again.encode(renamed)
    np.testing.assert_array_equal(first.features, second.features)
    assert (first.cached, second.cached) == (0, 4)
    assert again.dim == 12


def test_a_changed_picture_is_encoded_again(resnet, save_pictures, tmp_path):
    paths = save_pictures(tmp_path / "in", 2)
    before = ImageEncoder(resnet).encode(paths)
    shutil.copy(paths[0], paths[1])
    after = ImageEncoder(resnet).encode(paths)
    np.testing.assert_array_equal(after.features, before.features[[0, 0]])


def test_the_fingerprint_changes_with_weights_and_preprocessing_but_not_with_the_place(resnet, make_backbone, tmp_path):
    copy = shutil.copytree(resnet, tmp_path / "elsewhere")
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "_name_or_path": "x", "transformers_version": "9"}))
    prints = {
        name: ImageEncoder(folder).fingerprint
        for name, folder in {
            "itself": resnet,
            "copy": copy,
            "weights": make_backbone("resnet", seed=1),
            "preprocessing": make_backbone("resnet", mean=0.4),
        }.items()
    }
    assert prints["itself"] == prints["copy"]
    assert len(set(prints.values())) == 3


def test_a_run_that_is_stopped_goes_on_where_it_was(resnet, save_pictures, tmp_path):
    paths = save_pictures(tmp_path / "in", 6)

    class Stopped(Exception):
        pass

    def stop(done, total):
        assert total == 6
        if done == 4:
            raise Stopped

    with pytest.raises(Stopped):
        ImageEncoder(resnet, batch_size=2).encode(paths, progress=stop)
    seen = []
    rest = ImageEncoder(resnet, batch_size=2).encode(paths, progress=lambda done, total: seen.append(done))
    assert rest.cached == 4
    assert seen[-1] == 6
    assert seen == sorted(seen)


def test_shards_survive_damage_beside_them(tmp_path):
    cache = FeatureCache(tmp_path)
    keys = [bytes([i]) * 31 + b"\0" for i in (1, 2, 3)]  # a key may end in a zero byte
    for i, key in enumerate(keys, start=1):
        cache.put(key, np.full(4, i, dtype=np.float32))
    cache.flush()
    (tmp_path / "zz.npy").write_bytes(b"\x93NUMPY damaged")
    np.save(tmp_path / "foreign.npy", np.ones(3))
    again = FeatureCache(tmp_path)
    assert (len(again), again.dim) == (3, 4)
    assert [again.get(key).tolist() for key in keys] == [[i] * 4 for i in (1, 2, 3)]
    assert again.get(bytes(32)) is None


def test_whatever_byte_of_the_cache_is_damaged_the_features_are_right_or_computed_again(tmp_path):
    cache = FeatureCache(tmp_path)
    rows = {bytes([i]) * 32: np.arange(4, dtype=np.float32) + i for i in (1, 2, 3)}
    for key, row in rows.items():
        cache.put(key, row)
    cache.flush()
    (shard,) = tmp_path.glob("*.npy")
    content = shard.read_bytes()
    whole = lost = 0
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        shard.write_bytes(damaged)
        again = FeatureCache(tmp_path)
        assert again.dim in (None, 4)
        for key, row in rows.items():
            found = again.get(key)
            lost += found is None
            whole += found is not None
            assert found is None or found.tobytes() == row.tobytes()
    assert whole > 0
    assert lost > 3 * 64


def test_a_sound_entry_is_found_beside_a_damaged_one_of_the_same_picture(tmp_path):
    key, row = bytes(range(32)), np.ones(4, dtype=np.float32)
    for _ in range(2):
        cache = FeatureCache(tmp_path)
        cache.put(key, row)
        cache.flush()
    for shard in sorted(tmp_path.glob("*.npy")):
        content = shard.read_bytes()
        shard.write_bytes(content[:-20] + b"\0" + content[-19:])
        np.testing.assert_array_equal(FeatureCache(tmp_path).get(key), row)
        shard.write_bytes(content)


def test_what_a_killed_writer_left_is_removed_but_not_what_a_living_one_writes(tmp_path):
    lives = temporary_beside(tmp_path / "0f.npy")
    left = tmp_path / lives.name.replace(f"-{os.getpid()}-", "-99999999-")
    lives.touch()
    left.touch()
    FeatureCache(tmp_path)
    assert lives.exists()
    assert not left.exists()


def test_a_picture_gives_the_same_features_as_a_file_in_memory_or_as_an_array(resnet, save_pictures, tmp_path):
    (path,) = save_pictures(tmp_path / "in", 1)
    encoder = ImageEncoder(resnet, cache=False)
    with Image.open(path) as picture:
        found = [encoder.encode_images([given]) for given in (path, str(path), picture, np.asarray(picture))]
    for features in found[1:]:
        np.testing.assert_array_equal(features, found[0])
    grey = np.asarray(Image.open(path).convert("L"))
    alpha = np.dstack([np.asarray(Image.open(path)), np.full(grey.shape, 255, np.uint8)])
    np.testing.assert_array_equal(encoder.encode_images([alpha]), found[0])
    assert encoder.encode_images([grey, path]).shape == (2, 12)


def test_pictures_in_memory_leave_no_trace_in_the_cache(resnet, own_cache):
    encoder = ImageEncoder(resnet)
    encoder.encode_images([np.zeros((20, 20), np.uint8)])
    assert not list(own_cache.glob("features/*/*"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((9, 9, 3)), "Picture 1 is an array of float64, but pictures are arrays of uint8"),
        (np.zeros((9, 9, 2), np.uint8), "Picture 1 is an array of 9 × 9 × 2 values"),
        (np.zeros((0, 9), np.uint8), "no pixels"),
        (None, "Picture 1 is of type NoneType; give a path, a PIL picture or an array"),
    ],
)
def test_what_is_no_picture_in_memory_is_one_sentence(given, words, resnet):
    with pytest.raises(BadInput, match=words):
        ImageEncoder(resnet).encode_images([np.zeros((9, 9), np.uint8), given])


def test_a_picture_that_cannot_be_read_is_refused_by_its_name(resnet, tmp_path):
    (tmp_path / "a\x1b[31m.png").write_text("no picture")
    with pytest.raises(BadInput, match=r"a\\x1b\[31m\.png cannot be encoded \(not a picture format"):
        ImageEncoder(resnet).encode_images([tmp_path / "a\x1b[31m.png"])


def test_threads_share_one_encoder_and_load_its_model_once(resnet, save_pictures, tmp_path, monkeypatch):
    paths = save_pictures(tmp_path / "in", 8)
    loaded = []
    original = pictures.open_runtime
    monkeypatch.setattr(pictures, "open_runtime", lambda *words: loaded.append(1) or original(*words))
    encoder = ImageEncoder(resnet, runtime="torch")
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda path: encoder.encode_images([path])[0], paths))
    assert len(loaded) == 1
    alone = ImageEncoder(resnet, runtime="torch", cache=False, batch_size=1).encode(paths).features
    np.testing.assert_array_equal(np.stack(rows), alone)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no such files here")
def test_pipes_and_devices_are_skipped_at_once_and_odd_names_are_text(resnet, save_pictures, tmp_path):
    (path,) = save_pictures(tmp_path / "in", 1)
    os.mkfifo(tmp_path / "in" / "pipe.png")
    (tmp_path / "in" / "zero.png").symlink_to("/dev/zero")
    odd = path.rename(path.with_name(os.fsdecode(b"\xff.png")))
    given = [odd, tmp_path / "in" / "pipe.png", tmp_path / "in" / "zero.png"]
    encoded = ImageEncoder(resnet).encode(given, root=tmp_path)
    assert encoded.files == ["in/\\xff.png"]
    assert encoded.skipped == [(f"in/{name}.png", "cannot be opened (not a regular file)") for name in ("pipe", "zero")]


def test_a_file_too_large_for_a_picture_is_not_read(resnet, tmp_path):
    with (tmp_path / "huge.png").open("wb") as file:
        file.truncate(3 * 2**30)
    ((_, reason),) = ImageEncoder(resnet).encode([tmp_path / "huge.png"]).skipped
    assert reason == "cannot be opened (3.0 GiB large; the limit is 0.5 GiB)"


def test_exporting_the_backbone_is_announced_before_it_begins(resnet, save_pictures, tmp_path):
    said = []
    paths = save_pictures(tmp_path / "in", 2)
    ImageEncoder(resnet, runtime="onnx").encode(paths, announce=said.append)
    ImageEncoder(resnet, runtime="onnx", cache=False).encode(paths, announce=said.append)
    assert len(said) == 1
    assert said[0].startswith("preparing the backbone")


def test_a_cache_that_cannot_be_written_is_no_error(resnet, save_pictures, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("FIRSTSIGHT_CACHE", str(tmp_path / "file"))
    assert len(ImageEncoder(resnet).encode(save_pictures(tmp_path / "in", 2)).files) == 2


def test_unreadable_pictures_are_named_and_the_others_keep_their_order(resnet, save_pictures, tmp_path):
    paths = save_pictures(tmp_path / "in", 4, suffix=".jpg")
    whole = ImageEncoder(resnet, cache=False).encode(paths).features
    paths[1].write_bytes(paths[1].read_bytes()[:200])
    paths[2].unlink()
    (tmp_path / "in" / "empty.png").touch()
    encoded = ImageEncoder(resnet, cache=False).encode([*paths, tmp_path / "in" / "empty.png"])
    assert encoded.rows == [0, 3]
    np.testing.assert_allclose(encoded.features, whole[[0, 3]], rtol=1e-4)
    names, reasons = zip(*encoded.skipped, strict=True)
    assert names == (str(paths[1]), str(paths[2]), str(tmp_path / "in" / "empty.png"))
    assert "damaged" in reasons[0]
    assert "cannot be opened" in reasons[1]
    assert "empty" in reasons[2]


def test_no_pictures_give_no_rows_of_the_right_width(resnet):
    assert ImageEncoder(resnet).encode([]).features.shape == (0, 12)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"backbone": "nobody/nothing"}, ["could not be downloaded", "local folder"]),
        ({"backbone": "/no/such/folder"}, ["There is no folder /no/such/folder", "microsoft/resnet-101"]),
        ({"backbone": "two words, no model"}, ["no folder"]),
        ({"backbone": "~nobody-of-this-name/models"}, ["There is no folder ~nobody-of-this-name/models"]),
        ({"runtime": "onxx"}, ["'onxx'", "did you mean 'onnx'"]),
        ({"batch_size": 0}, ["batch_size"]),
    ],
)
def test_what_cannot_be_had_is_one_sentence(arguments, words, resnet):
    with pytest.raises(BadInput) as caught:
        ImageEncoder(**{"backbone": resnet, **arguments})
    for word in words:
        assert word in str(caught.value)


def test_a_folder_that_is_no_backbone_is_one_sentence(tmp_path, resnet, save_pictures, make_backbone):
    with pytest.raises(BadInput, match=r"no config\.json"):
        ImageEncoder(tmp_path)
    pickled = shutil.copytree(resnet, tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(BadInput, match="can run code"):
        ImageEncoder(pickled)
    broken = shutil.copytree(resnet, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"nothing")
    paths = save_pictures(tmp_path / "in", 1)
    with pytest.raises(UnreadableFile, match="could not be loaded as a backbone"):
        ImageEncoder(broken).encode(paths)
    with pytest.raises(BadInput, match="cannot encode pictures"):
        ImageEncoder(make_backbone("bert")).encode(paths)


def test_code_that_comes_with_a_backbone_does_not_run(tmp_path, resnet, save_pictures):
    folder = shutil.copytree(resnet, tmp_path / "evil")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(UnreadableFile):
        ImageEncoder(folder).encode(save_pictures(tmp_path / "in", 1))
    assert not (tmp_path / "ran").exists()
