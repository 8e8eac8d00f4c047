"""What the programs of the tapped libraries share: they run in environments of their own, which have rxworker as well.

A program has cases, and calls `main` with them. A case runs its library once with a scripted model, reads its stream
through a `Recorder`, and returns the figures that the library itself has.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, NotRequired, Protocol, TypedDict, cast

from rxworker.messages import ServerToolCall, Thinking
from rxworker.run.run import Run, end_of
from rxworker.tap import Mapper, tee

METHODS = ("new_messages",)
"""Methods whose results mappers read."""
LEFT_OUT = (
    "checkpoint_ns",
    "langgraph_checkpoint_ns",
    "langgraph_path",
    "langgraph_triggers",
    "lc_versions",
    "new_items",
    "params_json_schema",
    "raw_responses",
)
"""Members that are long and that no mapper reads."""
DEPTH = 12


class Figures(TypedDict):
    """What a library and its tap have both.

    Attributes:
        status: ``finished``, ``paused``, ``aborted`` or ``cancelled``.
        text: The text of the last response.
        thinking: All thinking.
        calls: The name, arguments, result and ``is_error`` of each call, in order.
        responses: How many responses there were.
        input: The tokens of the input of all responses; ``None``: not known.
        output: The tokens of their output.
        provided: The name and the arguments of each call that the provider has carried out itself.
    """

    status: str
    text: str
    thinking: NotRequired[str]
    calls: list[list[Any]]
    responses: int
    input: NotRequired[int | None]
    output: NotRequired[int | None]
    provided: NotRequired[list[list[Any]]]


class Recorder:
    """Taps a stream, and keeps its items."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.given: list[Any] = []
        self.run: Run[None] | None = None

    async def __call__(self, source: AsyncIterator[Any], mapper: Mapper[Any], *given: object) -> AsyncIterator[Any]:
        """The items of a source.

        Args:
            source: The stream.
            mapper: Its mapper.
            given: The arguments of the mapper, which are recorded at the end.
        """
        both = tee(source, mapper)
        self.run = both.run
        try:
            async for item in both:
                self.items.append(dump(item))
                yield item
        finally:
            self.given = [dump(each) for each in given]


def dump(value: Any, depth: int = DEPTH) -> Any:
    """A value as JSON. An object is its class and its members."""
    if isinstance(value, enum.Enum):
        return dump(value.value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if depth == 0 or callable(value) or isinstance(value, bytes):
        return None
    if isinstance(value, datetime):
        return {"~time": value.timestamp()}
    if isinstance(value, BaseException):
        return {"~error": [type(value).__name__, str(value)]}
    if isinstance(value, Mapping):
        named = cast("Mapping[object, Any]", value)
        return {"~map": {str(n): dump(each, depth - 1) for n, each in named.items() if n not in LEFT_OUT}}
    if isinstance(value, list | tuple | set | frozenset):
        return [dump(each, depth - 1) for each in cast("list[Any]", value)]
    found: dict[str, Any] = {"~class": type(value).__name__}
    for name, each in members_of(value).items():
        dumped = dump(each, depth - 1)
        if dumped is not None and name not in LEFT_OUT and not name.startswith("_"):
            found[name] = dumped
    for name in METHODS:
        if callable(getattr(value, name, None)):
            found[f"{name}()"] = dump(getattr(value, name)(), depth - 1)
    return found


def members_of(value: Any) -> dict[str, Any]:
    """The members of an object: the fields of a dataclass or of a model of pydantic, or all."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    return {**getattr(value, "__dict__", {}), **(getattr(value, "__pydantic_extra__", None) or {})}


def load(value: Any) -> Any:
    """What `dump` has written: an object of a class of that name, with those members."""
    if isinstance(value, list):
        return [load(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    named = cast("dict[str, Any]", value)
    if "~map" in named:
        return {name: load(each) for name, each in named["~map"].items()}
    if "~time" in named:
        return datetime.fromtimestamp(named["~time"]).astimezone()
    if "~error" in named:
        name, message = named["~error"]
        return type(name, (Exception,), {})(message)
    loaded = type(named["~class"], (SimpleNamespace,), {})()
    for name, each in named.items():
        if name.endswith("()"):
            setattr(loaded, name.removesuffix("()"), partial(load, each))
        elif name != "~class":
            setattr(loaded, name, load(each))
    return loaded


def figures_of(run: Run[None]) -> Figures:
    """The figures of a tapped run."""
    state = run.state
    assistants = [each for each in state.conversation.messages if each.role == "assistant"]
    results = {each.tool_use_id: each for message in state.conversation.messages for each in message.tool_results}
    if state.pause is not None:
        results |= {each.tool_use_id: each for each in state.pause.refused.values()}
    parts = [each for message in assistants for each in message.content]
    calls: list[list[Any]] = []
    for call in [call for message in assistants for call in message.tool_calls]:
        result = results.get(call.id)
        calls.append([call.name, call.input, *((result.content, result.is_error) if result else (None, None))])
    return Figures(
        status="cancelled" if state.cause == "cancel" else state.status,
        text=assistants[-1].text if assistants else "",
        thinking="".join([each.text for each in parts if isinstance(each, Thinking)]),
        calls=calls,
        responses=state.turns,
        input=state.usage.input_tokens,
        output=state.usage.output_tokens,
        provided=[[each.name, each.input] for each in parts if isinstance(each, ServerToolCall)],
    )


class Case(Protocol):
    """Runs a library once."""

    __name__: str

    async def __call__(self, tap: Recorder) -> Figures:
        """Its own figures."""
        ...


async def run_case(case: Case) -> dict[str, Any]:
    """What a case has reported, its own figures and those of its tap."""
    recorder = Recorder()
    own = await case(recorder)
    assert recorder.run is not None
    await asyncio.wait_for(end_of(recorder.run), 30)
    tapped = figures_of(recorder.run)
    return {"own": own, "tapped": tapped, "given": recorder.given, "items": recorder.items}


def main(cases: Sequence[Case]) -> None:
    """Run the cases that the command line names, or all, and print a line of JSON for each."""
    for case in cases:
        if case.__name__ in (sys.argv[1:] or [case.__name__]):
            print(json.dumps({"case": case.__name__, **asyncio.run(run_case(case))}), flush=True)
