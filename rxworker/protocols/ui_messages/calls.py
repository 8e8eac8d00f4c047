"""How a UI Message Stream is told of tool calls: their arguments as they come, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator

from rxworker.events import BlockType
from rxworker.events.arguments import parse_arguments
from rxworker.messages import Json
from rxworker.protocols.ui_messages import wire
from rxworker.protocols.ui_messages.result import output_of
from rxworker.protocols.ui_messages.wire import Data, UiMessagePart
from rxworker.views import BlockClose, BlockGrow, BlockOpen, CallProgress, CallResult, CallStart


class _Call:
    """A call that is shown: the pieces of its arguments, and the arguments when they are whole."""

    __slots__ = ("input", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.input: Json = None


class CallParts:
    """The parts of the calls of a run.

    >>> [part.input for part in CallParts().available("call_1", "look", {"where": "here"})]
    [{'where': 'here'}]
    """

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}

    def open(self, change: BlockOpen) -> Iterator[UiMessagePart]:
        """The model begins to write a call."""
        block = change.block
        self._calls[block.id] = _Call()
        encoding = "text" if block.is_free_text else None
        is_provided = block.block_type is BlockType.SERVER_TOOL_USE or None
        yield wire.ToolInputStart(block.id, block.tool, encoding, is_provided)

    def grow(self, change: BlockGrow) -> Iterator[UiMessagePart]:
        """It has written more of the arguments."""
        self._calls[change.block.id].pieces.append(change.text)
        yield wire.ToolInputDelta(change.block.id, change.text)

    def close(self, change: BlockClose) -> Iterator[UiMessagePart]:
        """The arguments are whole, or will never be."""
        block = change.block
        call = self._calls[block.id]
        text = "".join(call.pieces)
        call.pieces = []
        if change.aborted is not None:
            del self._calls[block.id]
            yield wire.ToolInputError(block.id, block.tool, text, change.aborted or "cut")
            return
        value: Json = text if block.is_free_text else parse_arguments(text)
        is_provided = block.block_type is BlockType.SERVER_TOOL_USE
        yield from self.available(block.id, block.tool, value, is_provided=is_provided)

    def available(
        self, name: str, tool: str, value: Json, *, is_provided: bool = False
    ) -> Iterator[UiMessagePart]:
        """These are the arguments of a call.

        Args:
            name: The call's id, as it is shown.
            tool: The tool's name.
            value: The arguments.
            is_provided: Whether the provider runs the tool.
        """
        self._calls.setdefault(name, _Call()).input = value
        yield wire.ToolInputAvailable(name, tool, value, is_provided or None)

    def start(self, change: CallStart) -> Iterator[UiMessagePart]:
        """A call is run."""
        call = self._calls.get(change.id)
        if call is None or call.input != change.call.input:
            # A hook, or whoever approved the call, has changed its arguments.
            yield from self.available(change.id, change.call.name, change.call.input)

    def progress(self, change: CallProgress) -> Iterator[UiMessagePart]:
        """A tool tells how far it is."""
        data = {"toolCallId": change.id, "progress": change.progress}
        yield Data("data-progress", data, change.id)

    def result(self, change: CallResult) -> Iterator[UiMessagePart]:
        """A call has its result."""
        result = change.result
        if change.id not in self._calls:
            if change.is_placeholder:
                return  # its arguments were never whole, and it was said so
            known = change.call
            value = {} if known is None else known.input
            name = result.name if known is None else known.name
            yield from self.available(change.id, name, value)
        self._calls.pop(change.id, None)
        is_provided = change.is_provided or None
        if change.is_denied:
            yield wire.ToolOutputDenied(change.id)
        elif result.is_error:
            yield wire.ToolOutputError(change.id, result.text or "it failed", is_provided)
        else:
            yield wire.ToolOutputAvailable(change.id, output_of(result), is_provided)


__all__ = ["CallParts"]
