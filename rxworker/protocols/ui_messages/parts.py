"""Blocks, calls and notes as parts of a UI Message Stream.

The protocol has no place for the runs inside a run, so these are data parts. A delta is transient
(``data-inside-delta``); a whole block is kept once (``data-inside``). So a message grows with the text, and a page that
is opened later shows the runs inside, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from rxworker.events import BlockType
from rxworker.events.arguments import parse_arguments
from rxworker.messages import Audio, Document, Image, Json, JsonObject, Text, ToolCall, ToolResult
from rxworker.protocols.common import Wire, arguments_of, present, tagged
from rxworker.views import changes


class _Call(Struct):
    """A call.

    The arguments when they are complete, whether it has been made available to the client, and the pieces of its
    arguments.
    """

    input: Json = None
    is_available: bool = False
    pieces: list[str] = field(default_factory=list[str])


class CallParts:
    """The parts of the calls of a run.

    A client runs a call of its tools when its input is available, with that input. So the input of a call that is held
    is only streamed, until the run offers the call to the client.

    Attributes:
        has_results: Whether the current step has results of calls other than those of the provider.

    >>> [part["input"] for part in CallParts().available("call_1", "look", {"where": "here"})]
    [{'where': 'here'}]
    """

    def __init__(self) -> None:
        self.has_results = False
        self._calls: dict[str, _Call] = {}

    def open(self, change: changes.BlockOpen) -> Iterator[Wire]:
        """The model begins to write a call."""
        block = change.block
        self._calls[block.id] = _Call()
        is_provided = block.block_type is BlockType.SERVER_TOOL_USE or None
        yield _input_start(block.id, block.tool, is_text=block.is_free_text, is_provided=is_provided)

    def grow(self, change: changes.BlockGrow) -> Iterator[Wire]:
        """A call has more arguments."""
        self._calls[change.block.id].pieces.append(change.text)
        yield _input_delta(change.block.id, change.text)

    def close(self, change: changes.BlockClose) -> Iterator[Wire]:
        """The arguments are complete, or the call was aborted."""
        block = change.block
        call = self._calls[block.id]
        text = "".join(call.pieces)
        call.pieces = []
        if change.aborted is not None:
            del self._calls[block.id]
            about = {"toolName": block.tool, "input": text, "errorText": change.aborted or "cut"}
            yield tagged("tool-input-error", toolCallId=block.id, **about)
            return
        value: Json = text if block.is_free_text else parse_arguments(text)
        if block.is_held:
            call.input = value
            return
        is_provided = block.block_type is BlockType.SERVER_TOOL_USE
        yield from self.available(block.id, block.tool, value, is_provided=is_provided)

    def available(self, name: str, tool: str, value: Json, *, is_provided: bool = False) -> Iterator[Wire]:
        """The complete arguments of a call.

        Args:
            name: The call's id, as it is shown.
            tool: The tool's name.
            value: The arguments.
            is_provided: Whether the provider runs the tool.
        """
        self._calls[name] = _Call(value, is_available=True)
        about: Wire = {"toolName": tool, "input": value, "providerExecuted": is_provided or None}
        yield tagged("tool-input-available", toolCallId=name, **about)

    def update(self, name: str, call: ToolCall, *, is_held: bool) -> Iterator[Wire]:
        """The arguments of a call that starts or waits, if they are others than before.

        Those of a held one are only shown.

        Args:
            name: The call's id, as it is shown.
            call: The call, with the arguments that a hook or an approval may have changed.
            is_held: Whether the client is not to run it.
        """
        known = self._calls.get(name)
        if is_held:
            yield from self.show(name, call)
        elif known is None or not known.is_available or known.input != call.input:
            yield from self.available(name, call.name, call.input)

    def show(self, name: str, call: ToolCall) -> Iterator[Wire]:
        """Show the arguments of a call without making them available: the client shows it and does not run it."""
        known = self._calls.get(name)
        if known is None or known.input != call.input:
            self._calls[name] = _Call(call.input)
            yield _input_start(name, call.name, is_text=isinstance(call.input, str))
            yield _input_delta(name, arguments_of(call.input))

    def result(self, change: changes.CallResult) -> Iterator[Wire]:
        """A call has its result."""
        result = change.result
        if change.id not in self._calls:
            if change.is_placeholder:
                return  # its arguments were never complete, which has been reported
            # Never available: a client would run it again.
            yield from self.show(change.id, change.call or ToolCall(change.id, result.name, {}))
        self._calls.pop(change.id, None)
        is_provided = change.is_provided or None
        self.has_results = self.has_results or not is_provided
        if change.is_denied:
            yield {"type": "tool-output-denied", "toolCallId": change.id}
            return
        kind, about = "tool-output-available", {"output": output_of(result)}
        if result.is_error:
            kind, about = "tool-output-error", {"errorText": result.text or "it failed"}
        yield tagged(kind, toolCallId=change.id, **about, providerExecuted=is_provided)


def _input_start(name: str, tool: str, *, is_text: bool, is_provided: bool | None = None) -> Wire:
    about: Wire = {"toolName": tool, "inputEncoding": "text" if is_text else None, "providerExecuted": is_provided}
    return tagged("tool-input-start", toolCallId=name, **about)


def _input_delta(name: str, text: str) -> Wire:
    return {"type": "tool-input-delta", "toolCallId": name, "inputTextDelta": text}


def data_part(kind: str, data: object, id: str | None = None, *, transient: bool | None = None) -> Wire:  # noqa: A002
    """A part that the protocol does not have.

    Args:
        kind: Its type, which begins with ``data-``.
        data: The data.
        id: A later one of the same type and id replaces it.
        transient: Whether the client does not keep it in the message.

    >>> data_part("data-run", None, transient=True)
    {'type': 'data-run', 'data': None, 'transient': True}
    """
    return {"type": kind, "data": data, **present(id=id, transient=transient)}


INSIDE = "inside:"


def inside(name: str) -> str:
    """The id under which a call of a run inside is shown beside those of the run, while it waits for a decision.

    >>> inside("call_1/call_7")
    'inside:call_1/call_7'
    """
    return INSIDE + name


def output_of(result: ToolResult) -> Json:
    """The output for the model: text, or parts if it contains more than text.

    >>> output_of(ToolResult("call_1", "sunny"))
    'sunny'
    """
    if isinstance(result.content, str) or all(isinstance(p, Text) for p in result.content):
        return result.text
    return [
        {"type": "text", "text": part.text} if isinstance(part, Text) else file_part(part) for part in result.content
    ]


def source_part(citation: JsonObject, name: str) -> JsonObject | None:
    """The source of a citation that has an address.

    >>> source_part({"url": "https://example.com"}, "text-1.source.1")
    {'type': 'source-url', 'sourceId': 'text-1.source.1', 'url': 'https://example.com'}
    """
    url, title = citation.get("url"), citation.get("title")
    if not isinstance(url, str):
        return None
    part: JsonObject = {"type": "source-url", "sourceId": name, "url": url}
    return {**part, "title": title} if isinstance(title, str) else part


def file_part(block: Image | Document | Audio) -> JsonObject:
    """A file as a part, without a ``url`` if only a provider has it.

    >>> file_part(Image("image/png", data="AAAA"))
    {'type': 'file', 'mediaType': 'image/png', 'url': 'data:image/png;base64,AAAA'}
    """
    part: JsonObject = {"type": "file", "mediaType": block.media_type}
    if block.data is not None:
        part["url"] = f"data:{block.media_type};base64,{block.data}"
    elif not isinstance(block, Audio) and block.url is not None:
        part["url"] = block.url
    return part


class NestedRuns:
    """Encodes the changes of nested runs as data parts.

    >>> scope = changes.Scope("call_1", ("call_1",), "search", "call_1")
    >>> [part["data"] for part in NestedRuns().feed(changes.ScopeOpen(scope))]
    [{'name': 'search', 'toolCallId': 'call_1', 'status': 'running'}]
    """

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}

    def feed(self, change: changes.Change) -> Iterator[Wire]:
        """Encode a change, which may give no parts."""
        match change:
            case changes.ScopeOpen(scope=scope):
                yield _status(scope, "running")
            case changes.ScopeClose(scope=scope, error=None):
                yield _status(scope, "finished")
            case changes.ScopeClose(scope=scope, error=error):
                yield _status(scope, "failed", error)
            case changes.BlockOpen(block=block):
                self._texts[block.id] = []
            case changes.BlockGrow(block=block, text=text):
                self._texts.setdefault(block.id, []).append(text)
                yield data_part("data-inside-delta", {**_about(block), "delta": text}, transient=True)
            case changes.BlockClose(block=block, aborted=aborted):
                data = {**_about(block), "text": "".join(self._texts.pop(block.id, []))}
                if aborted is not None:
                    data["aborted"] = aborted
                yield data_part("data-inside", data, block.id)
            case changes.BlockWhole(block=block, kind=kind):
                yield data_part("data-inside", {**_about(block), "kind": kind}, block.id)
            case changes.CallStart(scope=scope, id=name, call=call):
                data = {"scope": scope.id, "toolCallId": name, "input": call.input}
                yield data_part("data-inside-call", data, transient=True)
            case changes.CallProgress(id=name, progress=progress):
                yield data_part("data-progress", {"toolCallId": name, "progress": progress}, name)
            case changes.CallResult(scope=scope, id=name, result=result):
                data = {"scope": scope.id, "toolCallId": name, "output": result.text, "isError": result.is_error}
                yield data_part("data-inside-result", data, name)
            case changes.BlockExtra() | _:
                return


def _status(scope: changes.Scope, status: str, error: str | None = None) -> Wire:
    data: JsonObject = {"name": scope.name, "toolCallId": scope.call_id, "status": status}
    if scope.parent:
        data["parent"] = scope.parent
    if error is not None:
        data["error"] = error
    return data_part("data-run", data, scope.id)


def _about(block: changes.ShownBlock) -> JsonObject:
    about: JsonObject = {"scope": block.scope.id, "id": block.id, "kind": block.block_type.value}
    if block.tool:
        about["tool"] = block.tool
    return about
