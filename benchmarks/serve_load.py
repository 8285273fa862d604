"""The server under load, on loopback and bounded: errors, throughput against the Recognizer itself, times, memory.

    python benchmarks/serve_load.py --backbone ../shared/backbones/resnet50 [--clients 64] [--requests 20000]

Each is measured against what it is compared with in the same run, in turns:

1. one warm picture: a request's time ÷ the time of the backbone alone on that picture
2. `--clients` at once for `--seconds`: errors, pictures per second, and the same for calls of the Recognizer in this
   process with batches of the size that the server made; p50 and p99 of both
3. the same with letters, whose backbone takes no time, in three kinds of request (the picture is the body, a form with
   one, a form with sixteen as the page sends them): what HTTP costs by itself
4. the clients on a server that answers the same bytes whatever it is asked: what they and uvicorn take of the machine
5. memory of the server over `--requests` requests

CPU per picture counts where cores are shared: it does not depend on who else was busy.

Classes and rows are drawn at random: nothing here depends on how good a model is.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from firstsight.encoders import ImageEncoder
from firstsight.encoders.backbone import LETTERS
from firstsight.methods import ESZSL
from firstsight.persistence.model_schema import BackboneUsed, Provenance
from firstsight.recognition import Recognizer

CLASSES, ATTRIBUTES = 200, 100
BOUNDARY = b"firstsight"


def random_model(backbone: str, folder: Path) -> Recognizer:
    """A model of a backbone's features that is as large as one of birds, and knows nothing."""
    encoder, random = ImageEncoder(backbone, cache=False), np.random.default_rng(0)
    names = [f"class {number}" for number in range(CLASSES)]
    columns = [f"trait {number}" for number in range(ATTRIBUTES)]
    table = pd.DataFrame(random.random((CLASSES, ATTRIBUTES)), index=names, columns=columns)
    rows = random.random((600, encoder.dim), dtype=np.float32)
    model = ESZSL().fit(rows, np.array(names)[np.arange(600) % 150], table)
    place = str(Path(backbone).resolve()) if Path(backbone).is_dir() else None
    used = BackboneUsed(name=encoder.backbone, fingerprint=encoder.fingerprint, dim=encoder.dim, path=place)
    made = Recognizer(model, Provenance(backbone=used), place)
    made.save(folder)
    return made


