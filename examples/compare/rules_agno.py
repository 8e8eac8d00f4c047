"""agno: the events of a run in the background; each watcher takes them from its event stream, from the first.

A run inside another one is that of a member of a team.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import with_agno as program
from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.os.event_streams import get_event_stream
from agno.team import Team
from streams import AttemptRetract, TextDelta, Told, Usage


async def look(number: int) -> str:
    """Look."""
    return f"found {number}"


async def events(case: str, numbers: list[int]) -> AsyncIterator[object]:
    runs: dict[tuple[str, ...], Attempts] = {}
    if case == "nested":
        member = Agent(name="ask", id="ask", model=program.agent().model, telemetry=False)
        team = Team(members=[member], model=program.agent().model, telemetry=False, stream_member_events=True)
        async for event in team.arun("Go.", stream=True, stream_events=True):
            path = (event.run_id,) if event.parent_run_id else ()
            for each in runs.setdefault(path, Attempts(Told(path))).records_of(event.to_dict()):
                yield each
        return
    worker = program.agent(db=InMemoryDb(), tools=[look])
    sent = program.begin(worker)
    await anext(sent)
    run = Attempts(Told())
    async for number, event in get_event_stream().tail(program.RUN):
        numbers.append(number)
        for each in run.records_of(program.event_of(event)):
            yield each


class Attempts:
    """The attempts of a run: each starts it."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.has_started = self.is_open = False

    def records_of(self, event: dict) -> Iterator[object]:
        """What an event means."""
        told = self.told
        match event.get("event", "").removeprefix("Team"):
            case "RunStarted" if self.has_started:
                self.is_open = False
                yield from told.record(AttemptRetract("another attempt"))
            case "RunStarted":
                self.has_started = True
                yield from told.begin()
            case "ModelRequestStarted":
                yield from told.response(again=True)
            case "RunContent" if event.get("content"):
                if not self.is_open:
                    self.is_open = True
                    yield from told.text_block(0)
                yield from told.record(TextDelta(0, event["content"]))
            case "ModelRequestCompleted":
                if self.is_open:
                    self.is_open = False
                    yield from told.stop(0)
                yield from told.record(Usage(event["input_tokens"], event["output_tokens"]))
                yield from told.done()
            case "ToolCallStarted":
                yield from told.call(event["tool"]["tool_call_id"], event["tool"]["tool_name"])
            case "ToolCallCompleted":
                yield from told.result(event["tool"]["tool_call_id"])
            case "RunCompleted":
                yield from told.end()
            case "RunError":
                yield from told.fail(str(event.get("content")))
            case _:
                pass


class Watched:
    """A run; each watcher reads the events that are kept of it, and then what comes."""

    async def __aiter__(self) -> AsyncIterator[str]:
        async for _, event in get_event_stream().tail(program.RUN):
            if text := program.text_of(program.event_of(event)):
                yield text


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    sent = program.begin(program.agent(db=InMemoryDb()))
    await anext(sent)
    yield Watched()
    async for _ in sent:
        pass
