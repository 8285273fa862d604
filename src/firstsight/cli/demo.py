"""`firstsight demo`: the default method beside the paper's two, on letters that everybody can read."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    from rich.table import Table

    from firstsight.data import ZeroShotDataset

# Small enough for a minute on a laptop, from the "paper" preset: half the space, few iterations of large steps.
# For small images, and for people who wait: chosen on a validation fold of the letters that training sees.
SETTINGS = {
    "embedding_dim": 512,
    "feature_length": 0.0,
    "separation": 100.0,
    "penalty": 1e-5,
    "learning_rate": 3e-3,
    "iterations": 12,
    "batch_size": 128,
    "semantic_rate": 1.0,
}
ROUNDS = {"rounds": 8, "round_iterations": 3, "selection": 0.1}
PAPERS = ("deep-embedding", "transductive-deep-embedding")
NEXT_COMMAND = "firstsight serve --demo"


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the table and the images.")] = Path("firstsight-demo"),
    seed: Annotated[int, typer.Option(min=0, help="Everything random follows from it.")] = 0,
) -> None:
    """Learn 133 accented letters, then recognise 40 others: with the default method and the paper's."""
    import numpy as np

    from firstsight._io.files import write_atomically
    from firstsight._io.terminal import screen
    from firstsight.cli.options import write_json
    from firstsight.data import load_dataset
    from firstsight.evaluation import evaluate, percent
    from firstsight.methods import make_estimator

    console = screen(soft_wrap=False)
    data = load_dataset("glyphs")
    console.print(
        f"glyphs: {len(data.features):,} images of {len(data.class_names)} accented letters.\n"
        f"Training has labels for {len(data.seen_classes)} of them; the other {len(data.unseen_classes)} have a "
        "description only:\nwhich base letter, which mark."
    )
    results = {}
    for name, parameters in demo_methods().items():
        results[name] = evaluate(make_estimator(name, parameters, random_state=seed, verbose=True), data)
    records = [
        {
            "method": name,
            "dataset": data.name,
            **{figure: percent(getattr(result, figure)) for figure in ("t1", "ts", "tr", "h")},
            "seconds": round(result.seconds, 1),
            "seed": seed,
        }
        for name, result in results.items()
    ]
    console.print(_table(records))
    console.print(
        "T1: unseen letters when only these are candidates. ts, tr: unseen and seen letters when all "
        f"{len(data.class_names)} are.\nH: their harmonic mean. All are mean per-class accuracies in percent; guessing "
        f"gives T1 {100 / len(data.unseen_classes):.1f} and ts {100 / len(data.class_names):.1f}."
    )
    write_json(out / "results.json", records)
    write_atomically(out / "results.md", _markdown(records))
    models = {name: result.models["gzsl"] for name, result in results.items()}
    _draw(data, models, out, np.random.default_rng(seed))
    files = f"{out}/results.md, {out}/embedding_map.png, {out}/predictions.png"
    console.print(f"Table and images: {files}", soft_wrap=True)
    if len(records) == 1:
        console.print("The paper's methods need torch and were left out: pip install 'firstsight[torch]'.")
    console.print(verdict(records), soft_wrap=True)
    first = "" if find_spec("fastapi") else "   (after: pip install 'firstsight[serve]')"
    console.print(f"Next: {NEXT_COMMAND}{first}", soft_wrap=True)


def demo_methods() -> dict[str, dict[str, Any]]:
    """The default method with its usual settings, and the paper's two where torch is installed."""
    from firstsight.methods import DEFAULT_METHOD

    methods: dict[str, dict[str, Any]] = {DEFAULT_METHOD: {"search": False}}
    if find_spec("torch"):
        methods |= dict(zip(PAPERS, (SETTINGS, SETTINGS | ROUNDS), strict=True))
    return methods


def verdict(records: list[dict[str, Any]]) -> str:
    """Compare the default method with the paper's two, in one sentence."""
    default, *papers = records
    said = f"{default['method']} recognises {default['t1']:.1f} % of the unseen letters after {_spent(default)}"
    if not papers:
        return f"{said}."
    inductive, transductive = papers
    return (
        f"{said}; the paper's method {inductive['t1']:.1f} % after {_spent(inductive)}, and {transductive['t1']:.1f} % "
        f"after {_spent(transductive)} if it also trains on the unlabelled test images."
    )


def _spent(record: dict[str, Any]) -> str:
    return f"{record['seconds']:.0f} s"


def _table(records: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("method")
    for title in ("T1", "ts", "tr", "H", "seconds"):
        table.add_column(title, justify="right")
    for record in records:
        table.add_row(record["method"], *(f"{record[k]:.1f}" for k in ("t1", "ts", "tr", "h", "seconds")))
    return table


def _markdown(records: list[dict[str, Any]]) -> str:
    lines = ["| method | T1 | ts | tr | H | seconds |", "|---|---:|---:|---:|---:|---:|"]
    for record in records:
        figures = " | ".join(f"{record[k]:.1f}" for k in ("t1", "ts", "tr", "h", "seconds"))
        lines.append(f"| {record['method']} | {figures} |")
    return "\n".join(lines) + "\n"


def _draw(data: ZeroShotDataset, models: dict[str, Any], out: Path, random: np.random.Generator) -> None:
    import numpy as np

    from firstsight.reporting.embedding_maps import embedding_map, sample_predictions
    from firstsight.reporting.figure_style import COLOURS, save_figure

    X, y = data.part("test_unseen")
    shown = random.choice(data.unseen_classes, size=len(COLOURS), replace=False)
    rows = np.flatnonzero(np.isin(y, shown))
    labels = np.array([list(shown).index(name) for name in y[rows]])
    panels = {"features": (X[rows], None)}
    for name, model in models.items():
        panels[name] = (model.embed(X[rows]), model.embed_classes(list(shown)))
    title = f"{len(shown)} letters without a label in training: images (dots) and descriptions (squares)"
    save_figure(embedding_map(panels, labels, list(shown), title), out / "embedding_map.png")

    rows = np.sort(random.choice(len(X), size=36, replace=False))
    guesses = {name: model.predict(X[rows]).tolist() for name, model in models.items()}
    assert data.images is not None  # glyphs have images
    images = data.images[data.test_unseen[rows]]
    lines = ", ".join(f"{number}: {name}" for number, name in enumerate(guesses, start=1))
    title = f"Letters without a label in training, named among all {len(data.class_names)} ({lines})"
    answers = {str(number): names for number, names in enumerate(guesses.values(), start=1)}
    save_figure(sample_predictions(images, y[rows].tolist(), answers, title), out / "predictions.png")
