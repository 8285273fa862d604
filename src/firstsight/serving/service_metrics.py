"""What Prometheus is told: requests, times, pictures, batches, what waits, classes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import Scope

SHARED = "PROMETHEUS_MULTIPROC_DIR"  # where the counts of several workers meet; prometheus-client's own name
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64)


class ServiceMetrics:
    """The counts of one application; with several workers, those of all."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry, "namespace": "firstsight"}
        self.requests = Counter("requests", "Requests answered", ("route", "method", "status"), **own)
        self.seconds = Histogram("request_seconds", "Time to answer", ("route",), buckets=_SECONDS, **own)
        self.refusals = Counter("refused", "Requests refused because of a limit", ("limit",), **own)
        self.pictures = Counter("pictures", "Pictures recognised or embedded", **own)
        self.unreadable = Counter("unreadable_pictures", "Pictures that could not be read", **own)
        self.batches = Histogram("batch_pictures", "Pictures per batch", buckets=_SIZES, **own)
        self.changes = Counter("class_changes", "Classes added, changed and removed", ("what",), **own)
        self.waiting = Gauge("waiting_pictures", "Pictures that wait", multiprocess_mode="livesum", **own)
        self.classes = Gauge("classes", "Classes of the model", multiprocess_mode="mostrecent", **own)

    def request(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request by the route that answered; paths that nobody knows are one, however many there are."""
        path = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other"
        self.requests.labels(path, method, str(status)).inc()
        self.seconds.labels(path).observe(seconds)

    def refused(self, limit: str) -> None:
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
