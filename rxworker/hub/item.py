"""An item of a published stream: what is an event of a run has a number, a time, and a value of any type. Pure."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

A = TypeVar("A")


class Item(Struct, Generic[A], frozen=True):
    """An item of a published stream.

    Attributes:
        seq: Its number, from 1. The numbers that a watcher is not given between two items are those of items that its
            delivery, or the memory of the stream, has dropped.
        time: Seconds since the epoch.
        value: The value that the observable has emitted.
    """

    seq: int
    time: float
    value: A
