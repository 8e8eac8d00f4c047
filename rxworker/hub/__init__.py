"""One run, many watchers: a hot observable with memory that keeps its watchers apart."""

from rxworker.hub.hub import Hub
from rxworker.hub.iterate import WhenFull, iterate

__all__ = ["Hub", "WhenFull", "iterate"]
