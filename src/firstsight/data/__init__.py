"""Data sets: the class, readers of the community's and of custom formats, and the audit."""

from firstsight.data.audit import AuditReport, Finding, audit
from firstsight.data.dataset import ZeroShotDataset
from firstsight.data.feature_files import read_features
from firstsight.data.formats import load_dataset
from firstsight.data.formats.npz import read_npz, write_npz
from firstsight.data.formats.tables import read_tables
from firstsight.data.formats.xlsa17 import read_xlsa17
from firstsight.data.proposed_splits import Proposal, make_dataset, propose_splits, write_xlsa17
from firstsight.data.table_files import read_descriptions

__all__ = [
    "AuditReport",
    "Finding",
    "Proposal",
    "ZeroShotDataset",
    "audit",
    "load_dataset",
    "make_dataset",
    "propose_splits",
    "read_descriptions",
    "read_features",
    "read_npz",
    "read_tables",
    "read_xlsa17",
    "write_npz",
    "write_xlsa17",
]
