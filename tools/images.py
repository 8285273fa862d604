"""The images of the README and of the site's first page: the web app, and accuracy against time on CUB.

`python tools/images.py` draws them into `docs/images/`, in light and dark; it needs the extra `serve`, Playwright and
chromium. Nothing in them is typed: the figure is drawn from the records in `results/`, the screenshot is taken of
`firstsight serve --demo`. `docs/images/drawn_from.json` says what they were drawn from; a test compares.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from PIL import Image

import firstsight
from firstsight._io.files import cache_folder, write_atomically
from firstsight.methods import DEFAULT_METHOD, DEFAULT_TRANSDUCTIVE_METHOD
from firstsight.reporting.results import Results, read_results

PROJECT = Path(__file__).resolve().parents[1]
IMAGES = Path("docs") / "images"
LARGEST = 400_000  # bytes, all images together
SCHEMES = ("light", "dark")
SURE = 60  # percent that an answer worth showing has at least
_PACKAGE = Path("src") / "firstsight"
# The files of what the screenshot shows: the page's first tab and the card of an answer.
_PARTS, _PAGE = _PACKAGE / "web" / "parts", _PACKAGE / "web" / "app"
_LOOK = (
    *(_PARTS / name for name in ("tokens.css", "answer_cards.css", "answer_cards.js")),
    *(_PAGE / name for name in ("index.html", "app.css", "recognise.js", "drawing.js")),
)


def colours(project: Path, scheme: str) -> dict[str, str]:
    """The web app's colours by name, from its style sheet."""
    sheet = (project / _PARTS / "tokens.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{(.*?)\n *\}", sheet, flags=re.DOTALL)
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light))
    return found | dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", dark)) if scheme == "dark" else found


def compared(results: Results, dataset: str = "CUB") -> list[dict[str, Any]]:
    """T1 and CPU seconds of a fit, mean over seeds, of every method that is ranked and consists of no others."""
    points = []
    for method in results.ranked():
        if method in ("blend", "transductive-blend"):
            continue
        runs = [run for run in results.runs(dataset, method, "zsl") if run.cpu_seconds]
        t1 = results.mean_of(dataset, method, "t1")
        if runs and t1 is not None:
            seconds = sum(run.cpu_seconds or 0.0 for run in runs) / len(runs)
            inductive = results.is_inductive(method)
            points.append({"method": method, "t1": round(t1, 1), "seconds": round(seconds, 1), "inductive": inductive})
    return points


def comparison(points: list[dict[str, Any]], colour: dict[str, str]) -> str:
    """Accuracy against time as SVG: the default methods, the paper's, and the others in grey."""
    ours, papers = (DEFAULT_METHOD, DEFAULT_TRANSDUCTIVE_METHOD), ("deep-embedding", "transductive-deep-embedding")
    style: Any = {
        "font.family": "sans-serif", "font.size": 11, "svg.fonttype": "none", "svg.hashsalt": "firstsight",
        "text.color": colour["ink"], "axes.labelcolor": colour["ink"], "xtick.color": colour["muted"],
        "ytick.color": colour["muted"], "axes.edgecolor": colour["faint"],
    }  # fmt: skip
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(5.4, 3.7), layout="constrained")
        axis = figure.subplots()
        axis.set(xscale="log", xlabel="CPU seconds of a fit", ylabel="T1 on CUB, %", xlim=(0.7, 600))
        axis.set_xticks([1, 10, 100], ["1", "10", "100"])
        axis.grid(True, color=colour["line"], linewidth=0.8)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        for point in points:
            method, place = point["method"], (point["seconds"], point["t1"])
            shade = colour["unseen" if method in ours else "blue" if method in papers else "faint"]
            named = method in (*ours, *papers)
            look = {"s": 90 if named else 40, "linewidths": 2, "edgecolors": shade, "zorder": 3}
            axis.scatter(*place, color=shade if point["inductive"] else colour["card"], **look)
            if named:
                beside: Any = {"textcoords": "offset points", "ha": "right", "va": "center"}
                axis.annotate(method, place, (-9, 0), weight="bold", color=shade, **beside)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawn = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", file.getvalue(), flags=re.DOTALL)
    return re.sub(r"(?<=\d)(\.\d\d)\d+", r"\1", drawn)  # a hundredth of a point is finer than any screen


