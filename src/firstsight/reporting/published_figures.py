"""The figures that the paper prints, from `published.csv`: corrected where it is known to be wrong, with the source."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Published(NamedTuple):
    """One figure of a published table, in percent."""

    value: float
    name_in_paper: str
    source: str
    note: str


@cache
def published_figures() -> dict[tuple[str, str, str], Published]:
    """Every figure by data set (the name of its xlsa17 folder), method and metric (t1, ts, tr, h)."""
    text = files("firstsight.reporting").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (line["dataset"], line["method"], line["metric"]): Published(
            float(line["value"]), line["name_in_paper"], line["source"], line["note"]
        )
        for line in csv.DictReader(text.splitlines())
    }


def published(dataset: str, method: str, metric: str) -> Published | None:
    """The published figure, if there is one; case does not matter, since the paper writes AwA1 and aPY."""
    return published_figures().get((dataset.upper(), method.lower(), metric))


def paper_order(method: str) -> tuple[int, str]:
    """Sorts methods as the paper's tables do; those that it does not have come last, by name."""
    # The generalized table has all of them.
    known = list(dict.fromkeys(name for _, name, metric in published_figures() if metric == "h"))
    return (known.index(method) if method in known else len(known), method)


def dataset_order(dataset: str) -> tuple[int, str]:
    """Sorts data sets as the paper's tables do; others come last, by name."""
    known = list(dict.fromkeys(name for name, _, _ in published_figures()))
    return (known.index(dataset.upper()) if dataset.upper() in known else len(known), dataset)
