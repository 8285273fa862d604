"""Records as `firstsight benchmark` writes them, invented: nineteen methods, three data sets, all that may be there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from least_record import LEAST_RECORD

SPACE = dict.fromkeys(("dap", "iap", "cmt", "devise"), "semantic") | dict.fromkeys(("psr", "dem"), "visual")
LATENT = ("conse", "sse", "latem", "ale", "sje", "eszsl", "sync", "sae", "gfzsl", "rn", "qfsl")
OURS, TRANSDUCTIVE = "deep-embedding", "transductive-deep-embedding"
METHODS = SPACE | dict.fromkeys((*LATENT, OURS, TRANSDUCTIVE), "latent")
LEVELS = {"CUB": 52.0, "ANIMALS42": 48.0, "glyphs": 80.0}
UNSEEN = {"CUB": 50, "ANIMALS42": 9, "glyphs": 40}
VERSIONS = {"firstsight": "0.1.0", "python": "3.11.2", "torch": "2.13.0", "numpy": "2.4.6", "scikit-learn": "1.9.0"}

TOUCHED = ("labelled_rows", "labelled_classes", "unlabelled_rows", "test_rows_labelled", "unseen_classes_labelled")
LEAST_PARTS = {
    "touched": {**dict.fromkeys(TOUCHED, 0), "unseen_descriptions_in_fit": False, "note": ""},
    "seen_unseen": {"ausuc": None, "best_h": None, "curve": [], "calibrated": None},
    "tuned": {"kept_defaults": False, "set_by_hand": []},
}


def class_names(dataset: str) -> list[str]:
    if dataset == "CUB":
        birds = ("Gull", "Warbler", "Sparrow", "Tern", "Vireo")
        return [f"{i + 1:03}.{first}_{bird}" for i, (first, bird) in enumerate(_pairs(birds))]
    if dataset == "glyphs":
        return list("áâãäåçèéêëìíîïñòóôõöøùúûüýÿāăąćčďđēęěğīįłńňőřśş"[:40])
    return ["bat", "blue+whale", "bobcat", "dolphin", "giraffe", "horse", "rat", "seal", "sheep"][: UNSEEN[dataset]]


def _pairs(birds):
    firsts = (
        "Black-footed",
        "Blue_headed",
        "Brewer",
        "Cape_May",
        "Field",
        "Great_Crested",
        "Ivory",
        "Least",
        "Nelson",
        "Sage",
    )
    return [(first, bird) for bird in birds for first in firsts]


def record(dataset="CUB", method="eszsl", setting="zsl", seed=0, **changes) -> dict:
    """A record with as little in it as the schema allows; inner parts are completed."""
    for name, least in LEAST_PARTS.items():
        if changes.get(name):
            changes[name] = {**least, **changes[name]}
    if changes.get("seen_unseen") and changes["seen_unseen"]["calibrated"]:
        calibrated = dict.fromkeys(("ts", "tr", "h")) | changes["seen_unseen"]["calibrated"]
        changes["seen_unseen"] = {**changes["seen_unseen"], "calibrated": calibrated}
    key = {"dataset": dataset, "method": method, "setting": setting, "seed": seed, "variant": {}, "study": ""}
    figures = {"t1": 50.0 + seed} if setting == "zsl" else {"ts": 20.0 + seed, "tr": 60.0, "h": 30.0 + seed}
    return {**LEAST_RECORD, **key, **figures, "split": f"split of {dataset}", **changes}


def full_record(dataset: str, method: str, setting: str, seed: int, **changes) -> dict:
    """A record with everything, believable and always the same."""
    order = list(METHODS).index(method)
    random = np.random.default_rng([len(dataset), order, setting == "gzsl", seed])
    level = LEVELS[dataset] - 20 + 1.6 * order + random.normal(scale=0.8)
    transductive = method in (TRANSDUCTIVE, "qfsl")
    made = record(dataset, method, setting, seed)
    made |= {
        "error": None, "parameters": {"separation": 300.0, "penalty": 0.001, "preset": "validated"}, "tuned": False,
        "features": f"features of {dataset}", "cpu_seconds": 3.5, "versions": VERSIONS, "space": METHODS[method],
        "extra_supervision": "its unlabelled rows are known to belong to unseen classes" if method == "qfsl" else "",
        "transductive": transductive, "seconds": round(5 + 9 * order + random.random(), 2),
        "fit_seconds": round(4 + 9 * order, 2), "peak_mib": 600 + 20 * order, "threads": 1, "collapsed": False,
        "space_facts": _space_facts(random, order, method), "warnings": [],
        "touched": {
            "labelled_rows": 7057, "labelled_classes": 150, "unlabelled_rows": 2967 * transductive,
            "test_rows_labelled": 0, "unseen_classes_labelled": 0, "unseen_descriptions_in_fit": transductive,
            "note": "unlabelled pool: 2967 test rows of unseen classes, 0 of seen classes" if transductive else "",
        },
    }  # fmt: skip
    names = class_names(dataset)
    accuracy = np.clip(random.normal(level, 18, len(names)) - np.linspace(-25, 25, len(names)), 0, 100).round(2)
    if setting == "zsl":
        pairs = [[a, b, int(random.integers(1, 30))] for a, b in zip(names, names[1:] + names[:1], strict=True)]
        made |= {"t1": round(float(accuracy.mean()), 2), "confusion": sorted(pairs, key=lambda p: -p[2])}
        made["per_class"] = {"t1": dict(zip(names, accuracy.tolist(), strict=True))}
    else:
        ts, tr = round(level * (0.85 if transductive else 0.45), 2), round(60 + random.normal(), 2)
        seen = {f"seen {i}": round(float(v), 2) for i, v in enumerate(np.clip(random.normal(tr, 15, 60), 0, 100))}
        made |= {"ts": ts, "tr": tr, "h": round(2 * ts * tr / (ts + tr), 2), "t1": None, "confusion": []}
        made["per_class"] = {"ts": dict(zip(names, (accuracy * 0.6).round(2).tolist(), strict=True)), "tr": seen}
        made["seen_unseen"] = _trade_off(level, tr, ts)
    if method == TRANSDUCTIVE:
        made["rounds"] = _rounds(made, random)
    return made | changes


def _space_facts(random, order, method):
    inside = {"compactness": 0.9, "separability": 0.1} if "embedding" in method else None
    facts = {"compactness": round(1.2 - 0.03 * order, 3), "separability": round(0.02 * order - 0.1, 3)}
    return {**facts, "hubness": round(float(random.random() * 3), 3), "embedding": inside}


def _trade_off(level, tr, ts):
    angle = np.linspace(0, np.pi / 2, 40)
    curve = np.column_stack([level * np.sin(angle), (tr + 8) * np.cos(angle)]).round(2)
    middle = curve[20].tolist()
    calibrated = {
        "constant": 0.123,
        "ts": middle[0],
        "tr": middle[1],
        "h": round(2 * middle[0] * middle[1] / sum(middle), 2),
    }
    return {
        "ausuc": round(float(np.diff(curve[:, 0]) @ (curve[1:, 1] + curve[:-1, 1])) / 200, 2),
        "best_h": calibrated["h"],
        "curve": curve.tolist(),
        "calibrated": calibrated,
    }


def _rounds(made, random):
    rounds = []
    for number in range(1, 11):
        rising = 1 - 0.3 * np.exp(-0.5 * number)
        one = {"round": number, "selected": 200 * number, "pseudo_label_accuracy": None}
        one |= {
            m: round(made[m] * (rising if m != "tr" else 1.0), 2)
            for m in ("t1", "ts", "tr", "h")
            if made.get(m) is not None
        }
        if number > 1:
            one["pseudo_label_accuracy"] = round(70 + 1.5 * number + random.normal(), 2)
        rounds.append(one)
    return rounds


def all_records() -> list[dict]:
    """Nineteen methods × three data sets × both settings; five seeds for the paper's two, three or one for others."""
    made = []
    for dataset in LEVELS:
        for order, method in enumerate(METHODS):
            seeds = 5 if "embedding" in method else (1, 3)[order % 2]
            made += [full_record(dataset, method, s, seed) for s in ("zsl", "gzsl") for seed in range(seeds)]
    for dataset in ("CUB", "glyphs"):
        for method in (OURS, TRANSDUCTIVE):
            for value in (0.0, 1.0, 10.0, 30.0, 100.0, 300.0, 1000.0):
                share = 0.05 if value < 2 else 1 - 0.2 * abs(np.log10(value / 200))
                for setting in ("zsl", "gzsl"):
                    one = full_record(dataset, method, setting, 0, study="separation", variant={"separation": value})
                    one |= {m: round(one[m] * share, 2) for m in ("t1", "ts", "tr", "h") if one.get(m) is not None}
                    made.append(one | {"collapsed": value < 2})
    lost = {
        "status": "failed",
        "error": "The optimiser left the road: loss is <nan> & 100 % of rows are lost.",
        "t1": None,
    }
    # What is finished stays so when a later run fails: the cells that all failed must not be there before.
    made = [r for r in made if (r["dataset"], r["method"], r["setting"]) != ("glyphs", "sje", "zsl")]
    return [*made, full_record("ANIMALS42", "sse", "zsl", 3, **lost), *_all_failed(lost)]


