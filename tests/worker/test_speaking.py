"""Messages that are sent into a run while a response is being written."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import reactivex
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.disposable import Disposable

from rxworker import Run, Worker, after_tool_call, on_message_send, on_turn_end, tool
from rxworker.errors import ConfigurationError, InputRefusedError, LocalProtocolError, RunAbortedError
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    Error,
    Record,
    ResponseEvent,
    ResponseStatus,
    Status,
    TextDelta,
    ToolStart,
)
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.hooks import Cancel, MessageSendContext, ToolResultContext, TurnEndContext
from rxworker.log.values import When
from rxworker.messages import Message, ToolMeta, validate
from rxworker.operators import error_to_exception, hold_back
from rxworker.providers import PROVIDERS, Options, Request
from rxworker.state import fold_run
from rxworker.state.run import CUT_OFF, HELD_BACK
from rxworker.testing import Reply, ScriptedModel, call, cut, fail, lint, play, say, stall, think
from rxworker.testing.reply import reply_events
from rxworker.testing.wire.gemini_interactions import gemini_interactions_frames
from rxworker.transport import Retry, fallback
from rxworker.worker import Turn
from rxworker.worker.session import session_of
from tests.decoded import events_of
from tests.log.processes import stored
from tests.over_recordings import provider_of, pytest_generate_tests  # noqa: F401  # pyright: ignore[reportUnusedImport]
from tests.runs import all_records, reached, records_of, results_of, settle
from tests.whole import IS_WHOLE

STOP = "Stop: keep it short."
TOOLS = (ToolMeta("look", "Looks.", {"type": "object"}),)


class Played:
    """A model whose first response is that of some events, each in a step of the event loop.

    Args:
        provider: Its name.
        events: The events of the response.
        before: Called with the place of each event before it comes.
        rest: The answers after it.
    """

    model = "a-model"

    def __init__(
        self,
        provider: str,
        events: Sequence[ResponseEvent],
        before: Callable[[int], object],
        rest: Sequence[str] = ("In short.",) * 3,
    ) -> None:
        self.name = provider
        self.requests: list[Request] = []
        self._events, self._before, self._rest = events, before, ScriptedModel(rest)

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        self.requests.append(request)
        return reactivex.create(self._subscribe) if len(self.requests) == 1 else self._rest.stream(request)

    def _subscribe(self, observer: abc.ObserverBase[Any], _: object = None) -> abc.DisposableBase:
        left, loop, is_open = list(enumerate(self._events)), asyncio.get_running_loop(), True

        def push() -> None:
            if not is_open:
                return
            if not left:
                error = next((error_to_exception(each) for each in self._events if isinstance(each, Error)), None)
                observer.on_completed() if error is None else observer.on_error(error)
                return
            place, event = left.pop(0)
            self._before(place)
            observer.on_next(event)
            loop.call_soon(push)

        def dispose() -> None:
            nonlocal is_open
            is_open = False

        push()
        return Disposable(dispose)


async def kept(run: Run[Any], records: list[Record]) -> list[Record]:
    """What is stored of a run; of one without a log its records."""
    log = session_of(run).log
    return records if log is None else await stored(log, run.id)


async def check(run: Run[Any], live: list[Record]) -> None:
    """What holds wherever a response is cut."""
    state = run.state
    for records in (live, records_of(run), await kept(run, live)):
        assert lint(records) == []
        assert fold_run(records) == state
    conversation = state.conversation
    for name, kind in PROVIDERS.items():
        assert kind("a-model", api_key="k").request(conversation, TOOLS, Options()).body, name
    is_cut = any(isinstance(each.event, Status) and each.event.status is ResponseStatus.CANCELLED for each in live)
    assert not is_cut or (state.usage.is_partial and validate(conversation) == [])


async def cut_at(provider: str, events: Sequence[ResponseEvent], at: int) -> None:
    """Send a message before one of the events of a response."""

    def before(place: int) -> None:
        if place == at:
            run.send(STOP, "now")

    run: Run[Any] = Worker(Played(provider, events, before)).run("Go on.")
    await check(run, await all_records(run))
    if run.state.status == "finished":
        assert [said for _, said in texts_of(run)].count(STOP) == 1


def texts_of(run: Run[Any]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in run.state.conversation.messages]


def said(run: Run[Any]) -> str:
    return " ".join(f"{role[0]}:{text}" for role, text in texts_of(run))


@pytest.mark.product(4)
def test_a_recorded_response_is_cut_anywhere(recording: Path) -> None:
    name = provider_of(recording)
    events = events_of(name, recording.read_bytes())
    places = range(len(events))
    for at in places if IS_WHOLE else random.Random(recording.stem).sample(places, 1):
        asyncio.run(cut_at(name, events, at))


ANSWERS = [
    think("I think.", signature="s") + say("Well"),
    think("I think.", signature="s"),
    say("Well") + call("look", at="a") + call("look", at="b"),
]


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_response_of_interactions_is_cut_anywhere(answer: Reply) -> None:
    events = events_of("gemini_interactions", *gemini_interactions_frames(answer))
    for at in range(len(events)):
        await cut_at("gemini_interactions", events, at)


LETTERS = [each for each in reply_events(say("abcd", chunk=1)) if not isinstance(each, AttemptStart)]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("4 n now", "u:go a:abc u:n a:Yes."),
        ("4 t turn", "u:go a:abcd u:t a:Yes."),
        ("4 e end", "u:go a:abcd u:e a:Yes."),
        ("0 n now", "u:go u:n a:Yes."),
        ("4 e end, 4 t turn", "u:go a:abcd u:t a:Yes. u:e a:No."),
        ("4 e end, 4 n now", "u:go a:abc u:n a:Yes. u:e a:No."),
        ("3 t turn, 4 n now", "u:go a:abc u:t u:n a:Yes."),
        ("4 e end, 4 f end", "u:go a:abcd u:e u:f a:Yes."),
        ("8 n now", "u:go a:abcd u:n a:Yes."),  # it has ended: nothing is cut
    ],
)
@pytest.mark.unlogged
async def test_a_message_is_delivered_when_it_is_to_be(sent: str, expected: str) -> None:
    given = [each.split() for each in sent.split(", ")]
    futures: list[asyncio.Future[None]] = []

    def before(place: int) -> None:
        futures.extend(run.send(text, when) for at, text, when in given if int(at) == place)  # type: ignore[arg-type]

    run: Run[Any] = Worker(Played("m", LETTERS, before, ["Yes.", "No.", "None."])).run("go")
    await check(run, await all_records(run))
    assert said(run) == expected
    assert len(futures) == len(given)
    assert all(each.done() and not each.exception() for each in futures)


@pytest.mark.unlogged
@pytest.mark.parametrize("becomes", ["withdrawn", "turn", "end"])
async def test_a_message_that_is_withdrawn_while_it_cuts_leaves_nothing_of_the_response(becomes: str) -> None:
    """Its request is made again."""

    def before(place: int) -> None:
        if place == 4:
            sent = run.send("n", "now")
            if becomes == "withdrawn":
                sent.cancel()
            else:
                run.edit(sent, "m", becomes)  # type: ignore[arg-type]

    run: Run[Any] = Worker(Played("m", LETTERS, before, ["Yes.", "No."])).run("go")
    records = await all_records(run)
    await check(run, records)
    is_cut = any(isinstance(each.event, Status) and each.event.status is ResponseStatus.CANCELLED for each in records)
    is_retracted = any(isinstance(each.event, AttemptRetract) for each in records)
    expected = {
        "withdrawn": "u:go a:Yes." if is_cut else "u:go a:abcd",
        "turn": "u:go a:abc u:m a:Yes." if is_cut else "u:go a:abcd u:m a:Yes.",
        "end": "u:go a:Yes. u:m a:No." if is_cut else "u:go a:abcd u:m a:Yes.",
    }
    assert said(run) == expected[becomes]
    assert is_retracted is (is_cut and becomes != "turn")


async def test_a_message_that_waits_is_changed_at_its_place() -> None:
    @tool
    async def wait() -> str:
        """Wait."""
        first, second, third = run.send("a"), run.send("b", "end"), run.send("c")
        changed = run.edit(first, "A")
        again = run.edit(first, "AA")
        moved = run.edit(second, "B", "turn")
        third.cancel()
        with pytest.raises(LocalProtocolError, match="no message with this id waits"):
            run.edit(third, "C")
        await asyncio.gather(changed, again, moved)
        futures.append(first)
        return "waited"

    futures: list[asyncio.Future[None]] = []
    run: Run[Any] = Worker(ScriptedModel([call("wait"), "Yes.", "No."]), tools=[wait]).run("go")
    records = await all_records(run)
    await check(run, records)
    assert said(run) == "u:go a: u: u:AA u:B a:Yes."
    with pytest.raises(LocalProtocolError):
        run.edit(futures[0], "too late")


async def test_a_change_that_comes_too_late_states_so() -> None:
    """Also where another process has delivered the message meanwhile, or the log was slow."""

    def before(place: int) -> None:
        if place == 8:
            changes.extend([sent[0] if sent else run.send("never"), run.edit(sent[0], "later")])
        elif place == 0:
            sent.append(run.send("first", "turn"))

    sent: list[asyncio.Future[None]] = []
    changes: list[asyncio.Future[None]] = []
    run: Run[Any] = Worker(Played("m", LETTERS, before, ["Yes."])).run("go")
    await check(run, await all_records(run))
    await asyncio.wait(changes)
    is_late = changes[1].exception() is not None
    assert said(run) == f"u:go a:abcd u:{'first' if is_late else 'later'} a:Yes."
    if is_late:
        assert "in the conversation already" in str(changes[1].exception())


@pytest.mark.parametrize("when", ["soon", "", 1, None])
async def test_when_is_one_of_three(when: Any) -> None:
    run = Worker(ScriptedModel(["one"])).run("go")
    with pytest.raises(ConfigurationError, match="when is 'now', 'turn' or 'end'"):
        run.send("a", when)
    await run
    assert said(run) == "u:go a:one"


@pytest.mark.unlogged
def test_running_tools_are_waited_for_and_a_pause_before_another_attempt_is_not() -> None:
    @tool
    async def slow() -> str:
        """Take a minute."""
        await asyncio.sleep(60)
        return "slow"

    async def main() -> None:
        loop = asyncio.get_running_loop()
        worker = Worker(
            ScriptedModel([call("slow"), say("Well") + cut(), "Yes."]),
            tools=[slow],
            response_retry=Retry(retries=3, first=1000.0, maximum=1000.0),
        )
        run: Run[Any] = worker.run("go")
        began = loop.time()
        await reached(run, ToolStart)
        run.send("a", "now")
        await reached(run, AttemptRetract)
        assert loop.time() - began == pytest.approx(60, abs=1)
        run.send("b", "now")
        await run
        assert loop.time() - began == pytest.approx(60, abs=1)
        assert results_of(run.result()) == ["slow"]
        assert said(run) == "u:go a: u: u:a u:b a:Yes."
        await check(run, records_of(run))

    play(main())


@pytest.mark.parametrize("is_held", [False, True])
async def test_calls_of_a_response_that_is_cut_have_a_result(is_held: bool) -> None:
    """Pure tools that have ended early are used, one that runs is ended, and the others do not run."""
    ended = asyncio.Event()

    @tool(effect="pure")
    async def quick() -> str:
        """Look."""
        return "seen"

    @tool(effect="pure")
    async def slow() -> str:
        """Look for long."""
        ended.set()
        await asyncio.Event().wait()
        return "never"

    @tool
    async def act() -> str:
        """Act."""
        raise AssertionError("it has run")

    @after_tool_call
    async def read(context: ToolResultContext) -> None:
        """Hold the results back."""

    model = ScriptedModel([call("quick") + call("slow") + call("act") + call("act") + say("Well") + stall(), "Yes."])
    run: Run[Any] = Worker(model, tools=[quick, slow, act], hooks=[read] if is_held else []).run("go")
    await reached(run, TextDelta)
    await ended.wait()
    await settle()
    run.send("n", "now")
    await run
    assert results_of(run.result()) == [HELD_BACK if is_held else "seen", DISCARDED_EARLY, CUT_OFF]
    assert said(run) == "u:go a:Well u: u:n a:Yes."
    await check(run, records_of(run))


@pytest.mark.parametrize("when", ["now", "turn", "end"])
@pytest.mark.parametrize("by", ["change", "refuse", "map", "refuse_input"])
@pytest.mark.unlogged
async def test_hooks_and_map_input_see_what_is_sent(when: When, by: str) -> None:
    @on_message_send
    def read(context: MessageSendContext) -> Cancel | None:
        last = context.messages[-1]
        if last.text != "secret":
            return None
        if by == "refuse":
            return Cancel("not that")
        context.messages[-1] = Message.user("***")
        return None

    def mapped(message: Message) -> Message:
        if message.text == "secret" and by == "refuse_input":
            raise InputRefusedError("not that")
        return Message.user("###") if message.text == "secret" else message

    def before(place: int) -> None:
        if place == 4 and by == "refuse_input":
            with pytest.raises(InputRefusedError):
                run.send("secret", when)
            sent = run.send("fine", when)
            with pytest.raises(InputRefusedError):
                run.edit(sent, "secret")
        elif place == 4:
            run.send("secret", when)

    model = Played("m", LETTERS, before, ["Yes."])
    hooks, maps = ([read], None) if by in ("change", "refuse") else ([], mapped)
    run: Run[Any] = Worker(model, hooks=hooks, map_input=maps).run("go")
    await check(run, await all_records(run))
    written = "abc" if when == "now" else "abcd"
    if by == "refuse":
        assert isinstance(run.exception(), RunAbortedError)
        assert said(run) == f"u:go a:{written}"
        return
    shown = {"change": "***", "map": "###", "refuse_input": "fine"}[by]
    assert [message.text for message in model.requests[1].conversation.messages] == ["go", written, shown]


async def test_a_request_that_is_cut_before_its_first_event_has_an_unknown_usage() -> None:
    class Silent(Played):
        def _subscribe(self, observer: abc.ObserverBase[Any], _: object = None) -> abc.DisposableBase:
            return Disposable()

    run: Run[Any] = Worker(Silent("m", [], int, ["Yes."])).run("go")
    await reached(run, AttemptStart)
    run.send("n", "now")
    await run
    assert said(run) == "u:go u:n a:Yes."
    assert run.state.usage.is_partial
    await check(run, records_of(run))


@pytest.mark.unlogged
def test_a_message_that_comes_with_the_error_of_a_response_is_not_held_back_by_the_pause_after_it() -> None:
    async def main() -> None:
        events = [*LETTERS[:4], Error(None, "overloaded", retryable=True, kind="overloaded")]
        model = Played("m", events, lambda place: place == 4 and run.send("n", "now"), ["Yes."])
        run: Run[Any] = Worker(model, response_retry=Retry(first=1000.0, maximum=1000.0)).run("go")
        began = asyncio.get_running_loop().time()
        await run
        assert asyncio.get_running_loop().time() - began < 1
        assert said(run) == "u:go u:n a:Yes."

    play(main())


@pytest.mark.unlogged
@pytest.mark.parametrize("where", ["around", "response", "held", "fallback"])
async def test_a_response_that_passes_operators_is_cut(where: str) -> None:
    def before(place: int) -> None:
        if place == 4:
            run.send("n", "now")

    every: dict[str, dict[str, Any]] = {
        "around": {"around": {"respond": ops.do_action(lambda _: None)}},
        "response": {"operators": [ops.map(lambda event: event)]},
        "held": {"operators": [hold_back(lambda _: True, window=100)]},
        "fallback": {},
    }
    settings = every[where]
    model: Any = Played("m", LETTERS, before, ["Yes."])
    if where == "fallback":
        model = fallback(ScriptedModel([fail("overloaded")] * 2, model="first"), model)
    run: Run[Any] = Worker(model, **settings).run("go")
    await check(run, await all_records(run))
    assert said(run) in (
        {"u:go u:n a:Yes."} if where == "held" else {"u:go a:abc u:n a:Yes.", "u:go a:abcd u:n a:Yes."}
    )


@pytest.mark.unlogged
@pytest.mark.parametrize("at", range(len(LETTERS)))
async def test_what_a_gate_has_not_let_pass_is_not_in_the_conversation_wherever_a_response_is_cut(at: int) -> None:
    """Its checks take some steps of the event loop."""

    async def passes(text: str) -> bool:
        await settle(4)
        return "d" not in text

    def before(place: int) -> None:
        if place == at:
            run.send("n", "now")

    model = Played("m", LETTERS, before, ["Yes."] * 2)
    run: Run[Any] = Worker(model, operators=[hold_back(passes, window=2)]).run("go")
    records = await all_records(run)
    await settle()
    await check(run, records)
    texts = [each.event.text for each in records if isinstance(each.event, TextDelta)]
    assert "".join(texts) == "".join(text for role, text in texts_of(run) if role == "assistant")
    assert said(run).endswith(" u:n a:Yes.")


@pytest.mark.unlogged
def test_stages_of_the_application_are_not_cut() -> None:
    def slow(turn: Turn) -> Observable[Any]:
        return reactivex.timer(60.0, scheduler=turn.scheduler).pipe(ops.ignore_elements())

    async def main() -> None:
        run: Run[Any] = Worker(ScriptedModel(["One.", "Two."]), stages={"call_tools": slow}).run("go")
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(30)
        sent = run.send("n", "now")
        await sent
        assert loop.time() - began == pytest.approx(60, abs=1)
        await run
        assert said(run) == "u:go a:One. u:n a:Two."

    play(main())


async def test_messages_for_the_end_wait_for_one_that_a_hook_has_sent() -> None:
    @on_turn_end
    def end(context: TurnEndContext) -> None:
        if context.text == "One.":
            run.send("t")

    run: Run[Any] = Worker(ScriptedModel(["One.", "Two.", "Three."]), hooks=[end]).run("go")
    run.send("e", "end")
    await run
    assert said(run) == "u:go a:One. u:t a:Two. u:e a:Three."


@pytest.mark.unlogged
def test_a_message_that_is_no_longer_for_the_end_is_delivered_while_a_run_waits_for_the_background() -> None:
    @tool(background=True)
    async def slow() -> str:
        """Take a minute."""
        await asyncio.sleep(60)
        return "slow"

    async def main() -> None:
        loop = asyncio.get_running_loop()
        model = ScriptedModel([call("slow"), "One.", "Two.", "Three.", "Four."])
        run: Run[Any] = Worker(model, tools=[slow]).run("go")
        first, second = run.send("e", "end"), run.send("f", "end")
        began = loop.time()
        await asyncio.sleep(30)
        run.edit(first, "t", "now")
        await first
        assert loop.time() - began == pytest.approx(30, abs=1)
        await second
        assert loop.time() - began == pytest.approx(60, abs=1)
        await run
        texts = [text for role, text in texts_of(run) if role == "assistant" or text in "tf"]
        assert texts == ["", "", "One.", "t", "Two.", "Three.", "f", "Four."]
        await check(run, records_of(run))

    play(main())
