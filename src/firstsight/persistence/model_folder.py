"""`save` and `load`: a model as a folder of `model.json`, `arrays.safetensors` and `README.md` (the model card).

No pickle, no code. `persistence.model_schema` says what `model.json` holds. A folder is replaced in one step, by one
writer at a time; a reader gets the old model or the new one, whole.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save_file
from sklearn.pipeline import Pipeline

import firstsight
from firstsight._io.folders import locked, read_together, replace_folder, resolve_place
from firstsight._io.terminal import counted
from firstsight.errors import BadInput, CannotWrite, FirstsightError, UnknownName, UnreadableFile
from firstsight.evaluation.calibration import Calibration
from firstsight.methods import ZeroShotClassifier, find_method
from firstsight.persistence.added_samples import logged_calls
from firstsight.persistence.class_table import unsaid_changes
from firstsight.persistence.model_schema import (
    FORMAT,
    BackboneUsed,
    CalibrationNumbers,
    ModelFile,
    PipelineSteps,
    Provenance,
    model_card,
    read_model_file,
    write_model_file,
)
from firstsight.persistence.model_state import (
    PARTS_PREFIX,
    STEPS_PREFIX,
    Arrays,
    ArraysDoNotMatch,
    plain_parameters,
    restore_model,
    restore_parts,
    restore_pipeline,
    split_model,
    split_parts,
    split_pipeline,
)

MODEL, ARRAYS, CARD = "model.json", "arrays.safetensors", "README.md"
_CALIBRATION = "calibration/"


Stamp = tuple[int, int, int]  # tells two writings of a folder apart


@dataclass(eq=False)
class SavedModel:
    """What a model folder holds: the fitted model, with its calibration, its provenance, and what `model.json` says.

    `stamp` is `stamp_of` the folder with this model, where that is known.
    """

    model: ZeroShotClassifier
    provenance: Provenance
    file: ModelFile
    stamp: Stamp | None = None


def stamp_of(folder: str | Path) -> Stamp | None:
    """What tells this writing of a model folder from another one; None while there is no model."""
    try:
        status = os.stat(f"{folder}/{MODEL}")  # called for every image, and paths take longer to join than to look at
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


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
    steps: PipelineSteps | None = None
    step_arrays: Arrays = {}
    if isinstance(model, Pipeline):
        model, steps, step_arrays = split_pipeline(model)
    if not isinstance(model, ZeroShotClassifier):
        raise BadInput(
            f"A {type(model).__name__} cannot be saved: a folder holds arrays and no code, and loading knows methods "
            "of firstsight and pipelines that end in one; save its best estimator, or its last step."
        )
    folder = check_target(folder)
    with locked(folder):
        if not overwrite:
            names = getattr(model, "attribute_names_in_", None)
            check_no_lost_changes(folder, pd.DataFrame(model.descriptions_, index=model.classes_, columns=names))
        _write(model, folder, Provenance.read(provenance), steps, step_arrays)


@dataclass(frozen=True, eq=False)
class FormerChanges:
    """What was taught to the model of a folder since its training, and a new table of classes does not say.

    Attributes
    ----------
    taught : DataFrame
        Classes that were added or described again, with their descriptions.
    removed : list of str
        Classes of the new table that were removed from the model.
    forgotten : set of str
        Classes that were removed and are not in the new table either: no loss.
    calls : list of (array (m, d), list (m,), array (m,))
        Features, labels and fingerprints of the labelled samples that each call added.
    backbone : BackboneUsed or None
        What made the features.
    feature_names : list of str or None
        What the features are called.
    """

    taught: pd.DataFrame
    removed: list[str]
    forgotten: set[str]
    calls: list[tuple[np.ndarray, list[Any], np.ndarray]]
    backbone: BackboneUsed | None
    feature_names: list[str] | None

    @property
    def samples(self) -> int:
        """How many labelled samples were added."""
        return sum(len(labels) for _, labels, _ in self.calls)

    def classes_as_text(self, table: pd.DataFrame) -> list[str]:
        """What happened to each class, in words; `table` is the new one."""
        known = set(map(str, table.index))
        taught = [f"{name!r} was {'described again' if name in known else 'added'}" for name in self.taught.index]
        return taught + [f"{name!r} was removed" for name in self.removed]


def read_changes(folder: str | Path, descriptions: pd.DataFrame) -> FormerChanges | None:
    """What was taught to the model of a folder since its training, and `descriptions` do not say; None without any."""
    folder = Path(folder)
    if not (folder / MODEL).is_file():
        return None
    try:
        file, arrays = _contents(folder)
        columns = file.values.get("attribute_names_in_")
        known = pd.DataFrame(arrays["descriptions_"], index=file.values["classes_"], columns=columns)
        taught, removed, forgotten = unsaid_changes(file.values, known, descriptions)
        calls = logged_calls(file.values, arrays, forgotten)
    except (FirstsightError, OSError, ValueError, LookupError, TypeError, SafetensorError) as error:
        raise BadInput(
            f"{folder} holds a model that cannot be read, so what was taught to it would be lost ({error}) Choose "
            "another folder, or give --overwrite (overwrite=True) to replace it."
        ) from error
    if not (len(taught) or removed or forgotten or calls):
        return None
    names = file.values.get("feature_names_in_")
    return FormerChanges(taught, removed, forgotten, calls, file.provenance.backbone, names)


def check_no_lost_changes(folder: str | Path, descriptions: pd.DataFrame) -> None:
    """Raise if replacing a model would lose classes or samples that were taught to it since its training."""
    changes = read_changes(folder, descriptions)
    if changes is None:
        return
    if lost := changes.classes_as_text(descriptions):
        more = f" and {len(lost) - 3} more changes" if len(lost) > 3 else ""
        raise BadInput(
            f"Since the model in {folder} was trained, its classes were changed, and replacing it would lose that: "
            f"{', '.join(lost[:3])}{more}. To keep the changes, write its classes to a table (`firstsight classes list "
            f"{folder} --csv FILE`) and use that; to drop them, give --overwrite (overwrite=True)."
        )
    if not changes.samples:
        return
    added = counted(changes.samples, "labelled sample")
    raise BadInput(
        f"{added} {'was' if changes.samples == 1 else 'were'} added to the model in {folder} since it was trained, and "
        "replacing it would lose them. Put the images into the training folder and give --overwrite (overwrite=True), "
        "or choose another folder."
    )


class HasModel(Protocol):
    """A model with its provenance, such as a `Recognizer`."""

    model: ZeroShotClassifier
    provenance: Provenance


@contextmanager
def replacing(folder: str | Path, descriptions: pd.DataFrame, saved: HasModel) -> Iterator[FormerChanges | None]:
    """Replace the model of a folder by `saved` at the end of a `with` block, which gets what was taught to the old one.

    Others who change the folder wait, so nothing that is taught meanwhile is lost; an error in the block leaves the
    folder as it was.
    """
    folder = check_target(folder)
    with locked(folder):
        yield read_changes(folder, descriptions)
        _write(saved.model, folder, saved.provenance)


@contextmanager
def change(
    folder: str | Path,
    method: type[ZeroShotClassifier] | None = None,
    *,
    read: Callable[[], SavedModel] | None = None,
) -> Iterator[SavedModel]:
    """Change the model of a folder in a `with` block: what `.model` is at its end replaces the old one.

    Others who change the folder wait, so no change is lost; an error in the block leaves the folder as it was. `read`
    is called while they wait, for a caller who may have the folder's model in memory.
    """
    folder = check_target(folder)
    with locked(folder):
        saved = load_saved(folder, method) if read is None else read()
        yield saved
        saved.stamp = _write(saved.model, folder, saved.provenance)


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
    if saved.file.pipeline is None:
        raise BadInput(f"{folder} holds a {saved.file.method} and no pipeline; read it with firstsight.load.")
    try:
        return restore_pipeline(saved.model, saved.file.pipeline, arrays)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UnreadableFile(
            f"{folder} cannot be read as a pipeline ({type(error).__name__}: {error}); restore it or fit it again."
        ) from error


def load_saved(folder: str | Path, method: type[ZeroShotClassifier] | None = None) -> SavedModel:
    """Read the fitted model, with its calibration, its provenance, and what `model.json` says."""
    stamp = stamp_of(folder)  # before reading: a change in between is found by the next look
    saved, _ = _read(Path(folder), method)
    saved.stamp = stamp
    if saved.file.pipeline is not None:  # the method alone would get features that nothing has transformed
        raise BadInput(f"{folder} holds a pipeline that ends in {saved.file.method}; read it with load_pipeline.")
    return saved


def _check_calibration(model: ZeroShotClassifier, arrays: Arrays) -> None:
    for name, array in arrays.items():
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError(f"{name} of the calibration does not hold finite numbers")
    reference = arrays.get("reference")
    if reference is not None and reference.shape[1:] != model.descriptions_.shape[1:]:
        raise ArraysDoNotMatch(f"reference of the calibration has shape {reference.shape}, descriptions_ have another")


def _read(folder: Path, method: type[ZeroShotClassifier] | None) -> tuple[SavedModel, Arrays]:
    """What a folder holds, and the arrays of a pipeline's transformers."""
    if not (folder / MODEL).is_file() and not folder.is_dir():
        _no_model(folder)
    try:
        file, arrays = _contents(folder)
        step_arrays, part_arrays, calibration = (
            {name: arrays.pop(name) for name in list(arrays) if name.startswith(prefix)}
            for prefix in (STEPS_PREFIX, PARTS_PREFIX, _CALIBRATION)
        )
        cls = _method_of(file, method)
        kinds = [_find_method(part.method, "install the package that has it") for part in file.parts]
        parts = restore_parts(file.parts, kinds, part_arrays)
        model = restore_model(cls, file.parameters, file.values, arrays, parts)
        if file.calibration is not None:
            named = {name.removeprefix(_CALIBRATION): array for name, array in calibration.items()}
            _check_calibration(model, named)
            model.calibration_ = Calibration.from_json(file.calibration.as_json(), **named)
        return SavedModel(model, file.provenance, file), step_arrays
    except BadInput:
        raise
    except ArraysDoNotMatch as error:
        raise UnreadableFile(
            f"{folder} holds {file.method} arrays that do not belong together ({error}); restore it or fit the model "
            "again."
        ) from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError, SafetensorError) as error:
        raise UnreadableFile(
            f"{folder} cannot be read as a model ({type(error).__name__}: {error}); restore it or fit the model again."
        ) from error


