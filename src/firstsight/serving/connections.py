"""How requests come in: uvicorn's fast protocol, with a bound for what precedes a body."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 32 << 10  # of a request's address and headers; the parser itself would take any number


class BoundedHead(HttpToolsProtocol):
    """A connection that is closed when a head does not end in time."""

    _head: int | None = None  # bytes of a head that is under way

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head = None
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
            if self._head > HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response(f"The head of a request may have {HEAD_BYTES >> 10} KiB.")
