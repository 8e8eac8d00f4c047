"""Tools that code calls and tools that a search finds, in a turn loop over real HTTP.

Anthropic and OpenAI Responses.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import msgspec
import pytest

from rxworker import Approve, Finished, Paused, Worker, tool
from rxworker.messages import Conversation, Grammar, JsonObject, Message, ToolCall, ToolResult, from_json, to_json
from rxworker.providers import Anthropic, OpenAIResponses, Options
from rxworker.state import ResponseState, message_of, step_response
from rxworker.testing import ReplayServer, ServedResponse
from rxworker.worker import load_paused, save_paused

NOON = 1_780_000_000.0  # 2026-05-28T20:26:40Z
CODE: JsonObject = {"type": "code_execution_20260120", "name": "code_execution"}
SEARCH: JsonObject = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}
CALLER: JsonObject = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
CONTAINER: JsonObject = {"id": "container_1", "expires_at": "2026-05-28T20:30:00Z"}


def frame(event: JsonObject) -> bytes:
    return b"data: " + msgspec.json.encode(event) + b"\n\n"


def answer(*blocks: JsonObject, stop: str = "end_turn", container: Any = None) -> ServedResponse:
    """A response of Anthropic's with these blocks."""
    head: JsonObject = {"id": "msg", "model": "m", "content": [], "usage": {"input_tokens": 1}}
    frames = [frame({"type": "message_start", "message": head})]
    for index, block in enumerate(blocks):
        frames.append(frame({"type": "content_block_start", "index": index, "content_block": block}))
        frames.append(frame({"type": "content_block_stop", "index": index}))
    end: JsonObject = {"stop_reason": stop, "stop_sequence": None, "container": container}
    frames.append(frame({"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}}))
    return ServedResponse.from_frames([*frames, frame({"type": "message_stop"})])


def text(said: str) -> JsonObject:
    return {"type": "text", "text": said}


def runs_code() -> JsonObject:
    return {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "code_execution",
        "input": {"code": "await sales('east')"},
    }


def calls(name: str, region: str, *, caller: JsonObject = CALLER) -> JsonObject:
    return {"type": "tool_use", "id": f"toolu_{region}", "name": name, "input": {"region": region}, "caller": caller}


RAN: JsonObject = {
    "type": "code_execution_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {"type": "code_execution_result", "stdout": "3", "stderr": "", "return_code": 0},
}


@tool(allowed_callers=["programmatic"])
async def sales(region: str) -> str:
    """Sales of a region.

    Args:
        region: Which.
    """
    return f"sales of {region}"


@tool(requires_approval=True, allowed_callers=["programmatic"])
async def spend(region: str) -> str:
    """Spend money there."""
    return f"spent in {region}"


def anthropic(server: ReplayServer, **settings: Any) -> Anthropic:
    settings = {"now": lambda: NOON, **settings}
    return Anthropic("m", api_key="k", base_url=server.base_url, **settings)


WITH_CODE = Options(extra={"tools": [CODE]})
FIRST = answer(text("Let me see."), runs_code(), calls("sales", "east"), stop="tool_use", container=CONTAINER)


def sent(server: ReplayServer, number: int) -> Any:
    return server.requests[number].body


async def test_code_of_anthropics_calls_a_tool_twice_and_goes_on() -> None:
    again = answer(calls("sales", "west"), stop="tool_use", container=CONTAINER)
    last = answer(RAN, text("Three."), container=CONTAINER)
    async with ReplayServer([FIRST, again, last, answer(text("Bye."))]) as server:
        worker = Worker(anthropic(server), tools=[sales], options=WITH_CODE)
        result = await worker.run("Sales?")
        await worker.run("Thanks.")
        first, second, third, fourth = (sent(server, n) for n in range(4))
    assert isinstance(result, Finished)
    assert result.text == "Three."
    assert "container" not in first
    assert first["tools"][0]["allowed_callers"] == ["code_execution_20260120"]
    assert second["container"] == third["container"] == fourth["container"] == "container_1"
    # The code still runs: its call stays, and the user says nothing but the result.
    _, said, results = second["messages"]
    assert said["content"] == [text("Let me see."), runs_code(), calls("sales", "east")]
    assert results["content"] == [{"type": "tool_result", "tool_use_id": "toolu_east", "content": "sales of east"}]
    assert third["messages"][:3] == second["messages"]
    assert third["messages"][3]["content"] == [calls("sales", "west")]
    # What has ended stays as it was.
    assert fourth["messages"][:5] == third["messages"]
    assert fourth["messages"][5]["content"] == [RAN, text("Three.")]


async def test_the_container_survives_a_saved_pause() -> None:
    first = answer(runs_code(), calls("spend", "east"), stop="tool_use", container=CONTAINER)
    async with ReplayServer([first, answer(RAN, text("Spent."))]) as server:
        worker = Worker(anthropic(server), tools=[spend], options=WITH_CODE)
        paused = await worker.run("Spend.")
        assert isinstance(paused, Paused)
        data = save_paused(paused, key=b"secret")
        elsewhere = Worker(anthropic(server), tools=[spend], options=WITH_CODE)
        decisions = {call.id: Approve() for call in paused.pending}
        result = await elsewhere.resume(load_paused(data, key=b"secret"), decisions=decisions)
        second = sent(server, 1)
    assert result.text == "Spent."
    assert second["container"] == "container_1"
    assert second["messages"][1]["content"][0] == runs_code()


OWN_TOOLS = {
    "server_tool_use": ("web_search", "web_fetch", "tool_search_tool_bm25", "code_execution", "advisor"),
    "mcp_tool_use": ("their_tool",),
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in OWN_TOOLS.items() for name in names])
@pytest.mark.parametrize("first", [True, False], ids=["before it", "after it"])
async def test_a_call_of_anthropics_beside_one_of_ours_waits_for_its_result(kind: str, name: str, first: bool) -> None:
    own: JsonObject = {"type": kind, "id": "s1", "name": name, "input": {"query": "rain"}}
    if kind == "mcp_tool_use":
        own["server_name"] = "theirs"
    ours: JsonObject = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}}
    done: JsonObject = {"type": f"{kind.removesuffix('_use')}_result", "tool_use_id": "s1", "content": []}
    if kind == "server_tool_use":
        done["type"] = f"{name}_tool_result"
    blocks = [own, ours] if first else [ours, own]
    said = [answer(*blocks, stop="tool_use"), answer(done, text("It rains.")), answer(text("Yes."))]

    @tool
    def read(path: str) -> str:
        """Read a file."""
        return f"dry in {path}"

    async with ReplayServer(said) as server:
        worker = Worker(anthropic(server), tools=[read])
        assert (await worker.run("Does it rain?")).text == "It rains."
        assert (await worker.run("Really?")).text == "Yes."
        second, third = (sent(server, n)["messages"] for n in (1, 2))
    assert [block["type"] for block in second[1]["content"]] == [block["type"] for block in blocks]
    assert [block["type"] for block in second[2]["content"]] == ["tool_result"]
    assert [block["type"] for block in third[1]["content"]] == [block["type"] for block in blocks]
    assert [block["type"] for block in third[3]["content"]] == [done["type"], "text"]


