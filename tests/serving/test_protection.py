"""Who may ask what, how much and how often; and the headers of every answer."""

from __future__ import annotations

import time

import pytest

from firstsight.errors import BadInput
from firstsight.serving.security import GUESSES_AT_ONCE, Rates, share_rates
from firstsight.serving.service import read_settings
from serving.small_server import CHANGE

TOKEN = "a token of some length"
NEW = {"name": "new", "attributes": {"base e": 1}, "rest": 0}


def test_every_answer_has_the_headers_that_keep_a_browser_in_bounds(steady):
    for path in ("/", "/docs", "/api/model", "/page/api.css", "/nowhere", "/openapi.json"):
        headers = steady.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "access-control-allow-origin" not in headers


def test_the_pages_load_nothing_from_another_host(steady):
    for path in ("/", "/docs"):
        text = steady.get(path).text
        assert text.lower().startswith("<!doctype html>")
        assert 'src="http' not in text
        assert "<script>" not in text
    assert "https://" not in steady.get("/page/api.css").text


def test_the_server_is_known_by_the_names_of_this_machine_and_no_other(steady):
    for name in ("127.0.0.1", "127.0.0.1:8000", "localhost:1", "[::1]:80", "LOCALHOST"):
        assert steady.get("/health", headers={"Host": name}).status_code == 200
    for name in ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "", "a b", "[::1", "::1"):
        answer = steady.get("/api/model", headers={"Host": name})
        assert answer.status_code == 400, name
        assert "--allow-host" in answer.json()["error"]


def test_another_name_can_be_allowed(serving):
    client = serving(allow_hosts=["birds.example"])
    assert client.get("/health", headers={"Host": "birds.example"}).status_code == 200


