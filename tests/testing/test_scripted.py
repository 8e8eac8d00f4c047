import asyncio

import pytest
from reactivex import operators as ops
from reactivex.abc import SchedulerBase
from reactivex.scheduler import CurrentThreadScheduler, ImmediateScheduler, VirtualTimeScheduler

from rxworker.errors import ProviderError, RxWorkerError, TruncatedError
from rxworker.events import (
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    Error,
    InputJsonDelta,
    ResponseEvent,
    ResponseStatus,
    SignatureDelta,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolUseMetadata,
)
from rxworker.messages import Conversation, Message, StopKind, StopReason
from rxworker.providers.base import Request
from rxworker.testing import (
    Reply,
    ScriptedModel,
    ScriptExhaustedError,
    call,
    check_balanced,
    cut,
    fail,
    say,
    stall,
    think,
)
from rxworker.testing.reply import USAGE, reply_events
from rxworker.transport.base import Model

ASK = Request(Conversation((Message.user("hello"),)))


class Heard:
    """What a subscriber hears."""

    def __init__(self) -> None:
        self.events: list[ResponseEvent] = []
        self.errors: list[Exception] = []
        self.completed = 0

    def on_completed(self) -> None:
        self.completed += 1

    def listen(self, model: Model) -> None:
        model.stream(ASK).subscribe(self.events.append, self.errors.append, self.on_completed)


def hear(model: Model) -> Heard:
    heard = Heard()
    heard.listen(model)
    return heard


def test_a_reply_becomes_the_events_of_a_response() -> None:
    which = ToolUseMetadata("call_1_1", "look")
    reply = think("hmm...", "seal") + say("Hello", chunk=3) + call("look", at=1)

    assert hear(ScriptedModel([reply], model="m")).events == [
        Status(ResponseStatus.STARTED, "response_1", "m"),
        BlockStart(0, BlockType.THINKING),
        ThinkingDelta(0, "hmm"),
        ThinkingDelta(0, "..."),
        SignatureDelta(0, "seal"),
        BlockStop(0, BlockType.THINKING),
        BlockStart(1, BlockType.TEXT),
        TextDelta(1, "Hel"),
        TextDelta(1, "lo"),
        BlockStop(1, BlockType.TEXT),
        BlockStart(2, BlockType.TOOL_USE, which),
        InputJsonDelta(2, '{"a'),
        InputJsonDelta(2, 't":'),
        InputJsonDelta(2, "1}"),
        BlockStop(2, BlockType.TOOL_USE, metadata=which),
        USAGE,
        Status(ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.TOOL_USE)),
    ]


def test_the_stream_is_cold_and_each_subscription_takes_the_next_reply() -> None:
    model = ScriptedModel(["one", "two"])
    stream = model.stream(ASK)
    assert model.requests == []

    texts: list[str] = []
    for _ in range(2):
        heard: list[ResponseEvent] = []
        stream.subscribe(heard.append)
        texts.append("".join(event.text for event in heard if isinstance(event, TextDelta)))

    assert texts == ["one", "two"]
    assert model.requests == [ASK, ASK]


def test_everything_is_emitted_within_subscribe() -> None:
    assert hear(ScriptedModel(["Hello"])).completed == 1


def test_a_function_reads_the_request() -> None:
    def echo(request: Request) -> Reply:
        last = request.conversation.last
        return say(last.text.upper() if last else "?", chunk=100)

    assert TextDelta(0, "HELLO") in hear(ScriptedModel(echo)).events


def test_a_function_that_raises_ends_the_stream_with_its_error() -> None:
    def broken(_request: Request) -> Reply:
        raise KeyError("oops")

    assert [type(error) for error in hear(ScriptedModel(broken)).errors] == [KeyError]


def test_an_exhausted_script_is_an_error() -> None:
    model = ScriptedModel(["one"])
    hear(model)

    (error,) = hear(model).errors
    assert isinstance(error, ScriptExhaustedError)
    assert error.scripted == 1


