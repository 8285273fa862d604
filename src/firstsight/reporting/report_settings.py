"""What a project says of its own records, in the file `report.toml` beside them; without it, a report says nothing."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from firstsight.errors import UnreadableFile
from firstsight.files import read_regular
from firstsight.schemas import reason

NAME = "report.toml"


class ReportSettings(BaseModel):
    """Words and links of the page; names of methods and data sets are those of the records."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    title: str = Field(default="Benchmark report", description="heading of the page")
    about: str = Field(default="", description="a sentence or two beneath the heading")
    links: dict[str, str] = Field(default={}, description="words → address (https://…), beneath the heading")
    ours: list[str] = Field(default=[], description="methods to be picked out in tables and figures")
    notes: dict[str, list[str]] = Field(default={}, description="name of a table or figure → sentences beneath it")
    claims: dict[str, str] = Field(
        default={},
        description="space or method → what is said of it, shown beside the measured spaces; `title` heads the column",
    )


def read_settings(folder: Path) -> ReportSettings:
    """Those of the folder's `report.toml`, or none."""
    path = folder / NAME
    if not path.exists():
        return ReportSettings()
    try:
        settings = ReportSettings.model_validate(tomllib.loads(read_regular(path).decode()))
    except ValidationError as error:
        known = ", ".join(ReportSettings.model_fields)
        raise UnreadableFile(f"{path} is not as expected: {reason(error)}; it may have {known}.") from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: no text, no TOML, a number of 5,000 digits
        raise UnreadableFile(f"{path} cannot be read ({error}); mend it, or remove it.") from None
    for words, address in settings.links.items():
        if not address.startswith(("https://", "http://")):
            raise UnreadableFile(f"{path} links {words!r} to {address!r}; an address begins with https:// or http://.")
    return settings
