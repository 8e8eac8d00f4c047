"""What several frames have made that add to the same text. Pure."""

from __future__ import annotations

from typing import TypeAlias

from rxworker.events import ResponseEvent
from rxworker.events.deltas import Deltas

Row: TypeAlias = Deltas[ResponseEvent]
"""Deltas that add to the same text, as one thing."""


__all__ = ["Row"]
