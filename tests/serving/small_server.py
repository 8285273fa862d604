"""What tests of the server share: letters, strokes, and a server in a process of its own."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from firstsight.methods import ZeroShotClassifier
from firstsight.persistence.model_folder import load

LETTERS = "áàâäéèêëíìîïóòôöúùûü"
UNSEEN = "êóùï"
CHANGE = {"X-Firstsight": "1"}


def as_png(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


def stroke(points, size=240, width=16, dark=True) -> Image.Image:
    """Lines as a hand draws them."""
    picture = Image.new("RGB", (size, size), "white" if dark else "black")
    for line in points:
        ImageDraw.Draw(picture).line(line, fill="black" if dark else "white", width=width, joint="curve")
    return picture


class Server:
    """`firstsight serve` in a process of its own."""

    def __init__(self, *words: str, before: Sequence[str] = (), **environment: str):
        code = "from firstsight.cli.main import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *before, "serve", *map(str, words), "--port", "0", "--rate", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self.first_line = self.process.stdout.readline()
        found = re.search(r"http://[^/\s]+", self.first_line)
        assert found, self.process.stderr.read()
        self.url = found[0]

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def wait(self, seconds: float = 300) -> Server:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                urllib.request.urlopen(f"{self.url}/ready", timeout=60).close()
                return self
            except OSError:  # not listening yet, or 503
                time.sleep(0.05)
        raise AssertionError("the server is not ready")

    def stop(self, how: int = signal.SIGTERM, close: bool = True) -> int:
        self.process.send_signal(how)
        code = self.process.wait(timeout=300)
        if close:
            self.process.stdout.close()
            self.process.stderr.close()
        return code


def log_of(model: str | Path | ZeroShotClassifier) -> dict[int, str]:
    """The labels of samples that were added to a model and count, by fingerprint."""
    model = model if isinstance(model, ZeroShotClassifier) else load(model)
    log = getattr(model, "sample_log_", {"fingerprints": np.empty(0), "replaced_by": np.empty(0)})
    rows = zip(log["fingerprints"].tolist(), getattr(model, "sample_log_labels_", []), log["replaced_by"], strict=True)
    return {print_: label for print_, label, replaced in rows if not replaced}


def teach(client, name, attributes=None, **more):
    return client.post("/api/classes", json={"name": name, "attributes": attributes or {}, **more}, headers=CHANGE)


def teach_at_once(client, people: int, classes: int) -> tuple[set[str], set[str], list[int]]:
    """Let people teach in threads, undo every third class, and read in between: kept names, undone names, statuses."""
    kept, undone, statuses = set(), set(), []

    def person(who):
        for number in range(classes):
            name = f"person {who} {number}"
            done = teach(client, name, rest=0.5)
            statuses.append(done.status_code)
            if done.status_code != 201:
                continue
            if number % 3 == 0:
                back = client.post("/api/classes/undo", json=done.json()["undo"], headers=CHANGE)
                statuses.append(back.status_code)
                undone.add(name)
            else:
                kept.add(name)
                statuses.append(client.get("/api/classes").status_code)
                statuses.append(client.get("/api/classes/description", params={"name": name}).status_code)

    threads = [threading.Thread(target=person, args=(who,)) for who in range(people)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return kept, undone, statuses
