"""From the records of a run to the updates of a session of the Agent Client Protocol.

`HANDLERS` is the table from changes to updates. The protocol has no place for some changes: a message that is retracted
is followed by a notice; a run inside the run is shown by its calls, and by its texts as the content of the call that
started it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import Any, TypeAlias, get_args

from rxworker.errors import LocalProtocolError
from rxworker.events import (
    BackgroundStop,
    BlockType,
    HookMessage,
    LimitReached,
    MessageAdd,
    Record,
    RunResume,
    RunStart,
)
from rxworker.events.arguments import parse_arguments
from rxworker.messages import Audio, Content, Document, Image, Json, Message, Text, ToolCall, ToolResult
from rxworker.messages.lenient_json import encode_lenient
from rxworker.protocols.acp import wire
from rxworker.protocols.common import RecordEncoder, Wire, media, present
from rxworker.tools.reports import PATHS, FileEdit, Plan, edit_in, first_text, read_report
from rxworker.views import changes

KINDS: tuple[tuple[wire.ToolKind, str], ...] = (
    ("delete", "delete remove rm unlink"),
    ("move", "move rename mv"),
    ("edit", "edit write create patch apply replace insert append save"),
    ("search", "search grep find glob query"),
    ("execute", "run exec execute bash shell terminal command python test"),
    ("fetch", "fetch http web url browse download"),
    ("think", "think plan"),
    ("read", "read view open cat list ls get look show"),
)
"""The kinds of tools, and the words in a tool's name that state them. The first row that fits is taken."""

MAX = 80
UNNAMED = "call"
"""The title of a call whose tool has no name."""


def kind_of(name: str) -> wire.ToolKind:
    """The kind of a tool, which a client draws as an icon, from the words of its name.

    >>> kind_of("read_file"), kind_of("searchCode"), kind_of("forecast")
    ('read', 'search', 'other')
    """
    words = {word.lower() for word in re.findall("[A-Z]?[a-z]+", name)}
    for kind, known in KINDS:
        if not words.isdisjoint(known.split()):
            return kind
    return "other"


def title_of(call: ToolCall) -> str:
    """The name of the tool, and the first text among the arguments, in one line.

    >>> title_of(ToolCall("1", "forecast", {"days": 2, "city": "Kyoto"}))
    'forecast: Kyoto'
    """
    given = (call.input,) if isinstance(call.input, str) else call.input.values()
    first = next((value for value in given if isinstance(value, str) and value.strip()), "")
    line = " ".join(first[: 4 * MAX].split())
    line = line if len(line) <= MAX else f"{line[: MAX - 1]}…"
    name = call.name or UNNAMED
    return f"{name}: {line}" if line else name


def call_fields(name: str, call: ToolCall, cwd: str) -> Wire:
    """The fields of a call that follow from its arguments.

    Args:
        name: The call's id, as it is shown.
        call: The call.
        cwd: The folder of the session, for relative paths.

    >>> call_fields("1", ToolCall("1", "read_file", {"path": "a.py"}), "/home/me")["locations"]
    [{'path': '/home/me/a.py'}]
    """
    arguments = call.input if isinstance(call.input, dict) else {}
    path, line = first_text(arguments, PATHS), arguments.get("line")
    is_line = type(line) is int and line >= 0
    return present(
        toolCallId=name,
        title=title_of(call),
        kind=kind_of(call.name),
        content=edits_of(call, cwd) or None,
        locations=[present(path=absolute(path, cwd), line=line if is_line else None)] if path else None,
        rawInput=call.input,
    )


def edits_of(call: ToolCall, cwd: str) -> list[Wire]:
    """The edit of a file that a call makes, as far as its arguments show it."""
    edit = edit_in(call.input) if kind_of(call.name) == "edit" and isinstance(call.input, dict) else None
    return [] if edit is None else [diff_of(edit, cwd)]


