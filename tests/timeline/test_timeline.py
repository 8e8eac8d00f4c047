"""The timeline calls handlers: kinds, scopes, order, failures, threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from reactivex import abc

from rxworker.errors import ConfigurationError
from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Error,
    Event,
    InputJsonDelta,
    Opaque,
    Ping,
    Record,
    RefusalDelta,
    ResponseStatus,
    RunStop,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
    TurnStart,
    Usage,
)
from rxworker.events.block import ToolResultMetadata
from rxworker.messages import StopKind, StopReason
from rxworker.operators.kernel import Source
from rxworker.testing.marbles import Marbles
from rxworker.timeline import (
    TEXT_BLOCK,
    THINKING_BLOCK,
    TOOL_USE_BLOCK,
    Kind,
    TextBlockAbort,
    TextBlockEvent,
    TextBlockStart,
    TextBlockStop,
    ThinkingBlockAbort,
    ThinkingBlockStart,
    ThinkingBlockStop,
    Timeline,
    ToolUseBlockAbort,
    ToolUseBlockStart,
    ToolUseBlockStop,
)
from tests.timeline.scopes import Scopes

T = BlockType
LOOK = ToolUseMetadata("1", "look")


def everything(timeline: Timeline) -> list[object]:
    seen: list[object] = []
    registrations: list[Callable[[Callable[[object], None]], abc.DisposableBase]] = [
        timeline.on_usage,
        timeline.on_ping,
        timeline.on_status,
        timeline.on_error,
        timeline.on_text_block,
        timeline.on_thinking_block,
        timeline.on_tool_use_block,
    ]
    for register in registrations:
        register(seen.append)
    return seen


def play(timeline: Timeline, *events: Event) -> None:
    for event in events:
        timeline.dispatch(event)


def test_meta_events_keep_their_place_between_the_events_of_blocks() -> None:
    timeline = Timeline()
    seen = everything(timeline)
    story: list[Event] = [
        Status(ResponseStatus.STARTED),
        TextDelta(0, "a"),
        Ping(),
        TextDelta(0, "b"),
        Usage(1),
        Error("x", "y"),
    ]
    play(timeline, *story)
    assert seen == story


def test_the_scope_of_a_meta_handler_lives_from_its_registration_on() -> None:
    timeline, handler = Timeline(), Scopes()
    timeline.on_usage(handler)
    assert len(handler.scopes) == 1
    play(timeline, Usage(1), Usage(2))
    assert handler.scopes == [[Usage(1), Usage(2)]]


REASON = StopReason(StopKind.END_TURN)
AGAIN = "another block has started at its index"
# The kind, the events, and the events of each scope of its handler.
BLOCKS: dict[str, tuple[Kind[Any], list[Event], list[list[object]]]] = {
    "text": (
        TEXT_BLOCK,
        [BlockStart(0, T.TEXT), TextDelta(0, "a"), CitationDelta(0, {}), BlockStop(0, T.TEXT, REASON)],
        [[TextBlockStart(0), TextDelta(0, "a"), CitationDelta(0, {}), TextBlockStop(0, REASON)]],
    ),
    "thinking": (
        THINKING_BLOCK,
        [BlockStart(0, T.THINKING), ThinkingDelta(0, "hm"), SignatureDelta(0, "s"), BlockStop(0, T.THINKING)],
        [[ThinkingBlockStart(0), ThinkingDelta(0, "hm"), SignatureDelta(0, "s"), ThinkingBlockStop(0)]],
    ),
    "a call": (
        TOOL_USE_BLOCK,
        [BlockStart(0, T.TOOL_USE, LOOK), InputJsonDelta(0, "{}"), BlockStop(0, T.TOOL_USE)],
        [[ToolUseBlockStart(0, "1", "look"), InputJsonDelta(0, "{}"), ToolUseBlockStop(0, "1", "look")]],
    ),
    "a call that is named at its end": (
        TOOL_USE_BLOCK,
        [InputJsonDelta(0, "{}"), BlockStop(0, T.TOOL_USE, metadata=LOOK)],
        [[InputJsonDelta(0, "{}"), ToolUseBlockStop(0, "1", "look")]],
    ),
    "a text that is aborted": (
        TEXT_BLOCK,
        [BlockStart(0, T.TEXT), BlockAbort(0, T.TEXT, "cut")],
        [[TextBlockStart(0), TextBlockAbort(0, "cut")]],
    ),
    "a thought that is aborted": (
        THINKING_BLOCK,
        [BlockStart(0, T.THINKING), BlockAbort(0, T.THINKING, "cut")],
        [[ThinkingBlockStart(0), ThinkingBlockAbort(0, "cut")]],
    ),
    "a call that is aborted": (
        TOOL_USE_BLOCK,
        [BlockStart(0, T.TOOL_USE, LOOK), BlockAbort(0, T.TOOL_USE, "cut")],
        [[ToolUseBlockStart(0, "1", "look"), ToolUseBlockAbort(0, "1", "look", "cut")]],
    ),
    "deltas without a start": (
        TEXT_BLOCK,
        [TextDelta(0, "a"), TextDelta(0, "b"), BlockStop(0, T.TEXT), TextDelta(0, "c")],
        [[TextDelta(0, "a"), TextDelta(0, "b"), TextBlockStop(0)], [TextDelta(0, "c")]],
    ),
    "blocks that are open at once": (
        TEXT_BLOCK,
        [TextDelta(0, "a"), TextDelta(1, "x"), TextDelta(0, "b"), BlockStop(1, T.TEXT), TextDelta(0, "c")],
        [[TextDelta(0, "a"), TextDelta(0, "b"), TextDelta(0, "c")], [TextDelta(1, "x"), TextBlockStop(1)]],
    ),
    "a second start": (
        TEXT_BLOCK,
        [BlockStart(0, T.TEXT), BlockStart(0, T.TEXT)],
        [[TextBlockStart(0), TextBlockAbort(0, AGAIN)], [TextBlockStart(0)]],
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_handler_has_the_events_of_each_block_of_its_kind_in_a_scope(name: str) -> None:
    kind, events, scopes = BLOCKS[name]
    timeline, handler = Timeline(), Scopes()
    timeline.on(kind, handler)
    play(timeline, *events)
    assert handler.scopes == scopes


def test_a_handler_sees_only_the_deltas_of_its_kind() -> None:
    timeline = Timeline()
    seen = everything(timeline)
    play(timeline, BlockStart(0, T.TEXT), ThinkingDelta(0, "x"), InputJsonDelta(0, "x"))
    play(timeline, BlockStart(1, T.TOOL_USE, LOOK), TextDelta(1, "x"))
    assert seen == [TextBlockStart(0), ToolUseBlockStart(1, "1", "look")]


def test_tool_results_go_to_text_handlers() -> None:
    timeline = Timeline()
    seen = everything(timeline)
    metadata = ToolResultMetadata("call_1")
    play(timeline, BlockStart(0, T.TOOL_RESULT, metadata), TextDelta(0, "9"), BlockStop(0, T.TOOL_RESULT))
    assert seen == [TextBlockStart(0, "call_1"), TextDelta(0, "9"), TextBlockStop(0)]


def test_other_blocks_and_events_concern_no_handler() -> None:
    timeline = Timeline()
    seen = everything(timeline)
    play(timeline, BlockStart(0, T.IMAGE), BlockStop(0, T.IMAGE), RefusalDelta(1, "no"))
    play(timeline, Opaque("x"), TurnStart())
    assert seen == []


def test_a_second_start_of_another_type_aborts_the_first_block_for_its_handlers() -> None:
    timeline = Timeline()
    seen = everything(timeline)
    play(timeline, TextDelta(0, "a"), BlockStart(0, T.THINKING), ThinkingDelta(0, "b"))
    assert seen == [TextDelta(0, "a"), TextBlockAbort(0, AGAIN), ThinkingBlockStart(0), ThinkingDelta(0, "b")]


@pytest.mark.parametrize("value", ["x", None, 3, Record(1, "r", 1, 1, 0.0, TextDelta(0, "a"))])
def test_what_is_not_an_event_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"timeline takes events and was given "):
        Timeline().dispatch(value)


def test_an_event_without_a_handler_is_not_refused() -> None:
    for event in (Ping(), RunStop(), Opaque("new"), TextDelta(0, "a")):
        Timeline().dispatch(event)


@pytest.mark.parametrize("value", [3, None, "print", Scopes])
def test_what_is_not_a_handler_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"not a handler|is a class"):
        Timeline().on_text_block(value)


def test_a_handler_without_a_scope_is_refused() -> None:
    class Half:
        def on_event(self, scope: object, event: object) -> None: ...

    half: Any = Half()
    with pytest.raises(ConfigurationError, match="scope"):
        Timeline().on_usage(half)


def test_a_kind_that_is_not_known_is_refused() -> None:
    mine: Kind[Any] = Kind("mine")
    with pytest.raises(ConfigurationError, match=r"Kind\(mine\) is not a kind of a timeline.* text block"):
        Timeline().on(mine, print)


def test_a_response_whose_subscription_is_disposed_is_cancelled_for_the_handlers() -> None:
    timeline = Timeline()
    seen = everything(timeline)
    source: Source[Event] = Source()
    subscription = source.pipe(timeline).subscribe()
    started = Status(ResponseStatus.STARTED)
    for event in (started, TextDelta(0, "a")):
        source.on_next(event)
    subscription.dispose()
    assert seen[-1] == Status(ResponseStatus.CANCELLED)
    assert [type(e) for e in seen] == [Status, TextDelta, TextBlockAbort, Status]


def test_a_response_that_has_ended_is_not_cancelled() -> None:
    timeline = Timeline()
    seen = everything(timeline)
    source: Source[Event] = Source()
    subscription = source.pipe(timeline).subscribe()
    for status in (ResponseStatus.STARTED, ResponseStatus.COMPLETED):
        source.on_next(Status(status))
    subscription.dispose()
    assert Status(ResponseStatus.CANCELLED) not in seen


def test_handlers_are_called_in_the_order_of_registration_each_with_its_own_scope() -> None:
    timeline = Timeline()
    order: list[str] = []

    class Named(Scopes):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def on_event(self, scope: list[object], event: object, /) -> None:
            super().on_event(scope, event)
            order.append(self.name)

    first, second = Named("first"), Named("second")
    timeline.on_text_block(first)
    timeline.on_text_block(second)
    play(timeline, TextDelta(0, "a"))
    assert order == ["first", "second"]
    assert first.scopes == second.scopes
    assert first.scopes[0] is not second.scopes[0]


def test_a_handler_can_be_removed() -> None:
    timeline = Timeline()
    seen: list[object] = []
    registration = timeline.on(TEXT_BLOCK, seen.append)
    play(timeline, TextDelta(0, "a"))
    registration.dispose()
    play(timeline, TextDelta(0, "b"))
    assert seen == [TextDelta(0, "a")]


def test_a_handler_that_is_removed_while_an_event_is_handled_has_this_event() -> None:
    timeline, usages, texts = Timeline(), Scopes(), Scopes()

    def remove(_: object) -> None:
        for registration in registrations:
            registration.dispose()

    timeline.on_usage(remove)
    timeline.on_text_block(remove)
    registrations = [timeline.on_usage(usages), timeline.on_text_block(texts)]
    play(timeline, Usage(1), Usage(2))
    assert usages.scopes == [[Usage(1)]]
    registrations = [timeline.on_text_block(texts)]
    play(timeline, TextDelta(0, "a"), TextDelta(0, "b"))
    assert texts.scopes == [[TextDelta(0, "a")]]


def test_a_handler_that_comes_while_an_event_is_handled_has_what_waits() -> None:
    timeline, seen = Timeline(), list[object]()

    def begin(_: TextBlockEvent) -> None:
        timeline.dispatch(Usage(1))
        timeline.on_usage(seen.append)

    timeline.on_text_block(begin)
    play(timeline, TextDelta(0, "a"))
    assert seen == [Usage(1)]


def test_aborting_closes_what_is_open_and_drops_the_scopes() -> None:
    timeline, handler = Timeline(), Scopes()
    timeline.on_text_block(handler)
    play(timeline, TextDelta(0, "a"), TextDelta(1, "b"))
    timeline.abort_current_block("cancelled")
    timeline.abort_current_block("again")
    play(timeline, TextDelta(0, "c"))
    assert handler.scopes == [
        [TextDelta(0, "a"), TextBlockAbort(0, "cancelled")],
        [TextDelta(1, "b"), TextBlockAbort(1, "cancelled")],
        [TextDelta(0, "c")],
    ]


def test_a_handler_that_raises_keeps_no_other_from_the_event() -> None:
    timeline = Timeline()
    seen: list[object] = []
    failures = [ValueError("one"), ValueError("two")]

    def refuse_with(failure: Exception) -> Callable[[object], None]:
        def refuse(_: object) -> None:
            raise failure

        return refuse

    first = timeline.on_ping(refuse_with(failures[0]))
    timeline.on_ping(seen.append)
    with pytest.raises(ValueError, match="one"):
        timeline.dispatch(Ping())
    assert seen == [Ping()]
    timeline.on_ping(refuse_with(failures[1]))
    with pytest.raises(ExceptionGroup) as group:
        timeline.dispatch(Ping())
    assert list(group.value.exceptions) == failures
    first.dispose()
    with pytest.raises(ValueError, match="two"):
        timeline.dispatch(Ping())
    assert len(seen) == 3


def test_what_a_handler_dispatches_comes_after_the_event_for_all_handlers() -> None:
    timeline = Timeline()
    seen: list[object] = []

    def answer(_: Ping) -> None:
        timeline.dispatch(Usage(1))

    timeline.on_ping(answer)
    timeline.on_ping(seen.append)
    timeline.on_usage(seen.append)
    timeline.dispatch(Ping())
    assert seen == [Ping(), Usage(1)]


def test_a_handler_may_abort_the_block_it_is_called_for() -> None:
    timeline = Timeline()
    seen: list[object] = []

    def abort(event: TextBlockEvent) -> None:
        seen.append(event)
        if isinstance(event, TextDelta):
            timeline.abort_current_block("enough")

    timeline.on_text_block(abort)
    play(timeline, TextDelta(0, "a"))
    assert seen == [TextDelta(0, "a"), TextBlockAbort(0, "enough")]


def test_threads_lose_nothing_and_keep_their_order() -> None:
    timeline, handler = Timeline(), Scopes()
    timeline.on_text_block(handler)
    overlaps: list[str] = []
    busy = threading.Lock()

    def alone(_: TextBlockEvent) -> None:
        if not busy.acquire(blocking=False):
            overlaps.append("overlap")
            return
        busy.release()

    timeline.on_text_block(alone)
    barrier = threading.Barrier(4)

    def speak(index: int) -> None:
        barrier.wait()
        for number in range(500):
            timeline.dispatch(TextDelta(index, str(number)))

    threads = [threading.Thread(target=speak, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == []
    assert len(handler.scopes) == 4
    for scope in handler.scopes:
        texts = [event.text for event in scope if isinstance(event, TextDelta)]
        assert texts == [str(number) for number in range(500)]


EVENTS: dict[str, Event] = {"d": TextDelta(0, "a"), "e": BlockStop(0, T.TEXT), "p": Ping()}


def test_as_an_operator_it_passes_events_through() -> None:
    test = Marbles()
    timeline = Timeline()
    seen = everything(timeline)
    source = test.hot("-d-p-e-|", EVENTS)
    assert test.observe(source.pipe(timeline)) == test.expected("-d-p-e-|", EVENTS)
    assert seen == [TextDelta(0, "a"), Ping(), TextBlockStop(0)]


@pytest.mark.parametrize(
    ("drawing", "until", "reason"),
    [
        ("-d-#", "", "Exception: error"),
        ("-d-|", "", "the stream ended"),
        ("-d---", "---!", "the subscription was disposed"),
    ],
)
def test_whatever_ends_the_stream_blocks_are_closed(drawing: str, until: str, reason: str) -> None:
    test = Marbles()
    timeline = Timeline()
    seen = everything(timeline)
    test.observe(test.hot(drawing, EVENTS).pipe(timeline), until=until)
    assert seen == [TextDelta(0, "a"), TextBlockAbort(0, reason)]


def test_a_handler_that_raises_ends_the_stream_with_its_exception() -> None:
    def refuse(_: Ping) -> None:
        raise ValueError("no")

    test = Marbles()
    timeline = Timeline()
    timeline.on_ping(refuse)
    seen = everything(timeline)
    source = test.hot("-d-p-e-|", EVENTS)
    expected = test.expected("-d-#", EVENTS, error=ValueError("no"))
    assert test.observe(source.pipe(timeline)) == expected
    assert source.subscriptions == test.subscriptions("^--!")
    assert seen == [TextDelta(0, "a"), Ping(), TextBlockAbort(0, "ValueError: no")]


def test_the_error_of_a_handler_that_raises_at_the_end_is_reported() -> None:
    def refuse(event: TextBlockEvent) -> None:
        if isinstance(event, TextBlockAbort):
            raise ValueError("no")

    test = Marbles()
    timeline = Timeline()
    timeline.on_text_block(refuse)
    seen = test.observe(test.hot("-d-|", EVENTS).pipe(timeline))
    assert seen == test.expected("-d-#", EVENTS, error=ValueError("no"))


@pytest.mark.parametrize("waiting", [0, 600], ids=["few", "more than are kept"])
def test_a_handler_that_comes_late_knows_what_was_open_before_it(waiting: int) -> None:
    timeline = Timeline()
    timeline.dispatch_many([BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("1", "look")), TextDelta(1, "a")])
    timeline.dispatch_many([Ping()] * waiting)
    seen: list[object] = []
    timeline.on_tool_use_block(seen.append)
    timeline.on_text_block(seen.append)
    assert seen == []
    timeline.dispatch(BlockStop(0, BlockType.TOOL_USE))
    timeline.abort_current_block("enough")
    assert seen == [ToolUseBlockStop(0, "1", "look"), TextBlockAbort(1, "enough")]


def test_a_response_that_no_handler_saw_leaves_nothing_open() -> None:
    timeline = Timeline()
    timeline.dispatch_many([TextDelta(0, "a")])
    timeline.abort_current_block("enough")
    seen: list[object] = []
    timeline.on_text_block(seen.append)
    timeline.abort_current_block("again")
    assert seen == []
