"""The JSON of the generateContent stream, and what its parts, its calls, its signatures and its usage mean.

Every frame is a whole response with the parts that are new. A part is kept as it came: its kind is the name of one of
its fields, and most kinds must be sent back unchanged. Decoded JSON has no cycles, so the garbage collector need not
watch these Structs. Cached input is part of the prompt; thoughts, and what tools read, are counted beside the rest.

A function call is complete in one part, or its arguments are streamed by path over several. A streamed call begins with
a name and ``willContinue``, continues with ``partialArgs``, and ends with a piece that does not continue. That end is
sometimes left out: another call, another kind of part or the end of the candidate then end it.

Gemini streams a text as many parts, and any of them may carry a ``thoughtSignature``. Parts without one may be joined
on the way back, but never with one that has one. Users are shown one block, so the block's echo records from where to
where each signed part went, and the encoder cuts the text there again.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from rxworker.events import BlockType, InputJsonDelta, InputValueDelta, ResponseEvent
from rxworker.events.arguments import member_path
from rxworker.messages import Json, JsonObject, StopKind, StopReason
from rxworker.messages.lenient_json import objects_in, word
from rxworker.messages.usage import Usage
from rxworker.providers.usage import numbers_in, total

CALL = "functionCall"
LENGTH = "length"
SEALS = "seals"  # the name in stored conversations
SIGNATURE = "thoughtSignature"
SNAKE = "thought_signature"  # the same at some gateways
CONTINUES = "willContinue"


class PendingCall(Struct, eq=False):
    """A call whose block is open.

    Attributes:
        index: The index of its block.
        wire_id: The id that Gemini sent, empty if none.
        echo: The members of its first part other than the call.
        later: Those of the later parts.
        by_path: Whether its arguments are streamed by path.
        growing: The paths whose text is not whole.
        has_arguments: Whether any came.
    """

    index: int
    wire_id: str
    echo: JsonObject
    later: JsonObject = {}
    by_path: bool = False
    growing: set[str] = set()
    has_arguments: bool = False

    def take(self, call: JsonObject) -> Iterator[ResponseEvent]:
        """The arguments of a piece."""
        args, partial = call.get("args"), call.get("partialArgs")
        self.by_path |= bool(call.get(CONTINUES) or partial)
        self.has_arguments |= bool(args or partial)
        if args:
            if self.by_path and isinstance(args, dict):
                for name, value in args.items():
                    yield InputValueDelta(self.index, member_path(name), value)
            else:
                yield InputJsonDelta(self.index, msgspec.json.encode(args).decode())
        for piece in objects_in(partial):
            yield from self._take_value(piece)

    def late_echo(self) -> JsonObject | None:
        """The fields of the echo that arrived after the start of the block."""
        return {k: v for k, v in self.later.items() if self.echo.get(k) != v} or None

    def _take_value(self, piece: JsonObject) -> Iterator[ResponseEvent]:
        path = piece.get("jsonPath")
        if not isinstance(path, str):
            return
        values = [None if name == "nullValue" else v for name, v in piece.items() if name.endswith("Value")]
        for value in values[:1]:
            append = path in self.growing and isinstance(value, str)
            yield InputValueDelta(self.index, path, value, append)
        if piece.get(CONTINUES):
            self.growing.add(path)
        else:
            self.growing.discard(path)


def beside(part: JsonObject) -> JsonObject:
    """The fields of a part besides the call itself: its signature, and fields that Google may add.

    A text has a block of its own.

    >>> beside({"functionCall": {"name": "look"}, "thoughtSignature": "AAAA"})
    {'thoughtSignature': 'AAAA'}
    """
    taken = (CALL, "text", "thought") if part.get("text") else (CALL,)
    return {key: value for key, value in part.items() if key not in taken}


# What may stand in a part beside the field that gives it its kind.
BESIDE = (SIGNATURE, "thought", "partMetadata", "videoMetadata", "mediaResolution", "text")


# What a part becomes, by its kind. Any other is opaque, and is sent back as it came.
KINDS = {
    "executableCode": BlockType.SERVER_TOOL_USE,
    "codeExecutionResult": BlockType.SERVER_TOOL_RESULT,
    "toolCall": BlockType.SERVER_TOOL_USE,
    "toolResponse": BlockType.SERVER_TOOL_RESULT,
    "inlineData": BlockType.IMAGE,
    "fileData": BlockType.IMAGE,
}


def kind_of(part: JsonObject) -> str:
    """The field that gives a part its kind; empty where there is only text, or nothing.

    >>> kind_of({"thoughtSignature": "AAAA", "toolCall": {}})
    'toolCall'
    >>> kind_of({"somethingNew": 1, "functionCall": {}})
    'functionCall'
    """
    unknown = ""
    for key, value in part.items():
        if key in BESIDE or value is None:
            continue
        if (key == CALL or key in KINDS) and isinstance(value, dict):
            return key  # whatever else the part holds, and in whatever order
        unknown = unknown or key
    return unknown


class Signatures(Struct, eq=False):
    """The signatures of a block while its parts arrive.

    Attributes:
        length: That of the text so far.
        signed: Where each signed part began and ended, and its signature.

    >>> signatures = Signatures()
    >>> signatures.add("Hel", None)
    >>> signatures.add("lo", "AAAA")
    >>> signatures.echo()
    {'length': 5, 'seals': [[3, 5, 'AAAA']]}
    """

    length: int = 0
    signed: list[Json] = []

    def add(self, text: str, signature: str | None) -> None:
        """Another part, which may be signed and may be empty."""
        end = self.length + len(text)
        if signature is not None:
            self.signed.append([self.length, end, signature])
        self.length = end

    def echo(self) -> JsonObject | None:
        """The echo for the next request; ``None`` if there is no signature."""
        return {LENGTH: self.length, SEALS: self.signed} if self.signed else None


def split(text: str, echo: JsonObject | None) -> Iterator[JsonObject]:
    """The parts of a text, each signed one by itself. A text that has been changed since has lost its signatures.

    >>> list(split("Hello", {"length": 5, "seals": [[3, 5, "AAAA"]]}))
    [{'text': 'Hel'}, {'text': 'lo', 'thoughtSignature': 'AAAA'}]
    """
    signatures = echo.get(SEALS) if echo and echo.get(LENGTH) == len(text) else None
    at = 0
    for signed in signatures if isinstance(signatures, list) else ():
        match signed:
            case [int(start), int(end), str(signature)] if at <= start <= end:
                if start > at:
                    yield {"text": text[at:start]}
                yield {"text": text[start:end], SIGNATURE: signature}
                at = end
            case _:
                pass
    if at < len(text):
        yield {"text": text[at:]}


# What stands for no reason at all: the first value of Google's enumerations.
UNSPECIFIED = "FINISH_REASON_UNSPECIFIED"


def read_block(feedback: Json) -> StopReason | None:
    """Why a prompt was refused, so that there is no candidate; ``None`` where it was not.

    Such a response has no finish reason, so there is no raw word; the reason of the block is the detail.

    >>> read_block({"blockReason": "SAFETY"})
    StopReason(kind=<StopKind.CONTENT_FILTER: 'ContentFilter'>, raw=None, detail='SAFETY')
    """
    reason = text_of(feedback, "blockReason")
    if not reason or reason in ("BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"):
        return None
    message = text_of(feedback, "blockReasonMessage")
    return StopReason(StopKind.CONTENT_FILTER, None, f"{reason}: {message}" if message else reason)


def text_of(holder: Json, field: str) -> str:
    """The text in a field; empty if there is none."""
    return word(holder.get(field)) if isinstance(holder, dict) else ""


NUMBERS = ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount")
APART = ("toolUsePromptTokenCount", "thoughtsTokenCount")


def read_usage(raw: JsonObject) -> Usage:
    """The normal form.

    >>> read_usage({"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}).total_tokens
    10
    """
    prompt, candidates, cached, beside, reasoning = numbers_in(raw, *NUMBERS, *APART)
    return Usage(total(prompt, beside), total(candidates, reasoning), cached, None, reasoning, raw)


def numbers(raw: JsonObject) -> list[int | None]:
    """The numbers as they were sent: the output is without thoughts."""
    return numbers_in(raw, *NUMBERS)


class WireContent(Struct, frozen=True, gc=False):
    """The new parts of a candidate."""

    parts: list[Json] | None = None


class WireCandidate(Struct, frozen=True, gc=False, rename="camel"):
    """One of the answers, piece by piece.

    Attributes:
        content: The new parts; often absent in the last piece.
        index: Which candidate; absent for the only one.
        finish_reason: Why it ended. Older servers send ``STOP`` with every piece, so the last one holds.
        finish_message: Details about the finish reason.
        safety_ratings: The ratings of a safety filter.
        citation_metadata: The sources that its text repeats.
        grounding_metadata: The results of a Google search.
        url_context_metadata: Which pages were read.
    """

    content: WireContent | None = None
    index: int | None = None
    finish_reason: Json = None
    finish_message: Json = None
    safety_ratings: Json = None
    citation_metadata: Json = None
    grounding_metadata: Json = None
    url_context_metadata: Json = None


class WireChunk(Struct, frozen=True, gc=False, rename="camel"):
    """One frame of the stream. No content is worth losing for a name that is not a text, so few types are demanded.

    Attributes:
        candidates: The answers.
        prompt_feedback: Whether the prompt itself was refused.
        usage_metadata: The tokens so far, not decoded: every frame has them, and few are emitted.
        model_version: The model that answers.
        response_id: The name of the response.
        error: The error, in place of all other members.
    """

    candidates: list[WireCandidate] | None = None
    prompt_feedback: Json = None
    usage_metadata: Raw = Raw(b"")
    model_version: Json = None
    response_id: Json = None
    error: Json = None


decode_chunk = msgspec.json.Decoder(WireChunk).decode
