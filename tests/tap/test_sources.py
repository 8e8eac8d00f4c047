"""The mappers of the streams of other libraries, on what was recorded of them; `tests/newest` has the libraries."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import Event, RunAbort, RunStop, ToolStop
from rxworker.run.run import Run, end_of
from rxworker.tap import Mapper, Tapped, tap
from rxworker.tap.sources import AG2, Agno, ClaudeAgent, LangGraph, OpenAIAgents, PydanticAI, Strands
from rxworker.testing.conformance import lint
from tests.tap import kit, peers
from tests.whole import IS_WHOLE

MAPPERS: dict[str, Callable[..., Mapper[Any]]] = {
    "ag2": AG2,
    "agno": Agno,
    "claude_agent": ClaudeAgent,
    "langgraph": LangGraph,
    "openai_agents": OpenAIAgents,
    "pydantic_ai": PydanticAI,
    "strands": Strands,
}


class Recorded(Struct):
    """A case of a library, as its program has reported it."""

    name: str
    case: str
    own: kit.Figures
    given: list[Any]
    items: list[Any]

    def mapper(self) -> Mapper[Any]:
        """A new mapper for it."""
        return MAPPERS[self.name](*[kit.load(each) for each in self.given])


def recordings() -> Iterator[Any]:
    """All cases."""
    for path in sorted(peers.RECORDED.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            read = json.loads(line)
            recorded = Recorded(path.stem, *(read[name] for name in Recorded.__struct_fields__[1:]))
            yield pytest.param(recorded, id=f"{recorded.name}-{recorded.case}")


ENDS = ("finished", "paused")
each_recording = pytest.mark.parametrize("recorded", [*recordings()])


async def read(items: list[Any], error: Exception | None = None) -> AsyncIterator[Any]:
    for item in items:
        yield kit.load(item)
    if error is not None:
        raise error


async def tapped(recorded: Recorded, cut: int | None = None) -> Run[None]:
    """The run of a recording, or of its beginning."""
    whole = cut is None and recorded.own["status"] in ENDS
    run = tap(read(recorded.items[:cut], None if whole else ConnectionError("cut")), recorded.mapper())
    await end_of(run)
    return run


def records(run: Run[None]) -> list[Any]:
    return list(run._journal.hub.history.records(0))


@each_recording
async def test_a_recording_has_the_figures_of_its_library(recorded: Recorded) -> None:
    run = await tapped(recorded)
    assert lint(records(run)) == []
    found = kit.figures_of(run)
    expected = {**recorded.own, "status": recorded.own["status"] if recorded.own["status"] in ENDS else "aborted"}
    assert {name: found.get(name) for name in expected} == expected


@each_recording
async def test_a_recording_that_is_cut_keeps_the_rules(recorded: Recorded) -> None:
    step = max(len(recorded.items) // (40 if IS_WHOLE else 12), 1)
    for cut in range(0, len(recorded.items), step):
        run = await tapped(recorded, cut)
        # agno has its output after the end
        assert not cut or cut == len(recorded.items) - 1 or run.state.status == "aborted", cut
        assert lint(records(run)) == [], cut


@each_recording
def test_the_same_items_make_the_same_events(recorded: Recorded) -> None:
    one, other = recorded.mapper(), recorded.mapper()
    for item in recorded.items:
        assert events(one.feed(kit.load(item))) == events(other.feed(kit.load(item)))


def events(fed: Iterable[Tapped | Event]) -> list[object]:
    """What a mapper has made, but for how long a tool took, which the clock decides."""
    made = [each.event if isinstance(each, Tapped) else each for each in fed]
    return [replace(event, seconds=0.0) if isinstance(event, ToolStop) else event for event in made]


@pytest.mark.product(2)
@each_recording
def test_what_a_library_leaves_out_is_unknown(recorded: Recorded) -> None:
    """Another version may lack a member, or have another value there: no mapper raises."""
    seen: set[object] = set()
    items = [kit.load(item) for item in recorded.items]
    for at, (item, loaded) in enumerate(zip(recorded.items, items, strict=True)):
        for path in paths(loaded):
            if (key := (type(loaded).__name__, path)) in seen:
                continue
            seen.add(key)
            several = (None, "?", 7, SimpleNamespace())
            for value in several if IS_WHOLE else several[len(seen) % 4 :][:1]:
                mapper = recorded.mapper()
                for before in items[max(at - 8, 0) : at]:
                    mapper.feed(before)
                changed = kit.load(item)
                put(changed, path, value)
                mapper.feed(changed)
                mapper.finish()


@pytest.mark.parametrize(("status", "end"), [("failed", RunAbort), ("completed", RunStop)])
def test_a_swarm_that_has_failed_is_not_finished(status: str, end: type[Event]) -> None:
    mapper = Strands("Hi")
    mapper.feed({"type": "multiagent_node_start", "node_id": "one"})
    made = mapper.feed({"type": "multiagent_result", "result": SimpleNamespace(status=status)})
    assert type(made[-1].event) is end


def paths(value: Any, depth: int = 3) -> Iterator[tuple[Any, ...]]:
    """The paths of the members of a value."""
    named = members(value)
    if isinstance(value, list):
        named = dict([*named.items()][:2])
    for name, each in named.items():
        yield (name,)
        if depth:
            yield from ((name, *path) for path in paths(each, depth - 1))


def members(value: Any) -> dict[Any, Any]:
    """The members of an object, or the items of a list or a dict."""
    if isinstance(value, list):
        return dict(enumerate(cast("list[Any]", value)))
    return cast("dict[Any, Any]", value) if isinstance(value, dict) else getattr(value, "__dict__", {})


def put(value: Any, path: tuple[Any, ...], new: Any) -> None:
    """Change one of them."""
    for name in path[:-1]:
        value = members(value)[name]
    if isinstance(value, list):
        cast("list[Any]", value)[path[-1]] = new
    else:
        members(value)[path[-1]] = new