async def test_the_container_survives_a_saved_conversation() -> None:
    async with ReplayServer([answer(text("Hi."), container=CONTAINER), answer(text("Yes."))]) as server:
        worker = Worker(anthropic(server), options=WITH_CODE)
        await worker.run("Hi.")
        kept = from_json(to_json(worker.session.conversation))
        await Worker(anthropic(server), conversation=kept, options=WITH_CODE).run("And?")
        assert sent(server, 1)["container"] == "container_1"


# --- what is sent back, without a server


def conversation(*said: Message) -> Conversation:
    return Conversation((Message.user("Sales?"), *said))


def decoded(made: ServedResponse) -> Message:
    """The message that a response makes."""
    assert isinstance(made.body, tuple)
    decoder = Anthropic("m").decoder()
    events = [*decoder.feed(b"".join(made.body)), *decoder.finish()]
    message = message_of(reduce(step_response, events, ResponseState()), "anthropic")
    assert message is not None
    return message


def result(region: str) -> Any:
    return ToolResult(f"toolu_{region}", "ok")


def body(said: Conversation, now: float = NOON, **options: Any) -> dict[str, Any]:
    provider = Anthropic("m", api_key="k", now=lambda: now)
    request = provider.request(said, (sales.meta,), Options(extra={"tools": [CODE], **options}))
    return msgspec.json.decode(request.body)


