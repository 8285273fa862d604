"""Puts the tables of the JSON schemas into docs/benchmark.md; `python tools/document_schemas.py`."""

from __future__ import annotations

import re
from pathlib import Path

from firstsight._io.schemas import Schema, markdown
from firstsight.experiments.choices import ChoiceFile
from firstsight.experiments.records import Record

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "benchmark.md"
SCHEMAS: dict[str, type[Schema]] = {"record": Record, "choice": ChoiceFile}


def documented(text: str) -> str:
    """The document with every table as the schema says it now."""
    for name, schema in SCHEMAS.items():
        begin = f"<!-- {name} schema: made by tools/document_schemas.py -->\n"
        pattern = re.compile(re.escape(begin) + ".*?<!-- end -->", re.DOTALL)
        table = markdown(schema)
        text, count = pattern.subn(lambda _, begin=begin, table=table: f"{begin}\n{table}\n\n<!-- end -->", text)
        assert count == 1, f"docs/benchmark.md has {count} places for the {name} schema"
    return text


if __name__ == "__main__":
    DOCUMENT.write_text(documented(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
