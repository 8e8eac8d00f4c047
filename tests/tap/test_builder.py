"""Whatever a source reports, in whatever order, the events of a builder keep the rules of records."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from rxworker.errors import ConfigurationError
from rxworker.events import Record, RunAbort, RunStop, ToolStart, ToolStop, Usage
from rxworker.messages import Message, StopKind, StopReason, Text
from rxworker.protocols.native import decode_record, encode_record
from rxworker.state import RunState, fold_run
from rxworker.tap import RunBuilder, Tapped
from rxworker.testing.conformance import lint

IDS = ("a", "b", "c")
ACTIONS: dict[str, Callable[[RunBuilder, random.Random], object]] = {
    "start": lambda run, _: run.start("Hi"),
    "add": lambda run, _: run.add(Message.user("And?")),
    "request": lambda run, r: run.request("m", "p", r.choice([None, "resp"])),
    "text": lambda run, r: run.text("word ", r.choice([None, None, "key"])),
    "thinking": lambda run, _: run.thinking("hm "),
    "call": lambda run, r: run.call(r.choice(IDS), "tool", r.choice([None, {}, {"a": 1}, '{"a":'])),
    "keyed": lambda run, r: run.call(r.choice(IDS), "tool", r.choice([None, {}]), key=r.choice(["key", 1])),
    "arguments": lambda run, r: run.arguments('{"b":', r.choice(["", "key", 1, *IDS])),
    "stop_block": lambda run, r: run.stop_block(r.choice([None, "key", *IDS])),
    "usage": lambda run, r: run.usage(Usage(r.randrange(9), 1)),
    "respond": lambda run, r: run.respond(r.choice([None, StopReason(StopKind.END_TURN)])),
    "fail": lambda run, _: run.fail("overloaded", retryable=True),
    "retract": lambda run, _: run.retract("again"),
    "tool_start": lambda run, r: run.tool_start(r.choice(IDS), "tool"),
    "tool_progress": lambda run, r: run.tool_progress(r.choice(IDS), 0.5),
    "tool_stop": lambda run, r: run.tool_stop(r.choice(IDS), "done", is_error=r.random() < 0.2, name="tool"),
    "custom": lambda run, _: run.custom("acme.note", {}),
}


def steps_of(run: RunBuilder, rand: random.Random, number: int, depth: int = 0) -> None:
    for _ in range(number):
        name = rand.choice([*ACTIONS])
        if depth < 2 and rand.random() < 0.1:
            run.call("a", "ask", {})
            steps_of(run.inside("a"), rand, 5, depth + 1)
        else:
            ACTIONS[name](run, rand)


def records_of(built: list[Tapped]) -> list[Record]:
    return [Record(n, "r", 1, 1, 0.0, each.event, each.path) for n, each in enumerate(built, 1)]


def folded(built: list[Tapped]) -> RunState:
    records = records_of(built)
    assert lint(records) == [], [(each.path, type(each.event).__name__) for each in built]
    return fold_run(records)


@pytest.mark.parametrize("seed", range(150))
def test_a_builder_keeps_the_rules_whatever_it_is_given(seed: int) -> None:
    rand = random.Random(seed)
    run = RunBuilder("acme")
    run.start("Hi")
    steps_of(run, rand, rand.randrange(1, 40))
    if rand.random() < 0.5:
        run.end()
    else:
        run.abort("cut off")
    state = folded(run.take())
    assert state.status in ("finished", "aborted", "new")
    run.end()
    run.abort("again")
    assert run.take() == []  # nothing follows an end


@pytest.mark.parametrize("seed", range(20))
def test_the_same_reports_make_the_same_events(seed: int) -> None:
    def build() -> list[Any]:
        run = RunBuilder("acme")
        run.time = 1.0
        steps_of(run, random.Random(seed), 30)
        return run.take()

    assert build() == build()


def test_a_run_may_follow_another() -> None:
    run = RunBuilder("acme")
    for text in ("One.", "Two."):
        run.start("Hi")
        run.text(text)
        run.end()
    built = run.take()
    assert sum(isinstance(each.event, RunStop) for each in built) == 2


def test_two_calls_of_one_id_have_places_of_their_own() -> None:
    run = RunBuilder(late_calls=True)
    run.tool_stop("a", "done", name="tool")
    for call_id in ("a", "b"):
        run.call(call_id, "tool", {})
        run.tool_start(call_id)
    assert [each.event.place for each in run.take() if isinstance(each.event, ToolStart)] == [0, 1, 2]


def test_a_run_whose_response_fails_without_a_message_is_aborted() -> None:
    run = RunBuilder()
    run.fail("")
    run.end()
    assert isinstance(run.take()[-1].event, RunAbort)


def test_a_call_is_known_by_its_key_and_has_its_arguments_once() -> None:
    run = RunBuilder()
    run.call("a", "tool", key=0)
    run.call("b", "tool", key=1)
    run.arguments('{"n": 1}', 0)
    for call_id in ("a", "b"):
        run.call(call_id, "tool", {"n": 2})
    assert [(each.id, each.input) for each in run.calls] == [("a", {"n": 1}), ("b", {"n": 2})]


@pytest.mark.parametrize(("times", "seconds"), [((1.0, 3.0), 2.0), ((1.0, None), 0.0), ((None, 3.0), 0.0)])
def test_a_tool_whose_start_is_not_reported_took_from_its_call(times: tuple[float | None, ...], seconds: float) -> None:
    run = RunBuilder()
    run.time = times[0]
    run.call("a", "tool", {})
    run.time = times[1]
    run.tool_stop("a", "done")
    assert [each.event.seconds for each in run.take() if isinstance(each.event, ToolStop)] == [seconds]


@pytest.mark.parametrize(
    ("verb", "given"),
    [
        ("text", [5]),
        ("thinking", [b"Hm."]),
        ("usage", [{"input_tokens": 1}]),
        ("call", [7, "look"]),
        ("call", ["a", print]),
        ("tool_start", [7, "look"]),
        ("tool_stop", [7, "done"]),
        ("request", [5]),
        ("request", ["small", "provider", 5]),
        ("fail", [ValueError("boom")]),
        ("abort", [ValueError("boom")]),
    ],
)
def test_what_is_of_the_wrong_type_is_refused_when_it_is_reported(verb: str, given: list[object]) -> None:
    with pytest.raises(ConfigurationError, match="give it like this: run"):
        getattr(RunBuilder(), verb)(*given)


def test_a_label_that_no_log_could_read_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the label tenant is a int"):
        RunBuilder().start(labels={"tenant": 7})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("given", "content"), [({"degrees": 17}, '{"degrees":17}'), (None, ""), (7, "7"), ([Text("a")], (Text("a"),))]
)
def test_the_result_of_a_call_is_what_a_tool_may_return(given: object, content: object) -> None:
    run = RunBuilder()
    run.tool_start("a", "look")
    run.tool_stop("a", given)
    [stop] = [each.event for each in run.take() if isinstance(each.event, ToolStop)]
    assert stop.result is not None
    assert stop.result.content == content
    kept = Record(1, "run-1", 1, 1, 0.0, stop)
    assert decode_record(encode_record(kept)) == kept
