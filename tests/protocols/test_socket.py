from __future__ import annotations

import msgspec
import pytest

from rxworker.errors import RemoteProtocolError
from rxworker.events import Record, TextDelta
from rxworker.protocols import EncodedRecords, decode_record
from rxworker.protocols.socket import (
    ClientMessage,
    EndOfStream,
    Hello,
    ListRuns,
    RequestRefused,
    RunEnd,
    RunGone,
    RunList,
    RunRecords,
    ServerMessage,
    StreamGone,
    StreamItems,
    UnwatchRun,
    UnwatchStream,
    WatchRun,
    WatchStream,
    read_client_message,
    read_server_message,
    records_message,
    socket_message,
)

CLIENT: list[ClientMessage] = [
    WatchRun("r"),
    WatchRun("r", 17, "drop_oldest", "me"),
    UnwatchRun("r"),
    ListRuns(),
    WatchStream("cost"),
    WatchStream("cost", "7-3", "latest", "me"),
    UnwatchStream("cost"),
]
SERVER: list[ServerMessage] = [
    Hello("i"),
    RunList([msgspec.Raw(b"{}")]),
    RunRecords("r", []),
    RunEnd("r", "aborted", "why"),
    RunGone("r"),
    RequestRefused("code", "what to do", "r"),
    RequestRefused("code", "what to do"),
    RequestRefused("code", "what to do", stream="cost"),
    StreamItems("cost", 7, [msgspec.Raw(b"{}")]),
    EndOfStream("cost", "aborted", "why"),
    StreamGone("cost"),
]


@pytest.mark.parametrize("message", CLIENT, ids=repr)
def test_the_server_reads_what_a_client_sends(message: ClientMessage) -> None:
    assert read_client_message(socket_message(message)) == message


@pytest.mark.parametrize("message", SERVER)
def test_a_client_reads_what_the_server_sends(message: ServerMessage) -> None:
    data = socket_message(message)
    assert socket_message(read_server_message(data)) == data


def test_records_travel_as_they_were_encoded() -> None:
    records = [Record(n, "r", 1, 1, 0.5, TextDelta(0, "a\ud83d")) for n in (1, 2)]
    encode = EncodedRecords()
    message = read_server_message(records_message("r", records, encode))
    assert isinstance(message, RunRecords)
    assert [decode_record(bytes(raw)).seq for raw in message.records] == [1, 2]
    assert encode.count == 2


def test_messages_may_hold_half_a_character() -> None:
    assert read_server_message(socket_message(RunEnd("r", "aborted", "\ud83d"))) == RunEnd("r", "aborted", "\ufffd")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        '{"type":"hello","instance":"i"}',
        '{"type":"watch","run":"r","after":-1}',
        '{"type":"watch","run":"r","after":9007199254740993}',
        '{"type":"watch","run":"r","after":1.5}',
        '{"type":"watch","run":null}',
        '{"type":"watch","run":"r","delivery":"all"}',
        '{"type":"watch","run":"' + "r" * 81 + '"}',
        '{"type":"watch","run":"r","name":"' + "n" * 81 + '"}',
        "[" * 100_000,
    ],
)
def test_what_no_client_sends_is_refused(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        read_client_message(text)
    with pytest.raises(RemoteProtocolError):
        read_client_message(text.encode())


def test_what_no_server_sends_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        read_server_message('{"type":"watch","run":"r"}')
