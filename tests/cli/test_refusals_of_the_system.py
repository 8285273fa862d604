"""What the system refuses, and what nobody would call a number: one sentence each, never a traceback."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from firstsight.evaluation import fit_on
from firstsight.methods import ESZSL
from firstsight.persistence.class_table import add_classes
from firstsight.persistence.model_folder import load, save


@pytest.fixture
def model(small, tmp_path):
    save(fit_on(ESZSL(feature_penalty=0.02), small), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device here")
@pytest.mark.parametrize("words", [("classes", "list"), ("predict",)])
def test_a_full_disk_behind_the_output_is_one_sentence(cli, model, small, tmp_path, words):
    np.save(tmp_path / "rows.npy", small.features[:3])
    rows = [tmp_path / "rows.npy"] if words == ("predict",) else []
    with open("/dev/full", "w") as full, contextlib.redirect_stdout(full):
        done = cli(*words, model, *rows)
    done.is_refused_with("Could not write the output (No space left on device); free some space")


def test_no_rows_to_predict_is_one_sentence(cli, model, tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((0, 16), dtype="f4"))
    cli("predict", model, tmp_path / "rows.npy").is_refused_with("rows", "at least one")


def test_a_fit_into_the_folder_that_one_is_in_is_refused(cli, npz, model, monkeypatch):
    monkeypatch.chdir(model)
    cli("fit", npz, "--method", "eszsl", "--out", ".").is_refused_with("is the folder that you are in", "go up one")


@pytest.mark.parametrize("read_only", [".", "model"])
def test_a_place_that_cannot_be_written_to_is_told_before_the_fit(cli, npz, model, monkeypatch, read_only):
    """Rights are simulated: root, who runs tests in a container, may write everywhere."""
    place, access = (model.parent / read_only).resolve(), os.access
    monkeypatch.setattr(os, "access", lambda path, mode: (path, mode) != (place, os.W_OK) and access(path, mode))
    monkeypatch.setattr(ESZSL, "fit", None)  # it is never called
    done = cli("fit", npz, "--method", "eszsl", "--out", model)
    done.is_refused_with("Could not write the model", f"{place} is read-only", "choose another place")


@pytest.mark.parametrize("number", ["9" * 402, "-" + "9" * 402, "1e999"])
def test_a_number_of_hundreds_of_digits_is_refused(cli, npz, tmp_path, number):
    done = cli("fit", npz, "--method", "eszsl", "--set", f"feature_penalty={number}", "--out", tmp_path / "m")
    done.is_refused_with("is not a finite number", "give a smaller one")


@pytest.mark.parametrize("said", ["often", "nan", "-1"])
def test_a_setting_of_the_environment_that_is_no_number_is_named(cli, npz, tmp_path, monkeypatch, quick, said):
    monkeypatch.setenv("FIRSTSIGHT_CHECKPOINT_SECONDS", said)
    cli("fit", npz, *quick, "--out", tmp_path / "m").is_refused_with(
        f"FIRSTSIGHT_CHECKPOINT_SECONDS must be a number of seconds, 0 or more, but is {said!r}"
    )


def test_a_folder_that_may_not_be_searched_is_one_sentence(cli, model, tmp_path, monkeypatch):
    locked = tmp_path / "locked" / "rows.npy"
    stat = os.stat

    def refuse(path, **more):  # tests may run as root, whom no folder stops
        if os.fspath(path) == str(locked):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **more)

    monkeypatch.setattr(os, "stat", refuse)
    cli("predict", model, locked).is_refused_with(str(locked), "Permission denied", "check")


@pytest.mark.parametrize("words", [("predict",), ("classes", "list"), ("data", "check")])
def test_a_name_that_is_too_long_for_the_system_is_one_sentence(cli, model, tmp_path, words):
    given = [model, "x" * 300 + ".npy"] if words == ("predict",) else ["x" * 300]
    cli(*words, *given).is_refused_with("x" * 300)


def test_names_that_a_spreadsheet_would_run_are_quoted_in_the_list_of_classes(cli, small, tmp_path):
    model = fit_on(ESZSL(feature_penalty=0.02), small)
    table = pd.DataFrame([[0.5] * 6], index=["=1+1"], columns=small.descriptions.columns)
    save(add_classes(model, table), tmp_path / "m")
    lines = cli("classes", "list", tmp_path / "m").out.splitlines()
    assert "'=1+1,no" in lines
    assert "kind q" in {line.partition(",")[0] for line in lines}


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_what_the_caller_has_closed_leads_nowhere(npz, tmp_path, closed):
    program = f"'{sys.executable}' -P -c 'from firstsight.cli.main import main; main()'"
    command = f"{program} fit '{npz}' --method eszsl --out '{tmp_path / 'm'}' {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    load(tmp_path / "m")


def test_letters_that_the_output_cannot_hold_are_one_sentence(cli, small, tmp_path):
    table = pd.DataFrame([[0.5] * 6], index=["猫"], columns=small.descriptions.columns)
    save(add_classes(fit_on(ESZSL(feature_penalty=0.02), small), table), tmp_path / "m")
    with open(tmp_path / "out", "w", encoding="latin-1") as out, contextlib.redirect_stdout(out):
        done = cli("classes", "list", tmp_path / "m")
    done.is_refused_with("letters that latin-1 cannot write; set PYTHONIOENCODING=utf-8")