def _contents(folder: Path) -> tuple[ModelFile, Arrays]:
    contents = read_together(folder, (MODEL, ARRAYS))
    if MODEL not in contents:
        _no_model(folder)
    file = read_model_file(contents[MODEL], folder)
    if ARRAYS not in contents:
        raise ValueError(f"{ARRAYS} is missing")
    if hashlib.sha256(contents[ARRAYS]).hexdigest() != file.arrays_sha256:
        raise UnreadableFile(
            f"{folder}/{ARRAYS} is not the file that model.json describes (truncated or changed); restore it or fit "
            "the model again."
        )
    return file, load_arrays(contents[ARRAYS])


def _method_of(file: ModelFile, method: type[ZeroShotClassifier] | None) -> type[ZeroShotClassifier]:
    if method is not None:
        if method.__name__ != file.method:
            raise BadInput(f"The folder holds a {file.method}, not a {method.__name__}; load it with its own class.")
        return method
    return _find_method(file.method, "load it with method=… and the class that it was made with")


def _find_method(name: str, otherwise: str) -> type[ZeroShotClassifier]:
    try:
        return find_method(name)
    except UnknownName:
        raise UnreadableFile(
            f"The folder holds a {name[:60]!r}, which is not a method of firstsight or of an installed package; "
            f"{otherwise}."
        ) from None


