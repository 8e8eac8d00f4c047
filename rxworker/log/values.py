"""The values of a log beside its entries: runs as lists show them, claims and commands. Pure."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from rxworker.decisions import Decided
from rxworker.errors import ConfigurationError, message_of
from rxworker.events.pause import Begun
from rxworker.messages import Json, JsonObject, Message, Prices, ToolResult
from rxworker.messages.content import ResultContent
from rxworker.messages.message import Input, read_input, to_messages
from rxworker.messages.settings import check_type
from rxworker.messages.usage import Usage
from rxworker.providers.models import cost_of
from rxworker.state import RunState

StoredStatus: TypeAlias = Literal["queued", "running", "paused", "finished", "aborted", "deleted"]
"""The status of a stored run."""
END_WORDS = {"error": "failed", "cancel": "cancelled", "limit": "stopped", "abort": "aborted"}
"""What an aborted run is called, by the cause of its end: the same word in every list, on every screen."""
LISTED: tuple[StoredStatus, ...] = tuple([status for status in get_args(StoredStatus) if status != "deleted"])
"""The statuses of the runs that a list shows."""
OPEN: tuple[StoredStatus, ...] = ("queued", "running")
"""The statuses of a run that has not ended: a process runs it, or may take it."""
ENDED: tuple[StoredStatus, ...] = ("paused", "finished", "aborted")
"""The statuses of a run that no process runs or may take."""
CONVERSATION = "conversation"
"""The label of a run with the id of its conversation."""
USER = "user"
"""The label of a run with the name of its user, on a server that has users."""
TENANT = "tenant"
"""The label by which the runs of a tenant are counted."""

UNRECORDED = frozenset({"branch", "marks", "openai"})
"""The labels in which the web server and the terminal app note something of a conversation.

They change, and are not in records.
"""


def recorded_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of a run that its first record has.

    >>> recorded_labels({"tenant": "acme", "marks": "{}"})
    {'tenant': 'acme'}
    """
    return {name: text for name, text in labels.items() if name not in UNRECORDED}


TAPPED = "tap:"
"""The beginning of the name of the worker of a run that another program performs. No worker continues it."""
NO_INPUT = "this run is performed by another program: it takes no messages and no pause here, and may be cancelled"
LATER = "later"
"""The owner of a queued run until its moment, in a store that has older processes to keep away from it.

They see a lease that ends at that moment. Readers of this version see no owner.
"""


CommandKind: TypeAlias = Literal["send", "deliver", "pause", "cancel", "decide", "signal", "returned", "ignored"]

When: TypeAlias = Literal["now", "turn", "end"]
"""When a message that is sent to a run is delivered.

``now``: at once; a response that is being written is cut off. ``turn``: before the next request. ``end``: when the run
would end.
"""

DECIDE: Literal["decide"] = "decide"
"""The kind and the key of the command that decides about a paused run."""
DELIVER: Literal["deliver"] = "deliver"
"""The kind of the command that delivers the result of a call in the background."""
DISMISS = "dismiss"
"""The field of its data with the reason, if it is not to be resumed."""


