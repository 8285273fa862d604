"""Pictures, tables and a page made from records; nothing here runs a method."""

from __future__ import annotations

from firstsight.reporting.page import report

__all__ = ["report"]
