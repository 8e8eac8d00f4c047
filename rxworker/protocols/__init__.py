"""Wire formats of runs for user interfaces, and the registry of UI protocols."""

from rxworker.protocols.common import RunRequest, WatchedRun
from rxworker.protocols.native import (
    PING_COMMENT,
    SSE_HEADERS,
    EncodedRecords,
    decode_record,
    encode_record,
    end_frame,
    read_last_event_id,
    record_frame,
    retry_frame,
    sse_frame,
)
from rxworker.protocols.registry import UI_PROTOCOLS, UiProtocol

__all__ = [
    # the protocols of user interfaces, by name
    "UI_PROTOCOLS",
    "UiProtocol",
    "RunRequest",
    "WatchedRun",
    # a record as JSON
    "encode_record",
    "decode_record",
    "EncodedRecords",
    # server-sent events
    "sse_frame",
    "record_frame",
    "end_frame",
    "retry_frame",
    "read_last_event_id",
    "PING_COMMENT",
    "SSE_HEADERS",
]
