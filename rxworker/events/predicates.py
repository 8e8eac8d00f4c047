"""Questions about events."""

from __future__ import annotations

from typing import TypeGuard

from rxworker.events.block import BlockAbort, BlockDelta, BlockEvent, BlockStart, BlockStop
from rxworker.events.meta import Error, Meta, Opaque, Ping, Status, Usage

META_TYPES = (Ping, Usage, Status, Error, Opaque)
BLOCK_TYPES = (BlockStart, BlockDelta, BlockStop, BlockAbort)


def is_meta(event: object) -> TypeGuard[Meta]:
    """Whether it is a single event about the response as a whole.

    >>> is_meta(Ping())
    True
    """
    return isinstance(event, META_TYPES)


def is_block_event(event: object) -> TypeGuard[BlockEvent]:
    """Whether it belongs to the life of a block.

    >>> is_block_event(Ping())
    False
    """
    return isinstance(event, BLOCK_TYPES)


__all__ = ["BLOCK_TYPES", "META_TYPES", "is_block_event", "is_meta"]
