"""
Words instead of attributes, on real birds
==========================================

Four kinds of birds that training had no photograph of, recognised from attributes, from sentences and from nothing
but their names.
"""

# %%
# The photographs (a sample of CUB), the vision model and the sentence encoder are too large to come with the project.
# Where the folder that ``FIRSTSIGHT_SHARED`` names has them, everything is computed again; elsewhere that is skipped,
# and the figures come from ``stored/words_on_birds.json``, which this very script wrote.

import json
import os
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import firstsight

HERE = next(folder for folder in (Path("examples"), Path("../examples"), Path()) if (folder / "stored").is_dir())
STORED = HERE / "stored" / "words_on_birds.json"


def compute(shared: Path) -> dict[str, dict[str, float]]:
    """How many of the pictures of unseen birds are named right among these, by what describes the classes."""
    sample = shared / "data" / "cub-sample"
    split = pd.read_csv(sample / "split.csv", index_col="class")["split"]
    phrases = json.loads((shared / "data" / "words" / "cub-descriptors.json").read_text(encoding="utf-8"))
    plain = {"".join(filter(str.isalpha, name)).lower(): name for name in phrases}
    sentences = {}
    for name in split.index:
        key = "".join(filter(str.isalpha, name)).lower()
        sentences[name] = f"{plain[key]}: {', '.join(phrases[plain[key]])}"
    encoder = shared / "backbones" / "all-minilm-l6-v2"
    tables = {
        "names": firstsight.describe(pd.DataFrame(index=split.index), encoder=encoder),
        "sentences": firstsight.describe(pd.DataFrame({"text": sentences}), encoder=encoder),
        "attributes": firstsight.describe(sample / "attributes.csv"),
    }
    pictures = firstsight.embed(sample / "images", backbone=shared / "backbones" / "resnet50")
    unseen = split.index[split == "unseen"].tolist()
    return {
        kind: firstsight.learn(pictures, table, unseen=unseen).provenance.evaluation for kind, table in tables.items()
    }


if "FIRSTSIGHT_SHARED" in os.environ:
    figures = compute(Path(os.environ["FIRSTSIGHT_SHARED"]))
    STORED.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
else:
    print("FIRSTSIGHT_SHARED is not set: nothing is computed, the figures are those that are stored.")
    figures = json.loads(STORED.read_text(encoding="utf-8"))
print(pd.DataFrame(figures).T)

# %%
# Sentences nearly reach attributes that people have collected for years; names alone are well above guessing.
pictures = figures["names"]["held_out_pictures"]
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
right = [figures[kind]["right_among_unseen"] for kind in figures]
axis.bar_label(axis.bar(list(figures), right, color=["#9ab8d3", "#6f98c0", "#4878a8"]))
axis.axhline(pictures / figures["names"]["held_out_classes"], color="gray", linestyle="--", label="guessing")
axis.set(ylabel=f"named right, of {pictures}", ylim=(0, pictures), title="Four unseen birds, these four as candidates")
axis.legend()
plt.show()
