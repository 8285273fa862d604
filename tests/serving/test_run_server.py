"""The server as a process: it stops gracefully, keeps what it acknowledged when it is killed, has several workers."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import socket
import threading
import time

import httpx
import numpy as np
import pytest
from PIL import Image

from firstsight.recognition import Recognizer
from serving.small_server import CHANGE, LETTERS, as_png, log_of


def names_in(model) -> set[str]:
    return set(Recognizer.load(model).classes["class"].tolist())


def teach_until_killed(server, word: str, after: float, first: int) -> tuple[set[str], dict[int, str]]:
    """Two people teach and correct until the server is killed; the classes and corrections that were acknowledged.

    `first` numbers their pictures, each of which differs from all others.
    """
    acknowledged: set[str] = set()
    corrected: dict[int, str] = {}

    def person(who):
        with httpx.Client(base_url=server.url, headers=CHANGE, timeout=300) as client:
            for number in range(10_000):
                name = f"{word} {who} {number}"
                try:
                    answer = client.post("/api/classes", json={"name": name, "rest": 0.5})
                except httpx.HTTPError:
                    return
                if answer.status_code == 201:
                    acknowledged.add(name)
                content, label = numbered_picture(first + 2 * number + who), LETTERS[number % len(LETTERS)]
                try:
                    answer = client.post("/api/corrections", files={"picture": content}, data={"class": label})
                except httpx.HTTPError:
                    return
                if answer.status_code == 201:
                    corrected[int.from_bytes(hashlib.sha256(content).digest()[:8], "little")] = label

    people = [threading.Thread(target=person, args=(who,)) for who in range(2)]
    for one in people:
        one.start()
    until = time.monotonic() + 300
    while min(len(acknowledged), len(corrected)) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(after)
    server.stop(signal.SIGKILL)
    for one in people:
        one.join()
    return acknowledged, corrected


def numbered_picture(number: int) -> bytes:
    pixels = np.full((24, 24), 255, dtype=np.uint8)
    pixels[4:20, 4:20] = np.random.default_rng(number).integers(0, 2, (16, 16)) * 255
    return as_png(Image.fromarray(pixels))


def kill(server, model, times: int) -> None:
    taught: set[str] = set()
    learned: dict[int, str] = {}
    for number in range(times):
        running = server(model)
        there = {one["class"] for one in httpx.get(f"{running.url}/api/classes", timeout=300).json()["classes"]}
        assert taught <= there, f"lost after {number} kills: {taught - there}"
        new, corrected = teach_until_killed(running, f"kill {number}", 0.037 * number % 0.5, first=10_000 * number)
        taught, learned = taught | new, learned | corrected
        assert taught <= names_in(model)
        assert learned.items() <= log_of(model).items()
    assert min(len(taught), len(learned)) >= 2 * times
    assert [path.name for path in model.parent.iterdir() if not path.name.startswith(".model")] == ["model"]


def test_a_graceful_stop_answers_what_was_accepted_and_a_killed_server_has_what_it_acknowledged(server, model, png):
    running = server(model)
    _head_without_end(running.url)
    answers: list[int] = []
    client = httpx.Client(base_url=running.url, timeout=300)  # threads may share one

    def ask():
        files = [("pictures", (f"{number}.png", png("é"))) for number in range(32)]
        answers.append(client.post("/api/predict", files=files).status_code)

    people = [threading.Thread(target=ask) for _ in range(4)]
    for one in people:
        one.start()
    # Until all are accepted: what waits in the server and what has been answered is all that was asked.
    waiting = re.compile(r"^firstsight_waiting_pictures (\S+)", re.MULTILINE)
    while 32 * len(answers) + float(waiting.search(client.get("/metrics").text)[1]) < 32 * 4:
        time.sleep(0.005)
    assert running.stop() in (0, -signal.SIGTERM)
    for one in people:
        one.join()
    assert answers == [200] * 4  # nobody was cut off
    kill(server, model, 2)


def _head_without_end(url: str) -> None:
    """Headers that go on and on are refused, before they fill the memory."""
    host, port = url.removeprefix("http://").split(":")
    closed = contextlib.suppress(ConnectionError)  # with something unread in it
    with closed, socket.create_connection((host, int(port)), timeout=300) as line:
        line.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-More: xxxxxxxxxx\r\n" * 5000)
        assert b" 400 " in line.recv(100)


@pytest.mark.campaign
def test_twenty_kills_lose_nothing_that_was_acknowledged(server, model):
    kill(server, model, 20)


@pytest.mark.slow
def test_several_workers_see_each_others_classes_and_share_their_counts(server, model, png):
    running = server(model, "--workers", "3")
    for number in range(5):
        body = {"name": f"taught {number}", "rest": 0.5}
        assert httpx.post(f"{running.url}/api/classes", json=body, headers=CHANGE, timeout=300).status_code == 201
        for _ in range(12):  # a new connection each time, so each may meet another worker
            found = httpx.get(f"{running.url}/api/classes", timeout=300).json()["classes"]
            assert f"taught {number}" in {one["class"] for one in found}
    text = httpx.get(f"{running.url}/metrics", timeout=300).text
    assert 'firstsight_requests_total{method="GET",route="/api/classes",status="200"} 60.0' in text
    assert running.stop() in (0, -signal.SIGTERM)


def test_workers_whose_imports_take_long_are_waited_for(saved, monkeypatch):
    """uvicorn kills a worker that does not answer in time; a new one would take as long, so none would ever start."""
    from firstsight.serving import app as run_server
    from firstsight.serving import serve

    configs = []

    class Supervisor:
        def __init__(self, config, sockets):
            configs.append(config)
            sockets[0].close()

        def run(self):
            pass

    monkeypatch.setattr(run_server, "Multiprocess", Supervisor)
    monkeypatch.setattr(os, "environ", {**os.environ})
    serve(saved, port=0, workers=2)
    assert configs[0].timeout_worker_healthcheck >= 120


@pytest.mark.slow
def test_the_demo_answers_a_picture_from_nothing_in_a_minute(server, tmp_path, png):
    before = os.times()
    running = server("--demo", FIRSTSIGHT_CACHE=str(tmp_path / "cache"))
    samples = httpx.get(f"{running.url}/api/samples", timeout=300).json()["samples"]
    picture = httpx.get(running.url + samples[0]["url"], timeout=300).content
    answer = httpx.post(f"{running.url}/api/predict", files={"pictures": ("x.png", picture)}, timeout=300).json()
    assert answer["answers"][0]["top"]
    assert any(not one["known"] for one in samples)
    assert httpx.get(f"{running.url}/api/measure", timeout=300).json()["figures"]["h"] > 0.7
    running.stop()
    after = os.times()  # of the processor: others may use the machine, too
    assert after.children_user + after.children_system - before.children_user - before.children_system < 60


def test_serve_says_what_is_wrong_before_it_starts(tmp_path, saved, capsys):
    from firstsight.errors import BadInput
    from firstsight.serving import serve

    for given, words in [
        ({}, "--demo"),
        ({"model": tmp_path / "none"}, "not a model folder"),
        ({"model": "m", "demo": True}, "not both"),
        ({"model": "m", "port": 99999}, "port"),
        ({"model": "m", "host": "0.0.0.0"}, "token"),
        ({"model": "m", "ratee": 3.0}, "ratee"),
        ({"model": "m", "device": "nowhere"}, "There is no device 'nowhere'"),
    ]:
        with pytest.raises(BadInput, match=words):
            serve(**given)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(BadInput, match="another --port"):
            serve(saved, port=taken.getsockname()[1])
    with pytest.raises(BadInput, match="samples"):
        serve(saved, port=0, workers=2, samples=str(tmp_path / "samples.csv"))
    assert capsys.readouterr().out == ""


def test_worker_processes_are_told_to_import_nothing_from_the_current_folder(saved, monkeypatch):
    from firstsight.serving import app as run_server
    from firstsight.serving import serve

    class Supervisor:
        def __init__(self, config, sockets):
            sockets[0].close()

        def run(self):
            told.append(os.environ.get("PYTHONSAFEPATH"))

    told: list[str | None] = []
    monkeypatch.setattr(run_server, "Multiprocess", Supervisor)
    monkeypatch.setattr(os, "environ", {**os.environ})
    serve(saved, port=0, workers=2)
    assert told == ["1"]
