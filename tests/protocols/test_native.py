from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker import Worker, tool
from rxworker.errors import RemoteProtocolError
from rxworker.events import (
    BlockStart,
    BlockType,
    Event,
    Gap,
    InputValueDelta,
    Opaque,
    Ping,
    Record,
    ResponseStatus,
    RunAbort,
    RunStart,
    Status,
    TextDelta,
    ToolProgress,
    ToolStart,
    ToolUseMetadata,
    TurnStop,
    Usage,
)
from rxworker.messages import Conversation, Json, Message, ToolCall
from rxworker.protocols import EncodedRecords, decode_record, encode_record
from rxworker.protocols.native import encode_json
from rxworker.testing import ScriptedModel, call, say, think

EVENTS: list[Event] = [
    Ping(),
    Usage(input_tokens=1, raw={"a": [1, None]}),
    Status(ResponseStatus.STARTED, "id", "model"),
    Opaque("odd", {"a": 2**60}),
    BlockStart(1, BlockType.TOOL_USE, ToolUseMetadata("call_1", "look")),
    TextDelta(0, "京 \u2028 \x00"),
    InputValueDelta(0, "$.a", 1.5, append=True),
    ToolStart(ToolCall("call_1", "look", {"at": "a"})),
    RunStart(Conversation((Message.user("hi"),), "Be brief.")),
    RunAbort("cancel", "enough"),
    Gap(3, 9),
]


def record(event: Event, seq: int = 5, covers: int = 1) -> Record:
    return Record(seq, "run-1", 1, 2, 1.5, event, ("call_1",), covers)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_record_comes_back_as_it_was(event: Event) -> None:
    data = encode_record(record(event, covers=3))
    assert b"\n" not in data
    assert decode_record(data) == record(event, covers=3)


async def test_all_records_of_a_run_come_back_as_they_were() -> None:
    @tool
    def look(at: str) -> str:
        """Look."""
        return at

    model = ScriptedModel([think("Hm.") + call("look", at="a"), say("Done \ud83d")])
    run = Worker(model, tools=[look]).run("hi")
    records = [record async for record in run]
    for one in records:
        data = encode_record(one)
        assert encode_record(decode_record(data)) == data


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (TextDelta(0, "a\ud83d"), "a\ufffd"),
        (TextDelta(0, "\ud83d\ude00"), "\U0001f600"),
        (ToolProgress("c", {"\ud800": ["\udfff"]}), "\ufffd"),
        (ToolProgress("c", object()), "(object)"),  # pyright: ignore[reportArgumentType]
        (ToolProgress("c", {1: float("nan")}), "null"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_whatever_a_record_holds_it_has_a_line(event: Event, text: str) -> None:
    data = encode_record(record(event))
    assert text in data.decode()
    assert decode_record(data).seq == 5


def test_what_is_nested_too_deeply_is_reported_so() -> None:
    value: Json = 1
    for _ in range(100_000):
        value = [value]
    event = decode_record(encode_record(record(ToolProgress("c", value)))).event
    assert event == Opaque("tool_progress", "this event has no JSON form")
    while isinstance(value, list):  # let go of it level by level: its own end would be as deep
        value = value.pop()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"seq":"1"}',
        b"\xff",
        b"[" * 100_000,
        '{"event":{"type":"owl"}}',
        b'{"seq":1,"run":"r","turn":1,"attempt":1,"time":0,"event":{}}',
        b'{"seq":1,"run":"r","turn":1,"attempt":1,"time":0,"event":{"type":7}}',
        b'{"seq":1,"run":"r","turn":1,"attempt":1,"time":0,"event":{"type":"text_delta"}}',
        b'{"seq":1,"run":"r","turn":1,"attempt":1,"time":"0","event":{"type":"owl"}}',
    ],
)
def test_what_is_not_a_record_is_refused(data: bytes | str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_record(data)


def test_an_event_of_an_unknown_type_is_read_as_opaque() -> None:
    line = (
        b'{"seq":9,"run":"r","turn":2,"attempt":3,"time":1.5,'
        b'"event":{"type":"owl","wings":[2,{"type":"left"}]},"path":["c1"],"covers":2}'
    )
    raw: Json = {"type": "owl", "wings": [2, {"type": "left"}]}
    read = decode_record(line)
    assert read == Record(9, "r", 2, 3, 1.5, Opaque("owl", raw), ("c1",), 2)
    assert decode_record(encode_record(read)) == read


@given(st.text(st.characters(), max_size=50))
def test_any_text_has_a_json_form(text: str) -> None:
    decoded = msgspec.json.decode(encode_json({"text": text}))
    assert decoded == {"text": text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")}


def test_a_record_is_encoded_once_for_all_who_get_it() -> None:
    encode = EncodedRecords()
    one = record(TextDelta(0, "abc"))
    assert encode(one) == encode_record(one)
    assert encode(record(TextDelta(0, "abc"))) is encode(one)
    assert encode.count == 1


def test_two_records_of_one_place_are_distinguished() -> None:
    encode = EncodedRecords()
    merged, latest = record(TextDelta(0, "abc"), covers=3), record(TextDelta(0, "c"), covers=3)
    for _ in range(3):
        assert encode(merged) == encode_record(merged)
        assert encode(latest) == encode_record(latest)


def test_only_the_last_records_are_remembered() -> None:
    encode = EncodedRecords(limit=4)
    for seq in range(1, 100):
        encode(record(TurnStop(), seq))
        assert len(encode._known) <= 4
    for seq in range(99, 95, -1):
        encode(record(TurnStop(), seq))
    assert encode.count == 99
    encode.clear()
    encode(record(TurnStop(), 99))
    assert encode.count == 100
