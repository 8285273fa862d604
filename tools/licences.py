"""The licence of every package that an installed firstsight needs: `python tools/licences.py [EXTRA …]`, as Markdown.

What the packages' own metadata say, from the environment that runs this; with names of extras, theirs as well.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution


def needed(name: str, extras: Iterable[str] = ()) -> dict[str, Distribution]:
    """The installed packages that one needs, and those that these need, by their plain names."""
    found: dict[str, Distribution] = {}
    waiting = [(name, tuple(extras))]
    while waiting:
        one, wanted = waiting.pop()
        for line in distribution(one).requires or []:
            requirement, _, marker = line.partition(";")
            extra = re.search(r"extra\s*==\s*['\"]([\w-]+)", marker)
            if extra and extra[1] not in wanted:
                continue
            other = re.match(r"[\w.-]+", requirement.strip())[0]  # type: ignore[index]
            plain = re.sub(r"[-_.]+", "-", other).lower()
            if plain in found or plain == name:
                continue
            try:
                found[plain] = distribution(other)  # not installed: for another system, or an extra of an extra
            except PackageNotFoundError:
                continue
            waiting.append((other, ()))
    return found


def licence(package: Distribution) -> str:
    """What the metadata say: the expression, else the classifiers, else the first line of the field."""
    about = package.metadata
    if about.get("License-Expression"):
        return str(about["License-Expression"])
    told = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if line.startswith("License ::")]
    if told:
        return "; ".join(told)
    return (about.get("License") or "not said").strip().split("\n")[0]


if __name__ == "__main__":
    print("| package | version | licence |\n|---|---|---|")
    for name, package in sorted(needed("firstsight", sys.argv[1:]).items()):
        print(f"| {name} | {package.version} | {licence(package)} |")
