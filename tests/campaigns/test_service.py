"""Crowds of clients: many who teach a model in memory at once, and a thousand who send half a request."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.request

import pytest

from campaigns.children import OK, TIMEOUT, TRACEBACK, Outcome, tell, worrying
from firstsight.evaluation import fit_on
from firstsight.methods import ESZSL
from firstsight.persistence.model_folder import save
from firstsight.recognition import Recognizer
from serving.small_server import Server, teach_at_once

HALF = {
    "40 bytes of headers": b"GET /api/classes HTTP/1.1\r\nHost: 127.0.0.",
    "nothing": b"",
    "headers without their body": b"POST /api/classes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Firstsight: 1\r\n"
    b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
}
REQUESTS = 20  # of the good client, to each of two paths
CONNECTIONS = 1020  # nearly all files that a process may usually open
TIMEOUT_SECONDS = 10


@pytest.mark.campaign
def test_classes_that_many_people_teach_to_a_model_in_memory(small):
    from starlette.testclient import TestClient

    from firstsight.serving import create_app

    recognizer = Recognizer(fit_on(ESZSL(feature_penalty=0.02), small))
    with TestClient(create_app(recognizer, rate=0.0), base_url="http://127.0.0.1") as client:
        kept, undone, statuses = teach_at_once(client, people=16, classes=30)
    wrong = (set(recognizer.classes["class"]) - set(small.class_names)) ^ kept
    failed = [status for status in statuses if status not in (200, 201)]
    kinds = [OK] * (len(statuses) - len(failed) - len(wrong)) + [TRACEBACK] * (len(failed) + len(wrong))
    outcomes = [Outcome(number, kind) for number, kind in enumerate(kinds)]
    tell(f"16 people teach {len(kept) + len(undone)} classes in memory and undo {len(undone)}", outcomes)
    assert not worrying(outcomes), f"lost or back again: {sorted(wrong)}; statuses: {sorted(set(failed))}"
    assert len(kept) + len(undone) == 16 * 30


@pytest.mark.campaign
@pytest.mark.parametrize("kind", HALF)
def test_half_open_connections(small, tmp_path, kind):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * CONNECTIONS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(2 * CONNECTIONS, hard), hard))  # for the attacker
    folder = tmp_path / "model"
    save(fit_on(ESZSL(feature_penalty=0.02), small), folder)
    with Server(folder, "--timeout", str(TIMEOUT_SECONDS)) as server:
        server.wait()
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (1024, 1024))
        outcomes = attack(server.url, HALF[kind])
        server.stop(close=False)
        log = server.process.stderr.read()
    tell(f"{CONNECTIONS:,} connections with {kind}", outcomes)
    assert not worrying(outcomes)
    assert "Traceback" not in log


def attack(url: str, data: bytes) -> list[Outcome]:
    """Hold connections open, new ones for those that are closed; a good client asks meanwhile, then all must end."""
    address = (url.removeprefix("http://").split(":")[0], int(url.rsplit(":", 1)[1]))
    held: list[socket.socket] = []
    over = threading.Event()

    def attacker() -> None:
        while not over.is_set():
            held[:] = [line for line in held if not _is_closed(line)]
            while len(held) < CONNECTIONS and not over.is_set():
                with contextlib.suppress(OSError):
                    line = socket.create_connection(address, timeout=30)
                    line.sendall(data)
                    held.append(line)
            over.wait(0.2)

    thread = threading.Thread(target=attacker)
    thread.start()
    time.sleep(2)  # until the attack is under way
    kinds = [_ask(f"{url}{path}") for path in ("/health", "/api/classes") * REQUESTS]
    over.set()
    thread.join()
    until = time.monotonic() + 6 * TIMEOUT_SECONDS
    while held and time.monotonic() < until:
        held[:] = [line for line in held if not _is_closed(line)]
        time.sleep(0.1)
    kinds += [TIMEOUT] * len(held) + [OK] * (CONNECTIONS - len(held))
    for line in held:
        line.close()
    return [Outcome(number, kind) for number, kind in enumerate(kinds)]


def _ask(url: str) -> str:
    try:
        urllib.request.urlopen(url, timeout=30).close()
        return OK
    except OSError:  # refused, cut off, or too late
        return TIMEOUT


def _is_closed(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        while data := line.recv(4096):
            del data
    except BlockingIOError:
        return False
    except OSError:
        pass
    line.close()
    return True
