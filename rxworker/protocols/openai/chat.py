"""From the records of a run to Chat Completions: chunks, or one completion.

A worker may take several turns for an answer. Their texts are one message, with an empty line between two turns; the
calls of its own tools are not part of it, since a client would try to make them. When the run waits for tools of the
client, the message ends with their calls. They come whole and at the end: the protocol cannot retract a call that a
hook has answered or a failed attempt has left, and a client would make it. Source:
https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Container, Iterator, Sequence
from contextlib import aclosing

from rxworker.events import BlockType
from rxworker.events.pause import CLIENT_TOOL, UNTIL
from rxworker.messages import Json, JsonObject, StopKind
from rxworker.messages.settings import check_plain
from rxworker.messages.usage import Usage
from rxworker.protocols.common import DONE, Batches, RecordEncoder, data_line, function_call, pump
from rxworker.views import changes

_FINISH = {StopKind.MAX_TOKENS: "length", StopKind.REFUSAL: "content_filter", StopKind.CONTENT_FILTER: "content_filter"}
_TYPES = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
TEXTS = (BlockType.TEXT, BlockType.REFUSAL)


class CompletionError(Exception):
    """The run ended without an answer.

    Attributes:
        code: Why: ``cancel``, ``error``, ``abort``, ``limit`` or ``cut``.
        message: The reason. Shown to users; not interpreted.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def openai_error(status: int, code: str, message: str) -> JsonObject:
    """The body of an error.

    >>> openai_error(404, "model_not_found", "there is no such model")["error"]["type"]
    'invalid_request_error'
    """
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def usage_of(usage: Usage) -> JsonObject:
    """The usage, as Chat Completions counts."""
    return {
        "prompt_tokens": usage.input_tokens or 0,
        "completion_tokens": usage.output_tokens or 0,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
    }


class ChatEncoder(RecordEncoder[JsonObject]):
    """Encodes the records of one run as deltas of one message.

    Args:
        tools: The names of the client's tools.

    Attributes:
        finish_reason: Why the message has ended; ``None`` while it has not.
        error: Why the run has ended without an answer; ``None`` if it has not.

    >>> from rxworker.events import Record, TextDelta
    >>> encoder = ChatEncoder()
    >>> encoder.feed(Record(seq=1, run_id="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "hi")))
    [{'content': 'hi'}]
    """

    def __init__(self, tools: Sequence[str] = ()) -> None:
        super().__init__()
        self.finish_reason: str | None = None
        self.error: CompletionError | None = None
        self._tools = frozenset(tools)
        self._response = ""
        self._blocks: dict[str, tuple[changes.ShownBlock, list[str]]] = {}
        self._calls: list[JsonObject] = []
        self._notice = ""

    @property
    def message(self) -> JsonObject:
        """The message so far, without what was retracted."""
        texts = filter(None, (self._joined(TEXTS), self._notice))
        text, thoughts = "\n\n".join(texts), self._joined((BlockType.THINKING,))
        message: JsonObject = {
            "role": "assistant",
            "content": None if self._calls and not text else text,
            "refusal": None,
        }
        if thoughts:
            message["reasoning_content"] = thoughts
        if self._calls:
            message["tool_calls"] = list(self._calls)
        return message

    def _joined(self, kinds: Container[BlockType]) -> str:
        """The texts of the blocks of these types, with an empty line between two responses."""
        pieces: dict[str, list[str]] = {}
        for block, texts in self._blocks.values():
            if block.block_type in kinds:
                pieces.setdefault(block.response, []).extend(texts)
        return "\n\n".join(map("".join, pieces.values()))

    def _encode(self, change: changes.Change) -> Iterator[JsonObject]:
        match change:
            case changes.BlockGrow(block=block, text=text) if not block.scope.id:
                yield from self._grow(block, text)
            case changes.Retract(blocks=blocks):
                for name in blocks:
                    self._blocks.pop(name, None)
            case changes.ViewPause():
                yield from self._pause(change)
            case changes.ViewFinish(stop_reason=stop):
                self.finish_reason = "stop" if stop is None else _FINISH.get(stop.kind, "stop")
            case changes.ViewAbort(cause=cause, reason=reason):
                self.error = CompletionError(cause, reason or cause)
            case changes.ViewCut(reason=reason):
                self.error = CompletionError("cut", reason)
            case _:
                pass

    def _grow(self, block: changes.ShownBlock, text: str) -> Iterator[JsonObject]:
        if block.block_type is not BlockType.THINKING and block.block_type not in TEXTS:
            return
        self._blocks.setdefault(block.id, (block, []))[1].append(text)
        if block.block_type is BlockType.THINKING:
            yield {"reasoning_content": text}
            return
        starts = self._response not in ("", block.response)
        self._response = block.response
        yield {"content": f"\n\n{text}" if starts else text}

    def _pause(self, pause: changes.ViewPause) -> Iterator[JsonObject]:
        of_client = calls_of_client(pause, self._tools)
        if not of_client:
            self._notice = f"[{waits_for(pause)}]"
            self.finish_reason = "stop"
            yield {"content": f"\n\n{self._notice}" if self._response else self._notice}
            return
        self._calls = [function_call(waiting.call.id, waiting.call) for waiting in of_client]
        self.finish_reason = "tool_calls"
        yield {"tool_calls": [{"index": index, **call} for index, call in enumerate(self._calls)]}


