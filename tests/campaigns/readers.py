"""Everything that firstsight reads: small files in order and how to read them, for campaigns that damage them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scipy.io
from PIL import Image

from firstsight._io.disk_samples import DiskSamples
from firstsight.data import ZeroShotDataset, load_dataset, read_descriptions, write_npz
from firstsight.data.feature_files import FeatureFile, read_feature_file, write_feature_file
from firstsight.encoders.backbone import Backbone
from firstsight.encoders.descriptions import attributes_as_numbers, read_class_table
from firstsight.encoders.image_folders import find_images
from firstsight.encoders.images import FeatureCache
from firstsight.evaluation import fit_on
from firstsight.experiments.choices import gather_choices, read_choices
from firstsight.experiments.records import read_records
from firstsight.methods import DeepEmbedding, ZeroShotClassifier
from firstsight.persistence.model_folder import load_saved, save
from firstsight.persistence.model_schema import digest_of
from firstsight.recognition import shards
from firstsight.reporting.results import read_settings

Files = dict[str, bytes]


@dataclass(frozen=True)
class Reader:
    """`files` are a folder's content, `read(folder)` what becomes of it; `mutated` are the names that are damaged.

    With `digest`, what is read from damaged files is what was read from the files in order, or nothing at all.
    `sign` puts digests right after the damage, as somebody would who means it.
    """

    files: Files
    read: Callable[[Path], Any]
    mutated: tuple[str, ...]
    digest: bool = False
    sign: Callable[[Files], Files] = lambda files: files
    share: float = 1.0  # of the campaign's number: slow ones have less


def make_readers(
    small: ZeroShotDataset, model: ZeroShotClassifier, record: Callable[..., dict], backbone: Path, scratch: Path
) -> dict[str, Reader]:
    """All of them, by name."""
    small = replace(small, images=None)
    tiny = _tiny(small)
    return {
        **_models(model, small, scratch),
        "checkpoint": _checkpoint(small, scratch),
        "cache entry": _cache(scratch),
        "records": Reader({"small.jsonl": _records(record)}, _read_records, ("small.jsonl",)),
        "tuned choice": _choice(small),
        **_feature_files(scratch),
        "data set .npz": _dataset_npz(tiny, scratch),
        **_matlab(tiny, scratch),
        **_tables(tiny, scratch),
        "backbone": _backbone(backbone),
        **_rows_and_answers(scratch),
        "report settings": Reader({"report.toml": _REPORT}, read_settings, ("report.toml",)),
        "labels of pictures": _labels(),
    }


def _tiny(small: ZeroShotDataset) -> ZeroShotDataset:
    """Every other row: files of a few kilobytes are damaged where it matters."""
    kept = {part: getattr(small, part)[::2] for part in ("train", "test_seen", "test_unseen")}
    rows = np.sort(np.concatenate(list(kept.values())))
    place = {row: number for number, row in enumerate(rows)}
    parts = {part: np.array([place[row] for row in numbers]) for part, numbers in kept.items()}
    return replace(small, features=small.features[rows][:, :5], labels=small.labels[rows], sample_names=None, **parts)


# Models, checkpoints, caches: with digests -----------------------------------------------------------------------


def _models(model: ZeroShotClassifier, small: ZeroShotDataset, scratch: Path) -> dict[str, Reader]:
    rows = small.features[:5]

    def read(folder: Path) -> Any:
        found = load_saved(folder)
        return found.model.classes_.tolist(), found.model.decision_function(rows).tobytes(), _text(found.provenance)

    def sign(files: Files) -> Files:
        about = json.loads(files["model.json"])
        about["arrays_sha256"] = hashlib.sha256(files["arrays.safetensors"]).hexdigest()
        return {**files, "model.json": json.dumps({**about, "digest": digest_of(about)}).encode()}

    save(model, scratch / "model", {"dataset": "small", "seed": 3, "evaluation": {"t1": 0.5}})
    files = _content(scratch / "model")
    names = ("model.json", "arrays.safetensors")
    return {
        "model folder": Reader(files, read, names, digest=True),
        "model folder, signed": Reader(files, read, names, sign=sign),
    }


def _text(provenance: Any) -> str:
    return json.dumps(provenance.as_json(), sort_keys=True)


def _checkpoint(small: ZeroShotDataset, scratch: Path) -> Reader:
    path = scratch / "fit.checkpoint"
    given = {"embedding_dim": 4, "batch_size": 64, "semantic_steps": 1, "random_state": 0, "separation": 1.0}

    def fit(place: Path, iterations: int = 3) -> DeepEmbedding:
        return fit_on(DeepEmbedding(**given, iterations=iterations, checkpoint=str(place)), small)

    class Stopped(Exception):
        pass

    from firstsight.methods.deep_embedding import alternating

    save_state = alternating.AlternatingTraining.save

    def stop(training: Any, force: bool = False) -> None:
        save_state(training, force=True)
        if training.iteration == 2:
            raise Stopped

    alternating.AlternatingTraining.save = stop  # type: ignore[method-assign]
    try:
        fit(path)
    except Stopped:
        pass
    finally:
        alternating.AlternatingTraining.save = save_state  # type: ignore[method-assign]

    def read(folder: Path) -> Any:
        made = fit(folder / "fit.checkpoint")
        losses = [one["loss"] for one in made.history_]
        return {name: weights.tobytes() for name, weights in made.weights_.items()}, losses

    return Reader({"fit.checkpoint": path.read_bytes()}, read, ("fit.checkpoint",), digest=True)


def _cache(scratch: Path) -> Reader:
    random, folder = np.random.default_rng(0), scratch / "cache"
    folder.mkdir()
    cache = FeatureCache(folder)
    features = {bytes([number] * 32): random.normal(size=6).astype("f4") for number in range(8)}
    for key, row in features.items():
        cache.put(key, row)
    cache.flush()

    def read(folder: Path) -> Any:
        found = {key: FeatureCache(folder).get(key) for key in features}
        for key, row in found.items():
            assert row is None or row.tobytes() == features[key].tobytes(), "another row than was put"

    (name,) = _content(folder)
    return Reader(_content(folder), read, (name,), digest=True)


# JSON -------------------------------------------------------------------------------------------------------------


def _records(record: Callable[..., dict]) -> bytes:
    made = [record(), record(setting="gzsl", ts=1.0, tr=2.0, h=1.3, per_class={}), record(method="sae", seed=1)]
    return b"".join(json.dumps(one).encode() + b"\n" for one in made)


def _read_records(folder: Path) -> Any:
    from firstsight.experiments.records import RecordFile

    found = read_records(folder)
    file = RecordFile(folder, "small")  # as a benchmark that goes on
    file.open()
    file.close()
    return found


def _choice(small: ZeroShotDataset) -> Reader:
    choice = {
        "schema": 1, "method": "eszsl", "dataset": "small", "split": small.split_hash, "objectives": ["zsl", "gzsl"],
        "independent_folds": 2.0, "calibrated": False, "race": False, "fits": 2, "rule": "", "default": None,
        "search": "grid", "folds": 2, "seed": 0, "grid": {"feature_penalty": [1.0, 10.0]}, "fixed": {},
        "chosen": {"zsl": {"feature_penalty": 1.0}, "gzsl": {"feature_penalty": 10.0}},
        "candidates": [{"parameters": {"feature_penalty": 1.0}, "error": "", "T1": [1.0, 2.0], "H": [3.0, 4.0]}],
    }  # fmt: skip

    def read(folder: Path) -> Any:
        return gather_choices(read_choices(folder), [small], str(folder))

    return Reader({"choice.json": json.dumps(choice).encode()}, read, ("choice.json",))


def _backbone(folder: Path) -> Reader:
    files = _content(folder)

    def read(place: Path) -> Any:
        found = Backbone(place)
        return found.fingerprint, found.load() is not None, found._processor is not None

    return Reader(files, read, ("config.json", "preprocessor_config.json", "model.safetensors"), share=0.15)


# Features, data sets, tables --------------------------------------------------------------------------------------


def _feature_files(scratch: Path) -> dict[str, Reader]:
    features = np.random.default_rng(0).normal(size=(6, 4)).astype("f4")
    names, labels = [f"{n}.png" for n in range(6)], ["ant", "bee"] * 3
    facts = {"name": "tiny", "fingerprint": "0" * 32, "dim": 4}
    write_feature_file(scratch / "f.npz", FeatureFile(features, names, labels, facts, [("x.png", "it is damaged")]))
    frame = _frame(features, ["f0", "f1", "f2", "f3"], **{"class": labels, "sample": names})
    parquet = io.BytesIO()
    frame.to_parquet(parquet)
    array = io.BytesIO()
    np.save(array, features)
    contents = {
        "f.npz": (scratch / "f.npz").read_bytes(),
        "f.csv": frame.to_csv(index=False).encode(),
        "f.parquet": parquet.getvalue(),
        "f.npy": array.getvalue(),
    }

    def reader(name: str) -> Reader:
        return Reader({name: contents[name]}, lambda folder: read_feature_file(folder / name), (name,))

    return {f"features {Path(name).suffix}": reader(name) for name in contents}


def _dataset_npz(tiny: ZeroShotDataset, scratch: Path) -> Reader:
    path = write_npz(tiny, scratch / "tiny.npz")
    return Reader({"tiny.npz": path.read_bytes()}, lambda folder: load_dataset(folder / "tiny.npz"), ("tiny.npz",))


def _matlab(tiny: ZeroShotDataset, scratch: Path) -> dict[str, Reader]:
    cells = np.empty((len(tiny.class_names), 1), dtype=object)
    cells[:, 0] = list(tiny.class_names)
    splits = {
        "allclasses_names": cells,
        "att": tiny.description_matrix.T.astype(float),
        "trainval_loc": (tiny.train + 1.0)[:, None],
        "test_seen_loc": (tiny.test_seen + 1.0)[:, None],
        "test_unseen_loc": (tiny.test_unseen + 1.0)[:, None],
    }
    rows = {"features": tiny.features.T.astype(float), "labels": (tiny.labels + 1.0)[:, None]}
    made = {}
    for kind in ("v5", "v5 packed", "v7.3"):
        files = {}
        for name, variables in {"att_splits.mat": splits, "res101.mat": rows}.items():
            if kind == "v7.3":
                _save_hdf5(scratch / name, variables)
            else:
                scipy.io.savemat(scratch / name, variables, do_compression=kind == "v5 packed")
            files[name] = (scratch / name).read_bytes()
        made[f"data set .mat {kind}"] = Reader(files, load_dataset, tuple(files))
    return made


def _save_hdf5(path: Path, variables: dict[str, np.ndarray]) -> None:
    """As MATLAB's -v7.3: arrays transposed, cells as references to arrays of characters."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            if value.dtype != object:
                file.create_dataset(name, data=value.T).attrs["MATLAB_class"] = np.bytes_("double")
                continue
            references = np.empty((1, value.size), dtype=h5py.ref_dtype)
            for number, text in enumerate(value.ravel()):
                cell = file.create_dataset(
                    f"#refs#/{name}{number}", data=np.array([[ord(c)] for c in text], dtype="u2")
                )
                cell.attrs["MATLAB_class"] = np.bytes_("char")
                references[0, number] = cell.ref
            file.create_dataset(name, data=references, dtype=h5py.ref_dtype).attrs["MATLAB_class"] = np.bytes_("cell")
    content = bytearray(path.read_bytes())
    content[:512] = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(384)
    path.write_bytes(content)