ASKED = decoded(FIRST)
MADE_BY_MODEL = {k: v for k, v in calls("sales", "east").items() if k != "caller"}


def test_a_container_that_has_expired_is_not_sent_and_its_code_is_left_out() -> None:
    """As after an approval that took an hour: what the code called is sent as calls of the model."""
    said = conversation(ASKED, Message.user(result("east")))
    late = body(said, now=NOON + 3600)
    assert "container" not in late
    assert late["messages"][1]["content"] == [text("Let me see."), MADE_BY_MODEL]


def test_the_user_may_speak_while_code_waits() -> None:
    """Anthropic takes nothing but results then, so the code is given up and the calls stay."""
    said = conversation(ASKED, Message.user(result("east"), "Hurry!"))
    content = body(said)["messages"]
    assert content[1]["content"] == [text("Let me see."), MADE_BY_MODEL]
    assert [part["type"] for part in content[2]["content"]] == ["tool_result", "text"]


def test_code_that_has_a_new_container_is_not_taken_up_again() -> None:
    other = {"id": "container_2", "expires_at": "2026-05-28T21:00:00Z"}
    again = decoded(answer(calls("sales", "west"), stop="tool_use", container=other))
    said = conversation(ASKED, Message.user(result("east")), again, Message.user(result("west")))
    sent_now = body(said)
    assert sent_now["container"] == "container_2"
    assert [part["type"] for part in sent_now["messages"][1]["content"]] == ["text", "tool_use"]
    assert "caller" not in sent_now["messages"][3]["content"][0]


def test_a_call_of_a_client_beside_code_that_has_not_run_keeps_the_code() -> None:
    direct = calls("sales", "east", caller={"type": "direct"})
    both = decoded(answer(runs_code(), direct, stop="tool_use", container=CONTAINER))
    kept = body(conversation(both, Message.user(result("east"))))["messages"][1]["content"]
    assert kept == [runs_code(), direct]


def test_a_result_of_code_whose_call_was_cut_off_the_history_is_left_out() -> None:
    last = decoded(answer(RAN, text("Three."), container=CONTAINER))
    assert body(conversation(last, Message.user("And?")))["messages"][1]["content"] == [text("Three.")]


def test_each_provider_kept_on_sends_what_a_new_one_would() -> None:
    """What was encoded before is used again only where nothing can change it."""
    last = decoded(answer(RAN, text("Three."), container=CONTAINER))
    again = decoded(answer(calls("sales", "west"), stop="tool_use", container=CONTAINER))
    whole = (
        *(Message.user("Sales?"), ASKED, Message.user(result("east")), again),
        *(Message.user(result("west")), last, Message.user("And?"), Message.assistant("4")),
        Message.user("Bye."),
    )
    times = {"in time": NOON, "late": NOON + 3600}
    for now in times.values():
        kept = Anthropic("m", api_key="k", now=lambda now=now: now)
        for end in range(1, len(whole) + 1, 2):
            said = Conversation(whole[:end])
            fresh = Anthropic("m", api_key="k", now=lambda now=now: now)
            options = Options(extra={"tools": [CODE]})
            asked = (said, (sales.meta,), options)
            assert kept.request(*asked).body == fresh.request(*asked).body, (now, end)


