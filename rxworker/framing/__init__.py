"""Bytes to frames: machines with ``feed`` and ``finish``, without any input or output of their own."""

from rxworker.framing.decoder import Decoder, NdjsonDecoder
from rxworker.framing.event_stream import EventStreamDecoder
from rxworker.framing.sse import SseDecoder

__all__ = [
    # how machines are put together
    "Decoder",
    # formats
    "SseDecoder",
    "NdjsonDecoder",
    "EventStreamDecoder",
]
