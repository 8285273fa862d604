"""A fitted model as a folder: `model.json` (what it is), `arrays.safetensors` (its numbers), `README.md` (its card).

No pickle, no code. `models.model_schema` says what `model.json` holds. A folder is replaced in one step, by one writer
at a time; a reader gets the old model or the new one, whole.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save_file
from sklearn.pipeline import Pipeline

import firstsight
from firstsight._io.folders import locked, read_together, replace_folder, resolve_place
from firstsight.errors import BadInput, FirstsightError, UnknownName, UnreadableFile
from firstsight.evaluation.calibration import Calibration
from firstsight.methods import ZeroShotClassifier, find_method
from firstsight.methods._class_input import name_array
from firstsight.persistence.card import model_card
from firstsight.persistence.class_table import check_removed, lost_changes
from firstsight.persistence.model_schema import (
    FORMAT,
    CalibrationNumbers,
    ModelFile,
    Provenance,
    read_model_file,
    write_model_file,
)
from firstsight.persistence.pipeline_steps import PREFIX, Steps, put_together, take_apart

MODEL, ARRAYS, CARD = "model.json", "arrays.safetensors", "README.md"
_CALIBRATION = "calibration/"
_NAMES = ("classes_", "attribute_names_in_")  # arrays of text, which safetensors has no place for
# What fitted attributes were called before `class_attributes_` became `descriptions_`.
_RENAMED = {"class_attributes_": "descriptions_", "descriptions_": "seen_descriptions_"}


@dataclass(eq=False)
class Saved:
    """What a model folder holds: the fitted model (its calibration is `model.calibration_`) and where it comes from."""

    model: ZeroShotClassifier
    provenance: Provenance
    about: ModelFile


def save(
    model: ZeroShotClassifier | Pipeline,
    folder: str | Path,
    provenance: Provenance | Mapping[str, Any] | None = None,
    *,
    overwrite: bool = True,
) -> None:
    """Write a fitted model; an older model in the same place is replaced only when the new one is complete.

    Parameters
    ----------
    model : ZeroShotClassifier or Pipeline
        A fitted method, or a scikit-learn pipeline of common scalers, PCA and a method (`load_pipeline` reads it).
    folder : str or Path
        Where to write.
    provenance : Provenance or mapping, optional
        What is known of its making: the data set, its split, the seed, an evaluation.
    overwrite : bool
        Replace a model whose classes were changed since its training (`add_classes`, the web app), even if the new one
        does not have these changes; False refuses to lose them.
    """
    steps: Steps | None = None
    before: dict[str, np.ndarray] = {}
    if isinstance(model, Pipeline):
        model, steps, before = take_apart(model)
    if not isinstance(model, ZeroShotClassifier):
        raise BadInput(
            f"A {type(model).__name__} cannot be saved: a folder holds arrays and no code, and loading knows methods "
            "of firstsight and pipelines that end in one; save its best estimator, or its last step."
        )
    folder = check_place(folder)
    with locked(folder):
        if not overwrite:
            names = getattr(model, "attribute_names_in_", None)
            check_changes(folder, pd.DataFrame(model.descriptions_, index=model.classes_, columns=names))
        _write(model, folder, Provenance.read(provenance), steps, before)


def check_changes(folder: str | Path, descriptions: pd.DataFrame) -> None:
    """Refuse to replace a model if classes were taught to it, or removed, which `descriptions` do not say."""
    folder = Path(folder)
    if not (folder / MODEL).is_file():
        return
    try:
        about, arrays = _contents(folder)
        columns = about.values.get("attribute_names_in_")
        known = pd.DataFrame(arrays["descriptions_"], index=about.values["classes_"], columns=columns)
        lost = lost_changes(about.values, known, descriptions)
    except (FirstsightError, OSError, ValueError, LookupError, TypeError, SafetensorError) as error:
        raise BadInput(
            f"{folder} holds a model that cannot be read, so what was taught to it would be lost ({error}) Choose "
            "another folder, or give --overwrite (overwrite=True) to replace it."
        ) from error
    if lost:
        more = f" and {len(lost) - 3} more changes" if len(lost) > 3 else ""
        raise BadInput(
            f"Since the model in {folder} was trained, its classes were changed, and replacing it would lose that: "
            f"{', '.join(lost[:3])}{more}. To keep the changes, write its classes to a table (`firstsight classes list "
            f"{folder} --csv FILE`) and use that; to drop them, give --overwrite (overwrite=True)."
        )


@contextmanager
def change(folder: str | Path, method: type[ZeroShotClassifier] | None = None) -> Iterator[Saved]:
    """The model of a folder, to be changed in a `with` block: what `.model` is at its end takes the old one's place.

    Whoever else changes the folder waits, so no change is lost; an error in the block leaves the folder as it was.
    """
    folder = check_place(folder)
    with locked(folder):
        saved = load_saved(folder, method)
        yield saved
        _write(saved.model, folder, saved.provenance)


def load(folder: str | Path, method: type[ZeroShotClassifier] | None = None) -> ZeroShotClassifier:
    """Read the fitted model that `save` wrote, in any later process.

    Parameters
    ----------
    folder : str or Path
        Where it was saved.
    method : type, optional
        The class of a method that lives outside firstsight; a folder never says which code to run.

    Returns
    -------
    ZeroShotClassifier
        The fitted model.
    """
    return load_saved(folder, method).model


def load_pipeline(folder: str | Path, method: type[ZeroShotClassifier] | None = None) -> Pipeline:
    """Read the fitted scikit-learn pipeline that `save` wrote.

    Parameters
    ----------
    folder : str or Path
        Where it was saved.
    method : type, optional
        The class of a method that lives outside firstsight; a folder never says which code to run.

    Returns
    -------
    Pipeline
        The fitted pipeline.
    """
    saved, arrays = _read(Path(folder), method)
    if saved.about.pipeline is None:
        raise BadInput(f"{folder} holds a {saved.about.method} and no pipeline; read it with firstsight.load.")
    try:
        return put_together(saved.model, saved.about.pipeline, arrays)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UnreadableFile(
            f"{folder} cannot be read as a pipeline ({type(error).__name__}: {error}); restore it or fit it again."
        ) from error


def load_saved(folder: str | Path, method: type[ZeroShotClassifier] | None = None) -> Saved:
    """The fitted model, with its calibration, and what `model.json` says."""
    saved, _ = _read(Path(folder), method)
    if saved.about.pipeline is not None:  # the method alone would be given rows that nothing has transformed
        raise BadInput(f"{folder} holds a pipeline that ends in {saved.about.method}; read it with load_pipeline.")
    return saved


def _read(folder: Path, method: type[ZeroShotClassifier] | None) -> tuple[Saved, dict[str, np.ndarray]]:
    """What a folder holds, and the arrays of what stands before the method."""
    if not (folder / MODEL).is_file() and not folder.is_dir():
        _no_model(folder)
    try:
        about, arrays = _contents(folder)
        before = {name: arrays.pop(name) for name in list(arrays) if name.startswith(PREFIX)}
        model = _rebuild(about, arrays, method)
        model._read_from = str(folder)
        return Saved(model, about.provenance, about), before
    except BadInput:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError, SafetensorError) as error:
        raise UnreadableFile(
            f"{folder} cannot be read as a model ({type(error).__name__}: {error}); restore it or fit the model again."
        ) from error


def _contents(folder: Path) -> tuple[ModelFile, dict[str, np.ndarray]]:
    contents = read_together(folder, (MODEL, ARRAYS))
    if MODEL not in contents:
        _no_model(folder)
    about = read_model_file(contents[MODEL], folder)
    if ARRAYS not in contents:
        raise ValueError(f"{ARRAYS} is missing")
    if hashlib.sha256(contents[ARRAYS]).hexdigest() != about.arrays_sha256:
        raise UnreadableFile(
            f"{folder}/{ARRAYS} is not the file that model.json describes (truncated or changed); restore it or fit "
            "the model again."
        )
    return about, load_arrays(contents[ARRAYS])


def check_place(folder: str | Path) -> Path:
    """Where a model is going to be written, links followed; refused where something else would be lost."""
    folder = resolve_place(Path(folder))
    if folder.exists() and not (folder / MODEL).is_file():
        raise BadInput(f"{folder} exists and is not a model folder; choose another place or remove it first.")
    if _here().is_relative_to(folder):
        raise BadInput(
            f"{folder} is the folder that you are in, and cannot be replaced meanwhile; go up one folder and give "
            "its name."
        )
    return folder


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # the folder that we are in was removed
        return Path("/")


def _no_model(folder: Path) -> NoReturn:
    raise UnreadableFile(f"{folder} is not a model folder (no model.json); give a folder that `firstsight fit` wrote.")


@cache  # looking into the packages takes longer than all the rest of saving
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "numpy": version("numpy")}
    with suppress(PackageNotFoundError):  # an optional extra
        versions["torch"] = version("torch")
    return versions


def _write(
    model: ZeroShotClassifier,
    folder: Path,
    provenance: Provenance,
    steps: Steps | None = None,
    before: Mapping[str, np.ndarray] | None = None,
) -> None:
    arrays, values = _split(model)
    arrays |= before or {}
    calibration: Calibration | None = getattr(model, "calibration_", None)
    if calibration is not None:
        arrays |= {_CALIBRATION + name: np.ascontiguousarray(array) for name, array in calibration.arrays.items()}
    about = ModelFile(
        format=FORMAT,
        firstsight=firstsight.__version__,
        versions=_versions(),
        method=type(model).__name__,
        # Where it was computed is nothing that was learned: another machine may have no such device.
        parameters={k: v for k, v in model.get_params().items() if _is_plain(v) and k != "device"},
        values=values,
        provenance=provenance,
        calibration=None if calibration is None else CalibrationNumbers(**calibration.to_json()),
        pipeline=steps,
        arrays_sha256="",
    )
    card = model_card(model, about)

    def fill(scratch: Path) -> None:
        save_file(arrays, scratch / ARRAYS)
        final = about.model_copy(update={"arrays_sha256": _sha256(scratch / ARRAYS)})
        (scratch / MODEL).write_text(write_model_file(final), encoding="utf-8")
        (scratch / CARD).write_text(card, encoding="utf-8")

    replace_folder(folder, fill)


def _rebuild(
    about: ModelFile, arrays: dict[str, np.ndarray], method: type[ZeroShotClassifier] | None
) -> ZeroShotClassifier:
    """The reverse of `_split`."""
    if method is not None and method.__name__ != about.method:
        raise BadInput(f"The folder holds a {about.method}, not a {method.__name__}; load it with its own class.")
    cls = _method_of(about) if method is None else method
    model = cls(**{k: v for k, v in about.parameters.items() if k in cls._get_param_names()})
    calibration = about.calibration
    if calibration is not None:
        names = [name for name in arrays if name.startswith(_CALIBRATION)]
        own = {name.removeprefix(_CALIBRATION): arrays.pop(name) for name in names}
        model.calibration_ = Calibration.from_json(calibration.as_json(), **own)
    for name in [*about.values, *arrays]:
        if not _is_fitted(name.partition("/")[0]) or name == "calibration_":
            raise ValueError(f"{name!r} is not a fitted attribute")
    for name, value in about.values.items():
        setattr(model, name, _names(value) if name in _NAMES else value)
    if "feature_names_in_" in about.values:  # of the type that scikit-learn gives it, which cuts nothing off
        model.feature_names_in_ = np.array(about.values["feature_names_in_"], dtype=object)
    model.classes_ = _names(about.values["classes_"])
    renamed = _RENAMED if "class_attributes_" in arrays else {}
    for name, array in arrays.items():
        name = renamed.get(name, name)
        attribute, _, key = name.partition("/")
        if key:
            model.__dict__.setdefault(attribute, {})[key] = array
        else:
            setattr(model, attribute, array)
    _check_shapes(model, sum(array.size for array in arrays.values()))
    return model


def _names(values: Any) -> np.ndarray:
    texts = isinstance(values, list) and any(isinstance(value, str) for value in values)
    names = name_array(values) if texts else np.asarray(values)
    if names.dtype.kind == "U":
        "".join(names.ravel().tolist()).encode()  # JSON can hold half a character, which nothing can write or show
    return names


def _method_of(about: ModelFile) -> type[ZeroShotClassifier]:
    try:
        return find_method(about.method)
    except UnknownName:
        raise UnreadableFile(
            f"The folder holds a {about.method[:60]!r}, which is not a method of firstsight or of an installed "
            "package; load it with method=… and the class that it was made with."
        ) from None


def _check_shapes(model: ZeroShotClassifier, size: int) -> None:
    """One description, one code and one name per class, one name per attribute; `size` numbers serve few features."""
    for name in ("n_features_in_", "described_", "feature_scaler_", "attribute_scaler_"):
        if not hasattr(model, name):
            raise ValueError(f"{name} is missing")
    if type(model.n_features_in_) is not int or not 1 <= model.n_features_in_ <= 100 * size:
        raise ValueError(f"n_features_in_ is {model.n_features_in_!r}")
    (rows, width), n = model.descriptions_.shape, len(model.classes_)
    if model.classes_.ndim != 1 or model.classes_.dtype.kind not in "iuU" or (rows, *model.seen_code_.shape) != (n, n):
        raise ValueError(f"{n} classes_, {rows} descriptions_ and {len(model.seen_code_)} seen_code_ do not match")
    if len(set(model.classes_.tolist())) < n:
        raise ValueError("classes_ names a class twice")
    for name in ("seen_code_", "unseen_code_"):
        codes = getattr(model, name, model.seen_code_)
        if codes.shape != (n,) or codes.dtype.kind not in "iu":
            raise ValueError(f"{name} is not a whole number for each of {n} classes")
    pool = getattr(model, "pool_predictions_", np.empty(0, dtype=int))
    if pool.dtype.kind not in "iu" or not ((pool >= -1) & (pool < n)).all():
        raise ValueError(f"pool_predictions_ are no places among {n} classes")
    names = getattr(model, "attribute_names_in_", None)
    if names is not None and (names.shape != (width,) or names.dtype.kind != "U"):
        raise ValueError(f"{len(names)} attribute_names_in_ do not match {width} attributes")
    names = getattr(model, "feature_names_in_", None)
    if names is not None and (names.shape != (model.n_features_in_,) or not all(isinstance(n, str) for n in names)):
        raise ValueError(f"{len(names)} feature_names_in_ do not match {model.n_features_in_} features")
    check_removed(model)
    prints = getattr(model, "training_fingerprints_", {})
    for array in prints.values() if isinstance(prints, dict) else [None]:
        if not isinstance(array, np.ndarray) or array.dtype != np.uint64 or array.ndim != 1:
            raise ValueError("training_fingerprints_ are no lists of whole numbers of 64 bits")


def _split(model: ZeroShotClassifier) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Fitted attributes as arrays (by name, "attribute/key" for dictionaries of arrays) and as JSON values."""
    arrays: dict[str, np.ndarray] = {}
    values: dict[str, Any] = {}
    for name, value in vars(model).items():
        if not _is_fitted(name) or name == "calibration_":
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