def test_the_application_may_name_the_container_or_its_skills() -> None:
    said = conversation(ASKED, Message.user(result("east")))
    assert body(said, container="mine")["container"] == "mine"
    skills: JsonObject = {"skills": [{"type": "anthropic", "skill_id": "pdf"}]}
    assert body(said, container=skills)["container"] == {"id": "container_1", **skills}
    assert body(said, container=skills)["messages"][1]["content"][1] == runs_code()


@pytest.mark.parametrize("at", ["start", "delta"])
def test_the_container_is_taken_from_either_end_of_a_message(at: str) -> None:
    head: JsonObject = {"id": "msg", "model": "m"}
    end: JsonObject = {"stop_reason": "end_turn"}
    (head if at == "start" else end)["container"] = CONTAINER
    frames = [
        frame({"type": "message_start", "message": head}),
        frame({"type": "content_block_start", "index": 0, "content_block": text("Hi.")}),
        frame({"type": "content_block_stop", "index": 0}),
        frame({"type": "message_delta", "delta": end}),
        frame({"type": "message_stop"}),
    ]
    message = decoded(ServedResponse.from_frames(frames))
    assert message.echo == {"container": CONTAINER}
    assert "container" not in str(message.content)


# --- a search finds the tool


@tool(defer_loading=True)
async def forecast(region: str) -> str:
    """The weather of tomorrow."""
    return f"rain in {region}"


async def test_a_search_of_anthropics_finds_a_tool() -> None:
    search: JsonObject = {
        "type": "server_tool_use",
        "id": "srvtoolu_2",
        "name": "tool_search_tool_bm25",
        "input": {"query": "weather"},
    }
    found: JsonObject = {
        "type": "tool_search_tool_result",
        "tool_use_id": "srvtoolu_2",
        "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [{"type": "tool_reference", "tool_name": "forecast"}],
        },
    }
    call = {k: v for k, v in calls("forecast", "east").items() if k != "caller"}
    first = answer(search, found, call, stop="tool_use")
    async with ReplayServer([first, answer(text("Rain."))]) as server:
        options = Options(extra={"tools": [SEARCH]}, cache=("tools",))
        run = Worker(anthropic(server), tools=[forecast], options=options).run("?")
        assert (await run).text == "Rain."
        asked, second = sent(server, 0), sent(server, 1)
    assert asked["tools"][0]["defer_loading"] is True
    assert "cache_control" not in asked["tools"][0]
    assert asked["tools"][1] == {**SEARCH, "cache_control": {"type": "ephemeral"}}
    assert second["messages"][1]["content"] == [search, found, call]
    assert second["messages"][2]["content"][0]["content"] == "rain in east"


# --- OpenAI Responses


def response(*items: JsonObject) -> ServedResponse:
    """A response of OpenAI's with these items."""
    head: JsonObject = {"id": "resp", "model": "m", "status": "in_progress", "output": []}
    events: list[JsonObject] = [{"type": "response.created", "response": head}]
    for index, item in enumerate(items):
        place: JsonObject = {"output_index": index, "item": item}
        events.append({"type": "response.output_item.added", **place})
        events.append({"type": "response.output_item.done", **place})
    done: JsonObject = {**head, "status": "completed", "output": [*items]}
    events.append({"type": "response.completed", "response": done})
    return ServedResponse.from_frames([frame(event) for event in events])


def message(said: str) -> JsonObject:
    part: JsonObject = {"type": "output_text", "text": said, "annotations": []}
    return {"type": "message", "id": "msg", "role": "assistant", "content": [part]}


def function_call(name: str, region: str, **more: Any) -> JsonObject:
    return {
        "type": "function_call",
        "id": f"fc_{region}",
        "call_id": f"call_{region}",
        "name": name,
        "arguments": f'{{"region":"{region}"}}',
        "status": "completed",
        **more,
    }