def _rows_and_answers(scratch: Path) -> dict[str, Reader]:
    """Rows that stay on the disk, and what a stopped run of bulk prediction is to go on from."""
    array, asked = io.BytesIO(), {"model": "m", "options": {"top": "1"}}
    np.save(array, np.random.default_rng(0).normal(size=(6, 4)).astype("f4"))
    frames = iter([_frame(np.zeros((3, 1)), ["confidence"], row=[0, 1, 2], **{"class": ["ant", "bee", "bee"]})])
    shards._write(scratch / "a.parquet", frames, {**asked, "shard": ["x", 1, 2]})

    def read_rows(folder: Path) -> Any:
        rows = DiskSamples(folder / "x.npy", memory=2**20)
        return (
            rows[:].tobytes(),
            rows[np.arange(len(rows))[::2]].tobytes(),
            [block.tobytes() for _, block in rows.blocks()],
        )

    def read_answers(folder: Path) -> Any:
        return shards._is_answered(folder / "a.parquet", folder, asked)

    return {
        "rows on the disk": Reader({"x.npy": array.getvalue()}, read_rows, ("x.npy",)),
        "answers": Reader({"a.parquet": (scratch / "a.parquet").read_bytes()}, read_answers, ("a.parquet",)),
    }


_REPORT = b"""title = "Records"
[links]
"the paper" = "https://example.org/paper"
[notes]
CUB = ["features of 2017"]
"""


