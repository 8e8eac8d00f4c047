"""Gemini's Interactions.

Steps to blocks and back, how an interaction ends, and one that goes on without its connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker import Worker
from rxworker.errors import ConfigurationError, RxWorkerError
from rxworker.events import Error, Opaque, ResponseEvent, ResponseStatus, Status
from rxworker.messages import (
    Audio,
    Content,
    Conversation,
    Document,
    Image,
    JsonObject,
    Message,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    StopKind,
    Text,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.messages.usage import Usage
from rxworker.providers import GeminiInteractions, HttpRequest, Options, Request, ToolChoice
from rxworker.providers.gemini_interactions.provider import encode_steps
from rxworker.state.response import fold_response, message_of
from rxworker.testing import ReplayServer, ServedResponse, say, think
from rxworker.testing.wire.gemini_interactions import gemini_interactions_frames
from rxworker.transport import Client, Retry
from tests.decoded import answer_of, decoded
from tests.seen import until_end

NAME = "gemini_interactions"
ASK = Conversation((Message.user("hi"),))
BACKGROUND = Options(extra={"background": True})
PLACE = "/v1beta1/projects/mine/locations"


def provider(**arguments: Any) -> GeminiInteractions:
    given: dict[str, Any] = {"api_key": "k", **arguments}
    return GeminiInteractions("m", **given)


def body_of(conversation: Conversation = ASK, tools: Sequence[ToolMeta] = (), **options: Any) -> dict[str, Any]:
    return msgspec.json.decode(provider().request(conversation, tools, Options(**options)).body)


# --- frames


def frame(event: JsonObject) -> bytes:
    name = str(event.get("event_type", "message")).encode()
    return b"event: %b\ndata: %b\n\n" % (name, msgspec.json.encode(event))


CREATED: JsonObject = {
    "event_type": "interaction.created",
    "interaction": {"id": "v1/a", "model": "gemini-x", "status": "in_progress"},
}
DONE = b"event: done\ndata: [DONE]\n\n"


def start(index: int, kind: str, **members: Any) -> JsonObject:
    return {"event_type": "step.start", "index": index, "step": {"type": kind, **members}}


def delta(index: int, kind: str, **members: Any) -> JsonObject:
    return new_of(index, {"type": kind, **members})


def new_of(index: int, value: JsonObject) -> JsonObject:
    return {"event_type": "step.delta", "index": index, "delta": value}


def stop(index: int, **members: Any) -> JsonObject:
    return {"event_type": "step.stop", "index": index, **members}


def completed(status: str = "completed", **members: Any) -> JsonObject:
    interaction: JsonObject = {"id": "v1/a", "status": status, **members}
    return {"event_type": "interaction.completed", "interaction": interaction}


def stream(*events: JsonObject) -> bytes:
    return b"".join(map(frame, events)) + DONE


def decode(data: bytes, cuts: Sequence[int] = ()) -> list[ResponseEvent]:
    places = [0, *sorted(cuts), len(data)]
    return decoded(provider(), *(data[begin:end] for begin, end in pairwise(places)))


def content_of(events: Sequence[ResponseEvent]) -> tuple[Content, ...]:
    message = message_of(fold_response(events), NAME)
    return message.content if message else ()


# --- steps to blocks and back

SOURCE: JsonObject = {"type": "url_citation", "url": "https://h/", "start_index": 0, "end_index": 2}
PICTURE: JsonObject = {"type": "image", "mime_type": "image/png", "data": "AAAA"}
SPEECH: JsonObject = {"type": "audio", "mime_type": "audio/l16", "data": "AAAA"}
SEARCH: JsonObject = {"type": "google_search_call", "id": "s1", "signature": "sig", "arguments": {"queries": ["x"]}}
FOUND: JsonObject = {
    "type": "google_search_result",
    "call_id": "s1",
    "signature": "sig2",
    "result": [{"title": "a"}, {"title": "b"}],
}
LOOK = ToolCall("c1", "look", {"at": "sky"})
CALL: JsonObject = {"type": "function_call", "id": "c1", "name": "look", "arguments": {"at": "sky"}}


def output(*contents: JsonObject) -> JsonObject:
    return {"type": "model_output", "content": [*contents]}


def text(words: str, **members: Any) -> JsonObject:
    return {"type": "text", "text": words, **members}


def step(kind: str, *deltas: JsonObject, index: int = 0, **members: Any) -> list[JsonObject]:
    """The events of a step from its start to its stop."""
    return [start(index, kind, **members), *deltas, stop(index)]


def texts(*pieces: str, index: int = 0) -> list[JsonObject]:
    """The events of an output of text."""
    return step("model_output", *(delta(index, "text", text=piece) for piece in pieces), index=index)


def thought(*summary: JsonObject, **members: Any) -> JsonObject:
    return {"type": "thought", **({"summary": [*summary]} if summary else {}), **members}


SEALED = delta(0, "thought_signature", signature="AAAA")
PARTS = delta(0, "text", text="a"), new_of(0, PICTURE), delta(0, "text", text="b"), new_of(0, SPEECH)
# The events of the steps, the blocks that they become, and the steps that are sent back.
STEPS: dict[str, tuple[list[JsonObject], tuple[Content, ...], list[JsonObject]]] = {
    "text": (texts("Hel", "lo"), (Text("Hello"),), [output(text("Hello"))]),
    "a text that came with its start": (
        step("model_output", delta(0, "text", text="lo"), content=[text("Hel")]),
        (Text("Hello"),),
        [output(text("Hello"))],
    ),
    "two outputs": (
        [*texts("a"), *texts("b", index=1)],
        (Text("a"), Text("b")),
        [output(text("a")), output(text("b"))],
    ),
    "a text with sources": (
        [*texts("Hi")[:-1], delta(0, "text_annotation_delta", annotations=[SOURCE]), stop(0)],
        (Text("Hi", (SOURCE,)),),
        [output(text("Hi", annotations=[SOURCE]))],
    ),
    "texts, a picture and speech in one output, which is signed": (
        step("model_output", *PARTS, signature="sig"),
        (
            Text("a", echo={"step": {"signature": "sig"}}),
            Image(echo={"content": PICTURE, "joins": True}),
            Text("b", echo={"joins": True}),
            OpaqueBlock("audio", {"content": SPEECH, "joins": True}),
        ),
        [{"signature": "sig", **output(text("a"), PICTURE, text("b"), SPEECH)}],
    ),
    "a thought": (
        step(
            "thought",
            delta(0, "thought_summary", content={"text": "Hm"}),
            delta(0, "thought_summary", content=text(".")),
            SEALED,
            signature="",
        ),
        (Thinking("Hm.", "AAAA"),),
        [thought(text("Hm."), signature="AAAA")],
    ),
    "a thought without a summary": (step("thought", SEALED), (Thinking("", "AAAA"),), [thought(signature="AAAA")]),
    "a thought that came with its start": (
        step("thought", summary=[text("Hm")], signature="AAAA", new=1),
        (Thinking("Hm", "AAAA", {"step": {"new": 1}}),),
        [thought(text("Hm"), signature="AAAA", new=1)],
    ),
    "a thought with a picture": (
        step("thought", delta(0, "thought_summary", content=PICTURE)),
        (Thinking("", None, {"step": {"summary": [PICTURE]}}),),
        [thought(PICTURE)],
    ),
    "a call": (
        step(
            "function_call",
            delta(0, "arguments_delta", arguments='{"at":'),
            delta(0, "arguments_delta", arguments='"sky"}'),
            id="c1",
            name="look",
            arguments={},
        ),
        (LOOK,),
        [CALL],
    ),
    "a call that came with its start, and is signed": (
        step("function_call", SEALED, id="c1", name="look", arguments={"at": "sky"}),
        (ToolCall("c1", "look", {"at": "sky"}, {"step": {"signature": "AAAA"}}),),
        [{**CALL, "signature": "AAAA"}],
    ),
    "two calls at once": (
        [
            start(0, "function_call", id="c1", name="look", arguments={}),
            start(1, "function_call", id="c2", name="now", arguments={}),
            delta(0, "arguments_delta", arguments='{"at":"sky"}'),
            stop(1),
            stop(0),
        ],
        (LOOK, ToolCall("c2", "now", {})),
        [CALL, {"type": "function_call", "id": "c2", "name": "now", "arguments": {}}],
    ),
    "a search of Google's": (
        [
            start(0, "google_search_call", id="s1", signature=""),
            delta(0, "google_search_call", signature="sig", arguments={"queries": ["x"]}),
            stop(0),
            start(1, "google_search_result", call_id="s1", signature=""),
            delta(1, "google_search_result", signature="sig2", result=[{"title": "a"}]),
            delta(1, "google_search_result", result=[{"title": "b"}]),
            stop(1),
        ],
        (
            ServerToolCall("s1", "google_search", {"queries": ["x"]}, {"step": SEARCH}),
            ServerToolResult("s1", "google_search", {"step": FOUND}),
        ),
        [SEARCH, FOUND],
    ),
    "a step of an unknown kind": (
        step("dream", delta(0, "dream", b=[2]), a=1),
        (OpaqueBlock("dream", {"step": {"type": "dream", "a": 1, "b": [2]}}),),
        [{"type": "dream", "a": 1, "b": [2]}],
    ),
    "deltas without a start": (
        [delta(0, "thought_summary", content=text("Hm")), SEALED, stop(0), *texts("Hi", index=1)[1:]],
        (Thinking("Hm", "AAAA"), Text("Hi")),
        [thought(text("Hm"), signature="AAAA"), output(text("Hi"))],
    ),
    "a step that has no stop": (texts("Hi")[:-1], (Text("Hi"),), [output(text("Hi"))]),
    "a start that is sent again": ([*texts("Hel")[:-1], *texts("lo")], (Text("Hello"),), [output(text("Hello"))]),
    "arguments that came with the start and after it": (
        step(
            "function_call",
            delta(0, "arguments_delta", arguments='{"at":"sky"}'),
            id="c1",
            name="look",
            arguments={"at": "sea"},
        ),
        (LOOK,),
        [CALL],
    ),
}
each_step = pytest.mark.parametrize("name", STEPS)


@each_step
def test_steps_become_blocks_and_go_back_as_they_came(name: str) -> None:
    events, blocks, steps = STEPS[name]
    made = decode(stream(CREATED, *events, completed()))
    assert content_of(made) == blocks
    assert encode_steps((Message("assistant", blocks, NAME),)) == steps
    assert made[0] == Status(ResponseStatus.STARTED, "v1/a", "gemini-x")


@each_step
def test_a_stream_gives_the_same_byte_by_byte(name: str) -> None:
    data = stream(CREATED, *STEPS[name][0], completed())
    assert decode(data, range(1, len(data))) == decode(data)


@given(name=st.sampled_from(sorted(STEPS)), data=st.data())
def test_a_stream_gives_the_same_however_it_is_cut(name: str, data: st.DataObject) -> None:
    whole = stream(CREATED, *STEPS[name][0], completed())
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=5))
    assert decode(whole, cuts) == decode(whole)


def test_the_steps_of_the_last_event_count_if_none_was_streamed() -> None:
    steps = [CALL, output(text("Hi"))]
    events = decode(stream(CREATED, completed("requires_action", steps=steps)))
    assert content_of(events) == (LOOK, Text("Hi"))


def test_an_interaction_that_starts_again_retracts_what_came_before() -> None:
    other: JsonObject = {"event_type": "interaction.created", "interaction": {"id": "v1/b"}}
    said = [start(0, "model_output"), delta(0, "text", text="a")]
    events = decode(stream(CREATED, *said, other, delta(0, "text", text="b"), completed()))
    assert content_of(events) == (Text("b"),)
    again = decode(stream(CREATED, *said, CREATED, delta(0, "text", text="b"), completed()))
    assert content_of(again) == (Text("ab"),)


# --- how it ends


@pytest.mark.parametrize(
    ("status", "step", "kind"),
    [
        ("completed", start(0, "model_output"), StopKind.END_TURN),
        ("completed", start(0, "function_call", id="1", name="f"), StopKind.TOOL_USE),
        ("requires_action", start(0, "function_call", id="1", name="f"), StopKind.TOOL_USE),
        ("requires_action", start(0, "function_call", id="1"), StopKind.MALFORMED),
        ("requires_action", start(0, "model_output"), StopKind.OTHER),
        ("incomplete", start(0, "function_call", id="1", name="f"), StopKind.MAX_TOKENS),
        ("budget_exceeded", start(0, "model_output"), StopKind.MAX_TOKENS),
        ("requires_continuation", start(0, "model_output"), StopKind.PAUSE_TURN),
        ("brand_new", start(0, "model_output"), StopKind.OTHER),
    ],
)
def test_the_status_is_why_it_ended(status: str, step: JsonObject, kind: StopKind) -> None:
    last = decode(stream(CREATED, step, stop(0), completed(status)))[-1]
    assert isinstance(last, Status)
    assert last.stop_reason is not None
    assert (last.stop_reason.kind, last.stop_reason.raw) == (kind, status)


def test_a_call_without_a_name_does_not_run_and_is_not_lost() -> None:
    arguments = delta(0, "arguments_delta", arguments='{"a":1}')
    events = decode(stream(CREATED, start(0, "function_call", id="1"), arguments, completed()))
    assert [event.kind for event in events if isinstance(event, Opaque)] == ["function_call", "arguments_delta"]
    assert content_of(events) == ()


def test_what_is_open_at_a_cut_by_the_service_is_not_whole() -> None:
    steps = [start(0, "model_output"), delta(0, "text", text="a"), start(1, "thought")]
    steps.append(start(2, "function_call", id="1", name="f"))
    assert content_of(decode(stream(CREATED, *steps, completed("incomplete")))) == (Text("a"),)


@pytest.mark.parametrize(
    ("events", "code", "kind"),
    [
        ([completed("failed", errors=[{"code": "internal", "message": "no"}])], "internal", "server"),
        ([completed("failed")], "failed", "unknown"),
        ([completed("cancelled")], "cancelled", "cancelled"),
        ([{"event_type": "error", "error": {"code": "gateway_timeout", "message": "late"}}], "gateway_timeout",
         "timeout"),
        ([{"event_type": "error"}], "error", "unknown"),
        ([{"error": {"code": 429, "message": "m", "status": "RESOURCE_EXHAUSTED"}}], "429", "rate_limit"),
        ([], "truncated", "truncated"),
    ],
)  # fmt: skip
def test_a_failure_is_one_error(events: list[JsonObject], code: str, kind: str) -> None:
    said = [CREATED, start(0, "model_output"), delta(0, "text", text="half"), *events]
    *_, error, last = decode(stream(*said))
    assert isinstance(error, Error)
    assert (error.code, error.kind) == (code, kind)
    assert last == Status(ResponseStatus.FAILED)


def test_an_update_may_report_the_end() -> None:
    update: JsonObject = {"event_type": "interaction.status_update", "status": "completed"}
    events = decode(stream(CREATED, start(0, "model_output"), delta(0, "text", text="a"), update))
    assert content_of(events) == (Text("a"),)
    assert fold_response(events).status is ResponseStatus.COMPLETED


def test_the_usage_is_a_snapshot_in_normal_form() -> None:
    raw: JsonObject = {
        "total_tokens": 299,
        "total_input_tokens": 138,
        "total_cached_tokens": 100,
        "total_output_tokens": 20,
        "total_tool_use_tokens": 7,
        "total_thought_tokens": 141,
    }
    so_far: JsonObject = {"total_input_tokens": 138, "total_output_tokens": 3}
    said = [CREATED, start(0, "model_output"), stop(0, usage=so_far), completed(usage=raw)]
    usages = [event for event in decode(stream(*said)) if isinstance(event, Usage)]
    assert usages == [Usage(138, 3, raw=so_far), Usage(145, 161, 100, None, 141, raw)]
    counts = provider().counts(usages[-1])
    assert (counts.input_tokens, counts.output_tokens, counts.cache_read) == (138, 20, 100)


def test_what_does_not_fit_costs_nothing_else() -> None:
    odd: JsonObject = {"event_type": "step.start", "index": "0", "step": {"type": "model_output"}}
    new: JsonObject = {"event_type": "interaction.dreamt", "of": "sheep"}
    wrong: JsonObject = {"event_type": "step.stop", "index": 0, "delta": "oh"}
    said = [CREATED, odd, delta(0, "text", text="Hi"), new, wrong, completed()]
    events = decode(stream(*said))
    assert content_of(events) == (Text("Hi"),)
    assert [event for event in events if isinstance(event, Opaque)] == [
        Opaque("interaction.dreamt", new),
        Opaque("step.stop", {"delta": "oh"}),
    ]


# --- requests


def test_the_whole_conversation_is_sent_and_nothing_is_stored() -> None:
    conversation = Conversation((Message.user("a"), Message.assistant("b"), Message.user("c")), "S")
    assert body_of(conversation) == {
        "model": "m",
        "input": [
            {"type": "user_input", "content": [text("a")]},
            output(text("b")),
            {"type": "user_input", "content": [text("c")]},
        ],
        "stream": True,
        "store": False,
        "system_instruction": "S",
    }


def test_what_the_user_gives_becomes_contents_and_steps() -> None:
    plain = Document("text/plain", data="cGxhaW4=", title="t.txt")
    video: JsonObject = {"type": "video", "uri": "https://h/v.mp4"}
    message = Message.user(
        ToolResult("c1", (Text("see"), Image(data="iVBORw0KGgo="), Document(url="https://h/d.pdf"))),
        ToolResult("c2", "", is_error=True, name="now"), Image("image/jpeg", url="https://h/i.jpg"),
        Image(file_id="files/1"), plain, Document("video/mp4", data="BB"), Audio(data="CC"),
        OpaqueBlock("video", video), OpaqueBlock("odd", {"type": "odd"}), "and?",
    )  # fmt: skip
    assert encode_steps((Message("assistant", (LOOK,)), message))[1:] == [
        {
            "type": "function_result",
            "call_id": "c1",
            "name": "look",
            "result": [
                text("see"),
                {"type": "image", "mime_type": "image/png", "data": "iVBORw0KGgo="},
                {"type": "document", "mime_type": "application/pdf", "uri": "https://h/d.pdf"},
            ],
        },
        {
            "type": "function_result",
            "call_id": "c2",
            "name": "now",
            "result": "The tool failed and gave no reason.",
            "is_error": True,
        },
        {"type": "odd"},
        {
            "type": "user_input",
            "content": [
                {"type": "image", "mime_type": "image/jpeg", "uri": "https://h/i.jpg"},
                {"type": "image", "mime_type": "image/png", "uri": "files/1"},
                text("t.txt:"),
                text("plain"),
                {"type": "video", "mime_type": "video/mp4", "data": "BB"},
                {"type": "audio", "mime_type": "audio/wav", "data": "CC"},
                video,
                text("and?"),
            ],
        },
    ]


def test_what_was_changed_is_sent_as_changed() -> None:
    call_step = ToolCall("c1", "look", {"at": "sea"}, {"step": {"signature": "AAAA"}})
    assert encode_steps((Message("assistant", (call_step,), NAME),)) == [
        {**CALL, "arguments": {"at": "sea"}, "signature": "AAAA"}
    ]


NOW = ToolMeta("now", "", {"type": "object"})


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"max_tokens": 5, "temperature": 0.5, "stop_sequences": ("x",)},
         {"max_output_tokens": 5, "temperature": 0.5, "stop_sequences": ["x"]}),
        ({"thinking": 100_000}, {"thinking_level": "high", "thinking_summaries": "auto"}),
        ({"thinking": "adaptive"}, {"thinking_summaries": "auto"}),
        ({"tool_choice": ToolChoice("none")}, {"tool_choice": "none"}),
        ({"tool_choice": ToolChoice("tool", "now")},
         {"tool_choice": {"allowed_tools": {"mode": "any", "tools": ["now"]}}}),
    ],
)  # fmt: skip
def test_settings_are_in_the_generation_config(options: Any, sent: JsonObject) -> None:
    assert body_of(ASK, (NOW,), **options)["generation_config"] == sent


def test_no_thinking_is_the_lowest_level_or_refused() -> None:
    def level(model: str) -> Any:
        made = GeminiInteractions(model, api_key="k").request(ASK, (), Options(thinking="off"))
        return msgspec.json.decode(made.body)["generation_config"]["thinking_level"]

    assert level("gemini-3.5-flash") == "minimal"
    with pytest.raises(ConfigurationError, match="thinking='low', or Gemini"):
        level("gemini-2.5-flash")


def test_what_runs_without_its_connection_is_stored() -> None:
    assert body_of(extra={"background": True})["store"] is True
    assert body_of(extra={"store": True})["store"] is True
    request = provider().request(ASK, (), BACKGROUND)
    assert (request.is_background, provider().request(ASK, (), Options()).is_background) == (True, False)


def test_an_agent_takes_the_place_of_the_model() -> None:
    body = body_of(extra={"agent": "deep-research-preview-04-2026", "model": None})
    assert "model" not in body
    assert body["agent"] == "deep-research-preview-04-2026"


@pytest.mark.parametrize(
    ("made", "url"),
    [
        (
            provider(project="mine", location="europe-west4", access_token="t"),
            f"https://europe-west4-aiplatform.googleapis.com{PLACE}/europe-west4/interactions",
        ),
        (provider(project="mine", access_token="t"), f"https://aiplatform.googleapis.com{PLACE}/global/interactions"),
    ],
)
def test_the_address_is_completed(made: GeminiInteractions, url: str) -> None:
    assert made.request(ASK, (), Options()).url == url


def test_the_key_and_the_revision_are_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "other")
    headers = GeminiInteractions("m").request(ASK, (), Options()).headers
    assert (headers["x-goog-api-key"], headers["api-revision"]) == ("other", "2026-05-20")
    newer = provider(headers={"Api-Revision": "2027-01-01"}).request(ASK, (), Options()).headers
    assert newer["api-revision"] == "2027-01-01"
    with pytest.raises(ConfigurationError, match="holds a key"):
        provider(base_url="https://h/?key=x")
    assert repr(provider(project="mine")) == "GeminiInteractions('m', project='mine')"


def test_a_cut_by_the_limit_of_one_request_is_continued_with_its_token() -> None:
    last = completed("requires_continuation", continuation_token="t1")
    said = [CREATED, start(0, "model_output"), delta(0, "text", text="half"), stop(0), last]
    cut = answer_of(decode(stream(*said)), NAME)
    body = body_of(ASK.add(cut))
    assert (body["input"], body["continuation_token"]) == (body_of(ASK)["input"], "t1")
    again = msgspec.structs.replace(cut, echo={"continuation_token": "t2"})
    assert body_of(ASK.add(cut, again))["continuation_token"] == "t2"
    body = body_of(ASK.add(cut, again, Message.user("and?")))
    assert "continuation_token" not in body
    assert [step["type"] for step in body["input"]] == ["user_input", "model_output", "model_output", "user_input"]


def test_a_stored_answer_that_was_cut_is_continued_by_its_name() -> None:
    """The service takes a token with the interaction that issued it alone, and has its input.

    See the official client's ``_continuation_body``.
    """
    last = completed("requires_continuation", continuation_token="t1")
    said = [CREATED, start(0, "model_output"), delta(0, "text", text="half"), stop(0), last]
    cut = answer_of(decode(stream(*said)), NAME)
    again = msgspec.structs.replace(cut, echo={**(cut.echo or {}), "interaction_id": "v1_b"})
    asked = body_of(ASK, extra={"store": True})
    del asked["input"]
    for messages, name in (((cut,), "v1/a"), ((cut, again), "v1_b")):
        body = body_of(ASK.add(*messages), extra={"store": True})
        assert body == {**asked, "continuation_token": "t1", "previous_interaction_id": name}


@pytest.mark.parametrize("has_end", [True, False])
def test_an_update_may_have_the_name_and_the_token(has_end: bool) -> None:
    """What the end of the interaction says counts, also if it has no token."""
    status: JsonObject = {"event_type": "interaction.status_update", "interaction_id": "v1_a"}
    said: list[JsonObject] = [
        {**status, "status": "in_progress", "continuation_token": "t1"},
        start(0, "model_output"),
        {**status, "status": "requires_continuation", "continuation_token": "t2"},
    ]
    end = [completed("requires_continuation")] if has_end else []
    events = decode(stream(*said, *end))
    assert events[0] == Status(ResponseStatus.STARTED, "v1_a")
    last = events[-1]
    assert isinstance(last, Status)
    assert last.echo == (None if has_end else {"continuation_token": "t2", "interaction_id": "v1_a"})


async def test_a_worker_goes_on_with_an_answer_that_was_cut_by_the_limit_of_one_request() -> None:
    def served(words: str, last: JsonObject) -> ServedResponse:
        steps = [start(0, "model_output"), delta(0, "text", text=words), stop(0)]
        return ServedResponse.from_frames([*map(frame, [CREATED, *steps, last]), DONE])

    first = served("one ", completed("requires_continuation", continuation_token="t1"))
    async with ReplayServer([first, served("two", completed()), served("x", completed())]) as server:
        worker = Worker(provider(base_url=server.base_url))
        result = await worker.run("hi")
        await worker.run("and?")
        bodies: list[Any] = [one.body for one in server.requests]
    asked, continued, later = bodies
    assert [message.text for message in result.conversation.messages] == ["hi", "one ", "two"]
    assert continued == {**asked, "continuation_token": "t1"}
    assert [step["type"] for step in later["input"]] == ["user_input", "model_output", "model_output", "user_input"]


# --- without its connection

FRAMES = gemini_interactions_frames(think("Hm.", "AAAA") + say("one two three", chunk=4), is_background=True)
AGAIN = Retry(retries=2, first=0.0)


def part(begin: int, end: int | None = None, **faults: Any) -> ServedResponse:
    return ServedResponse.from_frames(FRAMES[begin:end], **faults)


async def taken(
    server: ReplayServer, cursor: str = "", **arguments: Any
) -> tuple[list[ResponseEvent], Exception | None]:
    """The events of an interaction in the background, and how it failed."""
    model = Client(provider(base_url=server.base_url, **arguments), retry=AGAIN)
    return await until_end(model.stream(Request(ASK, options=BACKGROUND, cursor=cursor)))


def paths(server: ReplayServer) -> list[str]:
    return [f"{one.method} {one.path}" for one in server.requests]


WHOLE = decode(b"".join(FRAMES))


@pytest.mark.parametrize("cut", range(1, len(FRAMES) - 1))
async def test_a_cut_interaction_is_taken_up_behind_its_last_event(cut: int) -> None:
    async with ReplayServer([part(0, cut_after=cut), part(cut)]) as server:
        got, error = await taken(server)
        assert paths(server) == [
            "POST /v1beta/interactions",
            f"GET /v1beta/interactions/v1_1?stream=true&last_event_id=1.{cut - 1}",
        ]
        assert all("x-goog-api-key" in one.headers for one in server.requests)
    assert error is None
    assert got == WHOLE


@pytest.mark.parametrize("at", range(len(FRAMES[0]), len(b"".join(FRAMES[:-1])) - 1, 41))
async def test_an_interaction_is_cut_anywhere(at: int) -> None:
    """Also in the middle of a frame, whose half is forgotten.

    And a server that sends everything again changes nothing.
    """
    async with ReplayServer([part(0, cut_at=at), part(0)]) as server:
        got, error = await taken(server)
        assert [one.method for one in server.requests] == ["POST", "GET"]
    assert error is None
    assert got == WHOLE


async def test_an_interaction_without_names_begins_anew_before_its_first_step_alone() -> None:
    plain = gemini_interactions_frames(say("one two"))
    cut = [ServedResponse.from_frames(plain, cut_after=2), ServedResponse.from_frames(plain)]
    async with ReplayServer(cut) as server:
        got, error = await taken(server)
        assert paths(server)[1:] == ["GET /v1beta/interactions/v1_1?stream=true"]
    assert error is None
    assert content_of(got) == (Text("one two"),)
    late = [ServedResponse.from_frames(plain, cut_after=4), ServedResponse.from_json({})]
    async with ReplayServer(late) as server:
        got, error = await taken(server)
        await server.wait_requests(2)
        assert paths(server)[1:] == ["POST /v1beta/interactions/v1_1/cancel"]
    assert isinstance(error, RxWorkerError)


async def test_an_error_that_may_pass_ends_the_stream_and_not_the_interaction() -> None:
    late = frame({"event_type": "error", "error": {"code": "gateway_timeout", "message": "late"}})
    async with ReplayServer([ServedResponse.from_frames([*FRAMES[:4], late]), part(4)]) as server:
        got, error = await taken(server)
        assert [one.method for one in server.requests] == ["POST", "GET"]
    assert error is None
    assert got == WHOLE
    empty = ServedResponse.from_frames([late])
    served = [ServedResponse.from_frames([*FRAMES[:4], late]), empty, empty, empty]
    async with ReplayServer([*served, ServedResponse.from_json({})]) as server:
        got, error = await taken(server)
    assert [event.code for event in got if isinstance(event, Error)] == ["gateway_timeout"]
    assert "late" in str(error)


async def test_an_error_that_stays_ends_the_interaction() -> None:
    wrong = frame({"event_type": "error", "error": {"code": "invalid_request", "message": "no"}})
    async with ReplayServer([ServedResponse.from_frames([*FRAMES[:4], wrong])]) as server:
        _, error = await taken(server)
        assert len(server.requests) == 1
    assert "no" in str(error)


async def test_an_interaction_that_another_process_has_begun_is_not_paid_again() -> None:
    async with ReplayServer([part(0, cut_after=5), part(5)]) as server:
        got, error = await taken(server, cursor="v1_1", api_key=lambda: "late")
        assert paths(server) == [
            "GET /v1beta/interactions/v1_1?stream=true",
            "GET /v1beta/interactions/v1_1?stream=true&last_event_id=1.4",
        ]
        assert all("x-goog-api-key" in one.headers for one in server.requests)
    assert error is None
    assert got == WHOLE


def test_an_interaction_of_another_process_is_requested_from_its_first_event() -> None:
    sent = HttpRequest("https://h/v1beta/interactions", {}, b"{}")
    decoder = provider().background_decoder("v1_1")
    request = decoder.resume(sent)
    assert request is not None
    assert (request.method, request.url) == ("GET", f"{sent.url}/v1_1?stream=true")
    assert [*decoder.feed(b"".join(FRAMES)), *decoder.finish()] == WHOLE
    assert (decoder.resume(sent), decoder.cancel(sent)) == (None, None)