def diff_of(edit: FileEdit, cwd: str) -> Wire:
    """An edit as a diff. The protocol requires absolute paths."""
    return present(type="diff", path=absolute(edit.path, cwd), newText=edit.new_text, oldText=edit.old_text)


def content_of(block: wire.ContentBlock) -> Wire:
    """Content that a call has produced."""
    return {"type": "content", "content": block}


def call_update(name: str, **members: object) -> Wire:
    """A change of a call that is shown: only what has changed."""
    return {"sessionUpdate": "tool_call_update", "toolCallId": name, **present(**members)}


def _chunk(speaker: str, block: wire.ContentBlock, message_id: str) -> Wire:
    return {"sessionUpdate": f"{speaker}_chunk", "content": block, "messageId": message_id}


def absolute(path: str, cwd: str) -> str:
    """A path from a folder on, unless it is absolute.

    >>> absolute("a.py", "/home/me")
    '/home/me/a.py'
    """
    return str(PurePath(cwd) / path)


def read_prompt(blocks: Iterable[wire.ContentBlock]) -> Message:
    """The message of a prompt. An embedded text is given to the model with its address; a link is only mentioned.

    Raises:
        LocalProtocolError: The prompt is empty.

    >>> read_prompt([wire.TextContent("Why?"), wire.ResourceLink("file:///a.py", "a.py")]).text
    'Why?[@a.py](file:///a.py)'
    """
    content = tuple(map(_read, blocks))
    if not any(not isinstance(block, Text) or block.text.strip() for block in content):
        raise LocalProtocolError("the prompt is empty: send a text")
    return Message("user", content)


def _read(block: wire.ContentBlock) -> Content:
    match block:
        case wire.TextContent(text=text):
            return Text(text)
        case wire.ImageContent(data=data, mime_type=media_type):
            return Image(media_type, data)
        case wire.AudioContent(data=data, mime_type=media_type):
            return Audio(media_type, data)
        case wire.ResourceLink(uri=uri, name=name, title=title):
            return Text(f"[@{title or name}]({uri})")
        case wire.EmbeddedResource(resource=resource):
            return _embedded(resource)


def _embedded(resource: wire.ResourceContents) -> Content:
    uri = resource.uri
    if resource.text is not None:
        return Text(f'\n<context ref="{uri}">\n{resource.text}\n</context>\n')
    media_type = resource.mime_type or ""
    if resource.blob and media_type.startswith("audio/"):
        return Audio(media_type, resource.blob)
    if resource.blob and media_type.startswith(("image/", "application/pdf")):
        return media(media_type, data=resource.blob, title=uri)
    return Text(f"[@{uri}, {media_type or 'of an unknown type'}, which cannot be shown]")


def blocks_of(content: Iterable[Content]) -> Iterator[wire.ContentBlock]:
    """The blocks that a client can show: texts, pictures and recordings.

    A file that is only named becomes a link or a text.

    >>> list(blocks_of([Text("rain")]))
    [TextContent(text='rain')]
    """
    for part in content:
        match part:
            case Text(text=text) if text:
                yield wire.TextContent(text)
            case Image(media_type=media_type, data=str() as data):
                yield wire.ImageContent(data, media_type)
            case Audio(media_type=media_type, data=str() as data):
                yield wire.AudioContent(data, media_type)
            case Image(url=str() as url):
                yield wire.ResourceLink(url, url)
            case Document(url=str() as url, title=title):
                yield wire.ResourceLink(url, title or url)
            case Document(media_type=media_type, title=title):
                yield wire.TextContent(f"[{title or 'a document'}, {media_type}]")
            case _:
                pass


def result_blocks(result: ToolResult) -> list[wire.ContentBlock]:
    """The content of a result of a call.

    >>> result_blocks(ToolResult("call_1", "rain"))
    [TextContent(text='rain')]
    """
    content = result.content
    return list(blocks_of((Text(content),) if isinstance(content, str) else content))


End: TypeAlias = changes.ViewEnd

FROM_USER = ("send", "resume")
"""The sources of the messages that the user has sent to a run."""


