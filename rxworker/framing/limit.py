"""How large a frame may be, so that a server cannot fill the memory with one that never ends."""

from __future__ import annotations

from rxworker.errors import RemoteProtocolError

MAX_FRAME = 64 * 1024 * 1024
"""Bytes of a line or frame, unless another limit is set. The largest that providers send are pictures, of some megabytes."""


def too_large(limit: int) -> RemoteProtocolError:
    """The error for a frame that is larger than the limit."""
    return RemoteProtocolError(
        f"the server sent a line or frame of more than {limit} bytes; if it may be so large, raise the limit, "
        "for example with Client(max_frame=...)"
    )


__all__ = ["MAX_FRAME", "too_large"]
