"""LangGraph: ``create_agent`` of LangChain and graphs, with a scripted chat model."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware, wrap_tool_call
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from rxworker.tap.sources import LangGraph
from tests.tap.kit import Figures, Recorder, main

ASKED: Any = {"messages": [{"role": "user", "content": "What is 1 + 2?"}]}


def part(content: Any = "", **options: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content=content, **options))


def called(index: int, args: str, name: str | None = None, id: str | None = None) -> ChatGenerationChunk:  # noqa: A002
    return part(tool_call_chunks=[{"name": name, "args": args, "id": id, "index": index, "type": "tool_call_chunk"}])


def ended(given: int, made: int, reason: str) -> ChatGenerationChunk:
    usage: Any = {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}
    return part(usage_metadata=usage, response_metadata={"finish_reason": reason, "model_name": "m-1"})


FIRST = [
    part([{"type": "thinking", "thinking": "Two ", "index": 0}]),
    part([{"type": "thinking", "thinking": "calls.", "index": 0}]),
    part([{"type": "text", "text": "I add ", "index": 1}]),
    part([{"type": "text", "text": "and divide.", "index": 1}]),
    called(0, '{"a":1,', "add", "c1"),
    called(1, '{"a":1,"b":0}', "divide", "c2"),
    called(0, '"b":2}'),
    ended(10, 5, "tool_calls"),
]
LAST = [part("It is "), part("three."), ended(20, 3, "stop")]
HALF = [part("It is "), part("th")]


class Scripted(BaseChatModel):
    """A model that has one answer after the other."""

    answers: list[Any]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Scripted:
        return self

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        for each in self.answers.pop(0):
            await asyncio.sleep(0)
            if isinstance(each, Exception):
                raise each
            if each is None:
                await asyncio.Event().wait()
            yield each


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def divide(a: int, b: int) -> float:
    """Divide."""
    return a / b


@wrap_tool_call
async def reports(request: Any, handler: Any) -> ToolMessage:
    """An error is a result."""
    try:
        return await handler(request)
    except ZeroDivisionError as error:
        return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")


def agent(*answers: list[Any], **options: Any) -> Any:
    options.setdefault("middleware", [reports])
    return create_agent(Scripted(answers=[*answers]), [add, divide], name="adder", **options)


def figures(messages: list[AnyMessage], status: str) -> Figures:
    """What the state of the graph has at its end."""
    own = [each for each in messages if isinstance(each, AIMessage)]
    results = {each.tool_call_id: each for each in messages if isinstance(each, ToolMessage)}
    blocks = [block for each in own for block in each.content if isinstance(block, dict)]
    calls = []
    for call in [call for each in own for call in each.tool_calls]:
        result = results.get(call["id"])
        outcome = (None, None) if result is None else (result.content, result.status == "error")
        calls.append([call["name"], call["args"], *outcome])
    return Figures(
        status=status,
        text=own[-1].text,
        thinking="".join([block["thinking"] for block in blocks if block["type"] == "thinking"]),
        calls=calls,
        responses=len(own),
        input=sum(each.usage_metadata["input_tokens"] for each in own if each.usage_metadata),
        output=sum(each.usage_metadata["output_tokens"] for each in own if each.usage_metadata),
    )


async def read(tap: Recorder, graph: Any, given: Any = ASKED, **options: Any) -> Any:
    """Read the events; the state at the end."""
    state = None
    async for event in tap(graph.astream_events(given, version="v2", **options), LangGraph()):
        if event["event"] == "on_chain_end" and not event["parent_ids"]:
            state = event["data"]["output"]
    return state


async def tools(tap: Recorder) -> Figures:
    return figures((await read(tap, agent(FIRST, LAST)))["messages"], "finished")


async def whole(tap: Recorder) -> Figures:
    """A model that does not stream."""
    graph = agent(FIRST, LAST)

    class Whole(Scripted):
        disable_streaming: bool = True

        async def _agenerate(self, *_: Any, **__: Any) -> ChatResult:
            from langchain_core.language_models.chat_models import agenerate_from_stream

            return await agenerate_from_stream(self._astream())

    graph = create_agent(Whole(answers=[FIRST, LAST]), [add, divide], middleware=[reports])
    return figures((await read(tap, graph))["messages"], "finished")


async def retried(tap: Recorder) -> Figures:
    retry = ModelRetryMiddleware(initial_delay=0.0, on_failure="error")
    graph = agent([*HALF, ConnectionError("the line is cut")], LAST, middleware=[retry])
    return figures((await read(tap, graph))["messages"], "finished")


async def nested(tap: Recorder) -> Figures:
    """A tool that runs another agent."""
    inner = agent(FIRST, LAST)

    @tool
    async def other(question: str) -> str:
        """Another agent."""
        return (await inner.ainvoke({"messages": [HumanMessage(question)]}))["messages"][-1].text

    answers = [[called(0, '{"question":"1 + 2"}', "other", "c0"), ended(5, 2, "tool_calls")], LAST]
    graph = create_agent(Scripted(answers=answers), [other])
    own = figures((await read(tap, graph))["messages"], "finished")
    assert own["input"] is not None
    assert own["output"] is not None
    return Figures(**{**own, "input": own["input"] + 30, "output": own["output"] + 8})


async def parallel(tap: Recorder) -> Figures:
    """Two nodes that call models at the same time."""
    answers = [LAST, [part("Four "), part("is wrong."), ended(7, 4, "stop")]]
    models = [Scripted(answers=[answer]) for answer in answers]

    async def one(state: Any) -> Any:
        return {"one": (await models[0].ainvoke("1 + 2")).text}

    async def other(state: Any) -> Any:
        return {"other": (await models[1].ainvoke("1 + 2")).text}

    class State(TypedDict, total=False):
        question: str
        one: str
        other: str

    graph = StateGraph(State)
    graph.add_node("first", one)
    graph.add_node("second", other)
    graph.add_edge(START, "first")
    graph.add_edge(START, "second")
    graph.add_edge("first", END)
    graph.add_edge("second", END)
    state = await read(tap, graph.compile(), {"question": "1 + 2"})
    return Figures(status="finished", text=state["other"], thinking="", calls=[], responses=2, input=27, output=7)


async def paused(tap: Recorder) -> Figures:
    @tool
    def checked(question: str) -> str:
        """Needs an answer."""
        return interrupt("May it?")

    answers = [[called(0, '{"question":"1 + 2"}', "checked", "c0"), ended(5, 2, "tool_calls")]]
    graph = create_agent(Scripted(answers=answers), [checked], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    await read(tap, graph, config=config)
    return figures((await graph.aget_state(config)).values["messages"], "paused")


async def broken(tap: Recorder) -> Figures:
    with contextlib.suppress(ConnectionError):
        await read(tap, agent([*HALF, ConnectionError("the line is cut")]))
    return Figures(status="aborted", text="It is th", thinking="", calls=[], responses=1)


async def fails(tap: Recorder) -> Figures:
    """The error of a tool is that of the graph."""
    answer = [called(0, '{"a":1,"b":0}', "divide", "c2"), ended(10, 5, "tool_calls")]
    with contextlib.suppress(ZeroDivisionError):
        await read(tap, agent(answer, middleware=[]))
    calls = [["divide", {"a": 1, "b": 0}, "ZeroDivisionError: division by zero", True]]
    return Figures(status="aborted", text="", thinking="", calls=calls, responses=1, input=10, output=5)


async def cancelled(tap: Recorder) -> Figures:
    seen = 0
    events = agent([*HALF, None]).astream_events(ASKED, version="v2")
    try:
        async for event in tap(events, LangGraph()):
            seen += event["event"] == "on_chat_model_stream"
            if seen == len(HALF):
                current = asyncio.current_task()
                assert current is not None
                current.cancel()
    except asyncio.CancelledError:
        pass
    return Figures(status="cancelled", text="It is th", thinking="", calls=[], responses=1)


if __name__ == "__main__":
    main([tools, whole, retried, nested, parallel, paused, broken, fails, cancelled])
