"""Whatever is done to the columns of a table of features: the answers are those of the table in order, or an error."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from campaigns.children import REFUSED, run_in_children, tell, worrying
from firstsight.methods import ESZSL
from firstsight.recognition import Recognizer

LONG = int(os.environ.get("FIRSTSIGHT_CAMPAIGN_MUTATIONS", "700"))
SHORT = 40
# What must be refused: a table that lacks a feature, has an additional one, or has lost its header.
REFUSED_CHANGES = ("renamed", "dropped", "added", "id for a feature", "twice", "headerless")
CHANGES = ("permuted", "permuted, with names", "without names", *REFUSED_CHANGES)


@pytest.fixture(scope="module")
def recognise(small) -> Recognizer:
    X, y = small.part("train")
    names = [f"feature {n}" for n in range(X.shape[1])]
    return Recognizer(ESZSL().fit(pd.DataFrame(X, columns=names), y, small.descriptions))


def changed(table: pd.DataFrame, how: str, random: np.random.Generator) -> tuple[pd.DataFrame, bool]:
    """The table, and whether it is written with a header."""
    width = table.shape[1]
    column = str(random.choice(table.columns))
    shuffled = table[random.permutation(table.columns.to_numpy())]
    samples = [f"s{n}" for n in range(len(table))]
    match how:
        case "permuted":
            return shuffled, True
        case "permuted, with names":
            shuffled.insert(int(random.integers(width + 1)), "sample", samples)
            return shuffled, True
        case "without names":
            return table.set_axis(range(width), axis=1), True
        case "renamed":
            at = int(random.integers(len(column)))
            new = str(random.choice([column[:at] + column[at + 1 :], column.upper(), column + "_", "x", "№"]))
            return shuffled.rename(columns={column: new}), True
        case "dropped":
            return shuffled.drop(columns=column), True
        case "added":
            shuffled.insert(int(random.integers(width + 1)), "extra", random.normal(size=len(table)))
            return shuffled, True
        case "id for a feature":
            shuffled.insert(0, "id", range(len(table)))
            return shuffled.drop(columns=column), True
        case "twice":
            other = str(random.choice(table.columns.drop(column)))
            return shuffled.rename(columns={column: other}), True
        case _:
            return shuffled, False


def hunt(small, recognise: Recognizer, count: int) -> None:
    rows = small.features[small.test_unseen]
    table = pd.DataFrame(rows, columns=recognise.model.feature_names_in_)
    expected = recognise.predict(table).best

    def ask(number: int) -> None:
        random = np.random.default_rng([28, number])
        given, header = changed(table, CHANGES[number % len(CHANGES)], random)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, str(random.choice(["rows.csv", "rows.parquet"])) if header else "rows.csv")
            if path.suffix == ".parquet" and given.columns.is_unique:
                given.set_axis([str(name) for name in given.columns], axis=1).to_parquet(path)
            else:
                path = path.with_suffix(".csv")
                given.to_csv(path, index=False, header=header, sep=str(random.choice([",", ";", "\t"])))
            assert recognise.predict(path).best == expected, f"{given.columns.tolist()} gets other answers"

    outcomes = run_in_children(ask, range(count))
    line = tell("columns of tables of features", outcomes)
    wrong = worrying(outcomes)
    assert not wrong, "\n".join([line, *(f"{CHANGES[o.place % len(CHANGES)]}: {o.detail}" for o in wrong[:5])])
    refused = {CHANGES[outcome.place % len(CHANGES)] for outcome in outcomes if outcome.kind == REFUSED}
    assert refused == set(REFUSED_CHANGES)


def test_changed_columns_get_the_same_answers_or_an_error(small, recognise):
    hunt(small, recognise, SHORT)


@pytest.mark.campaign
def test_hundreds_of_changed_columns_get_the_same_answers_or_an_error(small, recognise):
    hunt(small, recognise, LONG)
