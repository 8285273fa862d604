"""Access control of every route: hosts, tokens, sizes, rate limits, response headers."""

from __future__ import annotations

import hashlib
import hmac
import math
import mmap
import os
import secrets
import struct
import time
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firstsight.serving.json_answers import Json, Refusal
from firstsight.serving.monitoring import SHARED, ServiceMetrics, log_request
from firstsight.serving.service import Settings

# Who asks how often, counted by all workers of a server together.

BURST = 4  # seconds' worth of requests that a client may make at once
_KEY = 16  # bytes before the buckets: where a client's bucket is, nobody outside can tell
_BUCKET = struct.Struct("dd")  # how full it was, and when
_BUCKETS = 1 << 16  # two clients share one now and then; memory stays a MiB, however many there are
_SIZE = _KEY + _BUCKETS * _BUCKET.size
REQUESTS, WRONG_TOKENS = "requests", "wrong-tokens"  # what is counted, and the name of the file that workers share


class Rates:
    """Each client fills a bucket that empties at `rate` per second.

    Workers share the buckets by a file in `folder`. Nobody waits for a lock: where two of them count the same client
    at the same instant, one request may go uncounted.
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
        place = _KEY + int.from_bytes(digest, "little") % _BUCKETS * _BUCKET.size
        now = time.monotonic()  # one clock for all processes of a machine
        full, then = _BUCKET.unpack_from(self._memory, place)
        full = max(0.0, full - max(0.0, now - then) * self.rate)
        allowed = full + 1 <= self.most
        _BUCKET.pack_into(self._memory, place, full + (allowed and count), now)
        return 0.0 if allowed else (full + 1 - self.most) / self.rate


def share_rates(folder: str) -> None:
    """Make the files that the workers share, before they start."""
    for what in (REQUESTS, WRONG_TOKENS):
        (Path(folder) / what).write_bytes(os.urandom(_KEY) + bytes(_SIZE - _KEY))


# What stands in front of every route: whose request it is, how large, how often; and the headers of every answer.

PUBLIC = ("/", "/favicon.ico", "/health", "/ready")  # and /page/…: no secret is in them
SESSION = "/api/session"  # where the token itself is traded for a cookie
# Wrong tokens of one client: ten at once, then one per second. While they are used up no token of that client is
# compared, or guessing would go on at full speed; a second after the last guess the right one is let in again.
GUESSES_PER_SECOND, GUESSES_AT_ONCE = 1.0, 10
COOKIE = "firstsight-session"
CHANGES = ("/api/classes", "/api/confirm")
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
    [(name.lower().encode(), value.encode()) for name, value in (HEADERS | own).items()]
    for own in (
        {"Content-Security-Policy": PAGE_POLICY},
        {"Content-Security-Policy": REPORT_POLICY, "X-Frame-Options": "SAMEORIGIN"},
    )
)


class Protection:
    """The ASGI application around the routes. A request is judged by its headers before its body is read."""

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
            self._judge(scope, Headers(scope=scope))
            await self.app(scope, self._bounded(receive), answer)
        except Refusal as refusal:
            sentence = Json({"error": refusal.sentence}, refusal.status, refusal.headers)
            await sentence(scope, receive, answer)
        finally:
            seconds = time.perf_counter() - began
            self.metrics.request(scope, status, seconds)
            log_request(client_of(scope), scope["method"], scope["path"], status, seconds)

    def _judge(self, scope: Scope, headers: Headers) -> None:
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
            self.metrics.refused("rate")
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
            self.metrics.refused("token")
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
