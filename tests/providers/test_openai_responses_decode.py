"""The rules of the Responses stream and its servers that the recordings alone do not hold down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest

from rxworker.events import (
    BlockAbort,
    BlockDelta,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Error,
    InputJsonDelta,
    InputValueDelta,
    Opaque,
    Ping,
    RefusalDelta,
    ResponseEvent,
    ResponseStatus,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
    Usage,
)
from rxworker.events.block import ToolResultMetadata
from rxworker.framing.sse import SseFrame
from rxworker.messages import StopKind, StopReason
from rxworker.providers import OpenAIResponses
from rxworker.providers.block_factory import BlockFactory
from rxworker.providers.openai_responses import OpenAIResponsesDecoder
from rxworker.providers.openai_responses.decode import ITEM_HANDLERS, Items, WireEvent, decode_event
from rxworker.providers.openai_responses.item import Item
from rxworker.state.grammar import ResponseGrammar
from rxworker.views import summarise
from tests.numbered_ids import numbered_ids

Wire = dict[str, Any]


def event(kind: str, **fields: Any) -> Wire:
    return {"type": kind if kind == "error" else f"response.{kind}", **fields}


CREATED = event("created", response={"id": "resp_1", "model": "m", "status": "in_progress"})


def added(index: int | None, **item: Any) -> Wire:
    place = {} if index is None else {"output_index": index}
    return event("output_item.added", item=item, **place)


def done(index: int | None, **item: Any) -> Wire:
    place = {} if index is None else {"output_index": index}
    return event("output_item.done", item=item, **place)


def delta(kind: str, text: str, index: int | None = 0, **fields: Any) -> Wire:
    place = {} if index is None else {"output_index": index}
    return event(f"{kind}.delta", delta=text, **place, **fields)


def last(status: str = "completed", **response: Any) -> Wire:
    return event(status, response={"id": "resp_1", "status": status, **response})


def function_call(arguments: str = "", **more: Any) -> Wire:
    call = {"type": "function_call", "id": "fc", "call_id": "call_1", "name": "look"}
    return {**call, "arguments": arguments, **more}


def message(*parts: Wire, **more: Any) -> Wire:
    return {"type": "message", "id": "msg", "role": "assistant", "content": [*parts], **more}


def output_text(text: str, *annotations: Wire) -> Wire:
    return {"type": "output_text", "text": text, "annotations": [*annotations]}


@numbered_ids()
def decode(*messages: Wire | str, finish: bool = True) -> list[ResponseEvent]:
    """The events, which are always balanced."""
    decoder = OpenAIResponsesDecoder()
    events: list[ResponseEvent] = []
    for one in messages:
        data = one if isinstance(one, str) else json.dumps(one)
        events += decoder.feed(SseFrame(data.encode()))
    if finish:
        events += decoder.finish()
        linter = ResponseGrammar()
        assert [c for e in events for c in linter.feed(e)] + linter.finish() == []
    return events


def stop_of(*messages: Wire) -> StopReason | None:
    return summarise(decode(CREATED, *messages)).stop_reason


def echoes(events: list[ResponseEvent]) -> list[Any]:
    return [e.echo for e in events if isinstance(e, BlockStop)]


# --- which item


def test_items_are_known_by_their_index_and_never_by_their_id() -> None:
    events = decode(
        CREATED,
        added(0, type="reasoning", id="a"),
        added(1, **message(id="b")),
        delta("output_text", "yes", 1, item_id="a", content_index=0),
        delta("reasoning_summary_text", "hm", 0, item_id="b", summary_index=0),
        done(0, type="reasoning", id="c"),
        done(1, **message(output_text("yes"), id="d")),
        last(),
    )
    summary = summarise(events)
    assert (summary.text, summary.thinking) == ("yes", "hm")
    assert [echo["item"]["id"] for echo in echoes(events)] == ["c", "d"]


def test_items_may_overlap_and_end_in_any_order() -> None:
    events = decode(
        CREATED,
        added(0, **function_call(id="a", call_id="1")),
        added(1, **function_call(id="b", call_id="2")),
        delta("function_call_arguments", '{"x":', 1),
        delta("function_call_arguments", '{"y":', 0),
        delta("function_call_arguments", "1}", 1),
        done(1, **function_call('{"x":1}', id="b", call_id="2")),
        delta("function_call_arguments", "2}", 0),
        done(0, **function_call('{"y":2}', id="a", call_id="1")),
        last(),
    )
    calls = summarise(events).tool_calls
    assert [(call.id, call.input) for call in calls] == [("1", {"y": 2}), ("2", {"x": 1})]


def test_without_any_index_items_are_known_by_their_ids() -> None:
    """As llama-server sends it: no index at all, calls without an id of their own, all ends at the end."""
    call_1 = {"type": "function_call", "call_id": "fc_1", "name": "look"}
    call_2 = {"type": "function_call", "call_id": "fc_2", "name": "look"}
    events = decode(
        CREATED,
        added(None, type="reasoning", id="rs", summary=[], content=[], encrypted_content=""),
        delta("reasoning_text", "hm", None, item_id="rs"),
        added(None, **message(id="msg")),
        event("content_part.added", item_id="msg", part=output_text("")),
        delta("output_text", "I lo", None, item_id="msg"),
        delta("output_text", "ok.", None, item_id="msg"),
        added(None, **call_1, arguments=""),
        delta("function_call_arguments", '{"a":1}', None, item_id="fc_1"),
        added(None, **call_2, arguments=""),
        delta("function_call_arguments", "{}", None, item_id="fc_2"),
        done(None, type="reasoning", id="rs", content=[{"type": "reasoning_text", "text": "hm"}]),
        event("output_text.done", item_id="msg", text="I look."),
        done(None, **message(output_text("I look."), id="msg")),
        done(None, **call_1, arguments='{"a":1}'),
        done(None, **call_2, arguments="{}"),
        last(),
    )
    summary = summarise(events)
    assert (summary.thinking, summary.text) == ("hm", "I look.")
    calls = [(call.id, call.input) for call in summary.tool_calls]
    assert calls == [("fc_1", {"a": 1}), ("fc_2", {})]
    starts = [e.echo["output_index"] for e in events if isinstance(e, BlockStart) and e.echo]
    assert starts == [0, 1, 2, 3]


def test_without_index_and_id_an_event_is_for_the_last_open_item_of_its_type() -> None:
    events = decode(
        CREATED,
        added(0, **message()),
        added(1, type="reasoning"),
        delta("output_text", "yes", None),
        delta("reasoning_text", "hm", None),
        done(None, type="reasoning"),
        done(None, **message(output_text("yes"), id="other")),
        last(),
    )
    assert (summarise(events).text, summarise(events).thinking) == ("yes", "hm")
    assert len(echoes(events)) == 2


def test_a_delta_without_any_item_opens_one() -> None:
    events = decode(delta("output_text", "Hi", None), delta("output_text", "!", None), last())
    assert summarise(events).text == "Hi!"
    assert [e.block_type for e in events if isinstance(e, BlockStart)] == [BlockType.TEXT]


def test_a_call_starts_when_its_name_is_known() -> None:
    late = delta("function_call_arguments", '{"a":', 0), delta("function_call_arguments", "1}", 0)
    for news in (added(0, **function_call()), done(0, **function_call('{"a":1}'))):
        events = decode(CREATED, *late, news, last())
        (call,) = summarise(events).tool_calls
        assert (call.id, call.name, call.input) == ("call_1", "look", {"a": 1})


def test_a_call_without_an_id_is_given_one() -> None:
    events = decode(CREATED, added(0, type="function_call", name="look"), last())
    start = next(e for e in events if isinstance(e, BlockStart))
    assert start.metadata == ToolUseMetadata("rxw_1", "look")
    assert summarise(events).tool_calls[0].id is None


# --- what it says


def test_what_was_not_streamed_is_taken_from_the_end() -> None:
    """As LM Studio does with calls: the arguments come with the item alone."""
    source = {"type": "url_citation", "url": "u"}
    events = decode(
        CREATED,
        added(0, type="reasoning"),
        done(0, type="reasoning", summary=[{"type": "summary_text", "text": "hm"}]),
        added(1, **message()),
        done(1, **message(output_text("yes", source), {"type": "refusal", "refusal": "no"})),
        added(2, **function_call()),
        done(2, **function_call('{"a": 1}')),
        added(3, type="custom_tool_call", call_id="c", name="sql"),
        done(3, type="custom_tool_call", call_id="c", name="sql", input="SELECT 1"),
        last(),
    )
    summary = summarise(events)
    assert (summary.thinking, summary.text, summary.refusal) == ("hm", "yes", "no")
    assert [call.input for call in summary.tool_calls] == [{"a": 1}, "SELECT 1"]
    assert [e.citation for e in events if isinstance(e, CitationDelta)] == [source]


@pytest.mark.parametrize(
    "end",
    [
        event("output_text.done", output_index=0, content_index=0, text="Hello"),
        event("content_part.done", output_index=0, content_index=0, part=output_text("Hello")),
        done(0, **message(output_text("Hello"))),
    ],
)
def test_what_is_missing_at_the_end_of_a_text_is_added_once(end: Wire) -> None:
    start = (CREATED, added(0, **message()), delta("output_text", "Hel", content_index=0))
    assert summarise(decode(*start, end, end, last())).text == "Hello"


def test_a_response_of_which_only_the_end_comes_is_emitted_from_its_output() -> None:
    output = [
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]},
        message(output_text("yes")),
        function_call("{}"),
    ]
    summary = summarise(decode(last(output=output, usage={"input_tokens": 1})))
    assert (summary.thinking, summary.text, len(summary.tool_calls)) == ("hm", "yes", 1)
    assert summary.response_id == "resp_1"


def test_a_call_that_stands_in_the_output_alone_is_made_up_for() -> None:
    text = [added(0, **message()), delta("output_text", "Let me look.", 0)]
    output = [message(output_text("Let me look.")), function_call('{"a": 1}')]
    events = decode(CREATED, *text, done(0, **output[0]), last(output=output))
    summary = summarise(events)
    assert (summary.text, [call.input for call in summary.tool_calls]) == ("Let me look.", [{"a": 1}])
    assert summary.stop_reason == StopReason(StopKind.TOOL_USE, "completed")


def test_a_call_that_began_whole_and_never_ended_keeps_its_arguments() -> None:
    (call,) = summarise(decode(CREATED, added(0, **function_call('{"a": 1}')), last())).tool_calls
    assert call.input == {"a": 1}


def test_an_item_that_never_ends_takes_its_echo_from_the_output() -> None:
    whole = message(output_text("yes"), phase="final_answer")
    events = decode(CREATED, added(0, **message()), delta("output_text", "yes"), last(output=[whole]))
    assert echoes(events) == [{"item": whole}]


def test_each_part_of_an_item_is_a_block_and_the_last_has_the_item() -> None:
    item: Wire = {"type": "reasoning", "id": "rs", "encrypted_content": "whole", "summary": []}
    events = decode(
        CREATED,
        added(0, **{**item, "encrypted_content": "half"}),
        delta("reasoning_summary_text", "one", summary_index=0),
        delta("reasoning_summary_text", "two", summary_index=1),
        done(0, **item),
        last(),
    )
    kinds = [type(e) for e in events[1:-1]]
    assert kinds == [BlockStart, ThinkingDelta, BlockStop, BlockStart, ThinkingDelta, BlockStop]
    assert echoes(events) == [None, {"item": item}]


def test_a_thought_without_words_is_a_block() -> None:
    item: Wire = {"type": "reasoning", "id": "rs", "encrypted_content": "sealed", "summary": []}
    events = decode(CREATED, added(0, **item), done(0, **item), last())
    start, stop = events[1:3]
    assert isinstance(start, BlockStart)
    assert start.block_type is BlockType.THINKING
    assert isinstance(stop, BlockStop)
    assert stop.echo == {"item": item}


def test_parts_are_distinguished_also_where_they_are_not_numbered() -> None:
    events = decode(
        CREATED,
        added(0, **message()),
        delta("output_text", "well"),
        delta("refusal", "no"),
        delta("output_text", ", no"),
        last(),
    )
    assert [type(e) for e in events if isinstance(e, BlockDelta)] == [TextDelta, RefusalDelta, TextDelta]


def test_sources_are_reported_once() -> None:
    source = {"type": "url_citation", "url": "u"}
    note = event("output_text.annotation.added", output_index=0, content_index=0, annotation=source)
    events = decode(
        CREATED,
        added(0, **message()),
        delta("output_text", "yes", content_index=0),
        note,
        done(0, **message(output_text("yes", source))),
        last(),
    )
    assert [e.citation for e in events if isinstance(e, CitationDelta)] == [source]


def test_free_text_stays_text_also_where_it_looks_like_json() -> None:
    call = {"type": "custom_tool_call", "call_id": "c", "name": "sql"}
    events = decode(CREATED, added(0, **call, input=""), delta("custom_tool_call_input", '{"a":1}'), last())
    assert summarise(events).tool_calls[0].input == '{"a":1}'


# --- what the provider runs, and what nobody knows


@pytest.mark.parametrize(
    ("item", "name", "asked"),
    [
        ({"type": "web_search_call", "action": {"query": "x"}}, "web_search_call", {"query": "x"}),
        ({"type": "file_search_call", "queries": ["x"]}, "file_search_call", {"queries": ["x"]}),
        ({"type": "mcp_call", "name": "ask", "arguments": '{"q":1}'}, "ask", {"q": 1}),
        (
            {"type": "tool_search_call", "execution": "server", "arguments": {"paths": []}},
            "tool_search_call",
            {"paths": []},
        ),
        ({"type": "code_interpreter_call", "code": "1"}, "code_interpreter_call", {"code": "1"}),
        ({"type": "image_generation_call", "result": "AA"}, "image_generation_call", {}),
    ],
)
def test_what_the_provider_runs_is_reported_and_kept(item: Wire, name: str, asked: Wire) -> None:
    item = {"id": "ws", **item}
    start = {"type": item["type"], "id": "ws", "execution": item.get("execution")}
    start |= {"name": item["name"]} if "name" in item else {}
    events = decode(CREATED, added(0, **start), done(0, **item), last())
    (call,) = summarise(events).server_tool_calls
    assert (call.id, call.name, call.input) == ("ws", name, asked)
    assert echoes(events) == [{"item": item}]
    stop = summarise(events).stop_reason
    assert stop == StopReason(StopKind.END_TURN, "completed")


def test_calls_that_the_provider_runs_stream() -> None:
    events = decode(
        CREATED,
        added(0, type="mcp_call", id="m", name="ask", arguments=""),
        delta("mcp_call_arguments", '{"q":'),
        delta("mcp_call_arguments", "1}"),
        event("mcp_call_arguments.done", output_index=0, arguments='{"q":1}'),
        done(0, type="mcp_call", id="m", name="ask", arguments='{"q":1}', output="yes"),
        added(1, type="code_interpreter_call", id="ci", code=""),
        delta("code_interpreter_call_code", "print", 1),
        delta("code_interpreter_call_code", "()", 1),
        done(1, type="code_interpreter_call", id="ci", code="print()"),
        last(),
    )
    texts = [e.text for e in events if isinstance(e, InputJsonDelta)]
    assert texts == ['{"q":', "1}"]
    values = [(e.path, e.value, e.append) for e in events if isinstance(e, InputValueDelta)]
    assert values == [("$.code", "print", True), ("$.code", "()", True)]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "shell_call", "call_id": "c"},
        {"type": "local_shell_call", "call_id": "c"},
        {"type": "apply_patch_call", "call_id": "c"},
        {"type": "computer_call", "call_id": "c"},
        {"type": "mcp_approval_request", "id": "c"},
        {"type": "tool_search_call", "call_id": "c", "execution": "client"},
    ],
)
def test_what_waits_for_the_client_is_kept_but_runs_no_tool(item: Wire) -> None:
    events = decode(CREATED, added(0, **item), done(0, **item), last())
    assert echoes(events) == [{"item": item}]
    assert summarise(events).tool_calls == ()
    stop = summarise(events).stop_reason
    expected = f"waits for the client: {item['type']}"
    assert stop == StopReason(StopKind.END_TURN, "completed", expected)


def test_a_result_of_the_providers_names_its_call() -> None:
    item: Wire = {"type": "shell_call_output", "call_id": "c", "output": []}
    start = decode(CREATED, added(0, **item), done(0, **item), last())[1]
    assert isinstance(start, BlockStart)
    assert start.metadata == ToolResultMetadata("c", "shell_call_output")


def test_an_unknown_item_is_kept_and_an_unknown_event_travels() -> None:
    item = {"type": "novelty", "id": "n", "deep": {"a": [1]}}
    strange = event("novelty.delta", output_index=0, delta={"a": 1})
    partial = event("image_generation_call.partial_image", output_index=0, partial_image_b64="AA")
    events = decode(CREATED, added(0, **item), strange, partial, done(0, **item), last())
    assert echoes(events) == [{"item": item}]
    assert [e for e in events if isinstance(e, Opaque)] == [
        Opaque("response.novelty.delta", strange),
        Opaque("response.image_generation_call.partial_image", partial),
    ]


def test_arguments_that_name_a_message_travel_on() -> None:
    strange = delta("function_call_arguments", "{", None, item_id="msg")
    events = decode(CREATED, added(0, **message()), delta("output_text", "a"), strange, last())
    assert summarise(events).text == "a"
    assert Opaque("response.function_call_arguments.delta", strange) in events


@pytest.mark.parametrize(
    "odd",
    [
        "1",
        "[]",
        '"text"',
        "null",
        "keepalive",
        "{}",
        '{"type": "response.output_item.added"}',
        '{"type": "response.output_item.done", "item": null}',
        '{"type": "response.output_item.added", "item": {}}',
        '{"type": "response.output_item.added", "item": [1]}',
        '{"type": "response.output_item.added", "output_index": -1, "item": {"type": 5}}',
        '{"type": "response.output_text.delta", "delta": null}',
        '{"type": "response.output_text.delta", "output_index": 99, "delta": 5}',
        '{"type": "response.output_text.annotation.added", "output_index": 5}',
        '{"type": "response.content_part.done", "part": {"type": 1}}',
        '{"type": "response.in_progress", "response": {"id": 5, "usage": []}}',
        '{"type": 7}',
    ],
)
def test_what_does_not_fit_breaks_nothing(odd: str) -> None:
    events = decode(CREATED, added(0, **message()), delta("output_text", "a"), odd, delta("output_text", "b"), last())
    assert summarise(events).text == "ab"
    assert isinstance(events[-1], Status)
    assert events[-1].status is ResponseStatus.COMPLETED


@pytest.mark.parametrize("odd", [{"content_index": {}}, {"item_id": 7}, {"part": "x", "name": []}])
def test_an_odd_member_costs_nothing_but_itself(odd: Wire) -> None:
    piece = delta("output_text", "a") | odd
    events = decode(CREATED, added(0, **message()), piece, last())
    assert summarise(events).text == "a"
    told = {name: value for name, value in odd.items() if value}
    assert [e.raw for e in events if isinstance(e, Opaque)] == ([told] if told else [])


def test_an_odd_member_of_the_end_leaves_it_the_end() -> None:
    end = last(usage={"input_tokens": 1}) | {"item": [1]}
    events = decode(CREATED, end)
    assert Opaque("response.completed", {"item": [1]}) in events
    assert events[-1] == Status(ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.END_TURN, "completed"))


def test_numbers_as_text_are_understood() -> None:
    events = decode(CREATED, delta("output_text", "a") | {"output_index": "0"}, last())
    assert summarise(events).text == "a"


def test_a_sign_of_life_is_a_ping() -> None:
    assert decode({"type": "keepalive", "sequence_number": 3}, finish=False) == [Ping()]


def test_the_name_of_the_frame_stands_in_for_the_type() -> None:
    decoder = OpenAIResponsesDecoder()
    body = json.dumps({"output_index": 0, "delta": "Hi"}).encode()
    assert decoder.feed(SseFrame(body, "response.output_text.delta"))[-1] == TextDelta(0, "Hi")


# --- how it ends


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([last()], StopReason(StopKind.END_TURN, "completed")),
        ([done(0, **function_call("{}")), last()], StopReason(StopKind.TOOL_USE, "completed")),
        (
            [done(0, type="custom_tool_call", call_id="c", name="f", input=""), last()],
            StopReason(StopKind.TOOL_USE, "completed"),
        ),
        ([delta("refusal", "no"), last()], StopReason(StopKind.REFUSAL, "completed")),
        (
            [last("incomplete", incomplete_details={"reason": "max_output_tokens"})],
            StopReason(StopKind.MAX_TOKENS, "max_output_tokens"),
        ),
        (
            [last("incomplete", incomplete_details={"reason": "content_filter"})],
            StopReason(StopKind.CONTENT_FILTER, "content_filter"),
        ),
        ([last("incomplete", incomplete_details={"reason": "steered"})], StopReason(StopKind.INCOMPLETE, "steered")),
        (
            [done(0, **function_call("{}")), last("incomplete", incomplete_details={"reason": "max_messages"})],
            StopReason(StopKind.INCOMPLETE, "max_messages"),
        ),
        ([last("incomplete")], StopReason(StopKind.INCOMPLETE, "incomplete")),
        (
            [done(0, **function_call("{}")), last("completed", incomplete_details={"reason": "brand_new"})],
            StopReason(StopKind.TOOL_USE, "completed"),
        ),
        (
            [done(0, **function_call("{}")), last("completed", incomplete_details={"reason": "max_output_tokens"})],
            StopReason(StopKind.MAX_TOKENS, "max_output_tokens"),
        ),
        ([done(0, **function_call("{}", name="")), last()], StopReason(StopKind.MALFORMED, "completed")),
        (
            [done(0, **function_call("{}", name=3)), done(1, **function_call("{}", call_id="b")), last()],
            StopReason(StopKind.TOOL_USE, "completed"),
        ),
        (
            [
                added(0, **function_call(name=None)),
                delta("function_call_arguments", "{}"),
                last(output=[function_call("{}", name="")]),
            ],
            StopReason(StopKind.MALFORMED, "completed"),
        ),
        (
            [done(0, **function_call("{}")), done(1, **function_call("{}")), last()],
            StopReason(StopKind.TOOL_USE, "completed"),
        ),
        ([event("completed")], StopReason(StopKind.END_TURN, "completed")),
    ],
)
def test_the_reason_has_its_normal_form(messages: list[Wire], expected: StopReason) -> None:
    assert stop_of(*messages) == expected


@pytest.mark.parametrize("ended", [True, False])
def test_a_call_that_was_cut_is_aborted_and_a_text_is_not(ended: bool) -> None:
    cut = [done(1, **function_call('{"a', status="incomplete"))] if ended else []
    events = decode(
        CREATED,
        added(0, **message()),
        delta("output_text", "I look", 0),
        added(1, **function_call()),
        delta("function_call_arguments", '{"a', 1),
        *cut,
        last("incomplete", incomplete_details={"reason": "max_output_tokens"}),
    )
    assert [e.block_type for e in events if isinstance(e, BlockAbort)] == [BlockType.TOOL_USE]
    assert [e.block_type for e in events if isinstance(e, BlockStop)] == [BlockType.TEXT]
    assert summarise(events).tool_calls[0].aborted


def test_the_usage_comes_before_the_end() -> None:
    raw: Wire = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 15,
    }
    usage = decode(CREATED, last(usage=raw))[-2]
    assert usage == Usage(10, 5, 4, 2, 3, raw)
    counts = OpenAIResponses("m").counts(usage if isinstance(usage, Usage) else Usage())
    assert (counts.input_tokens, counts.output_tokens) == (10, 5)
    assert (counts.cache_read, counts.cache_creation) == (4, 2)


def test_a_second_beginning_retracts_what_came_before() -> None:
    events = decode(CREATED, delta("output_text", "old"), CREATED, delta("output_text", "new"), last())
    assert summarise(events).text == "new"
    assert sum(isinstance(e, BlockAbort) for e in events) == 1


def test_what_comes_after_the_end_is_ignored() -> None:
    events = decode(CREATED, last(), "[DONE]", event("error", message="no"))
    assert isinstance(events[-1], Status)
    assert events[-1].status is ResponseStatus.COMPLETED


@pytest.mark.parametrize("end", [[], ["[DONE]"], ['{"type": "response.outp']])
def test_a_stream_without_its_last_event_is_truncated(end: list[str]) -> None:
    events = decode(CREATED, delta("output_text", "Hel"), *end)
    assert summarise(events).truncated
    assert [type(e) for e in events[-3:]] == [BlockAbort, Error, Status]


# --- what went wrong

FLAT = event("error", code="server_error", message="no", param=None, sequence_number=3)
NESTED = event("error", error={"type": "x", "code": "server_error", "message": "no"})
FAILED = last("failed", error={"code": "server_error", "message": "no"}, usage=None)


@pytest.mark.parametrize(
    "messages",
    [
        [FLAT],
        [NESTED],
        [FAILED],
        [FLAT, FAILED],
        [NESTED, FAILED],
        [NESTED, "[DONE]"],
        [NESTED, NESTED, FAILED],
        [NESTED, delta("output_text", "more"), FAILED],
    ],
)
def test_an_error_is_reported_once(messages: list[Wire | str]) -> None:
    events = decode(CREATED, delta("output_text", "Hel"), *messages)
    errors = [e for e in events if isinstance(e, Error)]
    assert errors == [Error("server_error", "no", retryable=True, kind="server")]
    assert sum(isinstance(e, BlockAbort) for e in events) == 1
    assert isinstance(events[-1], Status)
    assert events[-1].status is ResponseStatus.FAILED


def test_a_response_that_failed_has_that_as_its_reason() -> None:
    for messages in ([FAILED], [NESTED, FAILED]):
        assert stop_of(*messages) == StopReason(StopKind.INCOMPLETE, "failed")
    assert stop_of(NESTED) is None


def test_a_failure_without_a_reason_is_an_error_all_the_same() -> None:
    error = summarise(decode(CREATED, last("failed", error=None))).error
    assert error == Error("failed", "the provider gave no reason")


@pytest.mark.parametrize("kind", ["cancelled", "completed"])
def test_a_cancelled_response_is_an_error_of_its_own(kind: str) -> None:
    end = event(kind, response={"id": "resp_1", "status": "cancelled"})
    summary = summarise(decode(CREATED, end))
    assert summary.error is not None
    assert (summary.error.code, summary.error.kind) == ("cancelled", "cancelled")


def test_usage_of_a_failed_response_is_reported() -> None:
    events = decode(CREATED, NESTED, last("failed", usage={"input_tokens": 1, "output_tokens": 2}))
    assert [type(e) for e in events[1:]] == [Usage, Error, Status]


def test_an_error_without_a_type_is_one() -> None:
    error = summarise(decode('{"error": {"message": "no", "code": "rate_limit_exceeded"}}')).error
    assert error is not None
    assert error.kind == "rate_limit"


def test_json_that_cannot_be_read_in_the_middle_is_the_providers_fault() -> None:
    error = summarise(decode(CREATED, '{"type": ', delta("output_text", "a"))).error
    assert error is not None
    assert (error.code, error.kind) == ("bad_json", "server")


def test_half_a_character_in_what_the_end_repeats_does_no_harm() -> None:
    end = rb'{"type":"response.completed","response":{"id":"r","status":"completed","output":[%b]}}'
    call = rb'{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":\"\ud83d\"}"}'
    for repeated, expected in ((b"", []), (call, ['{"a":"\ufffd"}'])):
        events = OpenAIResponsesDecoder().feed(SseFrame(end % repeated))
        assert [one.arguments for one in summarise(events).tool_calls] == expected
        assert isinstance(events[-1], Status)
        assert events[-1].status is ResponseStatus.COMPLETED


@pytest.mark.parametrize("begun", [[], [added(0, **function_call())]])
@pytest.mark.parametrize("number", ["1e999", "null"])
def test_a_call_does_not_run_if_its_form_at_the_end_cannot_be_read(begun: list[Wire], number: str) -> None:
    end = json.dumps(last(output=[function_call("{}", number=0)])).replace(": 0", f": {number}")
    events = decode(CREATED, *begun, end)
    assert isinstance(events[-1], Status)
    is_read = number == "null"
    assert (events[-1].status is ResponseStatus.COMPLETED) == is_read
    assert any(isinstance(one, BlockStop) for one in events) == is_read


@pytest.mark.parametrize("kind", ["response.queued", "keepalive", "error", ""])
def test_an_event_of_another_type_is_read_with_all_its_fields(kind: str) -> None:
    wire: Wire = {"type": kind, "output_index": 1, "error": {"code": "no"}}
    assert decode_event(json.dumps(wire).encode()) == msgspec.convert(wire, WireEvent)


class Looking(list[Item]):
    """Counts what is looked at in it."""

    looks = 0

    def __getitem__(self, place: Any) -> Any:
        found = cast("range | int", range(len(self))[place])
        self.looks += 1 if isinstance(found, int) else len(found)
        return cast("object", super().__getitem__(place))

    def __iter__(self) -> Iterator[Item]:
        return (self[place] for place in range(len(self)))

    def __reversed__(self) -> Iterator[Item]:
        return (self[place] for place in reversed(range(len(self))))


def test_an_item_is_found_by_its_name_at_the_same_cost_among_many() -> None:
    count = 500
    items = Items(BlockFactory())
    items.all = looking = Looking()
    events: list[ResponseEvent] = []

    def take(wire: Wire) -> None:
        handler = ITEM_HANDLERS[wire["type"]]
        handler(items, msgspec.convert(wire, WireEvent), json.dumps(wire).encode(), events)

    for number in range(count):
        take(added(number, type="function_call", id=f"fc_{number}", name="f"))
    for number in range(count):
        take(delta("function_call_arguments", "{}", None, item_id=f"fc_{number}"))
    assert [e.index for e in events if isinstance(e, InputJsonDelta)] == [*range(count)]
    assert looking.looks < 3 * count
