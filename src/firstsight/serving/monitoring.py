"""Server log and Prometheus metrics."""

from __future__ import annotations

import json
import logging
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import Scope

from firstsight._io.terminal import in_one_line, logger, visible

# The log of a server, on stderr: lines for people, or one JSON object per line for programs.
#
# Text from outside stays within its line: control characters are shown, not obeyed. No header, token or query is
# logged.

LONGEST_PATH = 200  # characters of a request's path; the rest says nothing more
_FIELDS = "fields"  # of a record: what a JSON line holds besides the message


def log_request(client: str, method: str, path: str, status: int, seconds: float) -> None:
    """Log a request that was answered; without its query, which may hold what is nobody's business."""
    if not logger.isEnabledFor(logging.DEBUG):
        return
    milliseconds = round(1000 * seconds, 1)
    path = path[:LONGEST_PATH]
    fields = {"client": client, "method": method, "path": path, "status": status, "milliseconds": milliseconds}
    message = f"{client} {method} {path} {status} {milliseconds} ms"
    logger.debug("%s", message, extra={_FIELDS: fields})


def json_line(level: str, message: str, **fields: Any) -> str:
    """A line of the log as JSON, in ASCII."""
    entry = {"time": _utc(time.time()), "level": level, "message": message, **fields}
    return json.dumps(entry, default=str).replace("\x7f", "\\u007f")


@contextmanager
def server_log(format: str, level: str) -> Iterator[None]:
    """Send what firstsight and its libraries log to stderr, in the format "text" or "json"."""
    undo = start_log(format, level)
    try:
        yield
    finally:
        undo()


def start_log(format: str, level: str) -> Any:
    """Send the log to stderr from now on; return a function that undoes it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if format == "json" else _TextLines())
    before = logger.handlers[:], logger.propagate, logger.level
    logging.getLogger().addHandler(handler)  # what libraries log is a line of the same kind
    logger.handlers[:], logger.propagate = [], True
    logger.setLevel(level.upper())
    logging.captureWarnings(format == "json")

    def undo() -> None:
        logging.getLogger().removeHandler(handler)
        logger.handlers[:], logger.propagate = before[:2]
        logger.setLevel(before[2])
        logging.captureWarnings(False)

    return undo


class _TextLines(logging.Formatter):
    """Time, level from a warning on, and message in one line; a traceback follows, indented."""

    def format(self, record: logging.LogRecord) -> str:
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        line = f"{_utc(record.created)} {level}{in_one_line(record.getMessage().strip())}"
        if record.exc_info:
            line += "\n" + textwrap.indent(visible(self.formatException(record.exc_info)), "    ", lambda _: True)
        return line


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = dict(getattr(record, _FIELDS, {}))
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json_line(record.levelname.lower(), record.getMessage().strip(), logger=record.name, **fields)


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


SHARED = "PROMETHEUS_MULTIPROC_DIR"  # where the counts of several workers meet; prometheus-client's own name
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class ServiceMetrics:
    """The counts of one application; with several workers, those of all."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        common: dict[str, Any] = {"registry": self.registry, "namespace": "firstsight"}
        self.requests = Counter("requests", "Requests answered", ("route", "method", "status"), **common)
        self.seconds = Histogram("request_seconds", "Time to answer", ("route",), buckets=_SECONDS, **common)
        self.refusals = Counter("refused", "Requests refused because of a limit", ("limit",), **common)
        self.images = Counter("pictures", "Pictures recognised or embedded", **common)
        self.unreadable = Counter("unreadable_pictures", "Pictures that could not be read", **common)
        self.batches = Histogram("batch_pictures", "Pictures per batch", buckets=_SIZES, **common)
        self.changes = Counter("class_changes", "Classes added, changed and removed", ("what",), **common)
        self.corrections = Counter("corrections", "Corrections of samples, and those undone", ("what",), **common)
        self.waiting = Gauge("waiting_pictures", "Pictures that wait", multiprocess_mode="livesum", **common)
        self.classes = Gauge("classes", "Classes of the model", multiprocess_mode="mostrecent", **common)

    def count_request(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request by the route that answered; paths that nobody knows are one, however many there are."""
        path = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other"
        self.requests.labels(path, method, str(status)).inc()
        self.seconds.labels(path).observe(seconds)

    def count_refusal(self, limit: str) -> None:
        self.refusals.labels(limit).inc()

    def follow(self, waiting: Callable[[], int], classes: Callable[[], int]) -> None:
        """Look at these when somebody asks."""
        self._waiting, self._classes = waiting, classes

    def text(self) -> bytes:
        """In Prometheus' format."""
        self.waiting.set(self._waiting())
        self.classes.set(self._classes())
        registry = self.registry
        if os.environ.get(SHARED):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