class RunRow(Struct, frozen=True, omit_defaults=True):
    """The entry of a run in a list of runs: the last values, written with its entries.

    Attributes:
        status: The status of the run; a deleted run leaves only that.
        title: The beginning of its input.
        worker: The name of the worker that runs it, by which `recover_all` finds one.
        turns: How many turns have started, without those of nested runs. This and what follows counts from before a
            pause on, and in a fork what it has copied.
        tool_calls: How many tools have started, those of nested runs included, as for the next three.
        tool_errors: How many tools have failed.
        tool_seconds: How long the tools took, together.
        tool_durations: How many of them took up to each of `TOOL_BOUNDS`, and at the end how many took longer.
        input_tokens: The tokens that the model has read.
        output_tokens: The tokens that the model has written.
        cache_read_tokens: The part of the input that came from a cache.
        cache_creation_tokens: The part of the input that was written to a cache.
        cost: The cost of the tokens whose prices are known; ``None`` if none are.
        unpriced: The models whose prices are not known: the cost is without their tokens.
        prices: The prices of models that the worker was given, by their names; others have those of the table of
            models.
        by_model: The tokens by the names of the models: read, written, from a cache, to a cache.
        reason: Why it was aborted or paused; while it waits for a process, why one could not continue it.
        outer: The id of the run that it is nested in.
        resumes: The id of the paused run that it continues.
        fork_of: The id of the run that it is a fork of.
        copied: Of a fork: the figures of the records that it has copied.
        recoveries: How often it was recovered.
        cause: The cause of an abort, such as ``cancel``.
        labels: Labels of the application, for example the name of a tenant; see ``labels`` of `Worker`.
        priority: Of two queued runs the one with the higher priority is taken first.
        allowed: The tools that a person always allows, each with the hook that then pauses no run for it.
        imported: The number of the last record that was imported; 0 for none. Such a run is first recovered only by its
            name, and carries no permission up to that record.
        held: Results that the ``after_tool_call`` hooks have not seen yet, by the places of their calls in the last
            response. They are not exported, and are gone as soon as the hooks have seen them.
        wakes: Of a run that is paused for the results of calls in the background alone: the number of the first command
            that it has not taken; a result that is delivered from there on resumes it. Otherwise 0.
        end: The number of the record with which it ended, if annotations follow it; otherwise 0.
        began: When it had begun, if its row was written after that, as that of an imported run; otherwise 0.
        ended: When it had ended, if its row was written after that; otherwise 0.
        due: The moment before which no process takes a queued run, or at which a paused one is woken; 0: none.
        awaits: What wakes a paused run besides a moment: ``command``, a signal or a message; ``run``, the end of
            another run, and possibly these; empty: nothing.
    """

    status: StoredStatus = "running"
    title: str = ""
    worker: str = ""
    turns: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    tool_seconds: float = 0.0
    tool_durations: tuple[int, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    cost: float | None = None
    unpriced: tuple[str, ...] = ()
    prices: dict[str, Prices | None] = {}
    by_model: dict[str, tuple[int, int, int, int]] = {}
    reason: str = ""
    outer: str = ""
    resumes: str = ""
    fork_of: str = ""
    copied: RunRow | None = None
    recoveries: int = 0
    cause: str = ""
    labels: dict[str, str] = {}
    priority: int = 0
    allowed: tuple[tuple[str, str], ...] = ()
    imported: int = 0
    held: dict[int, ToolResult] = {}
    wakes: int = 0
    end: int = 0
    began: float = 0.0
    ended: float = 0.0
    due: float = 0.0
    awaits: Literal["", "command", "run"] = ""


def with_figures(row: RunRow, state: RunState) -> RunRow:
    """The row of a run with the figures of its state."""
    by_model = state.usage_by_model
    read, written, from_cache, to_cache = counts_of(state.usage)
    cost = cost_of(by_model, state.prices)
    return replace(
        row,
        turns=state.turns,
        tool_calls=state.all_tool_calls,
        tool_errors=state.tool_errors,
        tool_seconds=round(state.tool_seconds, 3),
        tool_durations=state.tool_durations,
        input_tokens=read,
        output_tokens=written,
        cache_read_tokens=from_cache,
        cache_creation_tokens=to_cache,
        cost=cost.known,
        unpriced=cost.unpriced,
        prices=state.prices,
        by_model={model: counts_of(each) for model, each in by_model.items()},
    )


def counts_of(usage: Usage) -> tuple[int, int, int, int]:
    """The tokens of a usage that have prices: read, written, from a cache, to a cache.

    >>> counts_of(Usage(10, 5))
    (10, 5, 0, 0)
    """
    return (
        usage.input_tokens or 0,
        usage.output_tokens or 0,
        usage.cache_read_tokens or 0,
        usage.cache_creation_tokens or 0,
    )


class RunInfo(Struct, frozen=True):
    """A stored run, without its records.

    Attributes:
        run_id: Its id.
        row: The values that a list shows.
        epoch: How often it was claimed.
        last_seq: The number of its last record.
        owner: The owner of the run; empty after a release.
        lease_until: When the lease ends unless it is renewed, in seconds since the epoch.
        created: When it was first stored in this log.
        updated: When its last entry was stored.
        size: The bytes of its entries.
        revision: Grows with each change of a run of the log: new entries, a command, a claim, a release, a deletion.
        sent: How many commands were sent to it.
        error: Why its values cannot be decoded, for example since its key was deleted; empty if they can. Then ``row``
            has nothing but the status, and this as the reason. Such a run cannot be claimed.
    """

    run_id: str = field(name="run")
    row: RunRow
    epoch: int
    last_seq: int
    owner: str
    lease_until: float
    created: float
    updated: float
    size: int
    revision: int
    sent: int
    error: str = ""

    @property
    def status(self) -> StoredStatus:
        """The status of the run."""
        return self.row.status

    @property
    def began(self) -> float:
        """When it began: a run that was imported before it was created here."""
        return self.row.began or self.created

    @property
    def ended(self) -> float:
        """When it ended or paused, whatever was written since; of one that goes on, when its last entry was stored."""
        return self.row.ended or self.updated

    @property
    def is_waiting(self) -> bool:
        """Whether it is paused, and woken by a moment, a signal, a message or another run, without a decision."""
        return self.status == "paused" and bool(self.row.due or self.row.awaits)

    def is_cut_off(self, now: float | None = None) -> bool:
        """Whether no process runs it, though it has not ended.

        It is queued, or its process has ended, so that it can be recovered.
        """
        is_open = self.status in OPEN
        return is_open and self.lease_until < (time.time() if now is None else now)


class Claim(Struct, frozen=True):
    """The right to write to a run.

    Attributes:
        run_id: The run's id.
        epoch: Named in each append.
        last_seq: The number of the last record.
        owner: The owner of the run.
    """

    run_id: str = field(name="run")
    epoch: int
    last_seq: int
    owner: str


class Command(Struct, frozen=True, omit_defaults=True):
    """A request to a run.

    Attributes:
        kind: ``send`` a message, ``deliver`` the result of a call in the background, ``pause``, ``cancel``,
            ``decide`` about a pause, or a ``signal``; ``returned``, of a process that was taken for dead. ``ignored``
            is a stored one that no run can take, with its ``kind`` and the ``reason`` as its data.
        data: The rest, as JSON.
        key: Two commands of a run cannot have the same key; empty for any number of them.
        number: Its number among the commands of the run, from 1; given by the log.
        time: When it was stored; given by the log.
    """

    kind: CommandKind
    data: JsonObject = {}
    key: str = ""
    number: int = 0
    time: float = 0.0


TAKEN_KINDS: tuple[CommandKind, ...] = get_args(CommandKind)[:-1]
"""The kinds of the commands that can be sent to a run."""


class _Kind(Struct):
    kind: Json = ""


_decode_kind = msgspec.json.Decoder(_Kind).decode
_decode_command = msgspec.json.Decoder(Command).decode


class SentMessages(Struct, frozen=True, omit_defaults=True):
    """The data of a ``send`` command.

    Attributes:
        messages: The messages, of the user or the system.
        id: By which the sender recognises it, and can withdraw it.
        withdraws: The id of an earlier command, whose messages are not to be delivered; with messages, these are
            delivered at their place.
        when: When they are delivered; ``None``: ``turn``, or as before where they replace others.
    """

    messages: tuple[Message, ...] = ()
    id: str = ""
    withdraws: str = ""
    when: When | None = None


class DeliveredResult(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The data of a ``deliver`` command: the result of a call in the background.

    Attributes:
        id: Which call, as in `BackgroundCall`.
        content: The result for the model.
        is_error: Whether the call failed.
        seconds: How long it ran; 0 where that is not known.
        begun: Instead of a result: what the call waits for, or how it goes on after a decision.
        step: The step of the call that this is, or with a result the one that it takes the place of; see
            `BackgroundCall`. 0 for a result that does not come from a decision.
    """

    id: str
    content: ResultContent
    is_error: bool = False
    seconds: float = 0.0
    begun: Begun | None = None
    step: int = 0


def checked_command(command: Command) -> Command:
    """The command, if a run can take it.

    Raises:
        ConfigurationError: It cannot; the sentence is the same wherever the command is given.

    >>> checked_command(Command("cancel", {"when": 1}))
    Traceback (most recent call last):
    ...
    rxworker.errors.ConfigurationError: cancel(1): when is 'now' or 'after_turn'; a reason goes into cancel(reason=...)
    More: rxworker docs cancel-and-pause
    """
    check_type("the command", command, Command, "Command('cancel')")
    kind, data = command.kind, command.data
    check_type("Command(data)", data, dict, "Command('cancel', {'reason': 'lunch'})")
    if kind not in TAKEN_KINDS:
        known = ", ".join(TAKEN_KINDS)
        raise ConfigurationError(f"a run takes no command {kind!r:.60}; give one of {known}")
    reason, when = data.get("reason", ""), data.get("when", "now")
    if kind in ("pause", "cancel"):
        check_type("reason", reason, str, "reason='lunch'")
    if kind == "signal":
        check_type("signal(value)", data.get("value"), (str, dict), "signal(run_id, 'paid', {'euros': 5})")
        name = data.get("name")
        if not (isinstance(name, str) and name and command.key == signal_command(name).key):
            raise ConfigurationError("a signal has a name: give log.signal(run_id, 'paid')")
    if kind == "cancel" and when not in ("now", "after_turn"):
        text = f"cancel({when!r:.60}): when is 'now' or 'after_turn'; a reason goes into cancel(reason=...)"
        raise ConfigurationError(text)
    if kind == "send" and data.get("when") is not None:
        checked_when(data["when"])
    try:
        read = msgspec.convert(msgspec.to_builtins(command), Command)
        sent = msgspec.convert(read.data if kind == "send" else {}, SentMessages)
        if kind == "deliver" and not msgspec.convert(read.data, DeliveredResult).id:
            raise TypeError("it has no id of a call")
        if not is_storable(read.key or DECIDE):
            raise TypeError(f"the key is {read.key!r:.60}")
    except (msgspec.ValidationError, TypeError, RecursionError) as error:
        text = (
            f"a run cannot take this {kind} command: {error}. A message is Message.user('...'), data is JSON, a key is "
            "a text"
        )
        raise ConfigurationError(text) from error
    if kind != "send" or (sent.withdraws and not sent.messages):
        return command
    if any(m.role == "assistant" or m.tool_calls or m.tool_results for m in to_messages(sent.messages)):
        text = "only messages of the user or the system can be sent to a run: give a text, or Message.user(...)"
        raise ConfigurationError(text)
    return command


def checked_when(when: Json) -> None:
    """Check when a message is to be delivered.

    Raises:
        ConfigurationError: It is none of the three.

    >>> checked_when("soon")
    Traceback (most recent call last):
    ...
    rxworker.errors.ConfigurationError: send(when='soon'): when is 'now', 'turn' or 'end'
    More: rxworker docs cancel-and-pause
    """
    if when not in get_args(When):
        raise ConfigurationError(f"send(when={when!r:.60}): when is 'now', 'turn' or 'end'")


def to_sent(*given: Input) -> tuple[Message, ...]:
    """The messages of what is sent into a run.

    Raises:
        ConfigurationError: They are invalid, or not of the user or the system.

    >>> [message.text for message in to_sent("Keep it short.")]
    ['Keep it short.']
    """
    messages = read_input(given[0] if len(given) == 1 else given)
    checked_command(send_command(messages))
    return messages


def read_command(data: bytes) -> Command:
    """A stored command. One that no run can take, such as that of another writer, has the kind ``ignored``.

    >>> read_command(b'{"kind": "stop"}').data["kind"]
    'stop'
    """
    kind = ""
    try:
        kind = str(_decode_kind(data).kind)
        return checked_command(_decode_command(data))
    except (ConfigurationError, msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return Command("ignored", {"kind": kind, "reason": message_of(error)})


def send_command(
    messages: Sequence[Message],
    id: str = "",  # noqa: A002 - what it is
    when: When | None = None,
    withdraws: str = "",
) -> Command:
    """The command that sends messages to a run.

    Args:
        messages: The messages.
        id: By which they can be withdrawn.
        when: When they are delivered; ``None``: ``turn``, or as before where they replace others.
        withdraws: The id of messages that they replace, which must wait; without messages, those are withdrawn. A
            process of a release that does not know of it ignores the command.

    >>> send_command((Message.user("Hi"),), when="now").data["when"]
    'now'
    >>> send_command((), withdraws="a").data
    {'withdraws': 'a'}
    """
    return Command("send", msgspec.to_builtins(SentMessages(tuple(messages), id, withdraws, when)))


def decision_command(decided: Decided) -> Command:
    """The command that decides about a paused run. All of them have one key, so that the log takes the first.

    >>> decision_command(Decided(None)).key
    'decide'
    """
    return Command(DECIDE, msgspec.to_builtins(decided), key=DECIDE)


def deliver_command(delivery: DeliveredResult) -> Command:
    """The command that delivers a result. All for one call have one key, so that the log takes the first.

    So have those for one step of a call that waits.

    >>> deliver_command(DeliveredResult("call_1", "done")).key
    'deliver-call_1'
    """
    step = f"~{delivery.step}" if delivery.step else ""
    return Command(DELIVER, msgspec.to_builtins(delivery), key=f"{DELIVER}{step}-{delivery.id}")


def returned_command(epoch: int) -> Command:
    """The command of a process that lost a run while it was suspended, and goes on: it did not die.

    >>> returned_command(3).key
    'returned-3'
    """
    return Command("returned", {"epoch": epoch}, key=f"returned-{epoch}")


def returned_in(commands: Iterable[Command]) -> frozenset[int]:
    """The epochs of the processes that were taken for dead and have returned.

    >>> returned_in([Command("pause"), returned_command(3)])
    frozenset({3})
    """
    epochs = [one.data.get("epoch") for one in commands if one.kind == "returned"]
    return frozenset([epoch for epoch in epochs if isinstance(epoch, int)])


def is_storable(name: str) -> bool:
    """Whether every store can have this text as a name, such as the id of a run.

    It is not empty, and has neither null characters nor half ones.

    >>> is_storable("order-4711"), is_storable(""), is_storable("half " + chr(0xD800))
    (True, False, False)
    """
    return bool(name) and "\0" not in name and not any("\ud800" <= one <= "\udfff" for one in name)


def is_woken(row: RunRow, commands: Iterable[Command]) -> bool:
    """Whether a paused run waits for the results of calls in the background alone, and one is delivered.

    >>> [is_woken(RunRow("paused", wakes=3), [Command("deliver", number=number)]) for number in (2, 3)]
    [False, True]
    """
    return row.wakes > 0 and any(one.kind == DELIVER and one.number >= row.wakes for one in commands)


def decisions_in(commands: Iterable[Command]) -> list[Command]:
    """The commands that decide about a paused run, without those that dismiss it.

    >>> [command.number for command in decisions_in([Command("send", number=1), Command("decide", number=2)])]
    [2]
    """
    return [one for one in commands if one.kind == DECIDE and DISMISS not in one.data]


def signal_command(name: str, value: JsonObject | str = "") -> Command:
    """The command that gives a run a signal. All of one name have one key, so that the log takes the first.

    >>> signal_command("paid", {"euros": 5}).key
    'signal paid'
    """
    return Command("signal", {"name": name, "value": value}, key=f"signal {name}")


CARRIED: frozenset[CommandKind] = frozenset({"send", "deliver", "cancel", "signal"})
"""The commands that a run which resumes a paused one takes over from it."""


def carried_over(command: Command, paused: str, number: int) -> Command:
    """A command to a paused run, for the run that resumes it.

    Its key is the same from each process that sends it on, so that it counts once. A result and a signal keep theirs.

    >>> carried_over(Command("cancel"), "run-1", 2).key
    'run-1:2'
    """
    key = command.key if command.kind in (DELIVER, "signal") else f"{paused}:{number}"
    is_unnamed = command.kind == "send" and not command.data.get("id")
    data = {**command.data, "id": message_id("", paused, number)} if is_unnamed else command.data
    return replace(command, data=data, key=key, number=0, time=0.0)


def message_id(own: str, run_id: str, number: int) -> str:
    """The id of messages that were sent to a run, which they keep in those that resume it.

    >>> message_id("", "run-1", 3)
    'run-1:3'
    """
    return own or f"{run_id}:{number}"


def resumed_id(run_id: str) -> str:
    """The id of the run that resumes a paused one: ``run-1`` becomes ``run-1~2``, and that ``run-1~3``.

    >>> resumed_id("run-1"), resumed_id("run-1~2")
    ('run-1~2', 'run-1~3')
    """
    name, mark, number = run_id.rpartition("~")
    return f"{name}~{int(number) + 1}" if mark and number.isdecimal() else f"{run_id}~2"


def nested_id(outer: str, key: str) -> str:
    """The id of the run that a call begins.

    The same call of an outer run that was recovered, or that resumes another one, has the same key, so that it finds
    the run that it began.

    Args:
        outer: The id of the outer run.
        key: The idempotency key of the call.

    >>> nested_id("run-1", "run-1/1/0/ab"), nested_id("run-1~2", "run-1/1/0/ab"), nested_id("run-7", "run-1/1/0/ab")
    ('run-1.dd2612a015f1', 'run-1.dd2612a015f1', 'run-7.dd2612a015f1')
    """
    began = key.rsplit("/", 3)[0]
    # A copy of a run has runs of its own.
    is_same = first_id(began) == first_id(outer)
    return f"{began if is_same else first_id(outer)}.{sha256(key.encode()).hexdigest()[:12]}"


def new_id() -> str:
    """A new id of a run."""
    return f"run-{os.urandom(6).hex()}"


def first_id(run_id: str) -> str:
    """The id of the run that a run resumes, directly or over others; that of the run itself, if it resumes none.

    >>> first_id("run-1"), first_id("run-1~3")
    ('run-1', 'run-1')
    """
    name, mark, number = run_id.rpartition("~")
    return name if mark and number.isdecimal() else run_id
