"""`audit`: validate the files of a data set and report every finding, not only the first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.formats import load_raw, xlsa17
from firstsight.data.rules import (
    PARTS,
    Finding,
    RawDataset,
    classes_of_parts,
    deep_findings,
    in_order,
    quick_findings,
)
from firstsight.errors import BadInput, UnknownName

__all__ = ["AuditReport", "Finding", "audit"]


@dataclass(frozen=True)
class AuditReport:
    """What a data set holds, and the findings about it: errors forbid its use, warnings deserve a look.

    Attributes
    ----------
    name : str
        What the data set is called.
    sizes : dict
        Rows, features, classes and the like, by name.
    findings : tuple of Finding
        Each with its severity and one sentence.
    """

    name: str
    sizes: dict[str, int]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no error; warnings and notes are allowed."""
        return all(finding.severity != "error" for finding in self.findings)


def audit(path: str | Path | ZeroShotDataset, features: str | None = None) -> AuditReport:
    """Look for leaks, missing descriptions and broken numbers in a data set, without refusing it.

    A folder without features, or with unreadable ones, is audited as far as its other files allow. Files that
    do not even name classes and parts raise `BadInput`.

    Parameters
    ----------
    path : str, Path or ZeroShotDataset
        What `load_dataset` accepts, or a data set in memory.
    features : str, optional
        The feature file of an xlsa17 folder that has several.

    Returns
    -------
    AuditReport
        Sizes and findings; `ok` says whether there is no error among them.
    """
    if isinstance(path, ZeroShotDataset):
        return AuditReport(path.name, _sizes(path), tuple(path.findings()))
    findings: list[Finding] = []
    try:
        data = load_raw(path, features)
    except BadInput as error:
        if isinstance(error, UnknownName) or not xlsa17.matches(Path(path)):
            raise
        data = xlsa17.read_splits(path)
        if isinstance(error, xlsa17.NoFeatureFile):
            findings.append(Finding("note", f"Features were not audited: {error}"))
        else:
            findings.append(Finding("error", str(error)))
    if data.labels is None:
        findings.append(Finding("note", "There are no labels, so nothing about classes in parts was audited."))
    findings += [*quick_findings(data), *deep_findings(data)]
    if xlsa17.matches(Path(path)):
        findings += xlsa17.find_in_unused_variables(Path(path), data)
    return AuditReport(data.name, _sizes(data), tuple(in_order(findings)))


def _sizes(data: RawDataset) -> dict[str, int]:
    sizes = {"classes": len(data.class_names), "attributes": data.description_matrix.shape[1]}
    if data.labels is not None:
        sizes["rows"] = len(data.labels)
    if data.features is not None:
        sizes["features"] = data.features.shape[1]
    classes = classes_of_parts(data)
    for part in PARTS:
        sizes[f"{part}_rows"] = len(data.parts[part])
        if part in classes:
            sizes[f"{part}_classes"] = len(classes[part])
    return sizes
