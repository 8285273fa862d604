"""Clients that send half of something, or take nothing: they end in time, and others are answered meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import socket
import threading
import time

import httpx
import pytest
import uvicorn

from firstsight.serving.app import make_app, server_config
from firstsight.serving.security import BACKLOG, OTHER_FILES, allowed_connections
from firstsight.serving.service import make_service, read_settings

HEAD = b"POST /api/predict/one HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
FORM = HEAD.replace(b"/one", b"") + b"Content-Type: multipart/form-data; boundary=x\r\n"
PATIENCE = 300  # seconds after which a test gives up; nothing here takes as long unless it is broken


class Running:
    """A server in a thread, on any free port."""

    def __init__(self, model, **settings):
        self.service = make_service(model, read_settings(**{"rate": 0.0, **settings}))
        self.server = uvicorn.Server(server_config(self.service.settings, make_app(self.service)))
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self.address = self.listening.getsockname()
        self.url = f"http://127.0.0.1:{self.address[1]}"
        self.thread = threading.Thread(target=self.server.run, args=([self.listening],))
        self.thread.start()
        self.sockets: list[socket.socket] = []

    def open(self, data: bytes = b"") -> socket.socket:
        """A connection that has sent this and nothing more."""
        line = socket.create_connection(self.address, timeout=PATIENCE)
        self.sockets.append(line)
        line.sendall(data)
        return line

    def refused(self, limit: str) -> float:
        return self.service.metrics.refusals.labels(limit)._value.get()

    def stop(self) -> None:
        for line in self.sockets:
            line.close()
        self.server.should_exit = True
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


@pytest.fixture
def running(saved):
    servers = []

    def start(**settings):
        servers.append(Running(saved, **settings))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def all_of(line: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while part := line.recv(65536):
            answer += part
    return answer


def status_of_answer(line: socket.socket) -> int:
    """Read one whole answer: headers and body may come in two segments, and one `recv` may get the first alone."""
    answer = http.client.HTTPResponse(line)
    answer.begin()
    answer.read()
    return answer.status


def wait_for(condition) -> bool:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(b"", b" 408 ", id="nothing"),
        pytest.param(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX", b" 408 ", id="half the headers"),
        pytest.param(b"\r\n\r\n", b" 408 ", id="empty lines"),
        pytest.param(HEAD + b"\r\n", b" 408 ", id="no body"),
        pytest.param(HEAD + b"\r\n" + bytes(999), b" 408 ", id="all but a byte of the body"),
        pytest.param(FORM + b"\r\n--x\r\n", b" 408 ", id="half a form"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n", b" 400 ", id="two lengths"),
        pytest.param(HEAD.replace(b"/api/predict/one", b"/nowhere") + b"\r\n", b" 404 ", id="no body, but answered"),
    ],
)
def test_half_a_request_ends_in_time(running, sent, status, caplog):
    server = running(timeout=1.0)
    answer = all_of(server.open(sent))  # until the server closes: without a limit, this would not return
    assert answer.startswith(b"HTTP/1.1" + status)
    if status == b" 408 ":
        head, body = answer.split(b"\r\n\r\n", 1)
        assert b"connection: close" in head.lower()
        assert json.loads(body)["error"].endswith("did not arrive in time.")
        assert server.refused("timeout") == 1
    state = server.server.server_state
    assert wait_for(lambda: not state.connections and not state.tasks)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_second_request_on_a_connection_has_its_own_time(running):
    server = running(timeout=1.0)
    whole = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    line = server.open(whole)
    for _ in range(4):  # longer in all than the limit of one request
        assert status_of_answer(line) == 200
        time.sleep(0.3)
        line.sendall(whole)
    assert status_of_answer(line) == 200
    line.sendall(b"GET /health HTTP/1.1\r\nX: ")
    assert all_of(line).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_keeps_coming_may_take_longer_than_the_limit(running, png):
    server = running(timeout=2.0)
    body = bytes(80_000)  # at 16 KiB a second worth five seconds
    line = server.open(HEAD.replace(b"1000", str(len(body)).encode()) + b"\r\n")
    for start in range(0, len(body), 10_000):
        line.sendall(body[start : start + 10_000])
        time.sleep(0.3)
    assert line.recv(100).startswith(b"HTTP/1.1 422 ")  # it came as a whole, and is no picture


def test_who_takes_no_answer_is_cut_off(running, monkeypatch):
    server = running(timeout=0.3)
    monkeypatch.setattr("firstsight.serving.routes.firstsight.__version__", "x" * (32 << 20))
    line = server.open()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.sendall(b"GET /api/model HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert wait_for(lambda: server.refused("timeout") == 1)
    assert wait_for(lambda: not server.server.server_state.connections)


def test_a_good_client_is_answered_while_half_open_connections_take_all_the_room(running):
    """The 40 bytes of the report, from the same address, three times as often as there is room; nothing times out."""
    server = running(timeout=600, connections=16)
    half = b"GET /api/classes HTTP/1.1\r\nHost: 127.0.0."
    held = [server.open(half) for _ in range(50)]
    assert len(server.server.server_state.connections) <= 16
    for _ in range(5):
        assert httpx.get(f"{server.url}/api/classes", timeout=PATIENCE).status_code == 200
        held.append(server.open(half))
    assert server.refused("connections") >= 50 - 16
    assert all_of(held[0]).startswith(b"HTTP/1.1 503 ")  # the oldest went first, and was told


def test_requests_that_are_being_answered_are_not_cut_off_for_others(running, monkeypatch):
    server = running(timeout=600, connections=8)
    free, entered = threading.Event(), threading.Semaphore(0)
    work = server.service.served.current

    def slow():
        entered.release()
        free.wait(PATIENCE)
        return work()

    monkeypatch.setattr(server.service.served, "current", slow)
    answers = []

    def ask():
        answers.append(httpx.get(f"{server.url}/api/classes", timeout=PATIENCE).status_code)

    clients = [threading.Thread(target=ask) for _ in range(8)]
    for one in clients:
        one.start()
    for _ in clients:
        assert entered.acquire(timeout=PATIENCE)
    refused = all_of(server.open())
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1" in refused
    free.set()
    for one in clients:
        one.join()
    assert answers == [200] * 8


def test_a_half_sent_body_does_not_stop_the_server_from_stopping(saved):
    server = Running(saved, timeout=0.3)
    line = server.open(HEAD + b"\r\n")
    assert wait_for(lambda: server.server.server_state.tasks)
    server.server.should_exit = True
    assert all_of(line)
    server.stop()


def test_connections_stay_below_the_number_of_files_that_may_be_open(monkeypatch):
    resource = pytest.importorskip("resource")
    limits = [1024, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: limits.__setitem__(slice(None), new))
    assert allowed_connections(512) == 512
    assert limits == [1024, 4096]
    assert allowed_connections(2000) == 2000
    assert limits == [2000 + BACKLOG + OTHER_FILES, 4096]  # the soft limit, which a process may raise
    assert allowed_connections(10_000) == 4096 - BACKLOG - OTHER_FILES
    limits[:] = [resource.RLIM_INFINITY, resource.RLIM_INFINITY]
    assert allowed_connections(10_000) == 10_000
    limits[:] = [100, 100]
    assert allowed_connections(512) > 0
