"""A model that is asked: pictures or rows in; names, confidence and reasons out."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from firstsight._io.terminal import counted
from firstsight.data import read_descriptions
from firstsight.data.feature_files import FeatureFile
from firstsight.errors import BadInput, UnreadableFile
from firstsight.methods import ZeroShotClassifier
from firstsight.persistence.class_table import add_classes, as_labels, remove_classes
from firstsight.persistence.model_folder import change, load_saved, save
from firstsight.persistence.model_schema import Provenance
from firstsight.recognition.answers import Answers, Candidates, answer, choose_classes
from firstsight.recognition.inputs import (
    OwnBackbone,
    Rows,
    Show,
    as_list,
    is_feature_file,
    is_features,
    read_pictures,
    read_rows,
)
from firstsight.recognition.scoring import Score, in_training, recognised_by
from firstsight.recognition.shards import Told, name_shards


class Recognizer:
    """A fitted model, where it comes from, and its backbone if it looks at pictures.

    Call it with what is to be named: a path, a PIL picture, a uint8 array, a folder, rows of features, or a list of
    these. Several threads may ask at once. Nothing is printed; `progress(done, total)` tells how far it is.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted.
    provenance : Provenance, optional
        What is known of its making.
    backbone : str or Path, optional
        Where the vision model is, if not where it was.
    batch_size : int
        Pictures that the backbone looks at together.
    runtime : {"auto", "torch", "onnx"}
        What runs the backbone.
    device : str
        Where the backbone runs: "cpu", "cuda", "mps", …, or "auto", which is a GPU if there is one.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from firstsight import ESZSL
    >>> table = pd.DataFrame({"stripes": [1, 0, 1], "horns": [0, 1, 1]}, index=["zebra", "ox", "bongo"])
    >>> model = ESZSL().fit([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]], ["zebra", "zebra", "ox", "ox"], table)
    >>> Recognizer(model)(np.array([[0.8, 0.9]])).best
    ['bongo']
    """

    def __init__(
        self,
        model: ZeroShotClassifier,
        provenance: Provenance | None = None,
        backbone: str | Path | None = None,
        *,
        batch_size: int = 32,
        runtime: str = "auto",
        device: str = "cpu",
    ):
        self.model = model
        self.provenance = provenance or Provenance()
        options = {"batch_size": batch_size, "runtime": runtime, "device": device}
        self.backbone = OwnBackbone(self.provenance.backbone, backbone, model.n_features_in_, **options)
        self._changing = threading.Lock()

    @classmethod
    def load(
        cls,
        folder: str | Path,
        backbone: str | Path | None = None,
        *,
        method: type[ZeroShotClassifier] | None = None,
        batch_size: int = 32,
        runtime: str = "auto",
        device: str = "cpu",
    ) -> Recognizer:
        """The model in a folder. Its backbone is looked for, and its fingerprint checked, when the first picture comes.

        `backbone` says where it is, if not where it was; `method` is the class of a method outside firstsight. The
        model computes on the same device, if it knows any.
        """
        saved = load_saved(folder, method)
        _require_an_answer(saved.model, folder)
        if "device" in saved.model.get_params():
            saved.model.set_params(device=device)
        return cls(saved.model, saved.provenance, backbone, batch_size=batch_size, runtime=runtime, device=device)

    @classmethod
    @contextmanager
    def changing(cls, folder: str | Path, method: type[ZeroShotClassifier] | None = None) -> Iterator[Recognizer]:
        """The model in a folder, to be changed in a `with` block and then put back; others who change it wait."""
        with change(folder, method) as saved:
            _require_an_answer(saved.model, folder)
            own = cls(saved.model, saved.provenance)
            yield own
            saved.model = own.model

    def save(self, folder: str | Path) -> None:
        """Write model, calibration, classes and provenance to a folder; a model there is replaced in one step."""
        save(self.model, folder, self.provenance)

    def __repr__(self) -> str:
        unseen = counted(len(self.model.unseen_classes_), "unseen class")
        return f"Recognizer({type(self.model).__name__}: {counted(len(self.model.classes_), 'class')}, {unseen})"

    def __call__(
        self,
        inputs: Any,
        top: int = 5,
        *,
        classes: Candidates = None,
        reject_share: float | None = None,
        reject_far: bool = True,
        shift_seen: bool = False,
        why: bool = False,
        progress: Show | None = None,
    ) -> Answers:
        """The `top` classes of every picture or row, best first.

        classes : "all", "seen", "unseen", a list of names, or a table of new classes (DataFrame, .csv, .parquet)
        reject_share : answer "none of these" where no candidate fits, losing this share of rows of known classes
        reject_far : answer "none of these" where a row is far from everything that training has seen
        shift_seen : take the calibration's constant off seen classes
        why : explain each answer by the attributes: what its lead over the runner-up is made of
        """
        model = self.model  # one model for the whole answer, whoever changes classes meanwhile
        candidates = choose_classes(model, classes)
        rows = self._read(inputs, progress)
        answers = answer(
            model,
            rows.features,
            candidates,
            top,
            reject_share=reject_share,
            reject_far=reject_far,
            shift_seen=shift_seen,
            why=why,
            progress=progress,
        )
        trained = in_training(model, rows.features, rows.fingerprints)
        told = answers.about(rows.names, rows.truth, rows.skipped, rows.key, rows.pictures)
        return replace(told, in_training=trained, recognised_by=recognised_by(model))

    def score(self, inputs: Any, y: Sequence[Any] | None = None, *, classes: Candidates = None) -> Score:
        """Count how often it is right, and what it takes for what.

        It has to name every row, a far one, too.

        Parameters
        ----------
        inputs : path, array or list
            Pictures in sub-folders named like classes, a feature file with labels, or rows.
        y : sequence, optional
            The classes of rows that come without labels.
        classes : None, "seen", "unseen", list or DataFrame
            The candidates.

        Returns
        -------
        Score
            Prints as a short text.
        """
        answers = self(inputs, top=1, classes=classes, reject_far=False)
        if y is not None and len(y) != len(answers):
            left_out = f" ({counted(len(answers.skipped), 'picture')} could not be read)" if answers.skipped else ""
            raise BadInput(f"`y` must name the class of each of the {len(answers)} rows{left_out}, but has {len(y)}.")
        if y is not None:
            answers = replace(answers, truth=[str(one) for one in y])
        score = answers.score()
        if score is None:
            raise BadInput(
                "There is nothing to compare with: expected sub-folders named like the model's classes, or labels `y`."
            )
        return score

    def answer_shards(
        self,
        shards: Sequence[str | Path],
        out: str | Path,
        *,
        engine: Any = "local",
        scheduler: str | None = None,
        told: Told | None = None,
        **options: Any,
    ) -> list[Path]:
        """Name every row of many files of features, or picture of many folders: one Parquet file for each, in `out`.

        Parameters
        ----------
        shards : sequence of str or Path
            Files or folders; an .npy file is read block by block, and may be larger than memory.
        out : str or Path
            A folder. Started again with the same, only what is missing is done.
        engine : {"local", "dask"} or distributed.Client
            One shard after the other here, or each on a worker of a Dask cluster, which shares these folders.
        scheduler : str, optional
            The address of the cluster's scheduler, such as "tcp://node1:8786".
        told : callable, optional
            `told(file, done, of)` hears of every shard that is done.
        **options
            As for a call: `top` (1 if left out), `classes`, `reject_share`, `reject_far`, `shift_seen`.

        Returns
        -------
        list of Path
            The files of answers, in the order of the shards.
        """
        return name_shards(self, shards, out, told, engine, scheduler, **options)

    # Classes ---------------------------------------------------------------------------------------------------------

    @property
    def classes(self) -> pd.DataFrame:
        """A table: class, and whether training had samples of it."""
        model = self.model  # read once: another thread may replace it between two reads
        return pd.DataFrame({"class": model.classes_, "seen": model.seen_code_ >= 0})

    @property
    def descriptions(self) -> pd.DataFrame:
        """The classes' descriptions, as `fit` and `add_classes` take them."""
        model = self.model  # read once, as above
        names = getattr(model, "attribute_names_in_", None)
        return pd.DataFrame(model.descriptions_, index=pd.Index(model.classes_, name="class"), columns=names)

    def add_classes(self, table: pd.DataFrame | str | Path, replace: bool = False) -> Recognizer:
        """Know more classes, from their descriptions (a table, or its file); `replace` changes those that exist."""
        described = table if isinstance(table, pd.DataFrame) else read_descriptions(table)
        with self._changing:
            self.model = add_classes(self.model, described, replace)
        return self

    def remove_classes(self, names: Sequence[Any]) -> Recognizer:
        """Never answer with these classes again, until they are added back."""
        with self._changing:
            self.model = remove_classes(self.model, as_labels(self.model, names))
        return self

    @contextmanager
    def edit_classes(self) -> Iterator[Recognizer]:
        """Yield a copy whose classes a `with` block changes; without an error, its model is taken over at the end.

        Other threads that change the classes of this recognizer wait until the block ends.
        """
        with self._changing:
            copy = Recognizer(self.model, self.provenance)
            yield copy
            self.model = copy.model

    def export_onnx(self, path: str | Path, *, confidence: bool = False, backbone: bool = False) -> None:
        """Write an .onnx file; with `backbone`, pictures go in (`pixel_values`) instead of features."""
        from firstsight.recognition.export import export_recognizer

        export_recognizer(self, path, confidence=confidence, backbone=backbone)

    # -----------------------------------------------------------------------------------------------------------------

    def _read(self, inputs: Any, progress: Show | None) -> Rows:
        given = as_list(inputs)
        if not given:
            raise BadInput("There is nothing to name; give a picture, a folder or rows of features.")
        kinds = [isinstance(one, FeatureFile) or is_features(one) or is_feature_file(one) for one in given]
        if not any(kinds):
            return read_pictures(given, self.backbone, progress)
        if not all(kinds):
            raise BadInput("Pictures and rows of features cannot be named in one call; give them one after the other.")
        if len(given) > 1 and not all(isinstance(one, np.ndarray) for one in given):
            raise BadInput("Give one feature file or table at a time.")
        one = given[0] if len(given) == 1 else np.concatenate([np.atleast_2d(rows) for rows in given])
        return read_rows(one, self.model, self._check_file)

    def _check_file(self, file: FeatureFile, what: str) -> None:
        if file.backbone is not None:
            made_by = file.backbone
            self.backbone.check(f"{what} are of", made_by.get("name"), made_by.get("fingerprint"))


def _require_an_answer(model: ZeroShotClassifier, folder: str | Path) -> None:
    """Refuse a folder whose arrays and numbers are whole but do not belong together: one row, one class."""
    try:
        row = np.zeros((1, model.n_features_in_), dtype=np.float32)
        share = 0.05 if hasattr(model, "calibration_") else None
        with np.errstate(all="ignore"):  # which is looked for in the next line
            sure = answer(model, row, model.classes_[:1], reject_share=share).confidence
        if sure is not None and not np.isfinite(sure).all():
            raise ValueError("its confidence is no number")
    except BadInput:
        raise
    except Exception as error:  # whatever a method meets that has not been fitted this way
        raise UnreadableFile(
            f"{folder} holds {type(model).__name__} arrays that do not belong together ({type(error).__name__}: "
            f"{str(error).partition(chr(10))[0]}); restore it or fit the model again."
        ) from error