def calls_of_client(pause: changes.ViewPause, tools: Container[str]) -> list[changes.WaitingCall]:
    """The calls of a client's tools that a paused run waits for; none if it waits for a person."""
    if pause.hook != CLIENT_TOOL:
        return []
    return [waiting for waiting in pause.pending if waiting.call.name in tools]


def waits_for(pause: changes.ViewPause) -> str:
    """The decision that a paused run waits for, as a text that users read.

    >>> waits_for(changes.ViewPause("run-1", "hook", "paused by the user"))
    'the run waits for a decision: paused by the user'
    """
    if pause.hook == UNTIL:
        return f"the run waits: {pause.reason}"
    names = ", ".join(waiting.call.name for waiting in pause.pending if waiting.needs_decision)
    return f"the run waits for a decision{names and ' about '}{names}: {pause.reason}"


async def chat_stream(
    batches: Batches, head: JsonObject, tools: Sequence[str] = (), usage: Callable[[], Usage] | None = None
) -> AsyncGenerator[bytes, None]:
    """The server-sent events of a streamed completion.

    Args:
        batches: The records of the run.
        head: The ``id``, ``created`` and ``model`` of each chunk.
        tools: The names of the client's tools.
        usage: Returns the usage of the run when it has ended, for a last chunk; ``None``: there is none.
    """
    check_plain("chat_stream(usage)", usage)
    encoder = ChatEncoder(tools)

    def chunk(delta: JsonObject, finish_reason: str | None = None) -> bytes:
        more: JsonObject = {} if usage is None else {"usage": None}
        choices = _choices({"delta": delta}, finish_reason)
        return data_line({**head, "object": "chat.completion.chunk", "choices": choices, **more})

    yield chunk({"role": "assistant", "content": ""})
    async with aclosing(pump(batches, encoder.feed, encoder.close)) as pieces:
        async for deltas in pieces:
            yield b"".join(map(chunk, deltas))
    if encoder.error is not None:
        yield data_line(openai_error(500, encoder.error.code, encoder.error.message))
        return
    yield chunk({}, encoder.finish_reason)
    if usage is not None:
        last: JsonObject = {"choices": [], "usage": usage_of(usage())}
        yield data_line({**head, "object": "chat.completion.chunk", **last})
    yield DONE


async def chat_completion(batches: Batches, head: JsonObject, tools: Sequence[str] = ()) -> JsonObject:
    """A completion as one object, without its usage.

    Raises:
        CompletionError: The run ended without an answer.
    """
    encoder = ChatEncoder(tools)
    async with aclosing(pump(batches, encoder.feed, encoder.close)) as pieces:
        async for _ in pieces:
            pass
    if encoder.error is not None:
        raise encoder.error
    choices = _choices({"message": encoder.message}, encoder.finish_reason)
    return {**head, "object": "chat.completion", "choices": choices}


def _choices(content: JsonObject, finish_reason: str | None) -> Json:
    """The only answer."""
    return [{"index": 0, **content, "logprobs": None, "finish_reason": finish_reason}]
