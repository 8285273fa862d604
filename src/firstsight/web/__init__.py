"""Parts of pages as text, for a page that is one file and needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib.resources import files
from typing import Any

_PARTS = files("firstsight.web") / "parts"
# What could end a script, or the line of one, is written as JSON may write any character.
_IN_SCRIPTS = str.maketrans({letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"})


def read_style(*names: str) -> str:
    """Style sheets, one after the other: without comments, fonts inside."""
    sheet = "\n".join(_PARTS.joinpath(name).read_text(encoding="utf-8") for name in names)
    sheet = re.sub(r"/\*.*?\*/\s*", "", sheet, flags=re.DOTALL)
    return re.sub(r'url\("(fonts/[\w-]+\.woff2)"\)', lambda match: f"url({_font(match[1])})", sheet)


def read_script(*names: str) -> str:
    """ES modules as one: what they import from each other stands above, so imports and exports are left out."""
    script = "\n".join(_PARTS.joinpath(name).read_text(encoding="utf-8") for name in names)
    return re.sub(r"^(import .*?;\n|export (?=\w))", "", script, flags=re.MULTILINE)


def as_data(value: Any) -> str:
    """JSON to stand in a <script type="application/json">: no name in it can end the script or begin markup."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_IN_SCRIPTS)


def sha256_source(text: str) -> str:
    """What a content-security policy calls one inline style or script, and so allows no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _font(name: str) -> str:
    return f"data:font/woff2;base64,{base64.b64encode(_PARTS.joinpath(name).read_bytes()).decode()}"
