"""Records: what is kept of every finished cell; they can be read without any method."""

from firstsight.records.storage import SCHEMA, read_records

__all__ = ["SCHEMA", "read_records"]