def responses(server: ReplayServer) -> OpenAIResponses:
    return OpenAIResponses("m", api_key="k", base_url=server.base_url)


async def test_a_program_of_responses_calls_a_tool_and_goes_on() -> None:
    program: JsonObject = {
        "type": "program",
        "id": "prog_1",
        "call_id": "call_program",
        "code": "await tools.sales({region: 'east'})",
        "fingerprint": "f",
    }
    caller: JsonObject = {"type": "program", "caller_id": "call_program"}
    call = function_call("sales", "east", caller=caller)
    output: JsonObject = {
        "type": "program_output",
        "id": "out_1",
        "call_id": "call_program",
        "result": "3",
        "status": "completed",
    }
    async with ReplayServer(
        [response(program, call), response(output, message("Three.")), response(message("Bye."))]
    ) as server:
        options = Options(extra={"tools": [{"type": "programmatic_tool_calling"}]})
        worker = Worker(responses(server), tools=[sales], options=options)
        assert (await worker.run("Sales?")).text == "Three."
        await worker.run("Thanks.")
        first, second, third = (sent(server, n) for n in range(3))
    assert first["tools"][0]["allowed_callers"] == ["programmatic"]
    assert second["input"][1:] == [
        program,
        call,
        {"type": "function_call_output", "call_id": "call_east", "caller": caller, "output": "sales of east"},
    ]
    assert third["input"][4:6] == [output, message("Three.")]


async def test_a_search_of_responses_finds_a_tool_in_a_namespace() -> None:
    space: JsonObject = {
        "type": "namespace",
        "name": "weather",
        "description": "The weather.",
        "tools": [{"type": "function", "name": "forecast"}],
    }
    search: JsonObject = {
        "type": "tool_search_call",
        "id": "tsc_1",
        "execution": "server",
        "call_id": None,
        "status": "completed",
        "arguments": {"paths": ["weather"]},
    }
    found: JsonObject = {
        "type": "tool_search_output",
        "id": "tso_1",
        "execution": "server",
        "call_id": None,
        "status": "completed",
        "tools": [space],
    }
    call = function_call("forecast", "east", namespace="weather")
    async with ReplayServer([response(search, found, call), response(message("Rain."))]) as server:
        options = Options(extra={"tools": [space, {"type": "tool_search"}]})
        run = Worker(responses(server), tools=[forecast], options=options).run("Weather?")
        assert (await run).text == "Rain."
        first, second = sent(server, 0), sent(server, 1)
    assert [one.get("name") for one in first["tools"]] == ["weather", None]
    assert first["tools"][0]["tools"][0]["defer_loading"] is True
    assert second["input"][1:4] == [search, found, call]
    assert second["input"][4]["output"] == "rain in east"


@tool(format=Grammar("[0-9+]+", "regex"))
async def add(expression: str) -> str:
    """Add numbers, such as 1+2."""
    return str(sum(map(int, expression.split("+"))))


async def test_responses_call_a_tool_with_free_text() -> None:
    call: JsonObject = {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "call_1",
        "name": "add",
        "input": "1+2",
        "status": "completed",
    }
    async with ReplayServer([response(call), response(message("Three."))]) as server:
        worker = Worker(responses(server), tools=[add])
        ended = await worker.run("1+2?")
        first, second = sent(server, 0), sent(server, 1)
    assert first["tools"] == [
        {
            "type": "custom",
            "name": "add",
            "description": "Add numbers, such as 1+2.",
            "format": {"type": "grammar", "syntax": "regex", "definition": "[0-9+]+"},
        }
    ]
    (made,) = ended.conversation.messages[1].tool_calls
    assert isinstance(made, ToolCall)
    assert made.input == "1+2"
    assert second["input"][1:] == [call, {"type": "custom_tool_call_output", "call_id": "call_1", "output": "3"}]
