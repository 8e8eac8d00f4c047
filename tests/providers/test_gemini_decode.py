"""The generateContent stream to events: what the protocol says beyond the recordings, a row each."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Error,
    InputValueDelta,
    Opaque,
    ResponseEvent,
    ResponseStatus,
    Status,
    TextDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.events.block import OpaqueMetadata, ToolResultMetadata
from rxworker.events.meta import TRUNCATED
from rxworker.messages import Conversation, Message, StopKind, StopReason, Text, Thinking
from rxworker.providers import Gemini, Options
from rxworker.state.response import fold_response, message_of
from rxworker.views import CalledTool, Summary, summarise
from tests.decoded import answer_of, cut, decoded

RECORDINGS = Path(__file__).parents[3] / "shared" / "recordings" / "gemini"
STREAMS = sorted(RECORDINGS.glob("*.sse"))
recorded = pytest.mark.skipif(not STREAMS, reason=f"no recordings: {RECORDINGS} is absent")
each = pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)


def decode(*chunks: bytes) -> list[ResponseEvent]:
    return decoded("gemini", *chunks)


def stream(*frames: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(frame).encode() + b"\r\n\r\n" for frame in frames)


def piece(*parts: Any, stop: str | None = None, **candidate: Any) -> dict[str, Any]:
    """A frame with one candidate; the fields that are not given are absent."""
    if parts:
        candidate["content"] = {"role": "model", "parts": list(parts)}
    if stop:
        candidate["finishReason"] = stop
    return {"candidates": [candidate]}


def events_of(*frames: Any) -> list[ResponseEvent]:
    """The events of the frames, which are the same whole and byte by byte."""
    data = stream(*frames)
    events = decode(data)
    by_byte = decode(*cut(data))
    assert [type(event) for event in by_byte] == [type(event) for event in events]
    return events


def summary_of(*frames: Any) -> Summary:
    return summarise(events_of(*frames))


def fold(events: Sequence[ResponseEvent]) -> Message | None:
    return message_of(fold_response(events), "gemini")


def blocks(events: Sequence[ResponseEvent]) -> list[BlockType]:
    return [event.block_type for event in events if isinstance(event, BlockStart)]


def stop_of(events: Sequence[ResponseEvent]) -> StopReason | None:
    last = events[-1]
    assert isinstance(last, Status)
    return last.stop_reason


def call(name: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"functionCall": ({"name": name} if name else {}) | fields}


def value(path: str, more: bool = False, **typed: Any) -> dict[str, Any]:
    partial = {"jsonPath": path, **typed} | ({"willContinue": True} if more else {})
    return call(partialArgs=[partial], willContinue=True)


# --- the fields of the recordings that only Gemini has


@recorded
@each
def test_a_recording_has_the_parts_and_seals_expected(path: Path) -> None:
    expected = json.loads(path.with_suffix(".expected.json").read_text())
    events = decode(path.read_bytes())
    starts = [event for event in events if isinstance(event, BlockStart)]
    server = [
        next(key for key in start.echo if key != "thoughtSignature")
        for start in starts
        if start.block_type in (BlockType.SERVER_TOOL_USE, BlockType.SERVER_TOOL_RESULT) and start.echo
    ]
    assert server == expected["server_parts"]
    images = [start for start in starts if "inlineData" in (start.echo or {})]
    assert len(images) == expected["inline_data"]
    echoes = json.dumps([getattr(event, "echo", None) for event in events])
    seals = echoes.count('"thoughtSignature"') + sum(
        len(event.echo["seals"])  # pyright: ignore[reportArgumentType]
        for event in events
        if isinstance(event, BlockStop) and event.echo and "seals" in event.echo
    )
    assert seals == expected["thought_signatures"]


@recorded
@each
def test_a_recording_gives_its_reasons(path: Path) -> None:
    expected = json.loads(path.with_suffix(".expected.json").read_text())
    events = decode(path.read_bytes())
    stop = stop_of(events)
    if "finish_message" in expected:
        assert stop is not None
        assert stop.detail == expected["finish_message"]
    if expected.get("prompt_block_reason"):
        assert stop == StopReason(StopKind.CONTENT_FILTER, None, expected["prompt_block_reason"])
        feedback = [e.raw for e in events if isinstance(e, Opaque) and e.kind == "promptFeedback"]
        assert len(feedback) == 1
    calls = [c for c in summarise(events).tool_calls if not c.aborted]
    runs = stop is not None and stop.kind is StopKind.TOOL_USE
    assert runs is bool(calls)


# --- text, thoughts and seals


def test_whatever_may_be_absent_may_be_absent_or_null() -> None:
    events = events_of(
        {"candidates": [{}]},
        {"candidates": [{"content": {}}]},
        {"candidates": [{"content": {"role": "model"}, "index": None}]},
        {"candidates": [{"content": {"parts": [{}, {"text": None}, {"thought": True}]}}]},
        {"candidates": None, "usageMetadata": None, "promptFeedback": None, "responseId": "r"},
        {"candidates": [{"content": None, "finishReason": "STOP", "index": 0}]},
    )
    assert blocks(events) == []
    assert stop_of(events) == StopReason(StopKind.END_TURN, "STOP")


def test_thoughts_and_text_are_blocks_one_after_another() -> None:
    events = events_of(
        piece({"text": "hm ", "thought": True}),
        piece({"text": "hm", "thought": True}, {"text": "yes"}),
        piece({"text": "!"}, stop="STOP"),
    )
    assert blocks(events) == [BlockType.THINKING, BlockType.TEXT]
    assert answer_of(events, "gemini").content == (Thinking("hm hm"), Text("yes!"))


def test_a_seal_in_the_middle_of_a_text_does_not_split_it_for_users() -> None:
    events = events_of(
        piece({"text": "a"}),
        piece({"text": "b", "thoughtSignature": "S"}),
        piece({"text": "c"}),
        piece({"text": "", "thoughtSignature": "T"}, stop="STOP"),
    )
    assert blocks(events) == [BlockType.TEXT]
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["a", "b", "c"]
    assert answer_of(events, "gemini").content == (Text("abc", (), {"length": 3, "seals": [[1, 2, "S"], [3, 3, "T"]]}),)


@pytest.mark.parametrize("name", ["thoughtSignature", "thought_signature"])
def test_a_seal_in_snake_case_is_a_seal(name: str) -> None:
    """On a text, on a thought, alone, and on a call, to which no value is added that skips the check."""
    sealed = events_of(
        piece({"text": "hm", "thought": True, name: "R"}),
        piece({"text": "a", name: "S"}),
        piece({"text": "", name: "T"}),
        piece(call("look") | {name: "U"}, stop="STOP"),
    )
    message = answer_of(sealed, "gemini")
    asked = Conversation((Message.user("hi"), message))
    back = json.loads(Gemini("gemini-3-pro-preview", api_key="k").request(asked, (), Options()).body)
    seals = [{"thoughtSignature": "R"}, {"thoughtSignature": "S"}, {"thoughtSignature": "T"}, {name: "U"}]
    parts = back["contents"][1]["parts"]
    assert [{key: value for key, value in part.items() if "ignature" in key} for part in parts] == seals


@pytest.mark.parametrize("part", [{"text": "", "thoughtSignature": "S"}, {"thoughtSignature": "S"}])
def test_a_part_that_is_only_a_seal_is_not_text(part: dict[str, Any]) -> None:
    events = events_of(piece(call("look")), piece(part, stop="STOP"))
    assert blocks(events) == [BlockType.TOOL_USE, BlockType.OPAQUE]
    assert not [event for event in events if isinstance(event, TextDelta)]
    start = [event for event in events if isinstance(event, BlockStart)][-1]
    assert start.echo == part


def test_an_empty_text_is_nothing() -> None:
    events = events_of(piece({"text": ""}), piece({"text": ""}, stop="STOP"))
    assert blocks(events) == []


def test_sources_stay_with_the_text_that_rests_on_them() -> None:
    found = {"groundingChunks": [{"web": {"uri": "u"}}]}
    events = events_of(
        piece({"text": "a"}, groundingMetadata={}),
        piece({"text": "b"}, groundingMetadata=found),
        piece(
            {"text": "c"},
            groundingMetadata=found,
            citationMetadata={"citationSources": [{"uri": "v"}]},
            urlContextMetadata={"urlMetadata": []},
        ),
        piece(stop="STOP", citationMetadata={"citations": [{"uri": "w"}]}),
    )
    assert [e.citation for e in events if isinstance(e, CitationDelta)] == [
        {"groundingMetadata": found},
        {"uri": "v"},
        {"urlContextMetadata": {"urlMetadata": []}},
        {"uri": "w"},
    ]


def test_sources_without_a_text_travel_by_themselves() -> None:
    events = events_of(
        piece(
            stop="STOP", citationMetadata={"citations": [{"uri": "w"}]}, groundingMetadata={"webSearchQueries": ["q"]}
        )
    )
    kinds = [event.kind for event in events if isinstance(event, Opaque)]
    assert kinds == ["citationMetadata", "groundingMetadata"]


# --- calls


def test_calls_of_one_frame_and_of_successive_ones_are_calls_of_their_own() -> None:
    summary = summary_of(
        piece(call("a", args={"n": 1}) | {"thoughtSignature": "S"}, call("b", args={})),
        piece(call("a", args={"n": 2}, id="given")),
        piece({"text": ""}, stop="STOP"),
    )
    assert summary.tool_calls == (
        CalledTool(None, "a", '{"n":1}'),
        CalledTool(None, "b", ""),
        CalledTool("given", "a", '{"n":2}'),
    )
    assert summary.stop_reason == StopReason(StopKind.TOOL_USE, "STOP")


def test_every_call_has_an_id_of_its_own_and_keeps_its_seal() -> None:
    events = events_of(piece(call("a") | {"thoughtSignature": "S"}, call("a"), call("a"), stop="STOP"))
    message = answer_of(events, "gemini")
    assert len({made.id for made in message.tool_calls}) == 3
    assert [made.echo for made in message.tool_calls] == [{"thoughtSignature": "S"}, None, None]


def test_the_arguments_may_come_by_path() -> None:
    events = events_of(
        piece(call("cook", willContinue=True) | {"thoughtSignature": "S"}),
        piece(value("$.name", more=True, stringValue="Las")),
        piece(value("$.name", more=True, stringValue="ag")),
        piece(value("$.name", stringValue="na")),
        piece(call(willContinue=True)),
        piece(value("$.steps[0].minutes", numberValue=5)),
        piece(value("$.steps[0].hot", boolValue=True)),
        piece(value("$.steps[1]", nullValue="NULL_VALUE")),
        piece(value("$.name", stringValue="Pie")),
        piece(call()),
        piece({"text": ""}, stop="STOP"),
    )
    deltas = [e for e in events if isinstance(e, InputValueDelta)]
    assert [(d.path, d.value, d.append) for d in deltas] == [
        ("$.name", "Las", False),
        ("$.name", "ag", True),
        ("$.name", "na", True),
        ("$.steps[0].minutes", 5, False),
        ("$.steps[0].hot", True, False),
        ("$.steps[1]", None, False),
        ("$.name", "Pie", False),
    ]
    (made,) = answer_of(events, "gemini").tool_calls
    assert made.input == {"name": "Pie", "steps": [{"minutes": 5, "hot": True}, None]}
    assert made.echo == {"thoughtSignature": "S"}
    assert summarise(events).tool_calls[0].input == made.input


@pytest.mark.parametrize(
    "after",
    [
        [piece(call("b", args={"n": 1}), stop="STOP")],
        [piece({"text": "done"}, stop="STOP")],
        [piece({"text": ""}, stop="STOP")],
        [piece(stop="STOP")],
        [piece({"toolCall": {"toolType": "X"}}), piece(stop="STOP")],
    ],
)
def test_the_end_of_a_streamed_call_may_be_missing(after: list[Any]) -> None:
    events = events_of(piece(call("a", willContinue=True)), piece(value("$.id", more=True, stringValue="A")), *after)
    first = summarise(events).tool_calls[0]
    assert (first.name, first.input, first.aborted) == ("a", {"id": "A"}, False)
    stop = stop_of(events)
    assert stop is not None
    assert stop.runs_tools


def test_a_streamed_call_that_is_cut_is_aborted() -> None:
    events = events_of(piece(call("a", willContinue=True)), piece(value("$.id", stringValue="A")))
    assert [type(event) for event in events[-3:]] == [BlockAbort, Error, Status]
    assert summarise(events).truncated


def test_whole_arguments_may_come_with_a_call_that_continues() -> None:
    summary = summary_of(
        piece(call("a", args={"x": 1}, willContinue=True)),
        piece(value("$.y", numberValue=2)),
        piece(call(args={"z": 3})),
        piece(stop="STOP"),
    )
    assert summary.tool_calls[0].input == {"x": 1, "y": 2, "z": 3}


def test_a_seal_may_come_late_and_an_id_again() -> None:
    events = events_of(
        piece(call("a", id="1", willContinue=True)),
        piece(call("a", id="1", willContinue=True) | {"thoughtSignature": "S"}),
        piece(call(id="1")),
        piece(stop="STOP"),
    )
    (made,) = answer_of(events, "gemini").tool_calls
    assert (made.id, made.echo) == ("1", {"thoughtSignature": "S"})


def test_a_piece_of_no_call_is_kept_apart() -> None:
    events = events_of(piece(call(), call(args={"x": 1})), piece(stop="STOP"))
    assert [e.raw for e in events if isinstance(e, Opaque)] == [{"functionCall": {"args": {"x": 1}}}]
    assert blocks(events) == []


@pytest.mark.parametrize("args", [[1], "text", 5])
def test_arguments_that_are_not_an_object_are_shown_as_they_came(args: Any) -> None:
    summary = summary_of(piece(call("a", args=args), stop="STOP"))
    assert summary.tool_calls[0].input == args


# --- parts of Google's own tools, media, and what is new


def test_googles_own_tools_are_calls_and_results_that_no_worker_runs() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "S"}
    ran = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
    search = {"toolCall": {"toolType": "FILE_SEARCH", "id": "x", "args": {"q": 1}}}
    found: dict[str, Any] = {"toolResponse": {"toolType": "FILE_SEARCH", "id": "x", "response": {}}}
    events = events_of(piece(code, ran), piece(search), piece(found), piece(stop="STOP"))
    starts = [event for event in events if isinstance(event, BlockStart)]
    assert [start.echo for start in starts] == [code, ran, search, found]
    metadata = [start.metadata for start in starts]
    assert isinstance(metadata[0], ToolUseMetadata)
    assert metadata[0].name == "executableCode"
    assert metadata[1] == ToolResultMetadata(metadata[0].id, "codeExecutionResult")
    assert metadata[2] == ToolUseMetadata("x", "FILE_SEARCH")
    assert metadata[3] == ToolResultMetadata("x", "toolResponse")
    calls = summarise(events).server_tool_calls
    assert [one.input for one in calls] == [{"language": "PYTHON", "code": "1"}, {"q": 1}]
    assert stop_of(events) == StopReason(StopKind.END_TURN, "STOP")


@pytest.mark.parametrize(
    ("part", "block_type"),
    [
        ({"inlineData": {"mimeType": "image/png", "data": "AA"}}, BlockType.IMAGE),
        ({"fileData": {"mimeType": "image/png", "fileUri": "u"}}, BlockType.IMAGE),
        ({"inlineData": {"mimeType": "audio/wav", "data": "AA"}}, BlockType.OPAQUE),
        ({"inlineData": None, "newPart": {"x": 1}, "thoughtSignature": "S"}, BlockType.OPAQUE),
        ({"executableCode": "not an object"}, BlockType.OPAQUE),
        ({"functionCall": "not an object"}, BlockType.OPAQUE),
    ],
)
def test_other_parts_are_blocks_kept_whole(part: dict[str, Any], block_type: BlockType) -> None:
    events = events_of(piece({"text": "a"}, part, {"text": "b"}, stop="STOP"))
    assert blocks(events) == [BlockType.TEXT, block_type, BlockType.TEXT]
    start = [event for event in events if isinstance(event, BlockStart)][1]
    assert start.echo == part
    if block_type is BlockType.OPAQUE:
        assert isinstance(start.metadata, OpaqueMetadata)


NEW: list[dict[str, Any]] = [{"brandNew": {"a": 1}}, {"brandNew": "x"}, {"brandNew": 0}]


@pytest.mark.parametrize("new", NEW)
@pytest.mark.parametrize(
    ("known", "block_type"),
    [
        (call("look"), BlockType.TOOL_USE),
        ({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}, BlockType.IMAGE),
        ({"executableCode": {"code": "1"}}, BlockType.SERVER_TOOL_USE),
        ({"codeExecutionResult": {"output": "1"}}, BlockType.SERVER_TOOL_RESULT),
        ({"toolCall": {"toolType": "A"}}, BlockType.SERVER_TOOL_USE),
        ({"toolResponse": {"id": "a"}}, BlockType.SERVER_TOOL_RESULT),
    ],
)
def test_what_is_new_in_a_part_hides_nothing_wherever_it_stands(
    known: dict[str, Any], block_type: BlockType, new: dict[str, Any]
) -> None:
    for part in ({**new, **known}, {**known, **new}, {"thoughtSignature": "A", **new, **known}):
        starts = [e for e in events_of(piece(part, stop="STOP")) if isinstance(e, BlockStart)]
        assert [start.block_type for start in starts] == [block_type]
        assert starts[0].echo is not None
        assert starts[0].echo["brandNew"] == new["brandNew"]


def test_a_text_with_something_new_beside_it_is_still_text() -> None:
    events = events_of(piece({"text": "a", "mood": {"x": 1}}), piece({"text": "b"}, stop="STOP"))
    assert summarise(events).text == "ab"
    assert [e.raw for e in events if isinstance(e, Opaque)] == [{"mood": {"x": 1}}]


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        ({"something": "new"}, "chunk"),
        ({"candidates": "none"}, "chunk"),
        ({"candidates": [{"content": {"parts": ["text"]}}]}, "part"),
        ([5], "chunk"),
        ("text", "chunk"),
    ],
)
def test_unknown_frames_travel(frame: Any, kind: str) -> None:
    events = events_of(frame, piece({"text": "a"}, stop="STOP"))
    assert [event.kind for event in events if isinstance(event, Opaque)] == [kind]
    assert summarise(events).text == "a"


def test_numbers_as_text_are_read_all_the_same() -> None:
    frame = piece({"text": "a"}, stop="STOP")
    frame["candidates"][0]["index"] = "0"
    assert summary_of(frame).text == "a"


# --- usage


def test_usage_is_merged_and_the_last_number_holds() -> None:
    events = events_of(
        piece({"text": "a"}) | {"usageMetadata": {"promptTokenCount": 10, "totalTokenCount": 10}},
        piece({"text": "b"}) | {"usageMetadata": {"promptTokenCount": 10, "totalTokenCount": 10}},
        piece(stop="STOP")
        | {
            "usageMetadata": {
                "promptTokenCount": 9,
                "cachedContentTokenCount": 4,
                "candidatesTokenCount": 3,
                "thoughtsTokenCount": 2,
                "toolUsePromptTokenCount": 5,
                "totalTokenCount": None,
            }
        },
    )
    told = [event for event in events if isinstance(event, Usage)]
    assert len(told) == 2  # the same numbers again say nothing
    last = told[-1]
    assert (last.input_tokens, last.output_tokens) == (14, 5)
    assert (last.cache_read_tokens, last.reasoning_tokens) == (4, 2)
    assert last.raw is not None
    assert last.raw["totalTokenCount"] == 10
    counts = Gemini("m").counts(last)
    assert (counts.input_tokens, counts.output_tokens, counts.cache_read) == (9, 3, 4)


def counted(number: int) -> dict[str, Any]:
    return {"usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": number}}


@pytest.mark.parametrize("pieces", [1, 2, 16, 17, 18, 40])
def test_a_usage_follows_every_sixteenth_piece_of_text_and_the_last_is_never_missing(pieces: int) -> None:
    events = events_of(*(piece({"text": "a"}) | counted(number) for number in range(pieces)), piece(stop="STOP"))
    numbers = [event.output_tokens for event in events if isinstance(event, Usage)]
    # The first piece opens the block, so that it is counted alone.
    assert numbers == sorted({0, *range(16, pieces, 16), pieces - 1})
    assert sum(isinstance(event, TextDelta) for event in events) == pieces


def test_a_null_usage_of_a_piece_of_text_leaves_the_one_before_it() -> None:
    events = events_of(
        *(piece({"text": "a"}) | counted(number) for number in (1, 2)),
        piece({"text": "b"}) | {"usageMetadata": None},
        piece(stop="STOP"),
    )
    numbers = [event.output_tokens for event in events if isinstance(event, Usage)]
    assert numbers == [1, 2]


def test_the_newest_usage_comes_before_a_cut() -> None:
    data = stream(*(piece({"text": "a"}) | counted(number) for number in range(5)))
    *_, usage, _abort, error, _status = decode(data)
    assert isinstance(usage, Usage)
    assert isinstance(error, Error)
    assert usage.output_tokens == 4


# --- how it ends


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ("STOP", StopKind.END_TURN),
        ("MAX_TOKENS", StopKind.MAX_TOKENS),
        ("SAFETY", StopKind.CONTENT_FILTER),
        ("RECITATION", StopKind.CONTENT_FILTER),
        ("BLOCKLIST", StopKind.CONTENT_FILTER),
        ("PROHIBITED_CONTENT", StopKind.CONTENT_FILTER),
        ("SPII", StopKind.CONTENT_FILTER),
        ("LANGUAGE", StopKind.CONTENT_FILTER),
        ("IMAGE_SAFETY", StopKind.CONTENT_FILTER),
        ("IMAGE_PROHIBITED_CONTENT", StopKind.CONTENT_FILTER),
        ("IMAGE_RECITATION", StopKind.CONTENT_FILTER),
        ("MODEL_ARMOR", StopKind.CONTENT_FILTER),
        ("ESCALATION", StopKind.CONTENT_FILTER),
        ("MALFORMED_FUNCTION_CALL", StopKind.MALFORMED),
        ("UNEXPECTED_TOOL_CALL", StopKind.MALFORMED),
        ("TOO_MANY_TOOL_CALLS", StopKind.MALFORMED),
        ("MISSING_THOUGHT_SIGNATURE", StopKind.MALFORMED),
        ("MALFORMED_RESPONSE", StopKind.MALFORMED),
        ("OTHER", StopKind.INCOMPLETE),
        ("IMAGE_OTHER", StopKind.INCOMPLETE),
        ("NO_IMAGE", StopKind.INCOMPLETE),
        ("NEVER_HEARD_OF", StopKind.OTHER),
    ],
)
def test_each_finish_reason_has_its_normal_form(raw: str, kind: StopKind) -> None:
    assert stop_of(events_of(piece({"text": "a"}, stop=raw))) == StopReason(kind, raw)


def test_the_last_finish_reason_holds() -> None:
    events = events_of(
        piece({"text": "a"}, stop="STOP"),
        piece({"text": "b"}, stop="STOP"),
        piece({"text": "c"}, stop="SAFETY", safetyRatings=[{"blocked": True}]),
    )
    assert summarise(events).text == "abc"
    assert stop_of(events) == StopReason(StopKind.CONTENT_FILTER, "SAFETY")
    assert [e.raw for e in events if isinstance(e, Opaque)] == [[{"blocked": True}]]


def test_max_tokens_without_any_content_is_not_an_error() -> None:
    events = events_of(piece(stop="MAX_TOKENS", index=0))
    assert stop_of(events) == StopReason(StopKind.MAX_TOKENS, "MAX_TOKENS")
    assert fold(events) is None


@pytest.mark.parametrize("raw", ["FUNCTION_CALL", "NEVER_HEARD_OF", "stop"])
@pytest.mark.parametrize("apart", [True, False])
def test_whole_calls_run_also_under_an_unknown_reason(raw: str, apart: bool) -> None:
    frames = [piece(call("a")), piece(stop=raw)] if apart else [piece(call("a"), stop=raw)]
    events = events_of(*frames)
    assert stop_of(events) == StopReason(StopKind.TOOL_USE, raw)
    assert [type(e) for e in events if isinstance(e, BlockStop | BlockAbort)] == [BlockStop]


def test_a_streamed_call_without_its_end_does_not_run_under_an_unknown_reason() -> None:
    begun: Any = {"functionCall": {"name": "a", "willContinue": True}}
    events = events_of(piece(begun), piece(stop="NEVER_HEARD_OF"))
    assert stop_of(events) == StopReason(StopKind.OTHER, "NEVER_HEARD_OF")
    assert any(isinstance(event, BlockAbort) for event in events)


def test_a_call_that_names_no_tool_is_malformed() -> None:
    events = events_of(piece({"functionCall": {"name": "", "args": {"a": 1}}}, stop="STOP"))
    assert stop_of(events) == StopReason(StopKind.MALFORMED, "STOP")
    assert not any(isinstance(event, BlockStart) for event in events)


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ([call("look"), call(args={"city": "Rome"})], StopKind.MALFORMED),
        ([call(args={"city": "Rome"}), call("look")], StopKind.MALFORMED),
        ([call("look", args={}), call("", args={"city": "Rome"})], StopKind.MALFORMED),
        ([call("look", args={"city": "Rome"}), call(args={"city": "Oslo"})], StopKind.TOOL_USE),
        ([call("look", willContinue=True), call(args={"city": "Rome"})], StopKind.TOOL_USE),
    ],
)
@pytest.mark.parametrize("is_cut", [False, True])
def test_arguments_without_a_name_keep_a_call_from_running_with_its_defaults(
    parts: list[Any], kind: StopKind, is_cut: bool
) -> None:
    frames = [piece(part) for part in parts] if is_cut else [piece(*parts)]
    stop = stop_of(events_of(*frames, piece(stop="STOP")))
    assert stop is not None
    assert (stop.kind, stop.runs_tools) == (kind, kind is StopKind.TOOL_USE)


@pytest.mark.parametrize("raw", ["MALFORMED_FUNCTION_CALL", "MAX_TOKENS", "SAFETY", "OTHER"])
def test_a_call_that_comes_with_a_bad_end_is_aborted(raw: str) -> None:
    frame = piece(call("a"), stop=raw, finishMessage="why")
    events = events_of(frame)
    assert [type(e) for e in events if isinstance(e, BlockStop | BlockAbort)] == [BlockAbort]
    stop = stop_of(events)
    assert stop is not None
    assert (stop.raw, stop.detail, stop.runs_tools) == (raw, "why", False)
    assert fold(events) is None


def test_a_bad_end_after_a_whole_call_forbids_to_run_it() -> None:
    stop = stop_of(events_of(piece(call("a")), piece(stop="TOO_MANY_TOOL_CALLS")))
    assert stop == StopReason(StopKind.MALFORMED, "TOO_MANY_TOOL_CALLS")


@pytest.mark.parametrize(
    ("feedback", "detail"),
    [({"blockReason": "JAILBREAK"}, "JAILBREAK"), ({"blockReason": "OTHER", "blockReasonMessage": "no"}, "OTHER: no")],
)
def test_a_refused_prompt_is_a_content_filter(feedback: dict[str, Any], detail: str) -> None:
    usage = {"usageMetadata": {"promptTokenCount": 3}}
    events = events_of({"promptFeedback": feedback} | usage)
    assert stop_of(events) == StopReason(StopKind.CONTENT_FILTER, None, detail)
    assert [e.raw for e in events if isinstance(e, Opaque)] == [feedback]
    assert summarise(events).usage is not None


def test_a_prompt_that_is_refused_in_the_middle_leaves_no_call() -> None:
    events = events_of(piece(call("a", willContinue=True)), {"promptFeedback": {"blockReason": "SAFETY"}})
    assert [type(e) for e in events if isinstance(e, BlockStop | BlockAbort)] == [BlockAbort]
    assert stop_of(events) == StopReason(StopKind.CONTENT_FILTER, None, "SAFETY")


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [piece({"text": "a"})],
        [{"usageMetadata": {"promptTokenCount": 1}}],
        [{"candidates": []}],
        [{"promptFeedback": {"safetyRatings": []}}],
        [piece({"text": "a"}, stop="STOP"), piece({"text": "b"}, index=1)],
    ],
)
def test_bytes_that_end_before_the_reason_are_a_truncated_response(frames: list[Any]) -> None:
    events = events_of(*frames)
    assert [e.code for e in events if isinstance(e, Error)] == [TRUNCATED]
    last = events[-1]
    assert isinstance(last, Status)
    assert last.status is ResponseStatus.FAILED


def test_half_a_frame_behind_a_reason_is_a_truncated_response() -> None:
    events = decode(stream(piece({"text": "a"}, stop="STOP")), b'data: {"candidates": [{"con')
    assert summarise(events).truncated


def test_half_a_frame_in_the_middle_is_the_providers_fault() -> None:
    events = decode(b'data: {"candidates": [{"con\n\n', stream(piece({"text": "a"}, stop="STOP")))
    assert [e.code for e in events if isinstance(e, Error)] == ["bad_json"]


def test_candidates_are_kept_apart() -> None:
    events = events_of(
        {
            "candidates": [
                {"content": {"parts": [{"text": "a"}]}, "index": 0},
                {"content": {"parts": [{"text": "x"}]}, "index": 1},
            ]
        },
        piece({"text": "y"}, call("look"), index=1, stop="STOP"),
        piece({"text": "b"}, index=0, stop="MAX_TOKENS"),
    )
    summary = summarise(events)
    assert (summary.text, summary.tool_calls) == ("ab", ())
    assert summary.stop_reason == StopReason(StopKind.MAX_TOKENS, "MAX_TOKENS")
    other = {e.index for e in events if isinstance(e, BlockStart) and e.choice == 1}
    assert "".join(e.text for e in events if isinstance(e, TextDelta) and e.choice == 1) == "xy"
    stops = [e.stop_reason for e in events if isinstance(e, BlockStop) and e.index in other]
    assert stops[-1] == StopReason(StopKind.TOOL_USE, "STOP")


# --- what went wrong

BARE: dict[str, Any] = {"error": {"code": 503, "message": "Try later.", "status": "UNAVAILABLE", "details": []}}


def lf(text: str) -> bytes:
    return text.encode()


def crlf(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


@pytest.mark.parametrize("encode", [lf, crlf])
@pytest.mark.parametrize("behind", ["", "\n", "\n\ndata: {}\n\n"])
@pytest.mark.parametrize("before", [b"", stream(piece({"text": "a"}, stop="STOP"))])
def test_an_error_as_bare_json_is_reported_once(encode: Callable[[str], bytes], behind: str, before: bytes) -> None:
    events = decode(before, encode(json.dumps(BARE, indent=2) + behind))
    (error,) = [event for event in events if isinstance(event, Error)]
    assert (error.code, error.message) == ("503", "Try later.")
    assert (error.kind, error.retryable) == ("overloaded", True)


def test_bare_json_may_hold_empty_lines() -> None:
    bare = json.dumps(BARE, indent=2).replace("\n", "\n\n", 3).encode()
    for events in (decode(bare), decode(*cut(bare))):
        assert [e.code for e in events if isinstance(e, Error)] == ["503"]


@pytest.mark.parametrize(
    "frame",
    [
        b'data: {"error": {"code": 503, "message": "Try later.", "status": "UNAVAILABLE"}}\r\n\r\n',
        b'data: [{"error": {"code": 503, "message": "Try later."}}]\n\n',
        b'event: error\ndata: {"error": {"code": 503, "message": "Try later."}}\n\n',
        b'[{"error": {"code": 503, "message": "Try later."}}]\n\n',
    ],
)
def test_an_error_in_a_frame_ends_the_response(frame: bytes) -> None:
    events = decode(stream(piece({"text": "a"})), frame, stream(piece(stop="STOP")))
    (error,) = [event for event in events if isinstance(event, Error)]
    assert (error.code, error.kind) == ("503", "overloaded")
    assert isinstance(events[-3], BlockAbort)


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"code": 499, "status": "CANCELLED"}, "cancelled", False),
        ({"code": 400, "status": "INVALID_ARGUMENT"}, "invalid_request", False),
        ({"status": "UNAVAILABLE"}, "overloaded", True),
        ({"status": "RESOURCE_EXHAUSTED"}, "rate_limit", True),
    ],
)
def test_each_status_of_googles_has_its_kind(error: dict[str, Any], kind: str, retryable: bool) -> None:
    events = events_of({"error": error | {"message": "m"}})
    (told,) = [event for event in events if isinstance(event, Error)]
    assert (told.kind, told.retryable) == (kind, retryable)


@pytest.mark.parametrize("noise", [b": a comment\n\n", b"data: [DONE]\n\n"])
def test_noise_changes_nothing(noise: bytes) -> None:
    frames = stream(piece({"text": "a"}, stop="STOP"))
    assert decode(noise, frames, noise) == decode(frames)


@pytest.mark.parametrize("noise", [b"data: keepalive\n\n", b"keep: alive\n\n"])
def test_words_that_are_not_json_travel(noise: bytes) -> None:
    events = decode(noise, stream(piece({"text": "a"}, stop="STOP")))
    assert summarise(events).text == "a"
    assert len([event for event in events if isinstance(event, Opaque)]) == 1


# --- the answer that is not a stream of events


@pytest.mark.parametrize("between", [",\r\n", ",\n", "\n,\r\n"])
def test_one_json_array_is_understood_at_its_end(between: str) -> None:
    frames = [piece({"text": "a"}), piece({"text": "b"}, call("look")), piece(stop="STOP")]
    body = f"[{between.join(json.dumps(frame, indent=2) for frame in frames)}\n]\n".encode()
    for chunks in ([body], cut(body)):
        summary = summarise(decode(*chunks))
        assert summary.text == "ab"
        assert summary.stop_reason == StopReason(StopKind.TOOL_USE, "STOP")


def test_one_json_object_is_understood_too() -> None:
    body = json.dumps(piece({"text": "a"}, stop="STOP"), indent=2).encode()
    assert summarise(decode(body)).text == "a"


def test_half_an_array_is_a_truncated_response() -> None:
    body = json.dumps([piece({"text": "a"}, stop="STOP")], indent=2).encode()
    for end in range(1, len(body)):
        events = decode(body[:end])
        assert [e.code for e in events if isinstance(e, Error)] == [TRUNCATED]


def test_a_stream_twice_as_long_makes_twice_the_events() -> None:
    """Nothing is told again with each frame."""
    counts = [len(events_of(*itertools.repeat(piece({"text": "x"}), n), piece(stop="STOP"))) for n in (100, 200)]
    assert counts[1] - counts[0] == 100


PARTS: list[Any] = [
    {"text": "a"},
    {"text": ""},
    {"text": "b", "thoughtSignature": "S"},
    {"text": "", "thoughtSignature": "S"},
    {"text": "c", "thought": True},
    {"thoughtSignature": "S"},
    call("f", args={"x": 1}),
    call("f", willContinue=True),
    call(),
    value("$.x[0]", stringValue="v"),
    {"executableCode": {"code": "1"}},
    {"codeExecutionResult": {}},
    {"inlineData": {"mimeType": "image/png"}},
    {"new": 1},
    5,
]
REASONS = [None, None, "STOP", "MAX_TOKENS", "MALFORMED_RESPONSE", "NEW"]


def frame_of(parts: list[Any], stop: str | None, index: int) -> dict[str, Any]:
    return piece(*parts, stop=stop, index=index)


FRAMES = st.builds(frame_of, st.lists(st.sampled_from(PARTS), max_size=3), st.sampled_from(REASONS), st.integers(0, 1))


@given(st.lists(FRAMES, max_size=6), st.data())
@settings(deadline=None)
def test_any_parts_in_any_order_make_balanced_blocks_and_one_end(frames: list[Any], data: st.DataObject) -> None:
    whole = stream(*frames)
    place = data.draw(st.integers(0, len(whole)))
    assert fold_kinds(decode(whole)) == fold_kinds(decode(whole[:place], whole[place:]))
    events = decode(whole[:place])  # which lints them
    ends = [e for e in events if isinstance(e, Status) and e.status is not ResponseStatus.STARTED]
    assert ends == [events[-1]]
    assert any(isinstance(e, Error) for e in events) is (ends[0].status is ResponseStatus.FAILED)


def fold_kinds(events: Sequence[ResponseEvent]) -> list[Any]:
    """What the message is made of; the ids that we make differ each time."""
    message = fold(events)
    return [type(block) for block in message.content] if message else []


# --- what is easily lost


@pytest.mark.parametrize("thought", [False, True])
def test_text_beside_a_call_in_one_part_is_emitted_as_text(thought: bool) -> None:
    beside = {"text": "b", "thoughtSignature": "s"} | ({"thought": True} if thought else {})
    events = events_of(piece({"text": "a"}), piece(call("look", args={"x": 1}) | beside, stop="STOP"))
    summary = summarise(events)
    assert (summary.text, summary.thinking) == (("a", "b") if thought else ("ab", ""))
    assert [(c.name, c.input) for c in summary.tool_calls] == [("look", {"x": 1})]
    begun = next(e for e in events if isinstance(e, BlockStart) and e.metadata is not None)
    assert begun.echo == {"thoughtSignature": "s"}


def test_a_name_with_both_quote_marks_is_kept() -> None:
    name = 'it\'s "it"'
    frames = [piece(call("look", args={name: 1}, willContinue=True)), piece(call(), stop="STOP")]
    assert summarise(events_of(*frames)).tool_calls[0].input == {name: 1}


def test_an_unknown_reason_completes_nothing() -> None:
    unspecified = piece({"text": "a"}, stop="FINISH_REASON_UNSPECIFIED")
    assert summarise(events_of(unspecified)).truncated
    ended = summarise(events_of(unspecified, piece({"text": "b"}, stop="STOP")))
    assert ended.stop_reason == StopReason(StopKind.END_TURN, "STOP")
    later = summarise(events_of(piece({"text": "b"}, stop="STOP"), unspecified))
    assert later.stop_reason == StopReason(StopKind.END_TURN, "STOP")


def test_an_unspecified_block_reason_blocks_nothing() -> None:
    feedback = {"promptFeedback": {"blockReason": "BLOCK_REASON_UNSPECIFIED"}}
    assert summarise(events_of(feedback)).truncated


def test_an_odd_candidate_costs_nothing_but_itself() -> None:
    frame = piece({"text": "a"}, stop="STOP")
    frame |= {"candidates": [None, {"content": {"parts": 3}, "index": {}}, *frame["candidates"]]}
    events = events_of(frame)
    assert summarise(events).text == "a"
    told: Any = {"candidates": [{"content": {"parts": 3}}]}
    assert [e for e in events if isinstance(e, Opaque)] == [Opaque("chunk", told)]
