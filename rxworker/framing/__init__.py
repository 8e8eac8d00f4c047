"""Bytes to frames: machines with ``feed`` and ``finish``, without any input or output of their own."""

from rxworker.framing.decoder import MAX_FRAME, Chain, Decoder, Limited, NdjsonDecoder
from rxworker.framing.sse import STRAY, SseDecoder
from rxworker.framing.sse_frame import SseFrame

__all__ = [
    # how machines are put together
    "Decoder",
    "Chain",
    "Limited",
    "MAX_FRAME",
    # formats
    "SseDecoder",
    "SseFrame",
    "STRAY",
    "NdjsonDecoder",
]
