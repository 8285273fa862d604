"""What rows and classes cost as they grow: CPU seconds over six sizes, exponents fitted, one picture.

    python benchmarks/scale_curves.py [--largest 160000] [--classes 300000] [--repeats 3] [--out scale_costs.png]

Fits read their rows from a file in the temporary folder; `top_k` ranks the five best of many classes for 200 rows. CPU
seconds of this process, the least of the repeats: other programs on the machine change them little. Beside the picture
a table of the same name (.csv) is written. An exponent of 1 is linear; below, fixed costs are still felt. At the end,
the largest size is multiplied up to a billion rows and a million classes: arithmetic, not a measurement.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.ticker import NullFormatter

from firstsight._io.disk_samples import DiskSamples
from firstsight.errors import FirstsightWarning
from firstsight.methods import make_estimator
from firstsight.reporting.figure_style import COLOURS, figure_style, panels, quiet

FEATURES, ATTRIBUTES, CLASSES, SIZES = 512, 85, 100, 6
FITS = {"eszsl": {}, "gfzsl": {}, "deep-embedding": {"iterations": 1, "preset": "fast"}}
MARKS = "os^D"


def cpu_seconds(act: Callable[[], object], repeats: int) -> float:
    """The least of some repeats."""
    spent = []
    for _ in range(repeats):
        began = time.process_time()
        act()
        spent.append(time.process_time() - began)
    return min(spent)


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of the line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def rows_grow(largest: int, repeats: int) -> list[tuple[str, int, float]]:
    random = np.random.default_rng(0)
    descriptions = random.uniform(size=(CLASSES, ATTRIBUTES)).astype(np.float32)
    y = np.arange(largest) % CLASSES
    mixing = random.normal(size=(ATTRIBUTES, FEATURES))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        X = (descriptions[y] @ mixing + random.normal(size=(largest, FEATURES))).astype(np.float32)
        np.save(path, X)
        rows = DiskSamples(path)
        for method, parameters in FITS.items():
            for n in (largest // 2**i for i in reversed(range(SIZES))):
                some = rows.take(np.arange(n))
                model = make_estimator(method, parameters, random_state=0)
                spent = cpu_seconds(lambda m=model, X=some, n=n: m.fit(X, y[:n], descriptions), repeats)
                found.append((f"fit, {method}", n, spent))
                print(f"{found[-1][0]}, {n:,} rows: {spent:.3f} CPU seconds", flush=True)
        model = make_estimator("eszsl", {}).fit(X[:5000], y[:5000], descriptions)
        for n in (largest // 2**i for i in reversed(range(SIZES))):
            spent = cpu_seconds(lambda n=n: model.predict(rows.take(np.arange(n))), repeats)
            found.append(("predict, eszsl", n, spent))
            print(f"{found[-1][0]}, {n:,} rows: {spent:.3f} CPU seconds", flush=True)
    return found


def classes_grow(most: int, repeats: int) -> list[tuple[str, int, float]]:
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.uniform(size=(most, ATTRIBUTES)).astype(np.float32))
    X = random.normal(size=(2000, FEATURES)).astype(np.float32)
    found = []
    for method in ("eszsl", "deep-embedding"):
        model = make_estimator(method, FITS[method], random_state=0).fit(X, np.arange(2000) % 50, table.iloc[:50])
        for k in np.geomspace(most / 3 ** (SIZES - 1), most, SIZES).astype(int).tolist():
            spent = cpu_seconds(lambda m=model, k=k: m.top_k(X[:200], 5, classes=table.iloc[:k]), repeats)
            found.append((f"top_k, {method}", k, spent))
            print(f"{found[-1][0]}, {k:,} classes: {spent:.3f} CPU seconds", flush=True)
    return found


def draw(curves: dict[str, list[tuple[str, int, float]]], out: Path) -> None:
    with figure_style():
        figure, axes = panels(8.4, 2, 3.6, share=False)
        for axis, (title, found) in zip(axes, curves.items(), strict=True):
            table = pd.DataFrame(found, columns=["what", "size", "seconds"])
            for number, (what, own) in enumerate(table.groupby("what", sort=False)):
                look = {"color": COLOURS[(4, 5, 2, 3)[number]], "marker": MARKS[number], "markersize": 5}
                slope = exponent(own["size"].tolist(), own["seconds"].tolist())
                axis.loglog(own["size"], own["seconds"], label=f"{what}: size^{slope:.2f}", **look)
                last = exponent(own["size"].tolist()[-3:], own["seconds"].tolist()[-3:])
                print(f"{what}: exponent {slope:.2f}, of the three largest {last:.2f}")
            quiet(axis, "CPU seconds", title)
            axis.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
            axis.yaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.yaxis.set_minor_formatter(NullFormatter())
            axis.legend(loc="lower left", bbox_to_anchor=(0, 1))
        figure.savefig(out, dpi=130)


def extrapolate(found: list[tuple[str, int, float]]) -> None:
    """Print, as a table in Markdown, what the largest sizes come to at a billion rows or a million classes."""
    print("| what | measured | arithmetic | extrapolated |\n|---|---|---|---|")
    for what, own in pd.DataFrame(found, columns=["what", "size", "seconds"]).groupby("what", sort=False):
        size, seconds = own["size"].iloc[-1], own["seconds"].iloc[-1]
        if what.startswith("top_k"):
            each = seconds / 200 / size  # per row and class
            measured = f"{each * 1e9:.1f} ns per row and class"
            sum_, total = f"10⁶ classes × {each * 1e9:.1f} ns", f"{each * 1e6 * 1e3:,.0f} ms per row"
        else:
            each = seconds / size
            measured = f"{each * 1e6:.1f} µs per row"
            sum_, total = f"10⁹ rows × {each * 1e6:.1f} µs ÷ 3600", f"{each * 1e9 / 3600:,.1f} core hours"
        print(f"| {what} | {measured} | {sum_} | {total} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=160_000)
    parser.add_argument("--classes", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("scale_costs.png"))
    words = parser.parse_args()
    warnings.simplefilter("ignore", FirstsightWarning)  # one pass trains hardly anything
    some = np.random.default_rng(0).normal(size=(64, FEATURES)).astype(np.float32)
    for method, parameters in FITS.items():  # everything is loaded before anything is timed
        make_estimator(method, parameters, random_state=0).fit(some, np.arange(64) % 2, np.eye(2))
    curves = {
        f"rows ({FEATURES} features, {CLASSES} classes)": rows_grow(words.largest, words.repeats),
        f"classes (200 rows, {FEATURES} features)": classes_grow(words.classes, words.repeats),
    }
    everything = [one for found in curves.values() for one in found]
    pd.DataFrame(everything, columns=["what", "size", "cpu_seconds"]).to_csv(
        words.out.with_suffix(".csv"), index=False, lineterminator="\n"
    )
    draw(curves, words.out)
    extrapolate(everything)


if __name__ == "__main__":
    main()
