"""Data sets: what one is, how to read the community's and one's own, and how to audit the files."""

from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.loading import load_dataset
from firstsight.data.npz import read_npz, write_npz
from firstsight.data.rules.audit import AuditReport, Finding, audit
from firstsight.data.tables import read_descriptions, read_features, read_tables
from firstsight.data.xlsa17 import read_xlsa17

__all__ = [
    "AuditReport",
    "Finding",
    "ZeroShotDataset",
    "audit",
    "load_dataset",
    "read_descriptions",
    "read_features",
    "read_npz",
    "read_tables",
    "read_xlsa17",
    "write_npz",
]