def _all_failed(lost):
    return [full_record("glyphs", "sje", "zsl", seed, **lost) for seed in range(3)]


def write(folder: Path, records: list[dict]) -> Path:
    """Records in a folder, one file per data set; a later record of the same cell comes later."""
    folder.mkdir(parents=True, exist_ok=True)
    for dataset in {r["dataset"] for r in records}:
        lines = [json.dumps(r, ensure_ascii=False) for r in records if r["dataset"] == dataset]
        name = "".join(c if c.isalnum() else "_" for c in dataset)
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def write_map(folder: Path, dataset: str = "CUB", classes: int = 8) -> Path:
    """Six panels of invented clusters."""
    random = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {"dataset": np.array(dataset), "split": np.array(f"split of {dataset}")}
    for which in ("all", "unseen"):
        labels = np.repeat(np.arange(classes), 40)
        arrays |= {f"{which}_labels": labels, f"{which}_names": np.array((class_names(dataset) * 3)[:classes])}
        for number, space in enumerate(("visual", "inductive", "transductive")):
            centres = random.normal(scale=10 + 8 * number, size=(classes, 2))
            arrays[f"{space}_{which}_points"] = centres[labels] + random.normal(
                scale=6 - 2 * number, size=(len(labels), 2)
            )
            arrays[f"{space}_{which}_classes"] = centres + 2 if number else np.empty((0, 2))
    arrays |= {"all_seen": np.arange(classes) >= classes // 2, "unseen_seen": np.zeros(classes, dtype=bool)}
    (folder / "maps").mkdir(parents=True, exist_ok=True)
    np.savez(folder / "maps" / f"{dataset}.npz", **arrays)
    return folder
