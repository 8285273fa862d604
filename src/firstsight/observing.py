"""Watching a fit: the base class tells observers what it keeps from a method and what it hands on to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import numpy as np


class Observer(Protocol):
    """What is reported of every fit inside an `observing` block, whichever estimator, pipeline or search it is."""

    def prepared(self, S: np.ndarray, U: np.ndarray) -> None:
        """The scaled descriptions of seen and of unseen classes; an inductive method gets the first alone."""

    def handed_on(self, arrays: Mapping[str, np.ndarray]) -> None:
        """The arguments of `_fit` by name. Not told where a method has a `fit` of its own that calls `_fit` itself."""


_observers: ContextVar[tuple[Observer, ...]] = ContextVar("observers", default=())


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Tell `observer` of every fit inside the block."""
    token = _observers.set((*_observers.get(), observer))
    try:
        yield
    finally:
        _observers.reset(token)


def observers() -> tuple[Observer, ...]:
    """Who is to be told."""
    return _observers.get()
