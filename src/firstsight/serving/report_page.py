"""The report of benchmark records, made when somebody asks for it first."""

from __future__ import annotations

import tempfile
import threading
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

from firstsight.errors import FirstsightError
from firstsight.serving.json_answers import Refusal
from firstsight.serving.page_files import find_files
from firstsight.terminal import logger, visible


class ReportPage:
    """A folder of its own, removed at the end; drawing takes a while, so a thread does it."""

    def __init__(self, records: str):
        self.records = records
        self.trouble: str | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="firstsight-report-")
        self._thread: threading.Thread | None = None
        self._files: dict[str, Traversable] | None = None
        self._lock = threading.Lock()

    def state(self) -> Literal["making", "ready", "failed"]:
        """How far it is; the first question starts it."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._make, name="report", daemon=True)
                self._thread.start()
        return "failed" if self.trouble else "making" if self._files is None else "ready"

    def files(self) -> dict[str, Traversable]:
        """The files of the finished report, by name."""
        if self.state() != "ready" or self._files is None:
            raise Refusal(503, self.trouble or "The report is being drawn; come back in a minute.", Retry_After="10")
        return self._files

    def close(self) -> None:
        self._folder.cleanup()

    def _make(self) -> None:
        from firstsight.reporting import report  # matplotlib takes seconds to import

        try:
            page = report(self.records, Path(self._folder.name) / "report")
            self._files = find_files(page.parent)
        except FirstsightError as error:
            self.trouble = "The report cannot be made from these records; the log says why."
            logger.warning("%s", visible(str(error)))
