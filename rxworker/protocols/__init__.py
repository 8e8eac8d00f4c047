"""Records to the wire formats that user interfaces speak."""

from rxworker.protocols.native import (
    EncodedRecords,
    EncodeRecord,
    decode_record,
    encode_json,
    encode_record,
)
from rxworker.protocols.registry import (
    UI_PROTOCOLS,
    RunRequest,
    UiProtocol,
    WatchedRun,
)
from rxworker.protocols.socket import (
    ClientMessage,
    DeliveryName,
    Hello,
    ListRuns,
    Refusal,
    RunEnd,
    RunGone,
    RunList,
    RunRecords,
    ServerMessage,
    UnwatchRun,
    WatchRun,
    read_client_message,
    read_server_message,
    records_message,
    socket_message,
)
from rxworker.protocols.sse import (
    PING,
    SSE_HEADERS,
    StreamEnd,
    end_frame,
    read_last_event_id,
    record_frame,
    retry_frame,
    sse_frame,
)
from rxworker.protocols.summary import (
    PauseSummary,
    PendingCall,
    RunSummary,
    WatcherSummary,
    pause_of,
    reason_of,
)

__all__ = [
    # the protocols of user interfaces, by name
    "UI_PROTOCOLS",
    "UiProtocol",
    "RunRequest",
    "WatchedRun",
    # a record as JSON
    "encode_record",
    "decode_record",
    "encode_json",
    "EncodeRecord",
    "EncodedRecords",
    # server-sent events
    "sse_frame",
    "record_frame",
    "end_frame",
    "retry_frame",
    "read_last_event_id",
    "StreamEnd",
    "PING",
    "SSE_HEADERS",
    # a WebSocket: what a client says
    "ClientMessage",
    "WatchRun",
    "UnwatchRun",
    "ListRuns",
    "DeliveryName",
    "read_client_message",
    # and what a server says
    "ServerMessage",
    "Hello",
    "RunList",
    "RunRecords",
    "RunEnd",
    "RunGone",
    "Refusal",
    "read_server_message",
    "records_message",
    "socket_message",
    # a run in a few words
    "RunSummary",
    "PauseSummary",
    "PendingCall",
    "WatcherSummary",
    "pause_of",
    "reason_of",
]
