"""A plan of cells, run by worker processes, one record per finished cell; records can be read without any method."""

from firstsight.benchmark.records import SCHEMA, read_records

__all__ = ["SCHEMA", "read_records"]
