"""`Recognizer`: a fitted model that recognises images or feature rows, with confidence and explanations."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from firstsight._io.files import scratch_folder, write_atomically
from firstsight._io.terminal import counted
from firstsight.data import read_descriptions
from firstsight.data.feature_files import FeatureFile
from firstsight.encoders.descriptions import read_words
from firstsight.errors import BadInput, UnreadableFile
from firstsight.methods import ZeroShotClassifier
from firstsight.persistence.added_samples import (
    AddedSamples,
    add_samples,
    described_labels,
    require_incremental,
    undo_samples,
)
from firstsight.persistence.class_table import add_classes, as_labels, remove_classes
from firstsight.persistence.model_folder import change, load_saved, save
from firstsight.persistence.model_schema import Provenance
from firstsight.persistence.onnx_export import export_onnx, join_graphs
from firstsight.recognition.answers import Answers, PredictOptions, rank_classes
from firstsight.recognition.inputs import (
    InputSamples,
    Label,
    ModelBackbone,
    ModelTextEncoder,
    ShowProgress,
    as_list,
    is_feature_file,
    is_features,
    read_feature_rows,
    read_images,
)
from firstsight.recognition.scoring import Score, in_fit, in_training, recognised_by, sample_fingerprints
from firstsight.recognition.shards import OnShardDone, predict_shards


class Recognizer:
    """A fitted model, where it comes from, and its backbone if it looks at images.

    `predict` takes a path, a PIL image, a uint8 array, a folder, rows of features, or a list of these. Several threads
    may ask at once. Nothing is printed; `progress(done, total)` is called as it proceeds.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted.
    provenance : Provenance, optional
        What is known of its making.
    backbone : str or Path, optional
        Where the vision model is, if not where it was.
    batch_size : int
        Images that the backbone looks at together.
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
    >>> Recognizer(model).predict(np.array([[0.8, 0.9]])).best
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
        self.backbone = ModelBackbone(self.provenance.backbone, backbone, model.n_features_in_, **options)
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
        """The model in a folder. Its backbone is looked for, and its fingerprint checked, when the first image comes.

        `backbone` says where it is, if not where it was; `method` is the class of a method outside firstsight. The
        model computes on the same device, if it knows any.
        """
        saved = load_saved(folder, method)
        check_model_answers(saved.model, folder)
        if "device" in saved.model.get_params():
            saved.model.set_params(device=device)
        return cls(saved.model, saved.provenance, backbone, batch_size=batch_size, runtime=runtime, device=device)

    @classmethod
    @contextmanager
    def changing(cls, folder: str | Path, method: type[ZeroShotClassifier] | None = None) -> Iterator[Recognizer]:
        """The model in a folder, to be changed in a `with` block and then put back; others who change it wait."""
        with change(folder, method) as saved:
            check_model_answers(saved.model, folder)
            recognizer = cls(saved.model, saved.provenance)
            yield recognizer
            saved.model = recognizer.model

    def save(self, folder: str | Path) -> None:
        """Write model, calibration, classes and provenance to a folder; a model in it is replaced in one step."""
        save(self.model, folder, self.provenance)

    def __repr__(self) -> str:
        unseen = counted(len(self.model.unseen_classes_), "unseen class")
        return f"Recognizer({type(self.model).__name__}: {counted(len(self.model.classes_), 'class')}, {unseen})"

    def predict(
        self,
        inputs: Any,
        top: int = 5,
        *,
        classes: Any = "all",
        reject_far: bool = True,
        reject_share: float | None = None,
        shift_seen: bool = False,
        why: bool = False,
        progress: ShowProgress | None = None,
    ) -> Answers:
        """Rank the `top` classes of every image or row, best first.

        Parameters
        ----------
        inputs : path, image, array or list
            An image, a folder of images, rows of features or their file, or a list of these.
        top : int
            How many classes to rank.
        classes : {"all", "seen", "unseen"}, list, DataFrame or path
            The candidates: by name, or a table of new classes (DataFrame, .csv, .parquet); of names or texts, where
            a text encoder described the model's classes.
        reject_far : bool
            Answer "none of these" where a sample is far from everything that training has seen.
        reject_share : float, optional
            Also answer "none of these" where no candidate fits, losing this share of samples of known classes.
        shift_seen : bool
            Calibrated stacking: take the calibration's constant off seen classes.
        why : bool
            Explain each answer by the attributes: what its lead over the runner-up is made of.
        progress : callable, optional
            Called as `progress(done, total)`.

        Returns
        -------
        Answers
            Ranked classes with scores and, where known, confidence.
        """
        classes = self._described(classes)
        options = PredictOptions.checked(
            top=top, classes=classes, reject_far=reject_far, reject_share=reject_share, shift_seen=shift_seen, why=why
        )
        return self.answer(inputs, options, progress)

    def answer(self, inputs: Any, options: PredictOptions, progress: ShowProgress | None = None) -> Answers:
        """Do as `predict`, with the options in one object."""
        model = self.model  # one model for the whole answer, while other threads may change classes
        samples = self._read(inputs, progress)
        answers = rank_classes(model, samples.features, options, progress)
        return replace(
            answers,
            names=samples.names,
            truth=samples.truth,
            skipped=samples.skipped,
            key=samples.key,
            images=samples.images,
            in_training=in_training(model, samples.features, samples.fingerprints),
            recognised_by=recognised_by(model),
        )

    def score(self, inputs: Any, y: Sequence[Any] | None = None, *, classes: Any = "all") -> Score:
        """Count how often it is right, and what it takes for what.

        Every sample is named, a far one, too.

        Parameters
        ----------
        inputs : path, array or list
            Images in sub-folders named like classes, a feature file with labels, or rows.
        y : sequence, optional
            The classes of rows that come without labels.
        classes : {"all", "seen", "unseen"}, list or DataFrame
            The candidates.

        Returns
        -------
        Score
            Prints as a short text.
        """
        answers = self.predict(inputs, top=1, classes=classes, reject_far=False)
        if y is not None:
            if len(y) != len(answers):
                skipped = f" ({counted(len(answers.skipped), 'picture')} could not be read)" if answers.skipped else ""
                raise BadInput(
                    f"`y` must name the class of each of the {len(answers)} rows{skipped}, but has {len(y)}."
                )
            answers = replace(answers, truth=[str(label) for label in y])
        score = answers.score()
        if score is None:
            raise BadInput(
                "There is nothing to compare with: expected sub-folders named like the model's classes, or labels `y`."
            )
        return score

    def predict_shards(
        self,
        shards: Sequence[str | Path],
        out: str | Path,
        *,
        engine: Any = "local",
        scheduler: str | None = None,
        on_shard_done: OnShardDone | None = None,
        **options: Any,
    ) -> list[Path]:
        """Name every row of many files of features, or image of many folders: one Parquet file for each, in `out`.

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
        on_shard_done : callable, optional
            Called as `on_shard_done(path, done, total)` after every shard.
        **options
            As for `predict`: `top` (1 if left out), `classes`, `reject_far`, `reject_share`, `shift_seen`, `why`.

        Returns
        -------
        list of Path
            The files of answers, in the order of the shards.
        """
        options["classes"] = self._described(options.get("classes", "all"))
        checked = PredictOptions.checked(**{"top": 1, **options})
        return predict_shards(self, shards, out, checked, on_shard_done, engine, scheduler)

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

    def add_classes(
        self,
        table: pd.DataFrame | str | Path | Sequence[str],
        replace: bool = False,
        text_encoder: str | Path | None = None,
    ) -> Recognizer:
        """Add classes by their descriptions; `replace` changes those that exist.

        Descriptions are a table, or its file. Where a text encoder described the model's classes, names are enough, or
        a table with a column `text`; `text_encoder` says where it is, if not where it was.
        """
        if (words := read_words(table)) is not None:
            given = text_encoder and ModelTextEncoder(self.model, self.provenance, text_encoder)
            described = (given or self._text_encoder).describe(words)
        else:
            described = table if isinstance(table, pd.DataFrame) else read_descriptions(Path(str(table)))
        with self._changing:
            self.model = add_classes(self.model, described, replace)
        return self

    @cached_property
    def _text_encoder(self) -> ModelTextEncoder:
        return ModelTextEncoder(self.model, self.provenance)

    def _described(self, classes: Any) -> Any:
        """The candidates of a table of names or texts with their descriptions; any others as they are."""
        is_file = isinstance(classes, str | Path) and str(classes).endswith(".csv")
        words = read_words(classes) if is_file or isinstance(classes, pd.DataFrame) else None
        return classes if words is None else self._text_encoder.describe(words)

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

    def add_images(self, images: Any, labels: Any = None, *, progress: ShowProgress | None = None) -> AddedSamples:
        """Learn from more labelled images at once, without another fit.

        An image that was added with another label gets the new one. Images that were added with the same label, or that
        the model was trained on with their label, are left out, so that no image counts twice.

        Parameters
        ----------
        images : path, image, array or list
            What `predict` takes. Sub-folders are classes if `labels` are left out.
        labels : sequence or str, optional
            The class of each image, or of all of them. Each must have a description: see `add_classes`.
        progress : callable, optional
            Called as `progress(done, total)`.

        Returns
        -------
        AddedSamples
            What was added; its `change` is what `remove_images` takes.
        """
        model = self.model
        require_incremental(model)

        def label(found: list[str | None]) -> list[Any]:
            return described_labels(model, _labels_of(found, labels))

        samples = self._read(images, progress, label)
        truth, names, X = list(samples.truth or ()), samples.names, np.asarray(samples.features)
        status = in_fit(model, X, samples.fingerprints) or [None] * len(X)
        prints, rows = sample_fingerprints(X, samples.fingerprints), np.flatnonzero(np.array(status) != "labelled")
        with self._changing:
            chosen = [truth[row] for row in rows], prints[rows], [names[row] for row in rows]
            self.model, added = add_samples(self.model, X[rows], *chosen)
        return replace(added, trained=len(X) - len(rows), skipped=samples.skipped)

    def suggest(self, images: Any, n: int = 10, *, progress: ShowProgress | None = None) -> list[str | int]:
        """Choose the images whose labels would help most; label them and pass them to `add_images`.

        Images that the model was trained on, or that were added, are left out; of copies, one is chosen.

        Parameters
        ----------
        images : path, image, array or list
            What `predict` takes; labels, such as sub-folders, are not used.
        n : int
            How many to choose.
        progress : callable, optional
            Called as `progress(done, total)`.

        Returns
        -------
        list of str or int
            Names of files (row numbers of features), the most useful first.
        """
        model = require_incremental(self.model)
        samples = self._read(images, progress)
        X = np.asarray(samples.features)
        status = in_training(model, X, samples.fingerprints) or [None] * len(X)
        new = np.flatnonzero(np.array(status) != "labelled")
        if not len(new):
            raise BadInput(f"The model knows the label of each of these {counted(len(X), 'image')}; give other ones.")
        return [samples.names[row] for row in new[model.suggest(X[new], n)].tolist()]

    def correct(self, image: Any, label: Any) -> AddedSamples:
        """Learn at once what one image shows; a label that was given to it before is replaced.

        Parameters
        ----------
        image : path, image or row of features
            What `predict` takes.
        label : str
            A class that has a description.

        Returns
        -------
        AddedSamples
            What was added; its `change` is what `remove_images` takes.
        """
        added = self.add_images(image, label)
        if added.trained and not added.change:
            raise BadInput(
                "The model was trained on this very image with its label, and cannot unlearn it; correct the label in "
                "the training folder and run `firstsight learn` again."
            )
        return added

    def remove_images(self, change: str | None = None) -> AddedSamples:
        """Undo one call of `add_images` or `correct`; labels that it replaced are restored.

        Parameters
        ----------
        change : str, optional
            Which call (`AddedSamples.change`); left out, the last one.

        Returns
        -------
        AddedSamples
            What was removed, and which labels were restored (`added`).
        """
        with self._changing:
            self.model, undone = undo_samples(self.model, change)
        return undone

    def export_onnx(self, path: str | Path, *, confidence: bool = False, backbone: bool = False) -> None:
        """Write an .onnx file: `features` is its input, or `pixel_values (n, 3, h, w)` with the backbone in front.

        Images go in as the backbone's processor prepares them; the metadata `firstsight.preprocessing` say how.
        """
        if not backbone:
            export_onnx(self.model, path, confidence=confidence)
            return
        if Path(path).suffix != ".onnx":
            raise BadInput(f"The file must end in .onnx, but is called {Path(path).name!r}; rename it.")
        from firstsight.encoders.backbone import Backbone, export_backbone

        facts = self.backbone.encoder.facts  # the encoder is checked: it is the one of the model
        source = Backbone(self.backbone.location)
        with scratch_folder() as scratch:
            head = scratch / "model.onnx"
            export_onnx(self.model, head, confidence=confidence)
            joined = join_graphs(export_backbone(source), head)
        processor = source.folder / "preprocessor_config.json"
        if processor.is_file():
            joined.metadata_props.add(key="firstsight.preprocessing", value=processor.read_text(encoding="utf-8"))
        joined.metadata_props.add(key="firstsight.backbone", value=json.dumps(facts))
        write_atomically(path, joined.SerializeToString())

    def _read(self, inputs: Any, progress: ShowProgress | None, label: Label | None = None) -> InputSamples:
        given = as_list(inputs)
        if not given:
            raise BadInput("There is nothing to name; give a picture, a folder or rows of features.")
        kinds = [isinstance(item, FeatureFile) or is_features(item) or is_feature_file(item) for item in given]
        if not any(kinds):
            return read_images(given, self.backbone, progress, label)
        if not all(kinds):
            raise BadInput("Pictures and rows of features cannot be named in one call; give them one after the other.")
        if len(given) > 1 and not all(isinstance(item, np.ndarray) for item in given):
            raise BadInput("Give one feature file or table at a time.")
        rows = given[0] if len(given) == 1 else np.concatenate([np.atleast_2d(item) for item in given])
        samples = read_feature_rows(rows, self.model, self._check_file)
        if label is None:
            return samples
        return replace(samples, truth=label(list(samples.truth or [None] * len(samples.names))))

    def _check_file(self, file: FeatureFile, what: str) -> None:
        if file.backbone is not None:
            self.backbone.check(f"{what} are of", file.backbone.get("name"), file.backbone.get("fingerprint"))


