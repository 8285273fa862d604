"""The lowest versions of the core that pyproject.toml claims, as pip constraints: `make lowest` tests with them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path


def lowest(requirements: list[str]) -> list[str]:
    """`numpy>=2.0` → `numpy==2.0.*`: the first release series that is claimed to work.

    >>> lowest(["numpy>=2.0", "pydantic>=2.7.1", "pandas-stubs"])
    ['numpy==2.0.*', 'pydantic==2.7.*']
    """
    found = (re.match(r"([A-Za-z0-9_-]+)>=(\d+(?:\.\d+)?)", requirement) for requirement in requirements)
    return [f"{match[1]}=={match[2]}.*" for match in found if match]


if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [one for name in ("parquet", "onnx") for one in project["optional-dependencies"][name]]
    print("\n".join(lowest([*project["dependencies"], *extras])))
