"""What a paused run waits for.

The same value is in the record of the pause, in the result of the run, and in the record of the run that resumes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias, final

from msgspec import Struct
from msgspec.structs import replace

from rxworker.messages.content import ToolCall, ToolResult
from rxworker.messages.json import Json, JsonObject
from rxworker.messages.settings import utc

CLIENT_TOOL = "client_tool"
"""The hook name in a pause for the calls of tools that a client runs. It is stored: do not change it."""
RECOVERY = "recovery"
"""The hook name in a pause for calls whose effects are not known, since the process that started them has ended.

It is stored as well.
"""

BY_CALLER = "pause"
"""The hook name in a pause that the application requested. It is stored as well."""
QUESTION = "question"
"""The hook name in a pause for calls whose tools have a question, which a person answers. It is stored as well."""
BACKGROUND = "background"
"""The hook name in a pause for results of calls in the background, and the source of their messages. It is stored."""
NESTED = "nested"
"""The hook name in a pause for calls that have begun runs which wait themselves. It is stored as well."""

UNTIL = "until"
"""The hook name in a pause for calls whose tools wait for a moment or something else. It is stored as well."""

# What is read here may allow a call: a field that is not known is an error, and none that is missing allows anything.


class Question(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A question of a tool to a person while it runs: to fill in a form, or to visit an address.

    Attributes:
        source: Where it comes from, such as the name of an MCP server.
        message: The question, and its reason.
        schema: The JSON Schema of the form: an object, whose properties are texts, numbers, booleans and choices;
            ``None``: there is no form.
        url: The address to visit. Nothing opens it but the person.
    """

    source: str
    message: str
    schema: JsonObject | None = None
    url: str = ""

    def __str__(self) -> str:
        """The question, with its source and its whole address."""
        return f"{self.source} has a question: {self.message}" + (f"\n{self.url}" if self.url else "")


