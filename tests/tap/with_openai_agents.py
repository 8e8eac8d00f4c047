"""openai-agents: its model for OpenAI's Responses, before a server that answers from a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, FileSearchTool, ModelResponse, OpenAIResponsesModel, RunConfig, Runner, function_tool, handoff
from openai import APIError, AsyncOpenAI

from rxworker.tap.sources import OpenAIAgents
from rxworker.testing import ReplayServer, Reply, ServedResponse, call, fail, say, stall, think
from tests.tap.kit import Figures, Recorder, main

FIRST = think("Two calls.") + say("I add and divide.", chunk=6) + call("add", a=1, b=2) + call("divide", a=1, b=0)
LAST = say("It is three.", chunk=6)
QUIET = RunConfig(tracing_disabled=True)


@function_tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@function_tool
def divide(a: int, b: int) -> float:
    """Divide."""
    return a / b


def served(*replies: Reply) -> ReplayServer:
    left = list(replies)
    return ReplayServer(lambda _: ServedResponse.from_reply(left.pop(0)))


def make(server: ReplayServer, **options: Any) -> Agent:
    client = AsyncOpenAI(base_url=f"{server.base_url}/v1", api_key="none", max_retries=0)
    return Agent(**{"name": "adder", "instructions": "Add well.", **options}, model=OpenAIResponsesModel("m-1", client))


def frames(*outputs: dict[str, Any]) -> ServedResponse:
    """A response whose items are not streamed in pieces."""
    base = {"id": "r1", "object": "response", "created_at": 1, "model": "m-1", "output": []}
    base |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    counts = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    usage = {**counts, "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**base, "status": "in_progress"}}]
    for place, item in enumerate(outputs):
        begun = {**item, "status": "in_progress"}
        events.append({"type": "response.output_item.added", "output_index": place, "item": begun})
        for part in item.get("content", []):
            delta = {"type": "response.output_text.delta", "item_id": item["id"], "delta": part["text"]}
            events.append({**delta, "output_index": place, "content_index": 0, "logprobs": []})
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    whole = {**base, "status": "completed", "output": list(outputs), "usage": usage}
    events.append({"type": "response.completed", "response": whole})
    lines = [json.dumps({**each, "sequence_number": number}) for number, each in enumerate(events)]
    return ServedResponse.from_frames([f"data: {line}\n\n".encode() for line in lines])


def figures(responses: list[ModelResponse], items: list[Any], status: str) -> Figures:
    """What the responses of a result and its new items have."""
    outputs = [item.raw_item for item in items if item.type in ("tool_call_output_item", "handoff_output_item")]
    results = {output["call_id"]: (str(output["output"]), False) for output in outputs}
    whole = [item for response in responses for item in response.output]
    texts = [
        "".join([part.text for item in response.output if item.type == "message" for part in item.content])
        for response in responses
    ]
    return Figures(
        status=status,
        text=texts[-1],
        thinking="".join([part.text for item in whole if item.type == "reasoning" for part in item.summary]),
        calls=[
            [item.name, json.loads(item.arguments), *results.get(item.call_id, (None, None))]
            for item in whole
            if item.type == "function_call"
        ],
        responses=len(responses),
        input=sum(each.usage.input_tokens for each in responses),
        output=sum(each.usage.output_tokens for each in responses),
        provided=[[item.type, {"queries": item.queries}] for item in whole if item.type == "file_search_call"],
    )


async def run(tap: Recorder, agent: Agent, *, alone: bool = False) -> Figures:
    result = Runner.run_streamed(agent, "What is 1 + 2?", run_config=QUIET)
    given = () if alone else (result,)
    async for _ in tap(result.stream_events(), OpenAIAgents(*given), *given):
        pass
    return figures(result.raw_responses, result.new_items, "paused" if result.interruptions else "finished")


async def tools(tap: Recorder) -> Figures:
    with served(FIRST, LAST) as server:
        return await run(tap, make(server, tools=[add, divide]))


async def alone(tap: Recorder) -> Figures:
    """The mapper has the events and nothing else."""
    with served(FIRST, LAST) as server:
        return await run(tap, make(server, tools=[add, divide]), alone=True)


async def handed_off(tap: Recorder) -> Figures:
    with served(call("transfer_to_other"), LAST) as server:
        other = make(server, name="other")
        return await run(tap, make(server, handoffs=[handoff(other)]))


async def nested(tap: Recorder) -> Figures:
    """An agent that is a tool: the program reads its events, too."""
    both: asyncio.Queue[Any] = asyncio.Queue()

    async def read(events: AsyncIterator[Any]) -> None:
        async for event in events:
            both.put_nowait(event)
        both.put_nowait(None)

    async def each() -> AsyncIterator[Any]:
        while (event := await both.get()) is not None:
            yield event

    with served(call("other", input="1 + 2"), FIRST, LAST, LAST) as server:
        other = make(server, name="other", tools=[add, divide]).as_tool("other", "Adds.", on_stream=both.put)
        result = Runner.run_streamed(make(server, tools=[other]), "What is 1 + 2?", run_config=QUIET)
        reading = asyncio.create_task(read(result.stream_events()))
        async for _ in tap(each(), OpenAIAgents(result), result):
            pass
        await reading
        whole = result.context_wrapper.usage  # which has that of the other agent, too
        own = figures(result.raw_responses, result.new_items, "finished")
        return Figures(**{**own, "input": whole.input_tokens, "output": whole.output_tokens})


async def hosted(tap: Recorder) -> Figures:
    """The provider searches files."""
    search = {"type": "file_search_call", "id": "fs1", "status": "completed", "queries": ["1 + 2"]}
    said = {"type": "output_text", "text": "It is three.", "annotations": [], "logprobs": []}
    message = {"type": "message", "id": "m1", "status": "completed", "role": "assistant", "content": [said]}
    with ReplayServer(lambda _: frames(search, message)) as server:
        return await run(tap, make(server, tools=[FileSearchTool(["files"])]))


async def paused(tap: Recorder) -> Figures:
    """A call that needs an approval."""
    checked = function_tool(lambda a, b: a / b, name_override="divide", needs_approval=True, strict_mode=False)
    with served(FIRST) as server:
        return await run(tap, make(server, tools=[add, checked]))


async def broken(tap: Recorder) -> Figures:
    with served(say("It is th", chunk=6) + fail("the line is cut", "server_error")) as server:
        result = Runner.run_streamed(make(server), "What is 1 + 2?", run_config=QUIET)
        try:
            async for _ in tap(result.stream_events(), OpenAIAgents(result), result):
                pass
        except APIError:
            pass
    return Figures(status="aborted", text="It is th", thinking="", calls=[], responses=1)


async def cancelled(tap: Recorder) -> Figures:
    with served(say("It is th", chunk=6) + stall()) as server:
        result = Runner.run_streamed(make(server), "What is 1 + 2?", run_config=QUIET)
        seen = ""
        async for event in tap(result.stream_events(), OpenAIAgents(result), result):
            seen += getattr(getattr(event, "data", None), "delta", "")
            if seen == "It is th":
                result.cancel()
    return Figures(status="cancelled", text="It is th", thinking="", calls=[], responses=1)


if __name__ == "__main__":
    main([tools, alone, handed_off, nested, hosted, paused, broken, cancelled])