FOREIGN = [
    {},
    {"X-Firstsight": "0"},
    {**CHANGE, "Origin": "http://evil.example"},
    {**CHANGE, "Origin": "null"},
    {**CHANGE, "Origin": "http://[::1"},
    {**CHANGE, "Origin": "http://127.0.0.1:9"},  # another port is another site's server
    {**CHANGE, "Sec-Fetch-Site": "cross-site"},
    {**CHANGE, "Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("path", ["/api/classes", "/api/classes/remove", "/api/classes/undo", "/api/confirm"])
def test_a_page_of_another_site_cannot_teach(steady, path):
    for headers in FOREIGN:
        assert steady.post(path, json=NEW, headers=headers).status_code == 403
    assert "new" not in steady.get("/api/classes").text


def test_a_page_of_another_site_cannot_have_pictures_looked_at_or_read_answers(steady, png):
    files = {"pictures": ("x.png", png("é"))}
    assert steady.post("/api/predict", files=files, headers={"Origin": "http://evil.example"}).status_code == 403
    ask_first = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    asked = steady.options("/api/classes", headers=ask_first)
    assert asked.status_code == 403
    assert not [name for name in asked.headers if name.startswith("access-control")]


def test_our_own_page_can_teach(client):
    headers = {**CHANGE, "Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/api/classes", json=NEW, headers=headers).status_code == 201


def test_with_a_token_nothing_but_the_page_and_the_health_is_open(serving):
    client = serving(token=TOKEN)
    for path in ("/", "/page/api.css", "/health", "/ready"):
        assert client.get(path).status_code == 200
    closed = ["/api/model", "/api/classes", "/api/classes.csv", "/api/map", "/metrics", "/docs", "/openapi.json", "/x"]
    for path in closed:
        answer = client.get(path)
        assert answer.status_code == 401, path
        assert "token" in answer.json()["error"]
    for wrong in (f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer ", "Bearer é"):
        assert client.get("/api/model", headers={"Authorization": wrong.encode("latin-1")}).status_code == 401
    assert client.get("/api/model", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_a_browser_trades_the_token_for_a_cookie_that_scripts_cannot_read(serving):
    client = serving(token=TOKEN)
    assert client.post("/api/session", headers={"Authorization": "Bearer wrong"}).status_code == 401
    done = client.post("/api/session", headers={"Authorization": f"Bearer {TOKEN}"})
    assert done.status_code == 204
    cookie = done.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert client.get("/api/model").status_code == 200  # the client keeps its cookies
    client.cookies.clear()
    assert client.get("/api/model", headers={"Cookie": "firstsight-session=0"}).status_code == 401


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/model"),
        ("GET", "/metrics"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("GET", "/report/index.html"),
        ("GET", "/no such page"),
        ("POST", "/api/predict/one"),
        ("POST", "/api/session"),
    ],
)
def test_wrong_tokens_are_limited_on_every_route(serving, monkeypatch, method, path):
    now = [100.0]
    monkeypatch.setattr("firstsight.serving.security.time.monotonic", lambda: now[0])
    client = serving(token=TOKEN)
    for _ in range(GUESSES_AT_ONCE):
        assert client.request(method, path, headers=bearer("a wrong one")).status_code == 401
    for token in ("a wrong one", TOKEN):  # no longer compared, so that nothing can be learned
        refused = client.request(method, path, headers=bearer(token))
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        assert "wrong tokens" in refused.json()["error"]
    assert client.get("/health", headers=bearer("a wrong one")).status_code == 200
    now[0] += 1.0  # as Retry-After says
    assert client.get("/api/model", headers=bearer(TOKEN)).status_code == 200
    assert client.request(method, path, headers=bearer("a wrong one")).status_code == 401
    assert client.request(method, path, headers=bearer("a wrong one")).status_code == 429


def test_neither_right_tokens_nor_missing_ones_nor_a_session_are_limited_as_wrong_ones(serving, monkeypatch):
    monkeypatch.setattr("firstsight.serving.security.time.monotonic", lambda: 100.0)
    client = serving(token=TOKEN)
    for _ in range(GUESSES_AT_ONCE + 5):
        assert client.get("/api/model", headers=bearer(TOKEN)).status_code == 200
        assert client.get("/api/model").status_code == 401
    assert client.post("/api/session", headers=bearer(TOKEN)).status_code == 204
    for _ in range(GUESSES_AT_ONCE + 5):
        client.post("/api/session", headers=bearer("a wrong one"))
    assert client.post("/api/session", headers=bearer(TOKEN)).status_code == 429
    assert client.get("/api/model").status_code == 200  # by its cookie, which nobody can guess
    text = client.get("/metrics").text
    assert 'firstsight_refused_total{limit="token"} 6.0' in text


def test_workers_count_wrong_tokens_together(serving, tmp_path, monkeypatch):
    share_rates(str(tmp_path))
    monkeypatch.setattr("firstsight.serving.security.time.monotonic", lambda: 100.0)
    monkeypatch.setattr("firstsight.serving.security.SHARED", "FIRSTSIGHT_TEST_SHARED")
    monkeypatch.setenv("FIRSTSIGHT_TEST_SHARED", str(tmp_path))
    workers = [serving(token=TOKEN), serving(token=TOKEN)]
    statuses = [
        workers[number % 2].get("/metrics", headers=bearer("wrong")).status_code
        for number in range(GUESSES_AT_ONCE + 1)
    ]
    assert statuses == [401] * GUESSES_AT_ONCE + [429]


def test_a_server_that_others_can_reach_needs_a_token(monkeypatch):
    monkeypatch.delenv("FIRSTSIGHT_TOKEN", raising=False)
    for host in ("0.0.0.0", "192.168.0.7", "::"):
        with pytest.raises(BadInput, match="token"):
            read_settings(host=host)
    with pytest.raises(BadInput, match="16 or more"):
        read_settings(host="0.0.0.0", token="short")
    assert read_settings(host="0.0.0.0", token=TOKEN).hosts == {"127.0.0.1", "localhost", "::1"}
    monkeypatch.setenv("FIRSTSIGHT_TOKEN", TOKEN)
    assert read_settings(host="0.0.0.0").token == TOKEN


def test_a_large_body_is_refused_whether_it_says_its_length_or_not(serving):
    client = serving(upload_bytes=2048)
    size = client.service.settings.request_bytes + 1
    said = client.post("/api/predict", content=bytes(size), headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert said.status_code == 413

    def pieces():
        yield b'--x\r\nContent-Disposition: form-data; name="pictures"; filename="a"\r\n\r\n'
        for _ in range(size // 65536 + 2):
            yield bytes(65536)

    unsaid = client.post("/api/predict", content=pieces(), headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert unsaid.status_code == 413
    assert "larger" in unsaid.json()["error"]


def test_a_picture_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(steady):
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    )
    answer = steady.post("/api/predict", files={"pictures": ("b.png", bomb)})
    assert answer.status_code == 422
    assert "limit" in answer.json()["error"]


def test_who_asks_too_often_waits(serving):
    client = serving(rate=1.0)
    assert [client.get("/api/classes").status_code for _ in range(4)] == [200] * 4
    # The fifth, or a later one where a busy machine takes its time: one more is allowed each second.
    refused = next(answer for answer in (client.get("/api/classes") for _ in range(100)) if answer.is_error)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["error"].endswith(".")
    assert client.get("/health").status_code == 200


def test_rates_are_counted_by_client_and_forgotten_in_time(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("firstsight.serving.security.time.monotonic", lambda: now[0])
    rates = Rates(2.0)
    assert [rates.wait("a") for _ in range(8)] == [0.0] * 8
    assert rates.wait("a") == pytest.approx(0.5)
    assert rates.wait("b") == 0.0
    now[0] += 0.5
    assert rates.wait("a") == 0.0
    assert rates.wait("a") > 0


def test_workers_count_a_client_together(tmp_path, monkeypatch):
    monkeypatch.setattr("firstsight.serving.security.time.monotonic", lambda: 100.0)
    share_rates(str(tmp_path))
    workers = [Rates(2.0, str(tmp_path)) for _ in range(2)]
    assert [workers[number % 2].wait("a") for number in range(8)] == [0.0] * 8
    assert all(worker.wait("a") > 0 for worker in workers)
    assert workers[1].wait("b") == 0.0
    assert Rates(2.0, str(tmp_path / "of somebody else")).wait("a") == 0.0


def test_when_too_many_pictures_wait_the_next_is_sent_away_with_a_sentence(serving, png):
    import threading

    client = serving(queue=2, pictures=4)
    free, entered = threading.Event(), threading.Event()
    batcher = client.service.queue.batcher
    work = batcher.work

    def slow(question, things):
        entered.set()
        assert free.wait(300)
        return work(question, things)

    batcher.work = slow
    first = threading.Thread(
        target=client.post, args=("/api/predict",), kwargs={"files": {"pictures": ("a", png("é"))}}
    )
    first.start()
    assert entered.wait(300)
    try:
        answer = client.post("/api/predict", files=[("pictures", ("a", png("é")))] * 2)
        assert answer.status_code == 429
        assert "retry-after" in answer.headers
        assert "waiting" in answer.json()["error"]
    finally:
        free.set()
        first.join()


def test_files_of_the_page_are_known_by_name_alone(steady):
    for path in ("/page/../service.py", "/page/%2e%2e/service.py", "/page//etc/passwd", "/page/__init__.py", "/page/"):
        assert steady.get(path).status_code == 404
    assert steady.get("/page/api.css").headers["content-type"].startswith("text/css")


def test_errors_are_one_sentence_of_json(steady):
    for answer in (steady.get("/nowhere"), steady.put("/api/classes"), steady.get("/api/predict")):
        assert answer.status_code in (403, 404, 405)
        assert list(answer.json()) == ["error"]
        assert answer.json()["error"].endswith(".")


def test_a_bug_is_told_without_its_details(client, monkeypatch):
    def broken(self):
        raise RuntimeError("secret detail")

    while client.get("/ready").status_code != 200:
        time.sleep(0.01)
    monkeypatch.setattr("firstsight.serving.served_model.ServedModel.current", broken)
    answer = client.get("/api/classes")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert list(answer.json()) == ["error"]
