"""The records of one run and its many watchers: a hot observable with memory, which isolates them from each other."""

from rxworker.hub.delivery import Coalesce, Delivery, DropOldest, Latest, Reliable
from rxworker.hub.history import Item
from rxworker.hub.hub import Hub, Watch, Watchers
from rxworker.hub.iterate import iterate
from rxworker.hub.watcher import WatcherState

__all__ = [
    # the hub and its watchers
    "Hub",
    "Watch",
    "WatcherState",
    "Watchers",
    # how records are delivered to a watcher
    "Delivery",
    "Reliable",
    "Coalesce",
    "Latest",
    "DropOldest",
    # any other observable
    "Item",
    "iterate",
]
