"""The changes that the records of a run make in what a person is shown.

A protocol for user interfaces is strict: a block must be opened before it grows and must be closed, and a result
belongs to a call that was shown. Records are not: a watcher may join in the middle, miss deltas, or leave early. The
changes of a `Tracker` always keep these rules, so that an encoder is a table from changes to the events of its
protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from rxworker.events import BlockType, CitationDelta, InputValueDelta, Record, SignatureDelta
from rxworker.events.pause import TreeCall
from rxworker.messages import Conversation, Json, JsonObject, StopReason, ToolCall, ToolResult


class Scope(Struct, frozen=True):
    """The run itself, or a run inside it.

    Attributes:
        id: Empty for the run itself.
        path: The tool calls that lead to it.
        name: The tool that started it.
        call_id: The id of the call that started it, as it is shown.
        parent: The id of the scope around it.
    """

    id: str = ""
    path: tuple[str, ...] = ()
    name: str = ""
    call_id: str = ""
    parent: str = ""


class ShownBlock(Struct, frozen=True):
    """A block as it is shown.

    Attributes:
        scope: Its scope.
        id: Its id, the same for every watcher. That of a tool call is the id of the call.
        response: The name of the response that it is part of.
        block_type: Its type.
        tool: The tool's name, for a call.
        is_free_text: Whether the call's arguments are plain text, not JSON.
        choice: Which choice of the response it belongs to. The conversation keeps the first, 0.
        call_id: The id of the call as the model gave it, which two calls may share.
        is_held: Whether a client may have the tool of the call, which the worker is not known to run itself. The client
            must not run the call, whose arguments may change, until a `CallOffer` follows.
    """

    scope: Scope
    id: str
    response: str
    block_type: BlockType
    tool: str = ""
    is_free_text: bool = False
    choice: int = 0
    call_id: str = ""
    is_held: bool = False

    @property
    def is_call(self) -> bool:
        """Whether it is a tool call, also one that the provider runs."""
        return self.block_type in (BlockType.TOOL_USE, BlockType.SERVER_TOOL_USE)

    @property
    def is_provided(self) -> bool:
        """Whether the provider runs it."""
        return self.block_type is BlockType.SERVER_TOOL_USE


class WaitingCall(TreeCall, frozen=True):
    """A call that waits to run, as it stands in the tree.

    Attributes:
        id: The call's id, as it is shown.
        is_held: As in `ShownBlock`.
        is_offered: Whether the paused run has offered the call to the client.
        place: Of a call that a resumed run continues with: its index among the calls of its response.
    """

    id: str = ""
    is_held: bool = False
    is_offered: bool = False
    place: int = 0


class ViewBegin(Struct, frozen=True):
    """The first change.

    Attributes:
        run_id: The run's id.
        conversation: The conversation before the run; ``None`` for a watcher that joins in the middle.
        pending: The calls that a resumed run continues with.
        inside: The calls of runs inside that were decided about, which go on.
    """

    run_id: str
    conversation: Conversation | None = None
    pending: tuple[WaitingCall, ...] = ()
    inside: tuple[WaitingCall, ...] = ()


class ScopeOpen(Struct, frozen=True):
    """A run inside the run begins."""

    scope: Scope


class ScopeClose(Struct, frozen=True):
    """A run inside the run has ended; ``error`` is the reason if it did not finish."""

    scope: Scope
    error: str | None = None
    cause: str = ""


class StepOpen(Struct, frozen=True):
    """A turn begins."""

    scope: Scope
    turn: int


class StepClose(Struct, frozen=True):
    """A turn has ended."""

    scope: Scope
    turn: int


class BlockOpen(Struct, frozen=True):
    """A block begins."""

    block: ShownBlock


class BlockGrow(Struct, frozen=True):
    """An open block has more text; never an empty one."""

    block: ShownBlock
    text: str


class BlockExtra(Struct, frozen=True):
    """An open block has a signature or a citation."""

    block: ShownBlock
    event: SignatureDelta | CitationDelta


class ArgumentValue(Struct, frozen=True):
    """An open call has a value of its arguments, by its path; only from a detailed `Tracker`.

    All of the arguments follow as one `BlockGrow` when the call closes.
    """

    block: ShownBlock
    event: InputValueDelta


class BlockClose(Struct, frozen=True):
    """An open block ends; ``aborted`` is the reason if it is not whole."""

    block: ShownBlock
    aborted: str | None = None


class BlockWhole(Struct, frozen=True):
    """A block that arrives in one piece, such as a picture.

    Attributes:
        block: The block.
        kind: The provider's name for it.
        echo: The JSON that the provider sent.
    """

    block: ShownBlock
    kind: str = ""
    echo: JsonObject | None = None


class CallStart(Struct, frozen=True):
    """A call that was shown starts to run, with these arguments.

    Attributes:
        scope: The scope of the call.
        id: The call's id, as it is shown.
        call: The call.
        is_held: Whether a client may have a tool of this name, which the worker did not have when it requested the
            response.
    """

    scope: Scope
    id: str
    call: ToolCall
    is_held: bool = False


class CallOffer(Struct, frozen=True):
    """The run waits for the client to run a call of one of its tools, with these arguments."""

    scope: Scope
    id: str
    call: ToolCall


class CallProgress(Struct, frozen=True):
    """A tool reports progress."""

    scope: Scope
    id: str
    progress: Json


class CallResult(Struct, frozen=True):
    """The result of a call, one for each call.

    Attributes:
        scope: The scope of the call.
        id: The call's id, as it is shown.
        result: The result for the model.
        seconds: How long it ran.
        is_denied: Whether a person refused the call.
        is_placeholder: Whether it stands for a result that never arrives.
        call: The call, if an earlier run showed it.
        is_provided: Whether the provider ran the tool.
    """

    scope: Scope
    id: str
    result: ToolResult
    seconds: float = 0.0
    is_denied: bool = False
    is_placeholder: bool = False
    call: ToolCall | None = None
    is_provided: bool = False


class Retract(Struct, frozen=True):
    """The blocks and calls of a response are void. They were closed before.

    Attributes:
        scope: The scope of the response.
        reason: The reason. Shown to users; not interpreted.
        blocks: The ids of its blocks.
        calls: The ids of its calls.
    """

    scope: Scope
    reason: str
    blocks: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


class Note(Struct, frozen=True):
    """An event that stands outside of any block, such as a message of a hook."""

    scope: Scope
    record: Record


class ViewPause(Struct, frozen=True):
    """The run pauses; the last change.

    Attributes:
        run_id: The run's id.
        hook: The name of the hook that paused it.
        reason: Shown to users; not interpreted.
        pending: The calls that wait.
    """

    run_id: str
    hook: str
    reason: str
    pending: tuple[WaitingCall, ...] = ()


class ViewFinish(Struct, frozen=True):
    """The run has finished; the last change."""

    stop_reason: StopReason | None = None


class ViewAbort(Struct, frozen=True):
    """The run ended without a result; the last change."""

    cause: Literal["cancel", "error", "abort", "limit"]
    reason: str


class ViewCut(Struct, frozen=True):
    """The watcher receives no more records, although the run may continue; the last change."""

    reason: str


ViewEnd: TypeAlias = ViewPause | ViewFinish | ViewAbort | ViewCut
"""The last change."""

Change: TypeAlias = (
    ViewBegin
    | ScopeOpen
    | ScopeClose
    | StepOpen
    | StepClose
    | BlockOpen
    | BlockGrow
    | BlockExtra
    | ArgumentValue
    | BlockClose
    | BlockWhole
    | CallStart
    | CallOffer
    | CallProgress
    | CallResult
    | Retract
    | Note
    | ViewEnd
)
"""Any change of a view."""

Changes: TypeAlias = Iterator[Change]
"""The changes that follow, in order."""
