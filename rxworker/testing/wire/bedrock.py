"""A reply as Bedrock's Converse streams it: messages of Amazon's event stream, the usage after the stop reason."""

from __future__ import annotations

from struct import pack
from zlib import crc32

import msgspec

from rxworker.events import Error
from rxworker.messages import Json, JsonObject, Text, Thinking
from rxworker.messages.usage import Usage
from rxworker.testing.reply import Reply, ReplyBlock, input_text
from rxworker.testing.wire.format import Wire, code_of, sent, sent_errors, stop_word


def bedrock_frames(reply: Reply, *, number: int = 1, model: str = "scripted") -> list[bytes]:
    r"""The messages of a reply.

    Args:
        reply: The reply.
        number: The number of the request, from 1; the ids are made from it.
        model: The model's name, which this protocol does not send.

    >>> from rxworker.testing.reply import say
    >>> len(bedrock_frames(say("Hi")))
    5
    """
    del model
    head = [event_message("messageStart", {"role": "assistant"})]
    blocks = [_block(reply, index, block) for index, block in enumerate(reply.blocks(f"tooluse_{number}"))]
    stop = event_message("messageStop", {"stopReason": stop_word(reply, "bedrock")})
    errors = [_exception(error) for error in sent_errors(reply)]
    return sent(reply, head, blocks, [stop, _metadata(reply.usage or Usage())], errors)


def error_body(error: Error) -> JsonObject:
    """The body of an answer that is an error. The service sends its code in a header; a client reads it here, too."""
    return {"message": error.message, "code": code_of(error, "bedrock")}


def event_message(kind: str, payload: JsonObject, *, is_exception: bool = False) -> bytes:
    """One message with JSON."""
    return raw_message(kind, msgspec.json.encode(payload), is_exception=is_exception)


def raw_message(kind: str, data: bytes, *, is_exception: bool = False) -> bytes:
    """One message: its headers with their lengths, its payload, and two checksums."""
    headers = {
        ":exception-type" if is_exception else ":event-type": kind,
        ":content-type": "application/json",
        ":message-type": "exception" if is_exception else "event",
    }
    head = b"".join(
        pack(">B", len(name)) + name.encode() + pack(">BH", 7, len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = pack(">II", 16 + len(head) + len(data), len(head))
    message = prelude + pack(">I", crc32(prelude)) + head + data
    return message + pack(">I", crc32(message))


def _block(reply: Reply, index: int, block: ReplyBlock) -> tuple[list[bytes], list[bytes]]:
    """The messages of one block. Text and thinking have no start."""
    place: JsonObject = {"contentBlockIndex": index}

    def delta(content: Json) -> bytes:
        return event_message("contentBlockDelta", {**place, "delta": content})

    frames: list[bytes] = []
    if isinstance(block, Thinking):
        pieces = reply.pieces(block.text)
        frames += [delta({"reasoningContent": {"text": piece}}) for piece in pieces]
        if block.signature:
            frames.append(delta({"reasoningContent": {"signature": block.signature}}))
    elif isinstance(block, Text):
        frames += [delta({"text": piece}) for piece in reply.pieces(block.text)]
    else:
        call: JsonObject = {"toolUse": {"toolUseId": block.id, "name": block.name}}
        frames.append(event_message("contentBlockStart", {**place, "start": call}))
        pieces = reply.pieces(input_text(block)) if block.input else ["{}"]
        frames += [delta({"toolUse": {"input": piece}}) for piece in pieces]
    return frames, [event_message("contentBlockStop", place)]


def _metadata(usage: Usage) -> bytes:
    read, created = usage.cache_read_tokens or 0, usage.cache_creation_tokens or 0
    fresh, output = max(0, (usage.input_tokens or 0) - read - created), usage.output_tokens or 0
    counts: JsonObject = {"inputTokens": fresh, "outputTokens": output, "totalTokens": fresh + read + created + output}
    if read or created:
        counts |= {"cacheReadInputTokens": read, "cacheWriteInputTokens": created}
    return event_message("metadata", {"usage": counts, "metrics": {"latencyMs": 1}})


def _exception(error: Error) -> bytes:
    code = code_of(error, "bedrock") or "internalServerException"
    return event_message(code, {"message": error.message}, is_exception=True)


WIRE = Wire("bedrock", bedrock_frames, error_body, content_type="application/vnd.amazon.eventstream")
