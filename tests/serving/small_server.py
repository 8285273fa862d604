"""What tests of the server share: letters, strokes, and a server in a process of its own."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
import urllib.request

from PIL import Image, ImageDraw

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

    def __init__(self, *words: str, **environment: str):
        code = "from firstsight.cli.main import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "serve", *words, "--port", "0", "--rate", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        line = self.process.stdout.readline()
        assert "http://" in line, self.process.stderr.read()
        self.url = line.split()[-1].rstrip("/")

    def wait(self, seconds: float = 300) -> Server:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                urllib.request.urlopen(f"{self.url}/ready", timeout=60).close()
                return self
            except OSError:  # not listening yet, or 503
                time.sleep(0.05)
        raise AssertionError("the server is not ready")

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        code = self.process.wait(timeout=300)
        self.process.stdout.close()
        self.process.stderr.close()
        return code
