"""From the records of a run to the updates of a session of the Agent Client Protocol.

`AcpEncoder` has the table from changes to updates. The protocol has no place for some changes: a message that is retracted is followed by a
notice; a run inside the run is shown by its calls, and by its texts as the content of the call that started it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from rxworker.events import (
    BlockType,
    HookMessage,
    LimitReached,
    MessageAdd,
    Record,
    RunResume,
    RunStart,
)
from rxworker.events.arguments import parse_arguments
from rxworker.messages import Json, Message, ToolCall
from rxworker.messages.lenient_json import encode_lenient
from rxworker.protocols.acp import wire
from rxworker.protocols.acp.calls import UNNAMED, call_fields, diff_of, kind_of
from rxworker.protocols.acp.content import blocks_of, result_blocks
from rxworker.protocols.acp.wire import CallContent, CallOpen, CallUpdate, Diff, TextContent, Update
from rxworker.protocols.common import RecordEncoder
from rxworker.tools.reports import FileEdit, Plan, read_report
from rxworker.views.changes import (
    BlockClose,
    BlockGrow,
    BlockOpen,
    CallProgress,
    CallResult,
    CallStart,
    Change,
    Note,
    Retract,
    ShownBlock,
    ViewAbort,
    ViewBegin,
    ViewCut,
    ViewFinish,
    ViewPause,
)

Encode: TypeAlias = Callable[[Any], Iterator[Update]]
End: TypeAlias = ViewFinish | ViewPause | ViewAbort | ViewCut

FROM_USER = ("send", "resume")
"""The sources of the messages that the user has sent to a run."""


class AcpEncoder(RecordEncoder[Update]):
    """Encodes the records of one run as updates of a session.

    Args:
        cwd: The folder of the session, for relative paths.
        shows_user: Whether to include the messages of the user: when a session is loaded, since otherwise the client has them.

    Attributes:
        end: The last change, when the run has ended or is paused.
        limit: The limit that the run has reached, if it has.

    Example:
        >>> from rxworker.events import TextDelta
        >>> encoder = AcpEncoder("/home/me")
        >>> record = Record(seq=1, run_id="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi"))
        >>> encoder.feed(record)
        [AgentChunk(content=TextContent(text='hi'), message_id='run-1.1.1.0')]
    """

    def __init__(self, cwd: str, *, shows_user: bool = False) -> None:
        super().__init__()
        self.end: End | None = None
        self.limit = ""
        self._shows_user = shows_user
        self._calls = _Calls(cwd)
        self._texts = _Texts(self._calls)
        self._table: dict[type[Change], Encode] = {
            ViewBegin: self._calls.begin,
            BlockOpen: self._calls.open,
            BlockGrow: self._grow,
            BlockClose: self._close,
            CallStart: self._calls.start,
            CallProgress: self._calls.progress,
            CallResult: self._calls.result,
            Retract: self._texts.retract,
            Note: self._note,
            ViewFinish: self._ended,
            ViewPause: self._ended,
            ViewAbort: self._ended,
            ViewCut: self._ended,
        }

    def feed(self, record: Record) -> list[Update]:
        """Encode a record, which may give no updates."""
        updates: list[Update] = []
        event = record.event
        if self._shows_user and not record.path and isinstance(event, RunStart | RunResume):
            updates.extend(self._inputs(event, record))
        updates.extend(super().feed(record))
        return updates

    def _encode(self, change: Change) -> Iterable[Update]:
        encode = self._table.get(type(change))
        return () if encode is None else encode(change)

    def _inputs(self, event: RunStart | RunResume, record: Record) -> Iterator[Update]:
        added = event.added if isinstance(event, RunStart) else 0
        messages = event.conversation.messages
        yield from self._user(messages[len(messages) - added :], record)

    def _user(self, messages: tuple[Message, ...], record: Record) -> Iterator[Update]:
        for place, message in enumerate(messages):
            if message.role == "user":
                for block in blocks_of(message.content):
                    yield wire.UserChunk(block, f"{record.run_id}.{record.seq}.{place}")

    def _grow(self, change: BlockGrow) -> Iterator[Update]:
        if change.block.is_call:
            self._calls.grow(change)
            return iter(())
        return self._texts.grow(change)

    def _close(self, change: BlockClose) -> Iterator[Update]:
        return self._calls.close(change) if change.block.is_call else self._texts.close(change)

    def _note(self, change: Note) -> Iterator[Update]:
        record = change.record
        name = f"{record.run_id}.{record.seq}"
        match record.event:
            case MessageAdd(messages=messages, source=source):
                if self._shows_user and source in FROM_USER and not record.path:
                    yield from self._user(messages, record)
            case HookMessage(level="message" | "system", content=content) if content:
                yield wire.AgentChunk(TextContent(content), name)
            case LimitReached(limit=limit) if not record.path:
                self.limit = limit
            case _:
                pass

    def _ended(self, change: End) -> Iterator[Update]:
        self.end = change
        return iter(())


class _Texts:
    """The texts and thoughts of a run.

    Args:
        calls: Takes the texts of runs inside the run.
    """

    def __init__(self, calls: _Calls) -> None:
        self._calls = calls
        self._inner: dict[str, list[str]] = {}

    def grow(self, change: BlockGrow) -> Iterator[Update]:
        block = change.block
        if block.scope.id:
            self._inner.setdefault(block.id, []).append(change.text)
        elif block.block_type is BlockType.THINKING:
            yield wire.ThoughtChunk(TextContent(change.text), block.id)
        else:
            yield wire.AgentChunk(TextContent(change.text), block.id)

    def close(self, change: BlockClose) -> Iterator[Update]:
        text = "".join(self._inner.pop(change.block.id, ()))
        if text and change.block.block_type is not BlockType.THINKING:
            yield from self._calls.add(change.block.scope.call_id, TextContent(text))

    def retract(self, change: Retract) -> Iterator[Update]:
        for name in change.calls:
            yield CallUpdate(tool_call_id=name, status="failed")
        if change.blocks and not change.scope.id:
            text = f"[The response above is void, and is repeated: {change.reason}]"
            yield wire.AgentChunk(TextContent(text), f"{change.blocks[0]}.void")


class _Calls:
    """The calls of a run.

    Args:
        cwd: The folder of the session.
    """

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._pieces: dict[str, list[str]] = {}
        self._known: set[str] = set()
        # The output of a call before its last progress; a client replaces the whole content.
        self._content: dict[str, list[CallContent | Diff]] = {}
        self._edited: set[str] = set()

    def begin(self, change: ViewBegin) -> Iterator[Update]:
        self._known.update(waiting.id for waiting in change.pending)
        return iter(())

    def open(self, change: BlockOpen) -> Iterator[Update]:
        block = change.block
        if block.is_call:
            self._pieces[block.id] = []
            kind = kind_of(block.tool)
            yield self._shown(block.id)(
                tool_call_id=block.id, title=block.tool or UNNAMED, kind=kind, status="pending"
            )

    def grow(self, change: BlockGrow) -> None:
        self._pieces[change.block.id].append(change.text)

    def close(self, change: BlockClose) -> Iterator[Update]:
        block = change.block
        text = "".join(self._pieces.pop(block.id, ()))
        if change.aborted is not None:
            yield CallUpdate(tool_call_id=block.id, status="failed")
            return
        yield self._described(block.id, _call_of(block, text))

    def start(self, change: CallStart) -> Iterator[Update]:
        yield self._described(change.id, change.call, "in_progress")

    def progress(self, change: CallProgress) -> Iterator[Update]:
        match read_report(change.progress):
            case Plan(steps=steps):
                yield wire.PlanUpdate(
                    [wire.PlanEntry(s.content, s.priority, s.status) for s in steps]
                )
            case _ if change.id not in self._known:
                pass  # the watcher has missed the call
            case FileEdit() as edit:
                if change.id not in self._edited:  # it knows better than the arguments
                    self._edited.add(change.id)
                    self._content[change.id] = []
                self._content[change.id].append(diff_of(edit, self._cwd))
                yield self._update(change.id)
            case None:
                yield self._update(change.id, TextContent(_line(change.progress)))

    def add(self, name: str, block: wire.ContentBlock) -> Iterator[Update]:
        """Add content to a call, if it is shown."""
        if name not in self._known:
            return
        self._content.setdefault(name, []).append(CallContent(block))
        yield self._update(name)

    def result(self, change: CallResult) -> Iterator[Update]:
        result, name = change.result, change.id
        if name not in self._known:
            if change.is_placeholder:
                return
            yield self._described(name, change.call or ToolCall(name, result.name, {}))
        output = [CallContent(block) for block in result_blocks(result)]
        yield CallUpdate(
            tool_call_id=name,
            status="failed" if result.is_error else "completed",
            content=[*self._content.pop(name, ()), *output],
            raw_output=result.text or None,
        )

    def _described(
        self, name: str, call: ToolCall, status: wire.CallStatus | None = None
    ) -> CallOpen | CallUpdate:
        fields = call_fields(name, call, self._cwd)
        if fields.content is not None:
            self._content[name] = list(fields.content)
        return self._shown(name)(
            tool_call_id=name,
            title=fields.title,
            kind=fields.kind,
            status=status,
            content=fields.content,
            locations=fields.locations,
            raw_input=fields.raw_input,
        )

    def _shown(self, name: str) -> type[CallOpen | CallUpdate]:
        """The type of the next update of a call."""
        kind = CallUpdate if name in self._known else CallOpen
        self._known.add(name)
        return kind

    def _update(self, name: str, *last: wire.ContentBlock) -> CallUpdate:
        content = [*self._content.get(name, ()), *map(CallContent, last)]
        return CallUpdate(tool_call_id=name, content=content)


def _call_of(block: ShownBlock, text: str) -> ToolCall:
    return ToolCall(block.id, block.tool, text if block.is_free_text else parse_arguments(text))


def _line(progress: Json) -> str:
    """A progress value in one line; that of an MCP server by its message."""
    if isinstance(progress, dict) and isinstance(progress.get("message"), str):
        progress = progress["message"]
    return progress if isinstance(progress, str) else encode_lenient(progress).decode()
