"""Derived streams: any observable with watchers, as a run has them."""

from rxworker.boards.publish import Keep, Published, WatchItems, publish

__all__ = [
    "publish",
    "Published",
    "WatchItems",
    "Keep",
]
