"""The log of a server: every request on demand, as text or as JSON, and nothing that can forge a line."""

from __future__ import annotations

import json
import logging
import re
import signal
import sys
import time

import httpx
import pytest

from firstsight._io.terminal import logger
from firstsight.serving.monitoring import server_log
from serving.small_server import Server

TOKEN = "a token of some length"
SPLIT = "first\nsecond\r\t\x1b[31m\x7f\x85\u2028\u202elast"


@pytest.fixture
def lines(capsys):
    """`lines()` → what was logged since the last call, line by line."""
    return lambda: capsys.readouterr().err.split("\n")[:-1]


@pytest.fixture
def ready(serving):
    """`ready(**settings)` → a client of a server that has nothing more to say about its start."""

    def start(**settings):
        client, until = serving(**settings), time.monotonic() + 300
        while client.get("/ready").status_code != 200 and time.monotonic() < until:
            time.sleep(0.01)
        return client

    return start


def test_requests_are_logged_with_v_and_show_no_secret(ready, lines):
    client = ready(token=TOKEN)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with server_log("text", "info"):
        client.get("/api/model", headers=headers)
    assert lines() == []
    with server_log("text", "debug"):
        client.get("/api/classes/description", params={"name": "é", "secret": "hidden"}, headers=headers)
        client.get("/nowhere", headers={"Authorization": "Bearer hidden", "Cookie": "firstsight-session=hidden"})
    first, second = lines()
    assert re.fullmatch(r"\S+Z testclient GET /api/classes/description 200 [\d.]+ ms", first)
    assert re.fullmatch(r"\S+Z testclient GET /nowhere 401 [\d.]+ ms", second)
    for line in (first, second):
        assert TOKEN not in line
        assert "hidden" not in line


def test_json_holds_the_parts_of_a_request(ready, lines):
    client = ready()
    with server_log("json", "debug"):
        client.post("/api/classes?secret=hidden", json={})
    (line,) = lines()
    entry = json.loads(line)
    assert entry.items() >= {"client": "testclient", "method": "POST", "path": "/api/classes", "status": 403}.items()
    assert entry["level"] == "debug"
    assert entry["milliseconds"] > 0
    assert "hidden" not in line


@pytest.mark.parametrize("format", ["text", "json"])
def test_text_from_outside_stays_within_its_line(ready, lines, format):
    client = ready()
    with server_log(format, "debug"):
        client.get("/first%0Asecond%0D%09%1B%5B31m%7F%C2%85%E2%80%A8%E2%80%AElast" + "x" * 5000)
        logger.warning("%s", SPLIT)
        logging.getLogger("another library").error(SPLIT)
        try:
            raise ValueError(SPLIT)
        except ValueError:
            logger.exception("It failed:\n%s", SPLIT)
    found = lines()
    text = "".join(found)
    assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u202e]", text)
    assert len(found[0]) < 1000
    if format == "json":
        entries = [json.loads(line) for line in found]
        assert [entry["level"] for entry in entries] == ["debug", "warning", "error", "error"]
        assert entries[1]["message"] == SPLIT  # as it was, for whoever reads it back
        assert "ValueError" in entries[3]["traceback"]
    else:
        # A line of the log begins with its time; what a traceback holds is indented, so it cannot pass for one.
        assert [line.startswith("20") for line in found[:4]] == [True] * 4
        assert all(line.startswith("    ") for line in found[4:])
        assert "first\\nsecond" in found[1]


def test_the_log_is_as_before_afterwards():
    before = logger.handlers[:], logger.propagate, logger.level, logging.getLogger().handlers[:]
    with server_log("json", "debug"):
        assert logger.isEnabledFor(logging.DEBUG)
    assert before == (logger.handlers[:], logger.propagate, logger.level, logging.getLogger().handlers[:])


def test_every_line_of_a_server_is_json_from_its_start_to_its_end(saved):
    with Server(saved, "--log-format", "json", before=["-v"]) as server:
        server.wait()
        assert json.loads(server.first_line)["url"].rstrip("/") == server.url
        assert httpx.get(f"{server.url}/api/model?secret=hidden", timeout=60).status_code == 200
        server.stop(signal.SIGTERM, close=False)
        entries = [json.loads(line) for line in server.process.stderr]
    assert any(entry.get("path") == "/api/model" and entry["client"] == "127.0.0.1" for entry in entries)
    assert any("loaded" in entry["message"] for entry in entries)
    assert "hidden" not in json.dumps(entries)


def test_what_keeps_a_server_from_starting_is_json_too(tmp_path, monkeypatch, capsys):
    from firstsight.cli.main import main

    monkeypatch.setattr(sys, "argv", ["firstsight", "serve", str(tmp_path / "none"), "--log-format", "json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    entry = json.loads(err)
    assert entry["level"] == "error"
    assert "not a model folder" in entry["message"]
