"""A fitted model as a folder: `model.json` (what it is), `arrays.safetensors` (its numbers), `README.md` (its card).

No pickle, no code. `model.json` holds

    format, firstsight          the format's number and the version that wrote it; a later version reads it
    versions                    of python, numpy and torch
    method, parameters, values  the estimator: its class, what it was made with, fitted values other than arrays
    facts                       what is known of its making: data set, hashes, seed, backbone, attribute names …
    calibration                 null, or what turns scores into confidence (`calibration.confidence`)
    arrays_sha256               of arrays.safetensors
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

import firstsight
from firstsight.calibration.confidence import Calibration
from firstsight.errors import BadInput, CannotWrite, UnreadableFile
from firstsight.methods import ZeroShotClassifier, find_method
from firstsight.models.card import model_card

FORMAT = 1
_REFERENCE = "calibration/reference"
# What fitted attributes were called before `class_attributes_` became `descriptions_`.
_NAMES = ("classes_", "attribute_names_in_", "feature_names_in_")  # arrays of text, which safetensors has no place for
_RENAMED = {"class_attributes_": "descriptions_", "descriptions_": "seen_descriptions_"}


@dataclass(frozen=True, eq=False)
class Saved:
    """What a model folder holds: the fitted model, everything that `model.json` says, and the calibration, if any."""

    model: ZeroShotClassifier
    about: dict[str, Any]
    calibration: Calibration | None

    @property
    def facts(self) -> dict[str, Any]:
        return self.about.get("facts", {})


def save(
    model: ZeroShotClassifier,
    folder: str | Path,
    facts: dict[str, Any] | None = None,
    calibration: Calibration | None = None,
) -> None:
    """Write a fitted model; an older model in the same place is replaced only when the new one is complete.

    `facts` is anything else worth keeping that JSON can hold: the data set, its split, an evaluation.
    """
    folder = Path(folder)
    arrays, values = _split(model)
    if calibration is not None:
        arrays[_REFERENCE] = np.ascontiguousarray(calibration.reference)
    about = {
        "format": FORMAT,
        "firstsight": firstsight.__version__,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("numpy", "torch")}},
        "method": type(model).__name__,
        "parameters": {k: v for k, v in model.get_params().items() if _is_plain(v)},
        "values": values,
        "facts": facts or {},
        "calibration": None if calibration is None else calibration.to_json(),
    }
    card = model_card(model, about)
    if folder.exists() and not (folder / "model.json").is_file():
        raise BadInput(f"{folder} exists and is not a model folder; choose another place or remove it first.")
    scratch = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        save_file(arrays, scratch / "arrays.safetensors")
        about["arrays_sha256"] = _sha256(scratch / "arrays.safetensors")
        (scratch / "model.json").write_text(json.dumps(about, indent=1, ensure_ascii=False), encoding="utf-8")
        (scratch / "README.md").write_text(card, encoding="utf-8")
        for file in scratch.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        scratch.chmod(0o755)
        _take_place(scratch, folder)
    except (OSError, SafetensorError) as error:
        raise CannotWrite(
            f"Could not write the model to {folder} ({getattr(error, 'strerror', None) or error}); what was there "
            "before is untouched. Free some space or choose another place."
        ) from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def load(folder: str | Path, method: type[ZeroShotClassifier] | None = None) -> ZeroShotClassifier:
    """The fitted model that `save` wrote, in any later process.

    `method` is the class of a method that lives outside firstsight; a folder never says which code to run.
    """
    return load_saved(folder, method).model


def load_with_facts(
    folder: str | Path, method: type[ZeroShotClassifier] | None = None
) -> tuple[ZeroShotClassifier, dict[str, Any]]:
    """The fitted model and everything else that `model.json` says."""
    saved = load_saved(folder, method)
    return saved.model, saved.about


def load_saved(folder: str | Path, method: type[ZeroShotClassifier] | None = None) -> Saved:
    """The fitted model, what `model.json` says, and the calibration."""
    folder = Path(folder)
    if not (folder / "model.json").is_file():
        raise UnreadableFile(
            f"{folder} is not a model folder (no model.json); give a folder that `firstsight fit` wrote."
        )
    try:
        about = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        if about["format"] > FORMAT:
            raise BadInput(
                f"{folder} was written by firstsight {about['firstsight']}, which is newer than this one; upgrade to "
                "read it."
            )
        if _sha256(folder / "arrays.safetensors") != about["arrays_sha256"]:
            raise UnreadableFile(
                f"{folder}/arrays.safetensors is not the file that model.json describes (truncated or changed); "
                "restore it or fit the model again."
            )
        arrays = load_file(folder / "arrays.safetensors")
        calibration = about.get("calibration")
        if calibration is not None:
            calibration = Calibration.from_json(calibration, arrays.pop(_REFERENCE))
        return Saved(_rebuild(about, arrays, method), about, calibration)
    except BadInput:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, SafetensorError) as error:
        raise UnreadableFile(
            f"{folder} cannot be read as a model ({type(error).__name__}: {error}); restore it or fit the model again."
        ) from error


def _rebuild(
    about: dict[str, Any], arrays: dict[str, np.ndarray], method: type[ZeroShotClassifier] | None
) -> ZeroShotClassifier:
    """The reverse of `_split`."""
    if method is not None and method.__name__ != about["method"]:
        raise BadInput(f"The folder holds a {about['method']}, not a {method.__name__}; load it with its own class.")
    cls = find_method(about["method"]) if method is None else method
    model = cls(**{k: v for k, v in about["parameters"].items() if k in cls._get_param_names()})
    for name in [*about["values"], *arrays]:
        if not _is_fitted(name.partition("/")[0]):
            raise ValueError(f"{name!r} is no fitted attribute")
    values = dict(about["values"])
    # Folders from before models kept the names of their attributes have them among the facts.
    if "attribute_names_in_" not in values and (about.get("facts") or {}).get("attributes"):
        values["attribute_names_in_"] = about["facts"]["attributes"]
    for name, value in values.items():
        setattr(model, name, np.asarray(value) if name in _NAMES else value)
    model.classes_ = np.asarray(values["classes_"])
    renamed = _RENAMED if "class_attributes_" in arrays else {}
    for name, array in arrays.items():
        name = renamed.get(name, name)
        attribute, _, key = name.partition("/")
        if key:
            model.__dict__.setdefault(attribute, {})[key] = array
        else:
            setattr(model, attribute, array)
    return model


def _split(model: ZeroShotClassifier) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Fitted attributes as arrays (by name, "attribute/key" for dictionaries of arrays) and as JSON values."""
    arrays: dict[str, np.ndarray] = {}
    values: dict[str, Any] = {}
    for name, value in vars(model).items():
        if not _is_fitted(name):
            continue
        if name == "classes_":
            values[name] = value.tolist()
        elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            arrays[name] = np.ascontiguousarray(value)
        elif isinstance(value, dict) and value and all(isinstance(v, np.ndarray) for v in value.values()):
            arrays |= {f"{name}/{key}": np.ascontiguousarray(v) for key, v in value.items()}
        elif isinstance(value, np.generic):
            values[name] = value.item()
        elif isinstance(value, np.ndarray):
            values[name] = value.tolist()
        else:
            values[name] = value
    if not values:
        raise BadInput(f"This {type(model).__name__} has not been fitted; call fit before save.")
    return arrays, values


def _is_fitted(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _take_place(scratch: Path, folder: Path) -> None:
    """Put the finished folder where the old one is; the old one is then in `scratch` or gone."""
    if not folder.exists():
        scratch.rename(folder)
        return
    if _exchange(scratch, folder):
        return
    # Two steps: a process killed between them leaves the old model under a hidden name beside `folder`.
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
    folder.rename(old / folder.name)
    try:
        scratch.rename(folder)
    except BaseException:  # Ctrl-C, too
        if not folder.exists():
            (old / folder.name).rename(folder)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step, so that no moment is without either; False where the system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2  # Linux; Python has no name for it
    except (AttributeError, OSError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0
