"""The log of a server, on stderr: lines for people, or one JSON object per line for programs.

Text from outside stays within its line: control characters are shown, not obeyed. No header, token or query is logged.
"""

from __future__ import annotations

import json
import logging
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from firstsight.terminal import in_one_line, logger, visible

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
