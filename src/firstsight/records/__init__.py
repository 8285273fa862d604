"""Records: what is kept of every finished cell; they can be read without any method."""

from firstsight.records.record_schema import SCHEMA, Record
from firstsight.records.storage import read_records

__all__ = ["SCHEMA", "Record", "read_records"]
