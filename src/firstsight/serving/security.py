"""Access control: hosts, tokens, sizes, rate limits, response headers, bounds of connections."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import math
import mmap
import os
import secrets
import struct
import time
from collections import Counter
from enum import Enum
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from firstsight._io.terminal import logger
from firstsight.serving.monitoring import SHARED, ServiceMetrics, log_request
from firstsight.serving.service import Settings
from firstsight.serving.wire_schema import Json, Refusal

BURST = 4  # seconds' worth of requests that a client may make at once
_KEY = 16  # bytes before the buckets: where a client's bucket is, nobody outside can tell
_BUCKET = struct.Struct("dd")  # how full it was, and when
_BUCKETS = 1 << 16  # two clients share one now and then; memory stays a MiB, however many there are
_SIZE = _KEY + _BUCKETS * _BUCKET.size
REQUESTS, WRONG_TOKENS = "requests", "wrong-tokens"  # what is counted, and the name of the file that workers share


class Rates:
    """Each client fills a bucket that empties at `rate` per second; workers share the buckets by a file in `folder`.

    There is no lock: where two workers count the same client at the same instant, one request may go uncounted.
    """

    def __init__(self, rate: float, folder: str | None = None, what: str = REQUESTS, burst: float = BURST):
        self.rate, self.most = rate, max(burst * rate, 1.0)
        shared = None if folder is None else Path(folder) / what
        if shared is not None and shared.is_file():
            with open(shared, "r+b") as file:
                self._memory = mmap.mmap(file.fileno(), _SIZE)
        else:
            self._memory = mmap.mmap(-1, _SIZE)
            self._memory[:_KEY] = os.urandom(_KEY)

    def wait(self, client: str, count: bool = True) -> float:
        """Seconds until this client may ask; 0 if at once, which is then counted unless `count` is False."""
        if not self.rate:
            return 0.0
        digest = hashlib.blake2b(client.encode(), key=self._memory[:_KEY], digest_size=4).digest()
        offset = _KEY + int.from_bytes(digest, "little") % _BUCKETS * _BUCKET.size
        now = time.monotonic()  # one clock for all processes of a machine
        full, then = _BUCKET.unpack_from(self._memory, offset)
        full = max(0.0, full - max(0.0, now - then) * self.rate)
        allowed = full + 1 <= self.most
        _BUCKET.pack_into(self._memory, offset, full + (allowed and count), now)
        return 0.0 if allowed else (full + 1 - self.most) / self.rate


def share_rates(folder: str) -> None:
    """Make the files that the workers share, before they start."""
    for what in (REQUESTS, WRONG_TOKENS):
        (Path(folder) / what).write_bytes(os.urandom(_KEY) + bytes(_SIZE - _KEY))


PUBLIC = ("/", "/favicon.ico", "/health", "/ready")  # and /page/…: no secret is in them
SESSION = "/api/session"  # where the token itself is traded for a cookie
# Wrong tokens of one client: ten at once, then one per second. While they are used up no token of that client is
# compared, or guessing would go on at full speed; a second after the last guess the right one is let in again.
GUESSES_PER_SECOND, GUESSES_AT_ONCE = 1.0, 10
COOKIE = "firstsight-session"
CHANGES = ("/api/classes", "/api/confirm", "/api/corrections")
REPORT = "/report/"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
# The report is one self-contained page, whose drawings carry their own styles, and which our page shows in a frame.
REPORT_POLICY = (
    PAGE_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
    .replace("font-src 'self'", "font-src 'self' data:")
    .replace("frame-ancestors 'none'", "frame-ancestors 'self'")
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "geolocation=(), microphone=()",
}
_PAGE_HEADERS, _REPORT_HEADERS = (
    [(name.lower().encode(), value.encode()) for name, value in (HEADERS | policy).items()]
    for policy in (
        {"Content-Security-Policy": PAGE_POLICY},
        {"Content-Security-Policy": REPORT_POLICY, "X-Frame-Options": "SAMEORIGIN"},
    )
)


class Protection:
    """The ASGI application around the routes. A request is checked by its headers before its body is read."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: ServiceMetrics):
        self.app, self.settings, self.metrics = app, settings, metrics
        self.rates = Rates(settings.rate, os.environ.get(SHARED))
        self.guesses = Rates(GUESSES_PER_SECOND, os.environ.get(SHARED), WRONG_TOKENS, GUESSES_AT_ONCE)
        self.session = None if settings.token is None else session_of(settings.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _protect(message, scope["path"])
            await send(message)

        try:
            self._check(scope, Headers(scope=scope))
            await self.app(scope, self._bounded(receive), answer)
        except Refusal as refusal:
            sentence = Json({"error": refusal.sentence}, refusal.status, refusal.headers)
            await sentence(scope, receive, answer)
        finally:
            seconds = time.perf_counter() - began
            self.metrics.count_request(scope, status, seconds)
            log_request(client_of(scope), scope["method"], scope["path"], status, seconds)

    def _check(self, scope: Scope, headers: Headers) -> None:
        path, client = scope["path"], client_of(scope)
        self._check_host(headers)
        if scope["method"] not in ("GET", "HEAD"):
            _check_site(headers)
            if path.startswith(CHANGES) and headers.get("x-firstsight") != "1":
                raise Refusal(403, "A change needs the header X-Firstsight: 1, which other sites cannot send.")
        if self.session is not None and path not in PUBLIC and not path.startswith("/page/"):
            self._check_token(headers, client, cookie=path != SESSION)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > self.settings.request_bytes:
            raise _too_large(self.settings.request_bytes)
        if path.startswith(("/api/", REPORT)) and (wait := self.rates.wait(client)) > 0:
            self.metrics.count_refusal("rate")
            raise Refusal(
                429,
                f"More than {self.settings.rate:g} requests per second; wait a moment.",
                Retry_After=str(math.ceil(wait)),
            )

    def _check_host(self, headers: Headers) -> None:
        """A page elsewhere can have its own name lead to our address, and would then be let in as one of ours."""
        given = headers.get("host", "")
        if not _is_plain(given) or _parts(f"//{given}")[0] not in self.settings.hosts:
            raise Refusal(400, "This server is not known by that name; start it with --allow-host NAME to allow it.")

    def _check_token(self, headers: Headers, client: str, cookie: bool) -> None:
        """Let in who has the token or, if `cookie`, the session's cookie, which is too long to be guessed."""
        if cookie and same(_cookie(headers), self.session):
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not given.strip():
            sentence = "This server wants its token: send Authorization: Bearer TOKEN."
            raise Refusal(401, sentence, WWW_Authenticate="Bearer")
        if (wait := self.guesses.wait(client, count=False)) > 0:
            self.metrics.count_refusal("token")
            raise Refusal(429, "Too many wrong tokens; wait a moment.", Retry_After=str(math.ceil(wait)))
        if not same(given.strip(), self.settings.token):
            self.guesses.wait(client)
            raise Refusal(401, "This is not the server's token.", WWW_Authenticate="Bearer")

    def _bounded(self, receive: Receive) -> Receive:
        """A body that does not say how long it is ends at the same limit, and one that stops half-way is no bug."""
        left, more = self.settings.request_bytes, True

        async def bounded() -> Message:
            nonlocal left, more
            message = await receive()
            if message["type"] == "http.disconnect" and more:  # the client has left, or was too slow
                raise HTTPException(408, "The request did not arrive as a whole.")
            left, more = left - len(message.get("body", b"")), message.get("more_body", False)
            if left < 0:
                refusal = _too_large(self.settings.request_bytes)
                raise HTTPException(refusal.status, refusal.sentence)
            return message

        return bounded


def client_of(scope: Scope) -> str:
    """The address of the client; empty if the server does not know it."""
    return str((scope.get("client") or ("",))[0])


def session_of(token: str) -> str:
    """What a browser keeps instead of the token; the same in every worker, and no way back to the token."""
    return hmac.new(token.encode(), b"firstsight session", hashlib.sha256).hexdigest()


def same(given: str | None, wanted: str | None) -> bool:
    """Whether two secrets are the same, in a time that does not tell how much of them is."""
    return bool(given and wanted) and secrets.compare_digest(str(given).encode(), str(wanted).encode())


def _check_site(headers: Headers) -> None:
    """Whatever a browser sends on behalf of another site is refused; programs that are no browser say nothing."""
    origin, host = headers.get("origin"), headers.get("host", "")
    foreign = origin is not None and _parts(origin)[1] != host.lower()
    if foreign or headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Refusal(403, "A page of another site may not do this; open the server's own page.")


def _protect(message: Message, path: str) -> None:
    """Add to the headers of an answer, which have none of these names but perhaps the last."""
    headers = list(message["headers"])
    headers += _REPORT_HEADERS if path.startswith(REPORT) else _PAGE_HEADERS
    if not any(name == b"cache-control" for name, _ in headers):
        headers.append((b"cache-control", b"no-cache" if path == "/" or path.startswith("/page/") else b"no-store"))
    message["headers"] = headers


def _too_large(limit: int) -> Refusal:
    return Refusal(413, f"The request is larger than {limit / 2**20:.0f} MiB; send fewer or smaller pictures.")


def _parts(address: str) -> tuple[str, str]:
    """The name of an address, and the name with its port; empty if it is no address."""
    try:
        parts = urlsplit(address)
        return parts.hostname or "", parts.netloc.lower()
    except ValueError:  # half a bracket
        return "", ""


def _is_plain(host: str) -> bool:
    return bool(host) and not any(sign in host for sign in "/@?#\\ ")


def _cookie(headers: Headers) -> str | None:
    try:
        cookie: Any = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if cookie is None else cookie.value


# Bounds of connections: uvicorn limits no time but that between two requests. A client that sends half a request and
# nothing more would keep its connection for ever, and a thousand of them every file descriptor of the process.

HEAD_BYTES = 32 << 10  # of a request's address and headers; the parser itself would take any number
BODY_RATE = 16 << 10  # bytes per second that a body must bring on average, after the first `timeout` seconds
BACKLOG = 256  # connections that wait in the system, and that one turn of the event loop may accept at once
OTHER_FILES = 128  # descriptors of the process that are no connections
FEWEST = 8  # connections without which a page does not work
STATE = "connections"  # where the application's lifespan leaves the limits


class Phase(Enum):
    """What a connection waits for."""

    IDLE = "the next request"
    HEAD = "the headers"
    BODY = "the body"
    ANSWER = "the application"


class ConnectionLimits:
    """The bounds of one process's connections, and where their excess is counted."""

    def __init__(self, settings: Settings, metrics: ServiceMetrics):
        self.timeout, self.total, self.metrics = settings.timeout, settings.connections, metrics
        # All connections come from the proxy, where there is one.
        self.per_client = self.total if settings.proxy else max(self.total // 4, FEWEST)
        self.tick = min(1.0, self.timeout / 4)


class BoundedConnection(HttpToolsProtocol):
    """A connection that is closed when its client is too slow, or when others need room."""

    phase = Phase.HEAD
    _head = 0  # bytes of the headers so far
    _body = 0  # bytes of the body so far
    _since = 0.0  # when the phase began
    _unsent = (0, 0.0)  # bytes that the client has not taken yet, and since when it is this number
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.limits: ConnectionLimits = self.app_state[STATE]
        self._enter(Phase.HEAD)
        self._tick()
        if self._is_one_too_many():
            self._count("connections")
            self._refuse(503, "This server has too many connections; try again in a moment.")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.phase is Phase.IDLE:  # by any byte: the parser begins no request with an empty line
            self._enter(Phase.HEAD)
        super().data_received(data)
        if self.phase is Phase.HEAD:
            self._head += len(data)
            if self._head > HEAD_BYTES and not self.transport.is_closing():
                self._refuse(400, f"The head of a request may have {HEAD_BYTES >> 10} KiB.")

    def on_message_begin(self) -> None:
        if self.phase is not Phase.HEAD:
            self._enter(Phase.HEAD)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._enter(Phase.BODY)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        answered = self.cycle is not None and self.cycle.response_complete
        self._enter(Phase.IDLE if answered else Phase.ANSWER)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.phase is Phase.ANSWER and not self.pipeline:
            self._enter(Phase.IDLE)
        super().on_response_complete()

    def _enter(self, phase: Phase) -> None:
        self.phase, self._since, self._head, self._body = phase, self.loop.time(), 0, 0

    def _tick(self) -> None:
        """Look at the clock until the connection is gone; a single timer costs less than one for every phase."""
        self._timer = self.loop.call_later(self.limits.tick, self._tick)
        now, timeout = self.loop.time(), self.limits.timeout
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent[0]:
            self._unsent = unsent, now
        # The client takes nothing of the answer; a closing transport would wait for it, too.
        if unsent and now - self._unsent[1] > timeout:
            self._count("timeout")
            self.transport.abort()
            return
        if self.transport.is_closing():
            return
        if self.flow.read_paused:  # the server itself does not read, so the client's clock stands still
            self._since += self.limits.tick
        waited = now - self._since
        if self.phase is Phase.IDLE and waited > self.timeout_keep_alive:  # uvicorn forgets this after a late body
            self.transport.close()
        elif (self.phase is Phase.HEAD and waited > timeout) or (
            self.phase is Phase.BODY and waited > timeout + self._body / BODY_RATE
        ):
            self._count("timeout")
            self._refuse(408, f"{self.phase.value.capitalize()} of the request did not arrive in time.")

    def _is_one_too_many(self) -> bool:
        """Make room for this connection among all, and among its client's; whether there is none.

        Connections that wait for their client go first: those of the client that has most of them, the oldest first.
        So a client that opens many only displaces itself, and one that sends its request at once is answered.
        """
        others = [other for other in self.connections if other is not self and isinstance(other, BoundedConnection)]
        count = Counter(other.address for other in others)
        if self.address is not None and count[self.address] >= self.limits.per_client:
            others = [other for other in others if other.address == self.address]
        elif len(others) < self.limits.total:
            return False
        waiting = [other for other in others if other._waits_for_client]
        evicted = max(waiting, key=lambda other: (count[other.address], -other._since), default=None)
        if evicted is None:
            return True
        evicted._count("connections")
        if evicted.phase is Phase.IDLE or evicted.transport.get_write_buffer_size():
            evicted.transport.abort()
        else:
            evicted._refuse(503, "This server has too many connections; send requests as a whole, and try again.")
        return False

    @property
    def _waits_for_client(self) -> bool:
        """Whether nothing would happen here without the client: it has not sent a whole request, or takes no answer."""
        if self.transport.get_write_buffer_size():
            return True
        answering = self.cycle is not None and not self.cycle.response_complete
        busy = self.phase is Phase.ANSWER or (answering and self.phase is Phase.HEAD) or bool(self.pipeline)
        return not busy and not self.transport.is_closing()

    @property
    def address(self) -> str | None:
        return None if self.client is None else self.client[0]

    def _count(self, limit: str) -> None:
        self.limits.metrics.count_refusal(limit)
        waited = self.loop.time() - self._since
        logger.debug("%s: a connection is closed (%s), %.1f s for %s", self.address, limit, waited, self.phase.value)

    def _refuse(self, status: int, sentence: str) -> None:
        """Answer what no application will, and close; an answer that is on its way is not disturbed."""
        if self.cycle is not None and not self.cycle.response_complete:
            if self.phase is Phase.HEAD:  # of a request behind one that is being answered
                self.cycle.keep_alive = False
                return
            if self.cycle.response_started:
                self.transport.close()
                return
        body = json.dumps({"error": sentence}).encode()
        lines = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            "content-type: application/json",
            f"content-length: {len(body)}",
            *(["retry-after: 1"] if status == 503 else []),
            "connection: close",
        ]
        self.transport.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        self.transport.close()


def allowed_connections(wanted: int) -> int:
    """As many of the wanted connections as the system has file descriptors for; its soft limit is raised if need be."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    needed = wanted + BACKLOG + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    if hard == resource.RLIM_INFINITY or hard > soft:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(FEWEST, min(wanted, soft - BACKLOG - OTHER_FILES))
