"""What decoders make of several frames that only add to the same text: one row of deltas."""

from __future__ import annotations

from typing import TypeAlias

from rxworker.events import ResponseEvent
from rxworker.events.deltas import Deltas

Row: TypeAlias = Deltas[ResponseEvent]

__all__ = ["Row"]
