"""A delta costs the same in a stream of a hundred and of two hundred thousand, and a run alone and among a thousand.

What is counted is calls, of Python and of C, since a count of lines would take minutes at this length; what a single
call copies shows in the memory. Whether one call reads more and more is for `test_growth.py`, which counts that, too.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from collections.abc import Callable, Coroutine, Sequence
from types import FrameType
from typing import Any

import pytest
import reactivex
from reactivex import Observable

from rxworker import Run, Worker, tool
from rxworker.events import Event
from rxworker.operators import text_deltas, thinking_deltas, tool_inputs
from rxworker.operators.kernel import Operator
from rxworker.providers import Anthropic, HttpRequest, OpenAIChat
from rxworker.testing import Reply, ScriptedModel, anthropic_frames, call, openai_chat_frames, say, think
from rxworker.transport import Client

MakeReply = Callable[[str], Reply]
MakeClient = Callable[[MakeReply, int], Client]
FramesOf = Callable[[Reply], list[bytes]]
Task = Callable[[], object]

FEW = 100
SOME = 2_100
MANY = 200_000
WORD = "word"
LONG = 30_000
"""Long enough for memory, which takes longer to be watched."""

READ = 16_384
"""Bytes that come at once, as from a socket."""

FLAT = 1.1
"""What a delta may cost among many, in deltas among some."""


def thinking(text: str) -> Reply:
    return think(text) + say("done")


def writing(text: str) -> Reply:
    return call("write", text=text)


SORTS: dict[str, tuple[MakeReply, Operator[Event, object]]] = {
    "text": (say, text_deltas()),
    "thinking": (thinking, thinking_deltas()),
    "arguments": (writing, tool_inputs()),
}


@tool
async def write(text: str) -> str:
    """Write a text."""
    return str(len(text))


class InTurn:
    """A transport that answers with one body after the other, some bytes at once."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self.bodies = list(bodies)

    def send(self, request: HttpRequest) -> Observable[bytes]:
        body = self.bodies.pop(0)
        return reactivex.from_iterable([body[at : at + READ] for at in range(0, len(body), READ)])


def body_of(frames_of: FramesOf, make: MakeReply, n: int) -> bytes:
    """A stream with so many deltas more than a short one has, of which one frame comes again and again."""
    frames = frames_of(make(WORD * 8))
    place = next(at for at, frame in enumerate(frames) if frame == frames[at + 1])
    return b"".join([*frames[:place], *[frames[place]] * n, *frames[place:]])


def anthropic(make: MakeReply, n: int) -> Client:
    bodies = [body_of(anthropic_frames, make, n), b"".join(anthropic_frames(say("Done.")))]
    return Client(Anthropic("m", api_key="k"), transport=InTurn(bodies))


def openai_chat(make: MakeReply, n: int) -> Client:
    bodies = [body_of(openai_chat_frames, make, n), b"".join(openai_chat_frames(say("Done.")))]
    return Client(OpenAIChat("m", api_key="k"), transport=InTurn(bodies))


CLIENTS = pytest.mark.parametrize("client_of", [anthropic, openai_chat])
OF_ALL_SORTS = pytest.mark.parametrize("sort", SORTS)


async def run_of(client: Client | ScriptedModel) -> Run:
    """A run that somebody watches, when it is over."""
    run = Worker(client, tools=[write]).run("Go on.")
    run.subscribe()
    await run
    return run


