"""How requests come in: uvicorn's fast protocol, with bounds in bytes, seconds and connections before the application.

uvicorn limits no time but that between two requests. A client that sends half a request and nothing more would keep its
connection for ever, and a thousand of them every file descriptor of the process.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from enum import Enum
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from firstsight._io.terminal import logger
from firstsight.serving.monitoring import ServiceMetrics
from firstsight.serving.service import Settings

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


class Limits:
    """The bounds of one process's connections, and where their excess is counted."""

    def __init__(self, settings: Settings, metrics: ServiceMetrics):
        self.timeout, self.total, self.metrics = settings.timeout, settings.connections, metrics
        # All connections come from the proxy, where there is one.
        self.per_client = self.total if settings.proxy else max(self.total // 4, FEWEST)
        self.tick = min(1.0, self.timeout / 4)


class BoundedConnection(HttpToolsProtocol):
    """A connection that is closed when its client is too slow, or when others need its place."""

    phase = Phase.HEAD
    _head = 0  # bytes of the headers so far
    _body = 0  # bytes of the body so far
    _since = 0.0  # when the phase began
    _unsent = (0, 0.0)  # bytes that the client has not taken yet, and since when it is this number
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.limits: Limits = self.app_state[STATE]
        self._enter(Phase.HEAD)
        self._tick()
        if self._is_one_too_many():
            self._count("connections")
            self._refuse(503, "This server has too many connections; try again in a moment.")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    # What the parser reports -----------------------------------------------------------------------------------------

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

    # What the clock reports ------------------------------------------------------------------------------------------

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

    # Room for others -------------------------------------------------------------------------------------------------

    def _is_one_too_many(self) -> bool:
        """Make room for this connection among all, and among its client's; whether there is none.

        Connections that wait for their client go first: those of the client that has most of them, the oldest first.
        So whoever opens many takes room from himself, and a client that sends its request at once is answered.
        """
        others = [one for one in self.connections if one is not self and isinstance(one, BoundedConnection)]
        held = Counter(one.address for one in others)
        if self.address is not None and held[self.address] >= self.limits.per_client:
            others = [one for one in others if one.address == self.address]
        elif len(others) < self.limits.total:
            return False
        evicted = max(
            (one for one in others if one._waits_for_client),
            key=lambda one: (held[one.address], -one._since),
            default=None,
        )
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
        self.limits.metrics.refused(limit)
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