class Reply(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The answer of a person to a `Question`.

    Attributes:
        action: ``accept``: the form is filled in, or the address was visited; ``decline``: neither.
        content: The content of the form.
    """

    action: Literal["accept", "decline"]
    content: JsonObject = {}


class Wait(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a tool waits for: whichever comes first.

    Attributes:
        due: A moment, in seconds since the epoch; 0: none.
        signal: The name of a signal; empty: none.
        run: The id of a run that ends; empty: none.
        message: Whether a message that is sent into the run ends it.
        event: The name of an event of the application in that run, which ends it too; empty: none.
        by: The id of the message that has ended it; empty: something else has, or nothing yet.

    >>> print(Wait(1767225600.0, signal="paid"))
    the signal paid, or 2026-01-01 00:00:00 UTC
    """

    due: float = 0.0
    signal: str = ""
    run: str = ""
    message: bool = False
    event: str = ""
    by: str = ""

    def __str__(self) -> str:
        """What comes first, as it is shown to users."""
        some = [f"the signal {self.signal}" if self.signal else "", f"{self.event} in {self.run}" if self.event else ""]
        some += [f"the end of {self.run}" if self.run else ""]
        some += ["a message" if self.message else "", utc(self.due) if self.due else ""]
        return ", or ".join(filter(None, some))


class Begun(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A call that its tool has begun, and goes on with.

    Attributes:
        state: What the tool needs to go on. It means nothing to others.
        question: Its question, if it has one.
        reply: The answer; ``None``: it waits for one.
        run: The id of the run that the call has begun, if that is paused.
        paused: What that run waits for, as far as a decision needs it.
        decided: The decisions about the calls inside, in the order of `PauseState.tree`; ``None``: it waits for them.
        awaits: What it has waited for so far, in order.
        woken: What each of these has ended with; the last one has not ended, if there is one less.
    """

    state: Json = None
    question: Question | None = None
    reply: Reply | None = None
    run: str = ""
    paused: PauseState | None = None
    decided: tuple[Json, ...] | None = None
    awaits: tuple[Wait, ...] = ()
    woken: tuple[Json, ...] = ()

    @property
    def inner(self) -> PauseState | None:
        """What the run inside waits for, and is not decided about."""
        return self.paused if self.decided is None else None

    @property
    def wait(self) -> Wait | None:
        """What it waits for other than a person or the run inside."""
        return None if len(self.woken) == len(self.awaits) else self.awaits[-1]

    @property
    def received(self) -> tuple[str, ...]:
        """The ids of the messages that have ended its waits: each ends one."""
        return tuple([each.by for each in self.awaits if each.by])

    def wake(self, value: Json, by: str = "") -> Begun:
        """The same when what it waits for has come, with a value, and with the id of the message if it is one."""
        *before, last = self.awaits
        return replace(self, awaits=(*before, replace(last, by=by)), woken=(*self.woken, value))

    @property
    def waits(self) -> bool:
        """Whether the call waits: for an answer to its question, with the run inside, or for something else."""
        is_asked = self.question is not None and self.reply is None
        return is_asked or self.inner is not None or self.wait is not None


@final
class PausedCall(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tool call that waits to run.

    Attributes:
        place: Its index among the calls of the response. Two calls may have one id; they differ in their places.
        call: The call, with its exact arguments.
        spared: The hooks that do not run for it again; see `HookContext.spared`.
        is_approved: Whether it needs no other approval: the hooks or a person have approved it as it is.
        begun: How the tool goes on, if it has begun the call; ``None``: the call is made from its start.
        held: What a hook has waited for before the call, whose name is its state.
    """

    place: int
    call: ToolCall
    spared: tuple[tuple[str, int], ...] = ()
    is_approved: bool = False
    begun: Begun | None = None
    held: Begun | None = None

    @property
    def question(self) -> Question | None:
        """The question of the tool that waits for an answer."""
        begun = self.begun
        return None if begun is None or begun.reply is not None else begun.question

    @property
    def waits(self) -> bool:
        """Whether its tool waits: for an answer, with the run that it has begun, or for something else."""
        return self.begun is not None and self.begun.waits

    @property
    def waiting(self) -> Begun | None:
        """What a hook waits for before the call, or its tool, if that is neither an answer nor a run inside."""
        return next((each for each in (self.held, self.begun) if each is not None and each.wait is not None), None)

    def wake(self, value: Json, by: str = "") -> PausedCall:
        """The call when that has come, with a value, and with the id of the message if it is one."""
        if self.held is not None and self.held.wait is not None:
            return replace(self, held=self.held.wake(value, by))
        return self if self.begun is None else replace(self, begun=self.begun.wake(value, by))

    @property
    def inner(self) -> PauseState | None:
        """What the run that the call has begun waits for; ``None`` if it has begun none, or that is decided about."""
        return None if self.begun is None else self.begun.inner


class TreeCall(Struct, frozen=True):
    """A call that waits, in a run or in a run inside it.

    Attributes:
        call: The call, with its exact arguments.
        path: The ids of the calls down to its run; empty for a call of the paused run itself. That of a call in the
            background ends with ``background``, as the name of such a call does not with another call of its id.
        run: The id of its run; empty for that of the paused run itself.
        hook: What has paused its run, as in `PauseState`.
        reason: The reason of that pause.
        needs_decision: Whether this call needs a decision. A call that waits with a run inside does not: those in that
            run do.
        question: The question of its tool.
        wait: What its tool waits for otherwise.
        inner: How many of the next calls are inside it.
        inner_run: The id of the run that it waits with; empty for none.
        is_background: Whether it is in the background of its run, so that it is decided about alone.
        received: The ids of the messages that have ended earlier waits of it.
    """

    call: ToolCall
    path: tuple[str, ...] = ()
    run: str = ""
    hook: str = ""
    reason: str = ""
    needs_decision: bool = False
    question: Question | None = None
    wait: Wait | None = None
    inner: int = 0
    inner_run: str = ""
    is_background: bool = False
    received: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its path with its own id, which names it in the whole tree."""
        return "/".join((*self.path, self.call.id))


PLACEHOLDER = (
    "This call goes on in the background, as {}. Its result will come as a message: do not wait for it, and do not "
    "make the call again."
)
RESULT = "[The result of {}, call {}, which went on in the background{}]"
"""The beginning of the message with the result of a call in the background."""
NAMES_A_CALL = (PLACEHOLDER[:40], RESULT[:15])
"""The beginnings of texts that contain the id of a call in the background."""
AtEnd: TypeAlias = Literal["wait", "wake", "cancel"]
"""What the end of the model's answer does while a call is in the background."""


class BackgroundCall(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tool call that goes on in the background: its turn has a placeholder, and the result comes as a message.

    Attributes:
        id: By which its result is delivered: the id of the call, or ``key`` where an earlier one in the background had
            that.
        call: The call, with its exact arguments.
        key: Its idempotency key.
        place: Its index among the calls of its response.
        began: When it went into the background, in seconds since the epoch.
        at_end: When the model has ended its answer, the run waits for the result (``wait``), pauses until it comes
            (``wake``), or ends and cancels the call (``cancel``).
        is_delivered: Whether no process runs it: its result is delivered from outside.
        reason: Why it is not known whether it had an effect, if its process has ended; shown to users.
        agreed: The hooks that had agreed to it. A process that has others does not make it again.
        begun: What it waits for, and what was decided about that, if it has waited: as in `PausedCall`.
        step: How often it has begun to wait, and gone on. A decision is about one step.
    """

    id: str
    call: ToolCall
    key: str
    place: int = 0
    began: float = 0.0
    at_end: AtEnd = "wait"
    is_delivered: bool = False
    reason: str = ""
    agreed: tuple[str, ...] = ()
    begun: Begun | None = None
    step: int = 0

    @property
    def waits(self) -> bool:
        """Whether it waits: for an answer to its question, with the run inside it, or for something else."""
        return self.begun is not None and self.begun.waits

    @property
    def placeholder(self) -> ToolResult:
        """The result of the call for its turn."""
        return ToolResult(self.call.id, PLACEHOLDER.format(self.id), name=self.call.name)


class PauseState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a paused run waits for, and what it needs to go on.

    Attributes:
        hook: The name of the hook that requested the pause; ``requires_approval`` where the policy of the tool did,
            ``pause`` where the application did, by ``run.pause()``, ``client_tool`` where a client runs the calls,
            ``question`` where their tools have a question, ``until`` where they wait for something else,
            ``nested`` where only runs inside them wait, ``background`` where the run waits for the results of calls in
            the background, and ``recovery`` where their effects are not known.
        calls: The calls of the run itself that wait, in order.
        required: The indices of those that need a decision: the call that the hook paused at, and with ``recovery``
            each call that a process has started which has ended since, with ``question`` each call that has one. Empty
            at the end of a turn, with ``client_tool``, ``nested``, ``until`` and ``pause``.
        reason: Shown to users; not interpreted.
        refused: The results of the calls of the response that do not wait, by their places: they are not run, or have
            run before those of the client.
        key: The prefix of the idempotency keys of the calls.
        spared: At the end of a turn: the hooks that do not run for it again.
        held: At the end of a turn: what a hook has waited for, whose name is its state.
        background: The calls in the background that wait themselves. A decision about another call leaves them waiting.

    >>> pause = PauseState("permit", (PausedCall(1, ToolCall("x", "pay", {})),), (0,))
    >>> pause.pending[pause.at].id
    'x'
    """

    hook: str
    calls: tuple[PausedCall, ...]
    required: tuple[int, ...]
    reason: str = ""
    refused: dict[int, ToolResult] = {}
    key: str = ""
    spared: tuple[tuple[str, int], ...] = ()
    held: Begun | None = None
    background: tuple[BackgroundCall, ...] = ()

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The tool calls that wait, in order, with their exact arguments: those of `tree`."""
        return tuple([each.call for each in self.tree])

    @property
    def waits(self) -> tuple[Wait, ...]:
        """What wakes the run; nothing does while it needs a decision. What waits in its background waits alone."""
        waits = [*woken_by(self.tree), None if self.held is None else self.held.wait]
        return tuple([each for each in waits if each is not None])

    @property
    def at(self) -> int | None:
        """The index of the call that the hook paused at; ``None`` if it paused at no call."""
        if not self.required or self.hook == RECOVERY:
            return None
        asked = [at for at in self.required if self.calls[at].question is None]
        return (asked or self.required)[0]

    @property
    def tree(self) -> tuple[TreeCall, ...]:
        """The calls that wait, in order: each followed by those of the run that it has begun, if that waits itself.

        Those in the background come last.

        >>> inside = PauseState("permit", (PausedCall(0, ToolCall("y", "pay", {})),), (0,))
        >>> asked = PausedCall(0, ToolCall("x", "ask", {}), begun=Begun(run="run-1.1", paused=inside))
        >>> [(each.name, each.needs_decision) for each in PauseState("nested", (asked,), ()).tree]
        [('x', False), ('x/y', True)]
        """
        return tuple(_tree(self, (), ""))

    @property
    def decided_inside(self) -> tuple[TreeCall, ...]:
        """With a run that is resumed: the calls of runs inside that needed a decision, and have it."""
        found: list[TreeCall] = []
        for each in self.calls:
            if each.begun is not None and each.begun.paused is not None and each.begun.decided is not None:
                inside = _tree(each.begun.paused, (each.call.id,), each.begun.run)
                found += [node for node in inside if node.needs_decision]
        return tuple(found)


def _tree(pause: PauseState, path: tuple[str, ...], run: str) -> Iterator[TreeCall]:
    several = [(each, path, index in pause.required, False) for index, each in enumerate(pause.calls)]
    for one in pause.background:
        waiting = PausedCall(one.place, one.call, begun=one.begun)
        several.append((waiting, (*path, BACKGROUND), waiting.question is not None, True))
    for each, own, is_required, is_background in several:
        begun, inner = each.begun, each.inner
        below = () if inner is None or begun is None else tuple(_tree(inner, (*path, each.call.id), begun.run))
        waiting = each.waiting
        asked = QUESTION if each.question is not None else UNTIL if waiting is not None else pause.hook
        hook = NESTED if inner is not None else asked
        # Without a result of its client, a run inside only pauses again.
        is_needed = is_required or (bool(path) and hook == CLIENT_TOOL)
        waits_with = begun.run if begun is not None and inner is not None else ""
        wait, received = (None, ()) if waiting is None else (waiting.wait, waiting.received)
        more = each.question, wait, len(below), waits_with, is_background, received
        yield TreeCall(each.call, own, run, hook, pause.reason, is_needed, *more)
        yield from below


def parts_of(tree: Sequence[TreeCall]) -> list[range]:
    """The indices of the calls that wait: first those of the run itself, then of each call in its background."""
    starts = [0, *[at for at, node in enumerate(tree) if node.is_background and not node.run], len(tree)]
    return [range(start, end) for start, end in pairwise(starts)]


def woken_by(tree: Sequence[TreeCall]) -> list[Wait | None]:
    """For each call of `PauseState.tree`, what wakes it; nothing does while its part needs a decision."""
    parts = parts_of(tree)
    needs = [any(tree[at].needs_decision for at in part) for part in parts]
    return [None if needs[0] or need else tree[at].wait for part, need in zip(parts, needs, strict=True) for at in part]


def outline(pause: PauseState) -> PauseState:
    """A pause without what its run alone needs to go on: for the pause of the run around it.

    >>> outline(PauseState("permit", (), (), "Why?", key="run-1/1"))  # doctest: +ELLIPSIS
    PauseState(hook='permit', calls=(), required=(), reason='Why?', refused={}, key='', spared=(), held=None, ...)
    """
    calls = tuple([PausedCall(each.place, each.call, begun=_shown(each.begun)) for each in pause.calls])
    background = tuple([replace(each, begun=_shown(each.begun)) for each in pause.background])
    return PauseState(pause.hook, calls, pause.required, pause.reason, background=background)


def _shown(begun: Begun | None) -> Begun | None:
    return None if begun is None or not begun.waits else replace(begun, state=None)


NO_PAUSE = PauseState("", (), ())
"""Nothing waits."""