def calls_of(task: Task) -> int:
    """How many calls a task makes."""
    count = 0

    def note(_: FrameType, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    profiled = sys.getprofile()
    gc.disable()
    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(profiled)
        gc.enable()
    return count


def assert_flat(prepare: Callable[[int], Task], few: int, some: int, many: int) -> None:
    """One more among many is as many calls as one more among some."""
    prepare(few)()  # what is made at the first use is not counted
    at_few, at_some, at_many = (calls_of(prepare(n)) for n in (few, some, many))
    among_some, among_many = (at_some - at_few) / (some - few), (at_many - at_few) / (many - few)
    assert among_some > 0, "nothing was counted"
    assert among_many <= FLAT * among_some, f"{among_some:.3f} calls, then {among_many:.3f}"


def peak_of(task: Task) -> int:
    """The most bytes that a task holds at any time."""
    gc.collect()
    tracemalloc.start()
    try:
        task()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def running(make: Callable[[], Coroutine[Any, Any, object]]) -> Task:
    return lambda: asyncio.run(make())


# the counter itself


def test_a_call_more_for_each_hundred_before_is_found_out() -> None:
    def prepare(n: int) -> Task:
        def look() -> None:
            for place in range(n):
                for _ in range(1 + place // 100):
                    abs(place)

        return look

    with pytest.raises(AssertionError, match="calls, then"):
        assert_flat(prepare, 10, 110, 1_010)


@OF_ALL_SORTS
@CLIENTS
def test_a_body_has_the_deltas_that_it_should(client_of: MakeClient, sort: str) -> None:
    """Else nothing would be measured."""
    make, pick = SORTS[sort]

    def count(n: int) -> int:
        heard: list[object] = []
        client_of(make, n).stream("Go on.").pipe(pick).subscribe(heard.append)
        return len(heard)

    assert count(110) - count(10) == (0 if sort == "arguments" else 100)


# a stream


@OF_ALL_SORTS
def test_a_delta_of_a_client_costs_the_same_in_a_long_stream(sort: str) -> None:
    make, pick = SORTS[sort]

    def prepare(n: int) -> Task:
        client = anthropic(make, n)
        return lambda: client.stream("Go on.").pipe(pick).subscribe()

    assert_flat(prepare, FEW, SOME, MANY)


@pytest.mark.parametrize(("client_of", "sort"), [*[(anthropic, sort) for sort in SORTS], (openai_chat, "text")])
def test_a_delta_of_a_run_costs_the_same_in_a_long_stream(client_of: MakeClient, sort: str) -> None:
    make, _ = SORTS[sort]

    def prepare(n: int) -> Task:
        client = client_of(make, n)
        return running(lambda: run_of(client))

    assert_flat(prepare, FEW, SOME, MANY)


@OF_ALL_SORTS
def test_events_that_come_one_by_one_cost_the_same_in_a_long_stream(sort: str) -> None:
    """Without the rows that bytes come in: by a tenth as many, since each takes its own way."""
    make, _ = SORTS[sort]

    def prepare(n: int) -> Task:
        model = ScriptedModel([make(WORD * n), "Done."])
        return running(lambda: run_of(model))

    assert_flat(prepare, FEW, SOME, MANY // 10)


@OF_ALL_SORTS
def test_a_run_takes_memory_for_its_text(sort: str) -> None:
    """At its peak: what is held grows with the deltas, and nothing is copied whole for each of them."""
    make, _ = SORTS[sort]

    def peak(n: int) -> int:
        client = anthropic(make, n)
        return peak_of(running(lambda: run_of(client)))

    peak(FEW)
    at_few, at_some, at_many = (peak(n) for n in (FEW, LONG // 10, LONG))
    assert (at_many - at_few) / (LONG - FEW) < 1.5 * (at_some - at_few) / (LONG // 10 - FEW)


# many runs


async def runs_of(n: int) -> list[Run]:
    """So many at once, each with its worker."""
    models = [ScriptedModel([say(WORD * 10)]) for _ in range(n)]
    return await asyncio.gather(*[run_of(model) for model in models])


def test_a_run_costs_the_same_among_a_thousand() -> None:
    def prepare(n: int) -> Task:
        return running(lambda: runs_of(n))

    assert_flat(prepare, 1, 31, 1_000)


def test_a_run_takes_the_same_memory_among_many() -> None:
    def peak(n: int) -> int:
        return peak_of(running(lambda: runs_of(n)))

    peak(1)
    at_one, at_some, at_many = (peak(n) for n in (1, 31, 301))
    assert (at_many - at_one) / 300 < 1.3 * (at_some - at_one) / 30


# what is left


@pytest.mark.parametrize("sort", SORTS)
def test_a_finished_run_holds_its_text_and_a_few_bytes_a_delta(sort: str) -> None:
    """The text in the history and in the conversation, and where each delta ends and when it came.

    Of arguments, also what was sent.
    """
    make, _ = SORTS[sort]

    def held(n: int) -> int:
        client = anthropic(make, n)
        gc.collect()
        tracemalloc.start()
        run = asyncio.run(run_of(client))
        del client
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert run.done()
        return size

    held(FEW)
    by_delta = (held(LONG) - held(FEW)) / (LONG - FEW)
    texts = 4 if sort == "arguments" else 3
    assert by_delta < texts * len(WORD) + 12 + 4
