"""Look over the files of a data set and report everything that is wrong or odd, not only the first thing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.formats import xlsa17
from firstsight.data.loading import load_unchecked
from firstsight.data.rules import PARTS, Finding, all_findings, classes_of_parts, in_order
from firstsight.data.unchecked import UncheckedDataset
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
    findings: list[Finding] = []
    if isinstance(path, ZeroShotDataset):
        data = UncheckedDataset.of(path)
    else:
        try:
            data = load_unchecked(path, features)
        except BadInput as error:
            if isinstance(error, UnknownName) or not (Path(path) / xlsa17.SPLITS_FILE).exists():
                raise
            data = xlsa17.read_splits(path)
            findings.append(Finding("error", str(error)))
    if data.features is None and not findings:
        findings.append(Finding("note", f"Features were not audited: {data.absent}"))
    if data.labels is None:
        findings.append(Finding("note", "There are no labels, so nothing about classes in parts was audited."))
    return AuditReport(data.name, _sizes(data), tuple(in_order([*findings, *all_findings(data)])))


def _sizes(data: UncheckedDataset) -> dict[str, int]:
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