def pictures(count: int, side: int) -> list[bytes]:
    random, found = np.random.default_rng(1), []
    for _ in range(count):
        file = io.BytesIO()
        small = random.integers(0, 255, (side // 8, side // 8, 3), dtype=np.uint8)
        Image.fromarray(small).resize((side, side), Image.Resampling.BICUBIC).save(file, "JPEG")
        found.append(file.getvalue())
    return found


SERVE = "from firstsight.cli.main import main; main()"
CONSTANT = """
import socket, uvicorn
from firstsight.serving.security import BoundedConnection
from firstsight.serving.wire_schema import Json
answer = Json({"answers": [{"file": "picture", "class": "class 1", "top": [{"class": "class 1", "score": 0.5}] * 5}]})
async def app(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await answer(scope, receive, send)
listening = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
config = uvicorn.Config(app, http=BoundedConnection, log_level="warning", access_log=False, lifespan="off")
uvicorn.Server(config).run(sockets=[listening])
"""


class Server:
    """A server in a process of its own, on a free port of loopback; by default `firstsight serve`."""

    def __init__(self, model: Path | None = None, code: str = SERVE, remember: int = 0):
        limits = ["--rate", "0", "--queue", "1024", "--remember", str(remember)]
        words = [] if model is None else ["serve", str(model), "--port", "0", *limits]
        self.process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[-1].rstrip("/")
        self.port = int(self.url.rsplit(":", 1)[1])
        for _ in range(1200):
            try:
                self.get("/ready")
                return
            except OSError:  # not listening yet, or 503
                time.sleep(0.1)
        raise SystemExit("The server did not get ready.")

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return answer.read().decode()

    def batches(self) -> tuple[float, float]:
        """Pictures and batches so far."""
        text = self.get("/metrics")
        found = [re.search(rf"firstsight_batch_pictures_{what} (\S+)", text) for what in ("sum", "count")]
        return tuple(float(one[1]) for one in found)

    def memory(self) -> float:
        """MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def cpu(self) -> float:
        """Seconds so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def form(*pictures: bytes) -> bytes:
    """A whole request, ready to be sent: the client must cost little, for it takes time from the server."""
    parts = [('"why"', b"false"), *(('"pictures"; filename="x.jpg"', picture) for picture in pictures)]
    between = b"--%s\r\nContent-Disposition: form-data; name=%s\r\n\r\n%s\r\n"
    body = b"".join(between % (BOUNDARY, name.encode(), data) for name, data in parts) + b"--%s--\r\n" % BOUNDARY
    return _post("/api/predict", f"multipart/form-data; boundary={BOUNDARY.decode()}", body)


def bare(picture: bytes) -> bytes:
    """The same question with the picture as the body."""
    return _post("/api/predict/one?why=false", "image/jpeg", picture)


def _post(path: str, kind: str, body: bytes) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", f"Content-Type: {kind}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass
class Load:
    """What clients saw."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    took: float = 0.0

    def __iadd__(self, other: Load) -> Load:
        self.seconds += other.seconds
        self.errors += other.errors
        self.took += other.took
        return self


async def client(port: int, requests: list[bytes], seen: Load, go_on) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = 0
    while go_on():
        began = time.perf_counter()
        writer.write(requests[number % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(int(re.search(rb"content-length: (\d+)", head, re.I)[1]))
        seen.seconds.append(time.perf_counter() - began)
        if not head.startswith(b"HTTP/1.1 200"):
            seen.errors.append(body.decode())
        number += 1
    writer.close()


def load(port: int, requests: list[bytes], clients: int, seconds: float = 0, count: int = 0) -> Load:
    """Clients that ask again as soon as they are answered, for some seconds or some number of requests."""
    seen, began = Load(), time.perf_counter()
    started = 0

    def go_on() -> bool:
        nonlocal started
        started += 1
        return started <= count if count else time.perf_counter() - began < seconds

    async def crowd() -> None:
        turned = [requests[n % len(requests) :] + requests[: n % len(requests)] for n in range(clients)]
        done = await asyncio.gather(*[client(port, own, seen, go_on) for own in turned], return_exceptions=True)
        seen.errors += [repr(one) for one in done if isinstance(one, BaseException)]

    asyncio.run(crowd())
    seen.took = time.perf_counter() - began
    return seen


def in_process(recognise: Recognizer, files: list[bytes], size: int, seconds: float) -> Load:
    """Calls of the Recognizer with batches of a size, from files' bytes as the server gets them."""
    seen, began, number = Load(), time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        batch = [Image.open(io.BytesIO(files[(number + k) % len(files)])) for k in range(size)]
        started = time.perf_counter()
        recognise.predict(batch)
        seen.seconds += [time.perf_counter() - started] * size
        number += size
    seen.took = time.perf_counter() - began
    return seen


def warm_picture(server: Server, recognise: Recognizer, file: bytes, rounds: int) -> None:
    encoder = recognise.backbone.encoder
    prepared = encoder.prepare(file)
    encoder.encode([prepared])
    asked, whole, bare, own_cpu = [], [], [], 0.0
    load(server.port, [form(file)], 1, count=3)
    server_cpu = server.cpu()
    for _ in range(rounds):
        asked += load(server.port, [form(file)], 1, count=1).seconds
        began, spent = time.perf_counter(), time.process_time()
        encoder.encode([encoder.prepare(file)])
        whole.append(time.perf_counter() - began)
        own_cpu += time.process_time() - spent
        began = time.perf_counter()
        encoder.encode([prepared])
        bare.append(time.perf_counter() - began)
    one, all_of_it, forward = (1000 * float(np.median(times)) for times in (asked, whole, bare))
    cpu = 1000 * (server.cpu() - server_cpu) / rounds, 1000 * own_cpu / rounds
    print(
        f"one warm picture: {one:.1f} ms; the backbone on it {all_of_it:.1f} ms with decoding and resizing (ratio "
        f"{one / all_of_it:.2f}), {forward:.1f} ms from the resized picture (ratio {one / forward:.2f}); medians of "
        f"{rounds}, in turns\n"
        f"  CPU: {cpu[0]:.1f} ms, and {cpu[1]:.1f} ms with decoding and resizing (ratio {cpu[0] / cpu[1]:.2f})",
        flush=True,
    )


@dataclass
class Kind:
    """A kind of request: what its clients send, and how many pictures are in each."""

    name: str
    requests: list[bytes]
    pictures: int = 1


def kinds(files: list[bytes]) -> list[Kind]:
    many = [form(*files[k : k + 16]) for k in range(0, len(files), 16)]
    one, alone = [form(file) for file in files], [bare(file) for file in files]
    return [Kind("bodies", alone), Kind("forms of one", one), Kind("forms of 16", many, 16)]


def against_the_recognizer(server: Server, recognise: Recognizer, files: list[bytes], kind: Kind, given) -> None:
    clients, half = max(4, given.clients // kind.pictures), given.seconds / 2
    load(server.port, kind.requests, clients, seconds=1)
    served, own, spent, size = Load(), Load(), np.zeros(3), 1
    for _ in range(2):
        (pictures_before, batches_before), cpu, mine = server.batches(), server.cpu(), time.process_time()
        served += load(server.port, kind.requests, clients, seconds=half)
        spent[:2] += server.cpu() - cpu, time.process_time() - mine
        pictures_after, batches_after = server.batches()
        size = max(1, round((pictures_after - pictures_before) / (batches_after - batches_before)))
        mine = time.process_time()
        own += in_process(recognise, files, size, half)
        spent[2] += time.process_time() - mine
    pictures = kind.pictures * len(served.seconds)
    rate, alone = pictures / served.took, len(own.seconds) / own.took
    cpu = 1000 * spent / [pictures, pictures, len(own.seconds)]
    print(
        f"  {kind.name}: {clients} clients for {served.took:.0f} s: {pictures:,} pictures, "
        f"{len(served.errors)} errors, {rate:.1f} per second in batches of {size}; the Recognizer with such batches "
        f"{alone:.1f} per second ({100 * rate / alone:.0f} %)\n"
        f"    CPU per picture: server {cpu[0]:.2f} ms, clients {cpu[1]:.2f} ms, Recognizer {cpu[2]:.2f} ms "
        f"({100 * cpu[2] / cpu[0]:.0f} %)"
    )
    for what, times in (("a request", served.seconds), ("a batch in process", own.seconds)):
        p50, p99 = 1000 * np.percentile(times, [50, 99])
        print(f"    {what}: p50 {p50:.1f} ms, p99 {p99:.1f} ms", flush=True)
    for sentence in sorted(set(served.errors))[:3]:
        print(f"    error: {sentence}")


def floor(kind: Kind, given) -> None:
    """What the clients and uvicorn take for a server that has nothing to do."""
    server = Server(code=CONSTANT)
    load(server.port, kind.requests, given.clients, seconds=1)
    cpu, mine = server.cpu(), time.process_time()
    seen = load(server.port, kind.requests, given.clients, seconds=given.seconds / 6)
    took = 1000 * np.array([server.cpu() - cpu, time.process_time() - mine]) / len(seen.seconds)
    print(
        f"  {kind.name} to a constant answer: {len(seen.seconds) / seen.took:.0f} per second; CPU per request: server "
        f"{took[0]:.2f} ms, clients {took[1]:.2f} ms",
        flush=True,
    )
    server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", help="a folder with a vision model; left out, only letters are measured")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the same for the server and for what it is compared with
    with tempfile.TemporaryDirectory() as folder:
        if given.backbone:
            recognise = random_model(given.backbone, Path(folder) / "model")
            server = Server(Path(folder) / "model")
            files = pictures(64, 320)
            warm_picture(server, recognise, files[0], given.rounds)
            print(recognise.backbone.encoder.backbone)
            against_the_recognizer(server, recognise, files, kinds(files)[1], given)
            server.stop()
        recognise = random_model(LETTERS, Path(folder) / "letters")
        server = Server(Path(folder) / "letters")
        files = pictures(64, 64)
        print("letters")
        ways = kinds(files)
        for kind in ways:
            against_the_recognizer(server, recognise, files, kind, given)
        floor(ways[0], given)
        requests, tenth = ways[0].requests + ways[1].requests, given.requests // 10
        first = load(server.port, requests, given.clients, count=tenth)
        before = server.memory()
        rest = load(server.port, requests, given.clients, count=given.requests - tenth)
        after = server.memory()
        print(
            f"memory: {before:.0f} MiB after {tenth:,} requests, {after:.0f} MiB after {given.requests:,} "
            f"({100 * (after / before - 1):+.1f} %), {len(first.errors) + len(rest.errors)} errors"
        )
        server.stop()


if __name__ == "__main__":
    main()