def look_of_the_web_app(project: Path) -> str:
    """A digest of the files that the screenshot shows; the same on every machine."""
    digest = hashlib.sha256()
    for path in _LOOK:
        digest.update((project / path).read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()[:16]


def drawn_from(project: Path) -> dict[str, Any]:
    """What the images show, as far as it can be known without drawing them."""
    return {"comparison": compared(read_results(project / "results")), "web_app": look_of_the_web_app(project)}


@contextmanager
def web_app() -> Iterator[str]:
    """The address of `firstsight serve --demo`, with a cache in which nobody has taught it anything."""
    with tempfile.TemporaryDirectory() as cache:
        for letters in cache_folder().glob("glyphs-*.npz"):  # they need not be drawn again
            shutil.copy(letters, cache)
        paths = os.pathsep.join([str(Path(firstsight.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        server = subprocess.Popen(
            [sys.executable, "-c", "from firstsight.cli.main import main; main()", "serve", "--demo", "--port", "0"],
            env={**os.environ, "FIRSTSIGHT_CACHE": cache, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            if "http://" not in line:
                sys.exit("The web app did not start; its message is above.")
            yield line.split()[-1]
        finally:
            server.terminate()
            server.wait(timeout=60)


def screenshots(address: str) -> dict[str, bytes]:
    """The web app naming a letter that training never showed it: a PNG file for each colour scheme."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    taken = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for scheme in SCHEMES:
            size = {"width": 1040, "height": 662}
            page = browser.new_page(viewport=size, color_scheme=scheme, device_scale_factor=1.5)
            page.set_default_timeout(180_000)
            page.goto(address)
            page.wait_for_selector(".samples button img")
            _name_an_unseen_letter(page, address)
            taken[scheme] = _small(page.screenshot(animations="disabled"))
        browser.close()
    return taken


def _name_an_unseen_letter(page: Any, address: str) -> None:
    """Type one letter after the other until one of an unseen class is named right, and surely."""
    known = page.request.get(f"{address}api/classes").json()["classes"]
    for letter in (one["class"] for one in known if not one["seen"]):
        with page.expect_response("**/api/predict"):
            page.get_by_label("Type a letter instead").fill(letter)
        page.wait_for_selector(".results:not(.waiting) .answer")
        answer = page.locator(".answer").first
        sure = re.search(r"\d+", answer.locator(".rank-number").first.inner_text())
        if answer.locator(".answer-name").inner_text() == letter and sure and int(sure[0]) >= SURE:
            page.evaluate("scrollTo(0, 0)")
            page.mouse.move(0, 0)
            page.wait_for_timeout(300)
            return
    sys.exit("No letter of an unseen class is named right; the web app's demo has changed.")


def _small(png: bytes) -> bytes:
    """The same image with a palette, half of the size."""
    file = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(file, format="png", optimize=True)
    return file.getvalue()


def main(project: Path) -> None:
    """Draw all images and write down what they were drawn from."""
    facts = drawn_from(project)
    files: dict[str, str | bytes] = {}
    for scheme in SCHEMES:
        files[f"comparison-{scheme}.svg"] = comparison(facts["comparison"], colours(project, scheme))
    with web_app() as address:
        files |= {f"web-app-{scheme}.png": content for scheme, content in screenshots(address).items()}
    size = sum(len(content) for content in files.values())
    if size > LARGEST:
        sys.exit(f"The images have {size:,} bytes together; at most {LARGEST:,} are allowed.")
    for name, content in files.items():
        write_atomically(project / IMAGES / name, content)
    write_atomically(project / IMAGES / "drawn_from.json", json.dumps(facts, indent=1) + "\n")
    print(f"{len(files)} images, {size:,} bytes, in {IMAGES}")


if __name__ == "__main__":
    main(PROJECT)