def _labels_of(found: list[str | None], labels: Any) -> list[Any]:
    """One label per sample: those that were given, or what the folder or file of the samples says."""
    if labels is None:
        if None in found:
            raise BadInput(
                "The images have no classes: put them into sub-folders named like classes, or give `labels`, the class "
                "of each."
            )
        return found
    if isinstance(labels, str | Number):
        return [labels] * len(found)
    listed = list(labels)
    if len(listed) != len(found):
        raise BadInput(f"`labels` must name the class of each of the {len(found)} images, but has {len(listed)}.")
    return listed


def check_model_answers(model: ZeroShotClassifier, folder: str | Path) -> None:
    """Reject a folder whose arrays and numbers are whole but do not belong together: one row, one class."""
    try:
        row = np.zeros((1, model.n_features_in_), dtype=np.float32)
        share = 0.05 if hasattr(model, "calibration_") else None
        with np.errstate(all="ignore"):  # which is looked for in the next line
            confidence = rank_classes(
                model, row, PredictOptions(classes=model.classes_[:1], reject_share=share)
            ).confidence
        if confidence is not None and not np.isfinite(confidence).all():
            raise ValueError("its confidence is no number")
    except BadInput:
        raise
    except Exception as error:  # of any type: a method that computes with arrays of another fit
        raise UnreadableFile(
            f"{folder} holds {type(model).__name__} arrays that do not belong together ({type(error).__name__}: "
            f"{str(error).partition(chr(10))[0]}); restore it or fit the model again."
        ) from error
