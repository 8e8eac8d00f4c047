"""One run, many watchers: a hot observable with memory that keeps its watchers apart."""

from rxworker.hub.audience import Audience
from rxworker.hub.delivery import Coalesce, Delivery, DropOldest, Latest, Reliable
from rxworker.hub.hub import Hub
from rxworker.hub.iterate import WhenFull, iterate
from rxworker.hub.watch import Watch
from rxworker.hub.watcher import WatcherState

__all__ = [
    # the hub and its watchers
    "Hub",
    "Watch",
    "WatcherState",
    "Audience",
    # how a watcher is given its records
    "Delivery",
    "Reliable",
    "Coalesce",
    "Latest",
    "DropOldest",
    # any other observable
    "WhenFull",
    "iterate",
]
