"""The images of the site's first pages, drawn from glyphs when the site is built."""

from __future__ import annotations

import base64
import io
from html import escape
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

import firstsight

BLUE, ORANGE = "#4878a8", "#d1783c"
SEEN = ("á", "è", "ö", "ç", "Ń", "ž")
UNSEEN = ("ń", "Š", "ó", "Ç", "ÿ", "ľ")


def _letter(axis, picture: np.ndarray) -> None:
    axis.imshow(picture, cmap="gray_r")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_color("#d0d7de")


def _rows_of(data, name: str, count: int) -> np.ndarray:
    return np.flatnonzero(data.y == name)[:: max(1, 64 // count)][:count]


def labelled_letters(data, names: tuple[str, ...], titles: bool) -> Figure:
    """Some pictures of each letter, one column per letter; named, or with a question mark."""
    figure, axes = plt.subplots(3, len(names), figsize=(7.2, 4), layout="constrained")
    for column, name in enumerate(names):
        for axis, row in zip(axes[:, column], _rows_of(data, name, 3), strict=True):
            _letter(axis, data.images[row])
        axes[0, column].set_title(name if titles else "?", fontsize=15)
    return figure


def description_table(data, names: tuple[str, ...]) -> Figure:
    """Which base letter and which mark each letter has."""
    table = data.descriptions.loc[list(names)]
    table = table.loc[:, (table > 0).any()]
    figure, axis = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    axis.imshow(table.to_numpy() > 0, cmap="Blues", vmin=0, vmax=1.4, aspect="auto")
    axis.set_xticks(range(table.shape[1]), table.columns, rotation=40, ha="left")
    axis.xaxis.tick_top()
    labels = [f"{name}  ({'unseen' if name in data.unseen_classes else 'seen'})" for name in names]
    axis.set_yticks(range(len(names)), labels, fontsize=12)
    axis.set_xticks(np.arange(-0.5, table.shape[1]), minor=True)
    axis.set_yticks(np.arange(-0.5, len(names)), minor=True)
    axis.grid(which="minor", color="white", linewidth=2)
    axis.tick_params(which="both", length=0)
    axis.spines[:].set_visible(False)
    return figure


def hero(data, model) -> str:
    """What firstsight is, beside unseen letters with a model's answers; a wrong one also says what it is."""
    rows = data.test_unseen[:: len(data.test_unseen) // 18][:18]
    names = model.predict(data.features[rows], classes=data.unseen_classes)
    accuracy = model.score(data.features[data.test_unseen], data.y[data.test_unseen], classes=data.unseen_classes)
    letters = "\n".join(_answer(data.images[row], name, data.y[row]) for row, name in zip(rows, names, strict=True))
    return f"""<div class="hero">
<div>
<p class="hero-claim">Zero-shot learning in Python: recognise classes without a single labelled image.</p>
<p>firstsight learns from labelled images of some classes and a description (attributes or words) of every class. Then
it also recognises the classes without labelled images. It has a scikit-learn API and a command line, and needs no
GPU.</p>
</div>
<div class="hero-letters">
{letters}
</div>
<p class="hero-note">Unseen letters, and what the default method predicts after seconds of training, choosing among the
{len(data.unseen_classes)} unseen letters: ✓ right, ✗ wrong, with the true name. It is right for {accuracy:.0%} of all
{len(data.test_unseen):,} such images.</p>
</div>
"""


def _answer(picture: np.ndarray, name: str, truth: str) -> str:
    file = io.BytesIO()
    Image.fromarray(255 - picture).save(file, format="png")  # dark on light, as letters are printed
    image = base64.b64encode(file.getvalue()).decode()
    kind, said = ("right", f"✓ {escape(name)}") if name == truth else ("wrong", f"✗ {escape(name)}, is {escape(truth)}")
    return (
        f'<figure class="hero-letter {kind}"><img src="data:image/png;base64,{image}" alt="{escape(truth)}">'
        f"<figcaption>{said}</figcaption></figure>"
    )


def two_figures(data) -> Figure:
    """T1 and H of three quick methods, the default among them."""
    shown = (firstsight.ESZSL(), firstsight.GFZSL(), firstsight.KernelPrototypes(search=False))
    results = {type(method).__name__: firstsight.evaluate(method, data) for method in shown}
    figure, axis = plt.subplots(figsize=(6, 2.8), layout="constrained")
    for offset, (title, colour) in enumerate({"T1": BLUE, "H": ORANGE}.items()):
        values = [100 * getattr(result, title.lower()) for result in results.values()]
        bars = axis.bar(np.arange(len(results)) + 0.4 * offset - 0.2, values, 0.38, label=title, color=colour)
        axis.bar_label(bars, fmt="%.0f")
    axis.set(xticks=range(len(results)), xticklabels=list(results), ylabel="named right, %", ylim=(0, 112))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(loc="upper left", ncols=2, frameon=False)
    return figure


def write_pictures(folder: Path) -> None:
    """Draw what is not there yet; they change with glyphs alone, so `make clean` is enough to renew them."""
    folder.mkdir(parents=True, exist_ok=True)
    names = ("seen", "question", "descriptions", "t1_and_h")
    if all((folder / f"{name}.png").exists() for name in names) and (folder / "hero.html").exists():
        return
    data = firstsight.load_dataset("glyphs")
    model = firstsight.KernelPrototypes(search=False).fit(*data.part("train"), data.descriptions)
    (folder / "hero.html").write_text(hero(data, model), encoding="utf-8")
    drawn = (
        labelled_letters(data, SEEN, titles=True),
        labelled_letters(data, UNSEEN, titles=False),
        description_table(data, (*SEEN[:4], *UNSEEN[:3])),
        two_figures(data),
    )
    for name, figure in zip(names, drawn, strict=True):
        figure.savefig(folder / f"{name}.png", dpi=140)
        plt.close(figure)