def check_target(folder: str | Path) -> Path:
    """Resolve where a model is going to be written, links followed; raise if it cannot, or something would be lost."""
    folder = resolve_place(Path(folder))
    for path in (folder, next(path for path in folder.parents if path.exists())):  # the model replaces the whole folder
        if path.exists() and not os.access(path, os.W_OK):
            raise CannotWrite(
                f"Could not write the model to {folder} ({path} is read-only); choose another place, or change the "
                "rights of this one."
            )
    if folder.exists() and not (folder / MODEL).is_file():
        raise BadInput(f"{folder} exists and is not a model folder; choose another place or remove it first.")
    with suppress(FileNotFoundError):  # the current folder was removed
        if Path.cwd().is_relative_to(folder):
            raise BadInput(
                f"{folder} is the folder that you are in, and cannot be replaced meanwhile; go up one folder and give "
                "its name."
            )
    return folder


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
    steps: PipelineSteps | None = None,
    step_arrays: Mapping[str, np.ndarray] | None = None,
) -> Stamp | None:
    arrays, values = split_model(model)
    parts, part_arrays = split_parts(model)
    arrays |= {**part_arrays, **(step_arrays or {})}
    calibration: Calibration | None = getattr(model, "calibration_", None)
    if calibration is not None:
        arrays |= {_CALIBRATION + name: np.ascontiguousarray(array) for name, array in calibration.arrays.items()}
    file = ModelFile(
        format=FORMAT,
        firstsight=firstsight.__version__,
        versions=_versions(),
        method=type(model).__name__,
        parameters=plain_parameters(model),
        values=values,
        provenance=provenance,
        calibration=None if calibration is None else CalibrationNumbers(**calibration.to_json()),
        pipeline=steps,
        parts=parts,
        arrays_sha256="",
    )
    card = model_card(model, file)
    stamp: Stamp | None = None

    def fill(scratch: Path) -> None:
        nonlocal stamp
        save_file(arrays, scratch / ARRAYS)
        final = file.model_copy(update={"arrays_sha256": _sha256(scratch / ARRAYS)})
        (scratch / MODEL).write_text(write_model_file(final), encoding="utf-8")
        (scratch / CARD).write_text(card, encoding="utf-8")
        stamp = stamp_of(scratch)  # renaming the folder keeps it; later, another process may write

    replace_folder(folder, fill)
    return stamp


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
