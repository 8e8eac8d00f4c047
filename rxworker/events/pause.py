"""What a paused run waits for. The same value is in the record of the pause, in the result of the run, and in the record of the run that resumes it."""

from __future__ import annotations

from msgspec import Struct

from rxworker.messages.content import ToolCall, ToolResult

CLIENT_TOOL = "client_tool"
"""The hook name in a pause for the calls of tools that a client runs. It is stored: do not change it."""
RECOVERY = "recovery"
"""The hook name in a pause for calls whose effects are not known, since the process that started them has ended. It is stored as well."""

# What is read here may allow a call: a field that is not known is an error, and none that is missing allows anything.


class PausedCall(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tool call that waits to run.

    Attributes:
        place: Its index among the calls of the response. Two calls may have one id; they differ in their places.
        call: The call, with its exact arguments.
        spared: The hooks that do not run for it again; see `HookContext.spared`.
        is_approved: Whether it needs no other approval: the hooks or a person have approved it as it is.
    """

    place: int
    call: ToolCall
    spared: tuple[tuple[str, int], ...] = ()
    is_approved: bool = False


class PauseState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a paused run waits for, and what it needs to go on.

    Attributes:
        hook: The name of the hook that requested the pause; ``requires_approval`` where the policy of the tool did, ``pause`` where the
            application did, by ``run.pause()``, ``client_tool`` where a client runs the calls, and ``recovery`` where their effects are not known.
        calls: The calls that wait, in order.
        required: The indices of those that need a decision: the call that the hook paused at, and with ``recovery`` each call that a process
            has started which has ended since. Empty at the end of a turn, with ``client_tool`` and with ``pause``.
        reason: For people.
        refused: The results of the calls of the response that do not wait, by their places: they are not run, or have run before those of the client.
        key: The prefix of the idempotency keys of the calls.
        spared: At the end of a turn: the hooks that do not run for it again.

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

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The tool calls that wait, in order, with their exact arguments."""
        return tuple([each.call for each in self.calls])

    @property
    def at(self) -> int | None:
        """The index of the call that the hook paused at; ``None`` if it paused at no call."""
        return self.required[0] if self.required and self.hook != RECOVERY else None


NO_PAUSE = PauseState("", (), ())
"""Nothing waits."""
