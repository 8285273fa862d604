"""A record and a choice with as little in them as their schemas allow."""

from __future__ import annotations

LEAST_RECORD = {
    "schema": 1, "status": "done", "error": None, "dataset": "small", "method": "eszsl", "seed": 0, "variant": {},
    "study": "", "setting": "zsl", "t1": None, "ts": None, "tr": None, "h": None, "per_class": {}, "confusion": [],
    "parameters": {}, "extra_supervision": "", "transductive": False, "space": "", "versions": {}, "seconds": None,
    "fit_seconds": None, "cpu_seconds": None, "peak_mib": None, "threads": None, "touched": None, "seen_unseen": None,
    "space_facts": None, "rounds": None, "collapsed": False, "warnings": [], "resumed": False, "estimator": None,
    "parameters_hash": None, "split": "", "features": "", "given": {}, "tuned": False,
}  # fmt: skip
LEAST_CHOICE = {
    "schema": 1, "method": "eszsl", "dataset": "small", "split": "", "objectives": ["zsl"], "search": "grid",
    "folds": 1, "independent_folds": 1.0, "calibrated": False, "race": False, "fits": 0, "rule": "", "default": None,
    "seed": 0, "grid": {}, "fixed": {}, "chosen": {"zsl": {}}, "candidates": [],
}  # fmt: skip
