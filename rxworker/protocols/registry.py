"""The protocols of user interfaces, by name: how each reads a client's request, and how it encodes a run.

A web server serves every protocol of `UI_PROTOCOLS` at the protocol's path. To add one, add a row.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from rxworker.messages.settings import check_plain
from rxworker.protocols.ag_ui import AgUiEncoder, ag_ui_stream, read_run_input
from rxworker.protocols.common import EncodeRun, RunRequest, WatchedRun
from rxworker.protocols.native import SSE_HEADERS
from rxworker.protocols.ui_messages import read_chat_request, ui_message_stream
from rxworker.protocols.ui_messages.encode import HEADERS


class UiProtocol(Struct, frozen=True):
    """A protocol of user interfaces.

    Attributes:
        path: The path at which a web server accepts requests of the protocol (``POST``). A run is watched at
            ``/api/runs/{id}/{name}``.
        read: Reads the body of a request. Raises `LocalProtocolError` if it cannot.
        stream: Encodes a run.
        headers: The headers of the response.
    """

    path: str
    read: Callable[[bytes], RunRequest]
    stream: EncodeRun
    headers: Mapping[str, str] = MappingProxyType(SSE_HEADERS)

    def __post_init__(self) -> None:
        """Check the reader."""
        check_plain("UiProtocol(read)", self.read)


def _read_ag_ui(data: bytes) -> RunRequest:
    given = read_run_input(data)

    def stream(run: WatchedRun) -> AsyncGenerator[bytes, None]:
        encoder = AgUiEncoder(
            given.conversation_id,
            given.run_id,
            protocol=given.protocol,
            parent_run_id=given.parent_run_id,
            answered=[result.tool_use_id for result in given.results],
        )
        return ag_ui_stream(run.batches, encoder)

    return replace(given, stream=stream)


def _stream_ag_ui(run: WatchedRun) -> AsyncGenerator[bytes, None]:
    encoder = AgUiEncoder(run.conversation_id, run.id, protocol=run.query.get("protocol"), snapshot=True)
    return ag_ui_stream(run.batches, encoder)


def _stream_chat(run: WatchedRun) -> AsyncGenerator[bytes, None]:
    # A client that reconnects recognises the message by its id.
    return ui_message_stream(run.batches, run.message_id or run.id, continues=run.continues, before=run.earlier)


UI_PROTOCOLS: dict[str, UiProtocol] = {
    "ag-ui": UiProtocol("/ag-ui", _read_ag_ui, _stream_ag_ui),
    "chat": UiProtocol("/api/chat", read_chat_request, _stream_chat, HEADERS),
}
"""The protocols by name. A web server that is made after a row was added serves it too."""