class AcpEncoder(RecordEncoder[Wire]):
    """Encodes the records of one run as updates of a session.

    Args:
        cwd: The folder of the session, for relative paths.
        shows_user: Whether to include the messages of the user: when a session is loaded, since otherwise the client
            has them.

    Attributes:
        end: The last change, when the run has ended or is paused.
        limit: The limit that the run has reached, if it has.

    Example:
        >>> from rxworker.events import TextDelta
        >>> encoder = AcpEncoder("/home/me")
        >>> record = Record(seq=1, run_id="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi"))
        >>> encoder.feed(record)
        [{'sessionUpdate': 'agent_message_chunk', 'content': TextContent(text='hi'), 'messageId': 'run-1.1.1.0'}]
    """

    def __init__(self, cwd: str, *, shows_user: bool = False) -> None:
        super().__init__()
        self.end: End | None = None
        self.limit = ""
        self._cwd = cwd
        self._shows_user = shows_user
        # The arguments of open calls, and the texts of runs inside the run, by their blocks.
        self._pieces: defaultdict[str, list[str]] = defaultdict(list)
        # The calls that are shown.
        self._known: set[str] = set()
        # The output of a call before its last progress; a client replaces the whole content.
        self._content: defaultdict[str, list[Wire]] = defaultdict(list)
        self._edited: set[str] = set()

    def feed(self, record: Record) -> list[Wire]:
        """Encode a record, which may give no updates."""
        event, updates = record.event, super().feed(record)
        if self._shows_user and not record.path and isinstance(event, RunStart | RunResume):
            added = event.added if isinstance(event, RunStart) else 0
            messages = event.conversation.messages
            updates[:0] = self._user(messages[len(messages) - added :], record)
        return updates

    def _encode(self, change: changes.Change) -> Iterable[Wire]:
        encode = HANDLERS.get(type(change))
        return () if encode is None else encode(self, change)

    def _user(self, messages: tuple[Message, ...], record: Record) -> list[Wire]:
        return [
            _chunk("user_message", block, f"{record.run_id}.{record.seq}.{place}")
            for place, message in enumerate(messages)
            if message.role == "user"
            for block in blocks_of(message.content)
        ]

    def _begin(self, change: changes.ViewBegin) -> Iterable[Wire]:
        self._known.update(waiting.id for waiting in change.pending)
        return ()

    def _end(self, change: End) -> Iterable[Wire]:
        self.end = change
        return ()

    # Blocks

    def _open(self, change: changes.BlockOpen) -> Iterator[Wire]:
        block = change.block
        if block.is_call:
            about = {"title": block.tool or UNNAMED, "kind": kind_of(block.tool), "status": "pending"}
            yield self._shown(block.id, {"toolCallId": block.id, **about})

    def _grow(self, change: changes.BlockGrow) -> Iterator[Wire]:
        block = change.block
        if block.is_call or block.scope.id:
            self._pieces[block.id].append(change.text)
        elif block.block_type is BlockType.THINKING:
            yield _chunk("agent_thought", wire.TextContent(change.text), block.id)
        else:
            yield _chunk("agent_message", wire.TextContent(change.text), block.id)

    def _close(self, change: changes.BlockClose) -> Iterator[Wire]:
        block = change.block
        text = "".join(self._pieces.pop(block.id, ()))
        if not block.is_call:
            call_id = block.scope.call_id
            if text and block.block_type is not BlockType.THINKING and call_id in self._known:
                self._content[call_id].append(content_of(wire.TextContent(text)))
                yield self._update(call_id)
        elif change.aborted is not None:
            yield call_update(block.id, status="failed")
        else:
            given = text if block.is_free_text else parse_arguments(text)
            yield self._described(block.id, ToolCall(block.id, block.tool, given))

    def _retract(self, change: changes.Retract) -> Iterator[Wire]:
        for name in change.calls:
            yield call_update(name, status="failed")
        if change.blocks and not change.scope.id:
            text = f"[The response above is void, and is repeated: {change.reason}]"
            yield _chunk("agent_message", wire.TextContent(text), f"{change.blocks[0]}.void")

    # Calls

    def _start(self, change: changes.CallStart) -> Iterator[Wire]:
        yield self._described(change.id, change.call, "in_progress")

    def _progress(self, change: changes.CallProgress) -> Iterator[Wire]:
        match read_report(change.progress):
            case Plan(steps=steps):
                entries = [{"content": s.content, "priority": s.priority, "status": s.status} for s in steps]
                yield {"sessionUpdate": "plan", "entries": entries}
            case _ if change.id not in self._known:
                pass  # the watcher has missed the call
            case FileEdit() as edit:
                if change.id not in self._edited:  # it knows better than the arguments
                    self._edited.add(change.id)
                    self._content[change.id] = []
                self._content[change.id].append(diff_of(edit, self._cwd))
                yield self._update(change.id)
            case None:
                yield self._update(change.id, content_of(wire.TextContent(_line(change.progress))))

    def _result(self, change: changes.CallResult) -> Iterator[Wire]:
        result, name = change.result, change.id
        if name not in self._known:
            if change.is_placeholder:
                return
            yield self._described(name, change.call or ToolCall(name, result.name, {}))
        yield self._answered(name, result)

    def _answered(self, name: str, result: ToolResult) -> Wire:
        status = "failed" if result.is_error else "completed"
        output = [*self._content.pop(name, ()), *map(content_of, result_blocks(result))]
        return call_update(name, status=status, content=output, rawOutput=result.text or None)

    def _described(self, name: str, call: ToolCall, status: wire.CallStatus | None = None) -> Wire:
        if edits := edits_of(call, self._cwd):
            self._content[name] = edits
        return self._shown(name, {**call_fields(name, call, self._cwd), **present(status=status)})

    def _shown(self, name: str, fields: Wire) -> Wire:
        """The next update of a call, with these fields."""
        kind = "tool_call_update" if name in self._known else "tool_call"
        self._known.add(name)
        return {"sessionUpdate": kind, **fields}

    def _update(self, name: str, *last: Wire) -> Wire:
        return call_update(name, content=[*self._content[name], *last])

    # Other events

    def _note(self, change: changes.Note) -> Iterator[Wire]:
        record = change.record
        name = f"{record.run_id}.{record.seq}"
        match record.event:
            case MessageAdd(messages=messages, source=source):
                if self._shows_user and source in FROM_USER and not record.path:
                    yield from self._user(messages, record)
            case BackgroundStop(result=result) if result.tool_use_id in self._known:
                yield self._answered(result.tool_use_id, result)  # in place of its placeholder
            case HookMessage(level="message" | "system", content=content) if content:
                yield _chunk("agent_message", wire.TextContent(content), name)
            case LimitReached(limit=limit) if not record.path:
                self.limit = limit
            case _:
                pass


HANDLERS: dict[type[object], Callable[[AcpEncoder, Any], Iterable[Wire]]] = {
    changes.ViewBegin: AcpEncoder._begin,
    changes.BlockOpen: AcpEncoder._open,
    changes.BlockGrow: AcpEncoder._grow,
    changes.BlockClose: AcpEncoder._close,
    changes.CallStart: AcpEncoder._start,
    changes.CallProgress: AcpEncoder._progress,
    changes.CallResult: AcpEncoder._result,
    changes.Retract: AcpEncoder._retract,
    changes.Note: AcpEncoder._note,
    **dict.fromkeys(get_args(End), AcpEncoder._end),
}
"""The updates of each change; other changes have none."""


def _line(progress: Json) -> str:
    """A progress value in one line; that of an MCP server by its message."""
    if isinstance(progress, dict) and isinstance(progress.get("message"), str):
        progress = progress["message"]
    return progress if isinstance(progress, str) else encode_lenient(progress).decode()
