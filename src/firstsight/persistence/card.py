"""The model card: a README.md in the model's folder, written from what `model.json` says and nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from firstsight.evaluation.calibration import accuracy_interval
from firstsight.methods import ZeroShotClassifier

if TYPE_CHECKING:
    from firstsight.persistence.model_schema import ModelFile, Provenance

NAMES_SHOWN = 30


def model_card(model: ZeroShotClassifier, file: ModelFile) -> str:
    """What the model is, which classes it knows, how it was made, what to expect of it, and how to use it."""
    parts = [
        f"# {escape(file.method)} model",
        _what(model, file.provenance),
        "## Classes\n\n" + _classes(model),
        "## How it was made\n\n" + _making(file),
        "## What to expect\n\n" + _expectations(model, file),
        "## How to use it\n\n" + _use(file.provenance),
    ]
    return "\n\n".join(parts) + "\n"


def escape(value: Any) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, one line."""
    text = " ".join(str(value).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]|~$]|(?<=:)//)", r"\\\1", text)


def _what(model: ZeroShotClassifier, provenance: Provenance) -> str:
    rows = f"{model.n_features_in_} features per sample"
    if provenance.backbone is not None:
        name = escape(provenance.backbone.name)
        rows = f"pictures, by way of the {model.n_features_in_} features of the backbone {name}"
    return (
        f"A zero-shot classifier for {rows}. It also names classes that it had no labelled sample of, from "
        f"descriptions of {model.descriptions_.shape[1]} numbers per class. "
        f"Method: {escape(type(model).reference or type(model).__name__)}."
    )


def _classes(model: ZeroShotClassifier) -> str:
    return "\n".join(
        f"- {len(names)} {what}: {_list(names.tolist())}" if len(names) else f"- no {what}"
        for what, names in (
            ("with labelled training samples (seen)", model.seen_classes_),
            ("known by their description alone (unseen)", model.unseen_classes_),
        )
    )


def _list(names: list[str]) -> str:
    shown = ", ".join(escape(name) for name in names[:NAMES_SHOWN])
    return shown + (f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else "")


def _making(file: ModelFile) -> str:
    provenance = file.provenance
    # Where the backbone lies on one machine is nobody else's business.
    source = (
        None
        if provenance.backbone is None
        else _pairs(provenance.backbone.model_dump(exclude={"path"}, exclude_none=True))
    )
    lines = [
        ("data set", provenance.dataset),
        ("hash of classes, labels and parts", provenance.split),
        ("hash of the features", provenance.features),
        ("backbone", source),
        ("pictures", None if provenance.pictures is None else _pairs(provenance.pictures.model_dump())),
        ("seed", provenance.seed),
        ("parameters", _pairs(provenance.parameters or file.parameters)),
        ("seconds", provenance.seconds),
        ("versions", _pairs({"firstsight": file.firstsight, **file.versions})),
    ]
    return "\n".join(f"- {name}: {escape(value)}" for name, value in lines if value not in (None, ""))


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _expectations(model: ZeroShotClassifier, file: ModelFile) -> str:
    lines = []
    calibration = file.calibration
    if file.provenance.evaluation:
        lines.append(f"- evaluation on test rows: {escape(_pairs(file.provenance.evaluation))}")
    if calibration is None or "t1" not in calibration.estimate or not calibration.held_out_classes:
        lines.append(
            "- No estimate was made: how often it is right on unseen classes, and how sure it may be, is unknown."
        )
    else:
        estimate, unseen = calibration.estimate, calibration.scales.get("unseen")
        k = calibration.held_out_classes
        low, high = accuracy_interval(estimate["t1"], calibration.n_folds, k, calibration.training_classes)
        lines.append(
            f"- Measured on classes held out of training ({calibration.n_folds} times {k} classes, fitted on the "
            f"other {calibration.training_classes}): {_percent(estimate['t1'])} of their samples are named right "
            f"among these {k} (chance: {_percent(1 / k)}; 95 % interval: {_percent(low)} to {_percent(high)}), mean "
            "over classes."
        )
        if low <= 1 / k:
            lines.append("- With so few classes, that cannot be told from guessing: it says little about new classes.")
        if {"ts", "tr", "h"} <= estimate.keys():
            lines.append(
                f"- Among seen and unseen classes together: {_percent(estimate['ts'])} right for unseen, "
                f"{_percent(estimate['tr'])} for seen classes (harmonic mean {_percent(estimate['h'])})."
            )
        if unseen is not None and unseen.ece is not None:
            lines.append(
                f"- Confidence among unseen classes was off by {_percent(unseen.ece)} on average (expected "
                "calibration error, 15 bins, folds that took no part in the fit)."
            )
    lines.append(
        "- Limits: descriptions decide; classes with (nearly) the same description cannot be told apart, and samples "
        "from another source than the training samples may be named worse than this."
    )
    if type(model).extra_supervision:
        lines.append(f"- Extra supervision: {escape(type(model).extra_supervision)}.")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _use(provenance: Provenance) -> str:
    rows = "features.npz" if provenance.backbone is None else "pictures/"
    return (
        "```sh\n"
        f"firstsight predict THIS_FOLDER {rows} --top 5 --json answers.json\n"
        "firstsight classes add THIS_FOLDER new.csv   # no retraining\n"
        "```\n\n"
        f'```python\nimport firstsight\n\nrecognise = firstsight.Recognizer.load("THIS_FOLDER")\n'
        f'recognise("{rows}", top=5).to_frame()\n```'
    )