def _labels() -> Reader:
    """What `serve --keep` writes and `learn` reads."""
    picture = io.BytesIO()
    Image.new("RGB", (4, 4)).save(picture, "PNG")
    files = {"labels.csv": b"file,class\na.png,ant\nb.png,'=bee\n", "a.png": picture.getvalue()}
    return Reader(files, find_images, ("labels.csv",))


def _tables(tiny: ZeroShotDataset, scratch: Path) -> dict[str, Reader]:
    split = np.full(len(tiny.labels), "", dtype=object)
    for part in ("train", "test_seen", "test_unseen"):
        split[getattr(tiny, part)] = part
    who = [tiny.class_names[code] for code in tiny.labels]
    samples = _frame(tiny.features, [f"f{n}" for n in range(5)], **{"class": who, "split": split})
    names = [f"trait {n}" for n in range(tiny.description_matrix.shape[1])]
    classes = _frame(tiny.description_matrix, names, **{"class": list(tiny.class_names)})
    csv = {"samples.csv": samples.to_csv(index=False).encode(), "classes.csv": classes.to_csv(index=False).encode()}
    parquet = {}
    for name, frame in {"samples.parquet": samples, "classes.parquet": classes}.items():
        frame.to_parquet(scratch / name)
        parquet[name] = (scratch / name).read_bytes()
    words = b"class,striped,legs\nzebra,yes,4\nbee,100%,6\nhen,,2\nox,no,4\n"
    one = {"classes.csv": csv["classes.csv"]}
    return {
        "data set .csv": Reader(csv, load_dataset, tuple(csv)),
        "data set .parquet": Reader(parquet, load_dataset, tuple(parquet)),
        "class descriptions": Reader(one, lambda folder: read_descriptions(folder / "classes.csv"), tuple(one)),
        "class table": Reader({"t.csv": words}, lambda folder: _numbers(folder / "t.csv"), ("t.csv",)),
    }


def _numbers(path: Path) -> Any:
    table, _ = attributes_as_numbers(read_class_table(path))
    assert np.isfinite(table.to_numpy()).all()
    return table


def _frame(values: np.ndarray, columns: list[str], **texts: Any) -> Any:
    import pandas as pd

    return pd.concat([pd.DataFrame(texts), pd.DataFrame(values, columns=columns)], axis=1)


def _content(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
