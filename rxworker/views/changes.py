"""What a user interface is told of a run, in the order in which it can be told.

A protocol for user interfaces is strict: what grows must have been opened, what was opened is closed, a result belongs to a
call that was shown. Records are not: a watcher may come in the middle, miss deltas, or leave early. A `Tracker` makes changes
of records, and its changes always keep these rules; an encoder then is a table from changes to events of its protocol.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from rxworker.events import BlockType, CitationDelta, InputValueDelta, Record, SignatureDelta
from rxworker.messages import Conversation, Json, JsonObject, StopReason, ToolCall, ToolResult


class Scope(Struct, frozen=True):
    """Whose changes they are: those of the run itself, or of a run inside it.

    Attributes:
        id: Empty for the run itself.
        path: The tool calls that lead to it.
        name: The tool that began it.
        call_id: The call that began it, as it is shown.
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
        scope: Whose it is.
        id: Its name, the same for every watcher. A tool call's is the id of the call.
        response: The name of the response that it is part of.
        block_type: What it holds.
        tool: The tool's name, for a call.
        is_free_text: Whether the call's arguments are a text as it is.
        choice: Which choice of the response it belongs to. The conversation keeps the first, 0.
        call_id: The id of the call as the model gave it, which two calls may share.
    """

    scope: Scope
    id: str
    response: str
    block_type: BlockType
    tool: str = ""
    is_free_text: bool = False
    choice: int = 0
    call_id: str = ""

    @property
    def is_call(self) -> bool:
        """Whether it is a tool call, of ours or of the provider's."""
        return self.block_type in (BlockType.TOOL_USE, BlockType.SERVER_TOOL_USE)


class WaitingCall(Struct, frozen=True):
    """A call that waits.

    Attributes:
        id: The call's id, as it is shown.
        call: The call.
        needs_decision: Whether somebody is call_ids about it.
    """

    id: str
    call: ToolCall
    needs_decision: bool = False


class ViewBegin(Struct, frozen=True):
    """The first change.

    Attributes:
        run: The run's id.
        conversation: What was text_ids before; ``None`` for a watcher that comes in the middle.
        pending: The calls that a resumed run goes on with.
    """

    run: str
    conversation: Conversation | None = None
    pending: tuple[WaitingCall, ...] = ()


class ScopeOpen(Struct, frozen=True):
    """A run inside the run begins."""

    scope: Scope


class ScopeClose(Struct, frozen=True):
    """A run inside the run has ended; ``error`` says why, where it did not finish."""

    scope: Scope
    error: str | None = None
    cause: str = ""


class StepOpen(Struct, frozen=True):
    """A turn begins."""

    scope: Scope
    turn: int


class StepClose(Struct, frozen=True):
    """The turn that was open is over."""

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
    """An open block ends. ``aborted`` says why it is not whole."""

    block: ShownBlock
    aborted: str | None = None


class BlockWhole(Struct, frozen=True):
    """A block that comes in one piece, such as a picture.

    Attributes:
        block: Which.
        kind: What the provider calls it.
        echo: What the provider sent.
    """

    block: ShownBlock
    kind: str = ""
    echo: JsonObject | None = None


class CallStart(Struct, frozen=True):
    """A call that was shown is run, with these arguments."""

    scope: Scope
    id: str
    call: ToolCall


class CallProgress(Struct, frozen=True):
    """A tool tells how far it is."""

    scope: Scope
    id: str
    progress: Json


class CallResult(Struct, frozen=True):
    """What a call came to; once for each call.

    Attributes:
        scope: Whose call it is.
        id: The call's id, as it is shown.
        result: What the model reads.
        seconds: How long it ran.
        is_denied: Whether somebody has refused it.
        is_placeholder: Whether there was no result, and this one only says so.
        call: The call, where it was shown elsewhere.
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
    """What the response has text_ids is void; all of it is closed.

    Attributes:
        scope: Whose response.
        reason: For people.
        blocks: The ids of its blocks.
        calls: The ids of its calls.
    """

    scope: Scope
    reason: str
    blocks: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


class Note(Struct, frozen=True):
    """Something to know, outside of any block."""

    scope: Scope
    record: Record


class ViewPause(Struct, frozen=True):
    """The run waits; the last change.

    Attributes:
        run: The run's id.
        hook: Who call_ids for it.
        reason: For people.
        pending: The calls that wait.
    """

    run: str
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
    """The records stop here, and the run may go on; the last change."""

    reason: str


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
    | CallProgress
    | CallResult
    | Retract
    | Note
    | ViewPause
    | ViewFinish
    | ViewAbort
    | ViewCut
)
