"""`firstsight.embed`: a folder of images to a feature file."""

from __future__ import annotations

from pathlib import Path

from firstsight import encoders
from firstsight._io.terminal import counted, logger, progress, say
from firstsight.data.feature_files import FeatureFile, table_beside, write_feature_file
from firstsight.encoders.backbone import DEFAULT
from firstsight.encoders.image_folders import ImageFolder, name_as_text, survey_images
from firstsight.errors import BadInput

SKIPPED_SHOWN = 20


def embed(
    pictures: str | Path | ImageFolder,
    *,
    backbone: str | Path = DEFAULT,
    out: str | Path | None = None,
    batch_size: int = 32,
    runtime: str = "auto",
    device: str = "cpu",
    precision: str = "float32",
    labelled: bool = True,
    verbose: bool = False,
) -> FeatureFile:
    """Turn a folder's pictures into features, one row per picture, named by their path within it.

    Features are kept by the content of the picture, in $FIRSTSIGHT_CACHE or the user's cache folder: a run that is
    killed goes on where it was. What cannot be read is logged, and told in `skipped`.

    Parameters
    ----------
    pictures : str, Path or ImageFolder
        The folder, or what `survey_images` found in one; names of sub-folders are the classes.
    backbone : str or Path
        A vision model of transformers, by name or as a folder.
    out : str or Path, optional
        The .npz file to write; or an .npy file, for rows that shall stay on the disk (docs/scale.md), with names and
        classes in a table beside it.
    batch_size : int
        Pictures that the backbone looks at together.
    runtime : {"auto", "torch", "onnx"}
        What runs the backbone.
    device : str
        Where it runs: "cpu", "cuda", "mps", …, or "auto", which is a GPU if there is one.
    precision : {"float32", "bfloat16"}
        Of the backbone's matrix products.
    labelled : bool
        Whether sub-folders are classes.
    verbose : bool
        Show a progress bar when a terminal is there.

    Returns
    -------
    FeatureFile
        Features, names, labels, and what was skipped.
    """
    if out is not None and Path(out).suffix not in (".npz", ".npy"):
        raise BadInput(f"The file must end in .npz or .npy, but is called {Path(out).name!r}; rename it.")
    if out is not None and Path(out).suffix == ".npy":
        table_beside(out)  # before the long part
    survey = pictures if isinstance(pictures, ImageFolder) else survey_images(pictures)
    folder = survey.place
    for remark in survey.remarks():
        logger.warning("%s", remark)
    encoder = encoders.ImageEncoder(
        backbone, batch_size=batch_size, runtime=runtime, device=device, precision=precision
    )
    root = folder if folder.is_dir() else folder.parent
    with progress(f"Pictures in {name_as_text(folder.name or folder)}", len(survey.paths), verbose) as show:
        encoded = encoder.encode(survey.paths, progress=lambda done, total: show(done, ""), root=root, announce=say)
    skipped, classes = encoded.skipped, survey.classes
    log_skipped(skipped)
    if not encoded.files:
        raise BadInput(
            f"0 of {counted(len(survey.paths), 'picture')} in {name_as_text(folder)} could be read "
            f"(for {skipped[0][0]}: {skipped[0][1]}); check them."
        )
    content = FeatureFile(
        features=encoded.features,
        names=encoded.files,
        labels=[classes[row] for row in encoded.rows] if classes is not None and labelled else None,
        backbone=encoder.facts,
        skipped=skipped,
        fingerprints=encoded.fingerprints,
    )
    if out is not None:
        write_feature_file(out, content)
    return content


def log_skipped(skipped: list[tuple[str, str]]) -> None:
    """Log which pictures could not be read, the first of them by name."""
    for name, reason in skipped[:SKIPPED_SHOWN]:
        logger.warning("skipped %s: %s.", name, reason)
    if len(skipped) > SKIPPED_SHOWN:
        logger.warning("skipped %d more.", len(skipped) - SKIPPED_SHOWN)
