"""A run as the steps by which two runs are compared: the input, the answers, calls, verdicts and additions. Pure.

Theory of operation. A reader folds the records and keeps, of each turn, what a candidate can change. The order is that
of the records, except for the calls of a turn: they end in any order, so that they are kept by their places, after the
answer and the verdicts about them. A retracted attempt leaves nothing. What only describes a process, such as times,
ids, pings and recoveries, makes no step. The same reader reads a stored run and the run of a candidate, so that two
runs are the same where their steps are.

What surprises: the steps of a stored run may end before its records do. After such a stop is something that a
candidate cannot be given again, such as a cancellation or the answer of a client; the stop has the reason in words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from rxworker import events
from rxworker.events import Event, Record, ResponseStatus
from rxworker.events.pause import BACKGROUND, BY_CALLER, CLIENT_TOOL, NESTED, QUESTION, RECOVERY, UNTIL
from rxworker.events.turn import DISCARDED_EARLY
from rxworker.log.diff import message_keys
from rxworker.messages import Message, ToolCall, ToolResult
from rxworker.state import RunState, fold_run
from rxworker.state.run import sorted_json
from rxworker.turn.journal import SOURCE
from rxworker.ui.clean import one_line
from rxworker.ui.describe import describe_call, describe_message, describe_result

StepKind: TypeAlias = Literal["system", "input", "tools", "answer", "verdict", "call", "result", "messages", "end"]
"""What a step is about."""

MAX_WORDS = 400
"""The maximum number of characters of one side of a difference."""
APART = {
    BY_CALLER: "the program paused it",
    CLIENT_TOOL: "a client runs the tool that it called",
    NESTED: "a run inside it paused",
    QUESTION: "a tool has a question to a person",
    RECOVERY: "a person decided about a call that was lost",
    UNTIL: "it waited for a moment or a signal",
    BACKGROUND: "it waited for a call in the background",
}
"""The pauses that a candidate does not come to, since no tool runs and no person is there, by their hooks."""


class Step(Struct, frozen=True):
    """One step of a run.

    Attributes:
        seq: The number of its record.
        kind: What it is about.
        key: Two steps are equal if their kinds and keys are.
        shown: Returns it in words.
        unknown: Why a candidate that differs here may still do the same: what the log does not hold.
    """

    seq: int
    kind: StepKind
    key: object
    shown: Callable[[], str]
    unknown: str = ""


class StoredCall(Struct):
    """A call of a run, as a tool is answered from it.

    Attributes:
        seq: The number of the record with which it began, or else was made.
        call: The call, as the tool received it.
        has_run: Whether its tool has started.
        result: Its result, as the hooks have left it; ``None`` if there is none.
        result_seq: The number of its record.
        is_held: Whether hooks may have changed the result.
        inside: The records of the run that it has begun, in order.
    """

    seq: int
    call: ToolCall
    has_run: bool = False
    result: ToolResult | None = None
    result_seq: int = 0
    is_held: bool = False
    inside: list[Record] = []


class StepReader:
    """Reads the records of a run.

    Args:
        left_out: Kinds of steps that are not compared, since the other run does not have them.
        changed: The names of tools whose digests are not those of the other run.
        stops: Whether the steps end where a candidate cannot do the same.

    Attributes:
        steps: The steps so far.
        calls: The calls that have run and have a result, in order, without those of attempts that were retracted.
        stop: Up to which step a candidate can do the same, the number of the record after it, and why.
        state: The state of the run.
        sent: The messages that were sent into the run, by the numbers of their records.
    """

    def __init__(self, left_out: Collection[StepKind] = (), changed: Collection[str] = (), stops: bool = True) -> None:
        self.steps: list[Step] = []
        self.calls: list[StoredCall] = []
        self.stop: tuple[int, int, str] | None = None
        self.state = RunState()
        self.sent: dict[int, tuple[Message, ...]] = {}
        self._left_out = left_out
        self._is_foreign = "verdict" in left_out  # of another library
        self._changed, self._stops = changed, stops
        self._tools: object = None
        self._begun = 0  # how many steps came before the response
        self._has_answer = False
        self._cut = 0  # the record that cut off the response
        self._by_place: dict[int, StoredCall] = {}
        self._later: list[Step] = []  # after the calls of the turn
        self._pause: Step | None = None  # the last verdict with which a hook paused the run
        self._unfolded: list[Record] = []

    def feed(self, record: Record) -> None:
        """Take the next record."""
        self._unfolded.append(record)
        if record.path:
            found = [each for each in self._by_place.values() if each.call.id == record.path[0]]
            if found:
                found[-1].inside.append(record)
        elif (take := _TAKEN.get(record.event.__class__)) is not None:
            self._fold()
            take(self, record.seq, record.event)

    def finish(self) -> None:
        """The records have ended: a run without an end was cut off, or goes on."""
        self._fold()
        if self.state.status in ("new", "running"):
            self._stop_in_turn(self.state.seq, "it has no end: it goes on, or its process was cut off")

    def _fold(self) -> None:
        """Fold the records since the last time, of which most are deltas."""
        self.state, self._unfolded = fold_run(self._unfolded, self.state), []

    def _put(self, step: Step, *, is_later: bool = True) -> None:
        if self._cut:
            self._halt(self._cut, "its response was cut off")
        if self.stop is None and step.kind not in self._left_out:
            (self._later if is_later and self._has_answer else self.steps).append(step)

    def _halt(self, seq: int, reason: str) -> None:
        if self.stop is None and self._stops:
            self.stop = len(self.steps), seq, reason

    def _stop_in_turn(self, seq: int, reason: str) -> None:
        """Stop at the first call of this turn that has no result."""
        if self._stops:
            self._flush(reason=reason)
            self._halt(seq, reason)

    def _flush(self, *, is_open: bool = False, reason: str = "") -> None:
        """Put the calls of the turn into place, and what came after them.

        Args:
            is_open: Whether calls may have no result, since the run ends there.
            reason: Why a call has no result.
        """
        calls, later = self._by_place, self._later
        self._by_place, self._later, self._has_answer = {}, [], False
        for _, each in sorted(calls.items()):
            self._put_call(each, is_open=is_open, reason=reason)
        if self.stop is None:
            self.steps += later

    def _put_call(self, each: StoredCall, *, is_open: bool, reason: str) -> None:
        call, result = each.call, each.result
        has_run = each.has_run or self._is_foreign
        end = "" if has_run else " is not run"
        if has_run or result is not None:
            key = call.name, sorted_json(call.input), has_run
            self._put(Step(each.seq, "call", key, lambda: describe_call(call, MAX_WORDS) + end))
        if result is None:
            if not is_open:
                self._halt(each.seq, reason or f"the log has no result of {describe_call(call)}")
            return
        why = AFTER_HOOKS if each.is_held else ""
        found = result.content, result.is_error
        self._put(Step(each.result_seq, "result", found, lambda: describe_result(result, MAX_WORDS), why))
        if self.stop is None and has_run:
            self.calls.append(each)


OUTPUT = "output"
"""The source of what requests the type of an answer; its words come from the type, of which the log has the schema."""
AFTER_HOOKS = "the log has this result only as the after_tool_call hooks left it"


def _start(reader: StepReader, seq: int, event: events.RunStart) -> None:
    system, messages = event.conversation.system, event.conversation.sent.messages
    shown = f"the system prompt {system!r}" if system else "no system prompt"
    reader._put(Step(seq, "system", system or "", lambda: shown))
    reader._put(Step(seq, "input", message_keys(messages), lambda: _listed("the conversation", messages)))


def _resume(reader: StepReader, seq: int, event: events.RunResume) -> None:
    reader._halt(seq, f"it goes on after the pause of {event.resumes or 'another run'}")


def _turn(reader: StepReader, seq: int, _: object) -> None:
    if reader._is_foreign and reader._has_answer and not reader._by_place and not reader._later:
        reader._halt(seq, "its program went on after an answer")
    reader._flush()


def _attempt(reader: StepReader, seq: int, event: events.AttemptStart) -> None:
    if reader._has_answer:
        _turn(reader, seq, event)  # of a library that has no turns
    names = event.own_tools
    if names is not None and (key := [(name, name not in reader._changed) for name in sorted(names)]) != reader._tools:
        reader._tools = key
        about = [name if same else f"{name} (with another description or parameters)" for name, same in key]
        reader._put(Step(seq, "tools", key, lambda: f"the tools {', '.join(about)}" if about else "no tools"))
    reader._begun = len(reader.steps)


def _retract(reader: StepReader, _: int, __: events.AttemptRetract) -> None:
    del reader.steps[reader._begun :]
    reader._by_place, reader._later, reader._has_answer, reader._cut = {}, [], False, 0


def _status(reader: StepReader, seq: int, event: events.Status) -> None:
    last = reader.state.conversation.last
    if event.status is ResponseStatus.CANCELLED:
        reader._cut = seq
    elif event.status is ResponseStatus.COMPLETED and not reader._has_answer:
        if last is not None and last.role == "assistant":
            reader._put(Step(seq, "answer", message_keys((last,)), lambda: describe_message(last, MAX_WORDS)))
            for place, call in enumerate(last.tool_calls):
                reader._by_place.setdefault(place, StoredCall(seq, call))
        reader._has_answer = True


def _tool_start(reader: StepReader, seq: int, event: events.ToolStart) -> None:
    reader._by_place[event.place] = StoredCall(seq, event.call, has_run=True)


def _tool_stop(reader: StepReader, seq: int, event: events.ToolStop) -> None:
    result = event.result
    if result is not None and result.is_error and result.text == DISCARDED_EARLY:
        reader._by_place.pop(event.place, None)
        return
    _ended(reader, seq, event.place, ToolCall(event.call_id, event.tool, {}), result)


def _tool_output(reader: StepReader, seq: int, event: events.ToolOutput) -> None:
    result = event.result
    _ended(reader, seq, event.place, ToolCall(result.tool_use_id, result.name, {}), result, is_held=True)


def _ended(
    reader: StepReader, seq: int, place: int, call: ToolCall, result: ToolResult | None, *, is_held: bool = False
) -> None:
    each = reader._by_place.setdefault(place, StoredCall(seq, call))
    each.result, each.result_seq, each.is_held = result, seq, is_held


def _background(reader: StepReader, seq: int, event: events.BackgroundStart) -> None:
    reader._stop_in_turn(seq, f"{event.background.call.name} went on in the background")


def _verdict(reader: StepReader, seq: int, event: events.HookVerdict) -> None:
    of = next((each.call for each in reader._by_place.values() if each.call.id == event.call_id), None)
    about = "" if of is None else f" of {describe_call(of)}"
    shown = f"the hook {event.hook} answers {event.verdict} at {event.point}{about}: {event.reason}"
    why = "" if event.hook == OUTPUT else event.reason
    key = event.point, event.verdict, why, "" if of is None else of.name
    step = Step(seq, "verdict", key, lambda: shown.rstrip(": "))
    reader._pause = step if event.verdict == "Pause" else reader._pause
    reader._put(step, is_later=event.point != "before_tool_call")


def _add(reader: StepReader, seq: int, event: events.MessageAdd) -> None:
    messages = event.messages
    if event.source == "tools":
        for result in (each for message in messages for each in message.tool_results):
            for each in reader._by_place.values():  # of a library that has no events of tools
                if each.call.id == result.tool_use_id and each.result is None:
                    each.result, each.result_seq = result, seq
        return
    if event.source == SOURCE or reader._is_foreign:
        reader.sent[seq] = messages
    key = None if event.source == OUTPUT else message_keys(messages)
    reader._put(Step(seq, "messages", key, lambda: _listed(f"{event.source} adds", messages)))


def _replace(reader: StepReader, seq: int, event: events.ConversationReplace) -> None:
    messages, what = event.conversation.messages, f"{event.source} rewrites the conversation to"
    reader._put(Step(seq, "messages", message_keys(messages), lambda: _listed(what, messages)))


def _compact(reader: StepReader, seq: int, event: events.ConversationCompact) -> None:
    if not event.replaced:
        reader._halt(seq, "a summary of its conversation failed")
    what = f"{event.replaced} messages are sent as"
    key = event.replaced, event.by, message_keys(event.instead)
    reader._put(Step(seq, "messages", key, lambda: _listed(what, event.instead)))


def _stopped(reader: StepReader, seq: int, _: events.RunStop) -> None:
    if reader._is_foreign and reader._by_place:
        reader._stop_in_turn(seq, "its program ended after a call")
    reader._flush()
    reader._put(Step(seq, "end", "finished", lambda: "the run finishes"))


def _aborted(reader: StepReader, seq: int, event: events.RunAbort) -> None:
    is_timed = event.cause == "cancel" or "limit max_seconds" in event.reason
    if is_timed or reader._is_foreign:
        reader._stop_in_turn(seq, f"it ended there ({event.cause}): {event.reason}")
    reader._flush(is_open=True)
    reader._put(Step(seq, "end", event.cause, lambda: f"the run ends ({event.cause}): {event.reason}"))


def _paused(reader: StepReader, seq: int, event: events.RunPause) -> None:
    pause = event.pause
    if (why := APART.get(pause.hook)) is not None and reader._stops and reader.stop is None:
        at = [at for at, step in enumerate(reader.steps) if step is reader._pause]
        del reader.steps[at[0] if at else len(reader.steps) :]  # the verdict of a hook that waits
        reader._halt(seq, f"it paused there: {why}")
    reader._flush(is_open=True)
    calls = [each.call for each in pause.calls]
    shown = ", ".join(map(describe_call, calls)) or "the end of a turn"
    key = "paused", [(each.name, sorted_json(each.input)) for each in calls]
    reader._put(Step(seq, "end", key, lambda: f"the run pauses at {shown} for {pause.hook}: {pause.reason}"))


def _requeue(reader: StepReader, _: int, __: events.RunRequeue) -> None:
    if reader.steps and reader.steps[-1].kind == "end":
        reader.steps.pop()


_TAKEN: Mapping[type[Event], Callable[[StepReader, int, Any], None]] = {
    events.RunStart: _start,
    events.RunResume: _resume,
    events.TurnStart: _turn,
    events.AttemptStart: _attempt,
    events.AttemptRetract: _retract,
    events.Status: _status,
    events.ToolStart: _tool_start,
    events.ToolStop: _tool_stop,
    events.ToolOutput: _tool_output,
    events.BackgroundStart: _background,
    events.HookVerdict: _verdict,
    events.MessageAdd: _add,
    events.ConversationReplace: _replace,
    events.ConversationCompact: _compact,
    events.RunStop: _stopped,
    events.RunAbort: _aborted,
    events.RunPause: _paused,
    events.RunRequeue: _requeue,
}


def _listed(what: str, messages: tuple[Message, ...]) -> str:
    return one_line(f"{what} {' | '.join(describe_message(each, MAX_WORDS) for each in messages)}")