def test_a_scripted_error_aborts_the_block_and_ends_the_stream() -> None:
    reply = say("half", chunk=9) + fail("Overloaded", "overloaded", code="overloaded_error")
    heard = hear(ScriptedModel([reply]))

    assert heard.events == [
        Status(ResponseStatus.STARTED, "response_1", "scripted"),
        BlockStart(0, BlockType.TEXT),
        TextDelta(0, "half"),
        USAGE,
        BlockAbort(0, BlockType.TEXT, "Overloaded"),
        Error("overloaded_error", "Overloaded", True, "overloaded"),
        Status(ResponseStatus.FAILED),
    ]
    (error,) = heard.errors
    assert isinstance(error, ProviderError)
    assert (error.kind, error.code, error.retryable) == ("overloaded", "overloaded_error", True)


@pytest.mark.parametrize(("reply", "kind"), [(fail("no"), ProviderError), (cut(), TruncatedError)])
def test_a_reply_without_content_fails_before_it_starts(reply: Reply, kind: type[RxWorkerError]) -> None:
    heard = hear(ScriptedModel([reply]))

    assert heard.events == [reply.error, Status(ResponseStatus.FAILED)]
    assert [type(error) for error in heard.errors] == [kind]


@pytest.mark.parametrize(
    "reply",
    [say(""), say("x"), think("t") + call("a") + call("b"), say("x") + fail("no"), call("a") + cut(), fail("no")],
)
def test_every_reply_keeps_the_protocol(reply: Reply) -> None:
    check_balanced(reply_events(reply))


def test_a_stalled_reply_never_ends_and_can_be_left() -> None:
    model = ScriptedModel([say("half") + stall()])
    heard = Heard()
    subscription = model.stream(ASK).subscribe(heard.events.append, heard.errors.append, heard.on_completed)

    assert heard.events[-1] == USAGE
    assert (heard.completed, heard.errors, model.left) == (0, [], 0)
    subscription.dispose()
    assert model.left == 1


def test_a_subscriber_that_leaves_early_receives_no_more() -> None:
    model = ScriptedModel(["Hello, world"])
    heard: list[ResponseEvent] = []
    told: list[ResponseEvent] = []

    model.stream(ASK).pipe(ops.do_action(told.append), ops.take(2)).subscribe(heard.append)

    assert len(heard) == len(told) == 2
    assert model.left == 1


def test_who_stays_to_the_end_has_not_left() -> None:
    model = ScriptedModel(["a", fail("no")])
    hear(model)
    hear(model)

    assert model.left == 0


def test_a_delay_spaces_the_events_in_virtual_time() -> None:
    clock = VirtualTimeScheduler()
    model = ScriptedModel([say("Hello", chunk=9)], delay=2.0, scheduler=clock)
    times: list[float] = []

    def note(_event: ResponseEvent) -> None:
        times.append(clock.clock)

    model.stream(ASK).subscribe(note)
    assert times == []
    clock.start()

    assert times == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]


def test_leaving_stops_the_clock() -> None:
    clock = VirtualTimeScheduler()
    heard: list[ResponseEvent] = []
    model = ScriptedModel(["Hello"], delay=1.0, scheduler=clock)

    subscription = model.stream(ASK).subscribe(heard.append)
    clock.advance_to(2.0)
    subscription.dispose()
    clock.start()

    assert len(heard) == 2
    assert model.left == 1


@pytest.mark.parametrize("blocking", [None, CurrentThreadScheduler.singleton(), ImmediateScheduler.singleton()])
async def test_without_a_scheduler_that_waits_the_running_loop_counts_the_seconds(
    blocking: SchedulerBase | None,
) -> None:
    heard: list[ResponseEvent] = []
    done = asyncio.get_running_loop().create_future()

    def finished() -> None:
        done.set_result(None)

    ScriptedModel(["Hi"], delay=0.001).stream(ASK).subscribe(heard.append, on_completed=finished, scheduler=blocking)
    assert heard == []
    await done

    assert heard[-1] == Status(ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.END_TURN))
