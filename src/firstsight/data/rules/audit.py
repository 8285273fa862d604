"""Look over the files of a data set and report everything that is wrong or odd, not only the first thing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from firstsight.data import xlsa17
from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.loading import load_raw
from firstsight.data.raw import RawDataset
from firstsight.data.rules.checks import PARTS
from firstsight.data.rules.descriptions import description_findings
from firstsight.data.rules.features import feature_findings
from firstsight.data.rules.finding import Finding
from firstsight.data.rules.parts import classes_of_parts, part_findings
from firstsight.errors import BadInput, UnknownName

__all__ = ["AuditReport", "Finding", "audit"]


@dataclass(frozen=True)
class AuditReport:
    """What a data set holds and what was found: errors forbid its use, warnings deserve a look."""

    name: str
    sizes: dict[str, int]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no error; warnings and notes are allowed."""
        return all(finding.severity != "error" for finding in self.findings)


def audit(path: str | Path | ZeroShotDataset, features: str | None = None) -> AuditReport:
    """Audit a path or name that `load_dataset` accepts, or a data set in memory.

    A folder without features, or with unreadable ones, is audited as far as its other files allow. Files that
    do not even name classes and parts raise `BadInput`.
    """
    findings: list[Finding] = []
    if isinstance(path, ZeroShotDataset):
        raw = RawDataset.of(path)
    else:
        try:
            raw = load_raw(path, features)
        except BadInput as error:
            if isinstance(error, UnknownName) or not (Path(path) / xlsa17.SPLITS_FILE).exists():
                raise
            raw = xlsa17.read_splits(path)
            findings.append(Finding("error", str(error)))
    if raw.features is None and not findings:
        findings.append(Finding("note", f"Features were not audited: {raw.absent}"))
    if raw.labels is None:
        findings.append(Finding("note", "There are no labels, so nothing about classes in parts was audited."))
    findings += [
        *_table_findings(raw),
        *part_findings(raw),
        *description_findings(raw),
        *feature_findings(raw),
    ]
    order = ("error", "warning", "note")
    findings.sort(key=lambda finding: order.index(finding.severity))
    return AuditReport(raw.name, _sizes(raw), tuple(findings))


def _sizes(raw: RawDataset) -> dict[str, int]:
    sizes = {"classes": len(raw.class_names), "attributes": raw.description_matrix.shape[1]}
    if raw.labels is not None:
        sizes["rows"] = len(raw.labels)
    if raw.features is not None:
        sizes["features"] = raw.features.shape[1]
    classes = classes_of_parts(raw)
    for part in PARTS:
        sizes[f"{part}_rows"] = len(raw.parts[part])
        if part in classes:
            sizes[f"{part}_classes"] = len(classes[part])
    return sizes


def _table_findings(raw: RawDataset) -> Iterator[Finding]:
    """Names and lengths that contradict each other."""
    names = raw.class_names
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        yield Finding("error", f"{len(twice)} class names occur more than once, {twice[0]!r} for one.")
    if "" in names:
        yield Finding("error", "A class has an empty name.")
    for what, count, expected in (
        ("rows of features", None if raw.features is None else len(raw.features), raw.labels),
        ("attribute names", _length(raw.attribute_names), raw.description_matrix.T),
        ("sample names", _length(raw.sample_names), raw.labels),
        ("images", None if raw.images is None else len(raw.images), raw.labels),
    ):
        if count is not None and expected is not None and count != len(expected):
            yield Finding("error", f"There are {count} {what}, but {len(expected)} were expected.")
    if raw.images is not None and (raw.images.ndim != 3 or raw.images.dtype != np.uint8):
        yield Finding("error", f"Images have shape {raw.images.shape} and type {raw.images.dtype}, not uint8.")


def _length(names: tuple[str, ...] | None) -> int | None:
    return None if names is None else len(names)
