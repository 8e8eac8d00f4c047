"""Frames of the generateContent stream to events.

The wire has neither a first nor a last event: the first frame starts the response, and the end of the bytes ends it.
The response is complete if each candidate has a finish reason, or if there is a reason why the prompt was refused.
Otherwise it was cut. The finish reason is not final before the bytes end, since some servers send ``STOP`` with every
piece.

The wire has parts and no blocks. A `Choice` makes blocks of the parts of one candidate, with indexes of our own:
adjacent text parts make one block, adjacent thoughts likewise; any other part is a block by itself. A part that holds
only a signature does not become text: while text is open the signature is kept with that block, otherwise it is an
opaque block. A call ends as soon as it is complete, unless the same piece reports that the candidate failed: then the
call is aborted.

An error arrives as a frame, or as bare JSON over several lines without ``data:`` in front. Bare JSON may also be the
whole response as one JSON array, if the request did not require a stream of events; it is read at the end.

Google's servers repeat the usage in each frame. While a text grows, every `PIECES_PER_USAGE`-th piece is followed by a
`Usage`; any other frame, and the end of the response, emits the newest one. Of the usages of pieces of one text the
newest alone is decoded: its totals include the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec
from msgspec import Raw
from msgspec.structs import astuple, fields, replace

from rxworker import events
from rxworker.events.block import OpaqueMetadata, ToolResultMetadata
from rxworker.events.kinds import gather
from rxworker.framing.decoder import MAX_FRAME
from rxworker.framing.sse import STRAY, SseFrame, datas_of, has_event
from rxworker.messages import Json, JsonObject, StopReason
from rxworker.messages.lenient_json import read_json, read_repaired
from rxworker.providers.batch_decoder import Events, Part
from rxworker.providers.block_factory import BlockFactory
from rxworker.providers.failure import Failure, error_failure
from rxworker.providers.finish_reasons import NORMAL, keeps_calls, known_kind, read_stop
from rxworker.providers.gemini import wire
from rxworker.providers.malformed import (
    BROKEN,
    DONE,
    UNREADABLE,
    LenientDecoder,
    error_frame_failure,
    garbage_failure,
    read_loosely,
    stream_failure,
)
from rxworker.providers.takes import made_id
from rxworker.providers.usage import merge_usage

# The developer API and Vertex AI call the list of works by different names.
WORKS = ("citationSources", "citations")
# What else a candidate was made from, and where it stands in a piece.
SOURCES = {"groundingMetadata": "grounding_metadata", "urlContextMetadata": "url_context_metadata"}


_NO_OTHERS = (None,) * (len(wire.WireCandidate.__struct_fields__) - 2)  # but content and index
_TEXT_KEYS = frozenset({"text", "thought"})
# Constants, since a member of an enumeration is slow to look up.
TEXT, THINKING = events.BlockType.TEXT, events.BlockType.THINKING


class Choice:
    """The open blocks of a candidate, and how it ended.

    Args:
        index: The candidate's number.
        blocks: Opens blocks; shared by all candidates.
    """

    def __init__(self, index: int, blocks: BlockFactory) -> None:
        self.index = index
        self._blocks = blocks
        self._last_id = ""  # a result without an id belongs to the last call
        self._sources: JsonObject = {}  # each is reported once although servers may repeat them
        self._signatures = wire.Signatures()
        self._open_text: int | None = None
        self._kind = TEXT
        self._call: wire.PendingCall | None = None
        self._called = self._malformed = False
        self._is_bare = False  # a call came without arguments
        self._raw: str | None = None
        self._detail: str | None = None

    @property
    def ended(self) -> bool:
        """Whether its finish reason has come."""
        return self._raw is not None

    @property
    def stop(self) -> StopReason | None:
        """Why it ended, as far as is known."""
        # Arguments without a name may belong to the call without arguments, which must not run with its defaults.
        called = self._called and not (self._malformed and self._is_bare)
        return read_stop(self._raw, called, self._malformed, self._detail)

    def continue_text(self, piece: wire.WireCandidate) -> events.TextDelta | events.ThinkingDelta | None:
        """The delta of a piece that does nothing but add to the open text or thoughts, as most pieces do.

        ``None`` for any other.
        """
        content, place = piece.content, self._open_text
        if place is None or content is None or astuple(piece)[2:] != _NO_OTHERS:
            return None
        if (parts := content.parts) is None or len(parts) != 1:
            return None
        part = parts[0]
        if not isinstance(part, dict) or not (len(part) == 1 or part.keys() <= _TEXT_KEYS):
            return None
        text, kind = part.get("text"), THINKING if part.get("thought") else TEXT
        if kind is not self._kind or type(text) is not str or not text:
            return None
        self._signatures.length += len(text)
        return (events.TextDelta if kind is TEXT else events.ThinkingDelta)(place, text, self.index)

    def take(self, piece: wire.WireCandidate) -> Iterator[events.ResponseEvent]:
        """A piece of the candidate."""
        ends = bool(piece.finish_reason) and piece.finish_reason != wire.UNSPECIFIED
        if ends:
            self._finish(str(piece.finish_reason), piece.finish_message)
        parts = piece.content.parts if piece.content else None
        for part in parts or ():
            yield from self._take_part(part)
        if piece.citation_metadata:
            yield from self._cite_works(piece.citation_metadata)
        for name in SOURCES:
            metadata: Json = getattr(piece, SOURCES[name])
            if metadata and self._sources.get(name) != metadata:
                self._sources[name] = metadata
                yield from self._cite(name, [{name: metadata}], metadata)
        if ends and piece.safety_ratings and not keeps_calls(self._raw):
            yield events.Opaque("safetyRatings", piece.safety_ratings)

    def end(self) -> Iterator[events.ResponseEvent]:
        """The response ended: what is open stops, or is aborted if it cannot be whole."""
        # A streamed call may lack its end, but only if the candidate is known to have ended for its sake.
        yield from self._close(self._raw is not None and known_kind(self._raw) in NORMAL)

    def _finish(self, raw: str, message: Json) -> None:
        if isinstance(message, str) and message:
            self._detail = message
        elif raw != self._raw:
            self._detail = None
        self._raw = raw

    def _take_part(self, part: Json) -> Sequence[events.ResponseEvent] | Iterator[events.ResponseEvent]:
        if not isinstance(part, dict):
            return [events.Opaque("part", part)]
        kind = wire.kind_of(part)
        call = part.get(wire.CALL)
        text = part.get("text")
        if kind == wire.CALL and isinstance(call, dict):
            called = self._take_call(call, wire.beside(part))
            if not isinstance(text, str) or not text:
                return called
            return chain(self._grow_text({"thought": part.get("thought")}, text), called)
        if not kind and (isinstance(text, str) or wire.SIGNATURE not in part):
            return self._grow_text(part, text if isinstance(text, str) else "")
        if wire.SNAKE in part:
            return self._take_part(
                {wire.SIGNATURE if name == wire.SNAKE else name: value for name, value in part.items()}
            )
        if isinstance(text, str) and text and kind not in wire.KINDS:
            return [events.Opaque("part", {kind: part[kind]}), *self._grow_text(part, text)]
        return self._take_whole(part)

    # text and thoughts

    def _grow_text(self, part: JsonObject, text: str) -> Iterator[events.ResponseEvent]:
        kind = THINKING if part.get("thought") else TEXT
        value = part.get(wire.SIGNATURE)
        signature = value if isinstance(value, str) else None
        if not text and (signature is None or self._open_text is None or self._kind is not kind):
            if signature is not None:
                yield from self._take_whole(part)
            return
        if self._open_text is None or self._kind is not kind:
            yield from self._close()
            start = self._blocks.start(kind, choice=self.index)
            self._open_text, self._kind = start.index, kind
            yield start
        self._signatures.add(text, signature)
        if text and kind is TEXT:
            yield events.TextDelta(self._open_text, text, self.index)
        elif text:
            yield events.ThinkingDelta(self._open_text, text, self.index)

    # sources: citations of the text that is open, else by themselves

    def _cite_works(self, metadata: Json) -> Iterator[events.ResponseEvent]:
        holder = metadata if isinstance(metadata, dict) else {}
        works = next((holder[name] for name in WORKS if holder.get(name)), None)
        return self._cite("citationMetadata", works, metadata)

    def _cite(self, name: str, sources: Json, metadata: Json) -> Iterator[events.ResponseEvent]:
        if self._open_text is None or self._kind is not TEXT or not isinstance(sources, list):
            yield events.Opaque(name, metadata)
            return
        for source in sources:
            if isinstance(source, dict):
                yield events.CitationDelta(self._open_text, source)

    # calls

    def _take_call(self, call: JsonObject, echo: JsonObject) -> Iterator[events.ResponseEvent]:
        name, wire_id = call.get("name"), call.get("id")
        pending = self._call
        again = pending is not None and bool(wire_id) and pending.wire_id == wire_id
        if isinstance(name, str) and name and not again:
            yield from self._close()
            given = wire_id if isinstance(wire_id, str) else ""
            metadata = events.ToolUseMetadata(given or made_id(), name)
            start = self._blocks.start(events.BlockType.TOOL_USE, metadata, echo or None, choice=self.index)
            pending = self._call = wire.PendingCall(start.index, given, echo)
            yield start
        elif pending is None:
            self._malformed = self._malformed or bool(call)
            if call or echo:
                yield events.Opaque(wire.CALL, {wire.CALL: call, **echo})
            return
        else:
            pending.later |= echo
        yield from pending.take(call)
        if not call.get(wire.CONTINUES):
            yield from self._close()

    # everything else

    def _take_whole(self, part: JsonObject) -> Iterator[events.ResponseEvent]:
        yield from self._close()
        kind = wire.kind_of(part)
        found = part.get(kind)
        value: JsonObject = found if isinstance(found, dict) else {}
        block_type = wire.KINDS.get(kind) if isinstance(found, dict) else None
        given, metadata, arguments = wire.text_of(value, "id"), None, None
        if block_type is events.BlockType.SERVER_TOOL_USE:
            self._last_id = given or made_id()
            arguments = value.get("args")
            if kind == "executableCode":
                arguments = {name: member for name, member in value.items() if name != "id"}
            metadata = events.ToolUseMetadata(self._last_id, wire.text_of(value, "toolType") or kind)
        elif block_type is events.BlockType.SERVER_TOOL_RESULT:
            metadata = ToolResultMetadata(given or self._last_id, kind)
        elif block_type is None or not wire.text_of(value, "mimeType").startswith("image/"):
            block_type, metadata = events.BlockType.OPAQUE, OpaqueMetadata(kind or wire.SIGNATURE)
        start = self._blocks.start(block_type, metadata, part, choice=self.index)
        yield start
        if arguments:
            yield events.InputJsonDelta(start.index, msgspec.json.encode(arguments).decode())
        yield self._blocks.stop(start.index, self._own_stop())

    def _close(self, whole: bool | None = None) -> Iterator[events.ResponseEvent]:
        """Close what is open: text, thoughts or a call, never more than one of them."""
        if self._open_text is not None:
            yield self._blocks.stop(self._open_text, self._own_stop(), self._signatures.echo())
            self._open_text, self._signatures = None, wire.Signatures()
        call, self._call = self._call, None
        if call is None:
            return
        if keeps_calls(self._raw) if whole is None else whole:
            self._called = True
            self._is_bare = self._is_bare or not call.has_arguments
            yield self._blocks.stop(call.index, self._own_stop(), call.late_echo())
        else:
            yield self._blocks.abort(call.index, f"the call is not to be run: {self._raw}")

    def _own_stop(self) -> StopReason | None:
        # Of several candidates, only the first one's reason is reported at the end of the response.
        return self.stop if self.index else None


PIECES_PER_USAGE = 16
"""A `Usage` between any two pieces of text would double the events of a response, and separate the pieces."""

HEAD = frozenset(("createTime", *(field.encode_name for field in fields(wire.WireChunk))))
"""The members of a chunk that are read or of no use."""

TOO_LARGE = Failure(
    f"the provider sent more than {MAX_FRAME} bytes without the frames of a stream", "too_large", "server"
)


class GeminiDecoder(LenientDecoder):
    """`SseFrame` to events, for one response.

    >>> decoder = GeminiDecoder()
    >>> decoder.feed(SseFrame(b'{"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}'))[-1]
    TextDelta(index=0, text='Hi', choice=0)
    """

    _growing = ("text", "stringValue")

    def __init__(self) -> None:
        super().__init__()
        self._choices: dict[int, Choice] = {}
        self._usage: JsonObject = {}
        self._emitted_usage: JsonObject = {}
        self._news: list[Raw] = []  # that came with pieces of text, not decoded yet
        self._blocked: StopReason | None = None
        self._started = False
        self._bare: list[bytes] = []  # JSON without ``data:`` that is not whole yet
        self._bare_size = 0

    def feed(self, frame: SseFrame, /) -> Events:
        """Take the next frame; return what happened."""
        if self._over:
            return ()
        if self._is_careful:
            if self._bare and frame.event == STRAY:
                return self._keep_bare(frame.data)
            if self._broken or self._bare:
                return self._fail(BROKEN)
            frame = replace(frame, data=self._joiner.joined(frame.data))
        if frame.event == "error":
            return self._fail(error_frame_failure(frame))
        try:
            chunk = wire.decode_chunk(frame.data)
        except UNREADABLE as error:
            return self._take_unread(frame, error)
        return self._continue(chunk) or list(self._take(chunk, frame.data))

    def feed_many(self, frames: Sequence[SseFrame], /) -> list[Part]:
        """Take several frames; return what happened, with deltas that add to the same text as one thing."""
        datas = datas_of(frames)
        chunks = self._all_of(datas, wire.decode_chunk)
        if chunks is None or has_event(frames, "error"):
            return gather(event for frame in frames for event in self.feed(frame))
        made: list[events.ResponseEvent] = []
        for chunk, data in zip(chunks, datas, strict=True):
            if self._over:
                break
            made += self._continue(chunk) or self._take(chunk, data)
        return gather(made)

    def _continue(self, chunk: wire.WireChunk) -> Events:
        """The events of a chunk that adds to the open text of one candidate, and may have new totals.

        None for any other chunk.
        """
        candidates = chunk.candidates
        if candidates is None or len(candidates) != 1 or chunk.error or chunk.prompt_feedback:
            return ()
        piece = candidates[0]
        choice = self._choices.get(piece.index or 0)
        delta = None if choice is None else choice.continue_text(piece)
        if delta is None:
            return ()
        if chunk.usage_metadata:
            self._news.append(chunk.usage_metadata)
            if len(self._news) >= PIECES_PER_USAGE:
                return (delta, *self._new_usage())
        return (delta,)

    def finish(self) -> Events:
        """The bytes ended."""
        if self._over:
            return ()
        emitted = list(self._take_rest())
        if not self._over:
            whole = not self._broken and self._completed()
            emitted += self._end() if whole else self._fail(self._cut())
        return emitted

    def _take(self, chunk: wire.WireChunk, data: bytes | None) -> Iterator[events.ResponseEvent]:
        if chunk.error:
            yield from self._fail(error_failure({"error": chunk.error}))
            return
        yield from self._start(chunk)
        for piece in chunk.candidates or ():
            yield from self._choice(piece.index or 0).take(piece)
        if blocked := wire.read_block(chunk.prompt_feedback):
            self._blocked = blocked
            yield events.Opaque("promptFeedback", chunk.prompt_feedback)
        self._take_news()
        self._news.append(chunk.usage_metadata)
        has_usage = self._take_news()
        if not (has_usage or data is None or chunk.candidates or chunk.prompt_feedback):
            yield events.Opaque("chunk", read_json(data))
        elif data is not None:
            yield from self._heads.new_in(data, "chunk", HEAD)
        yield from self._new_usage()

    def _start(self, chunk: wire.WireChunk) -> Iterator[events.ResponseEvent]:
        if not self._started:
            self._started = self._has_begun = True
            name, model = _name(chunk.response_id), _name(chunk.model_version)
            yield events.Status(events.ResponseStatus.STARTED, name, model)

    def _choice(self, index: int) -> Choice:
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = Choice(index, self.blocks)
        return choice

    def _new_usage(self) -> Events:
        """The newest usage, if it was not emitted yet."""
        self._take_news()
        if self._usage == self._emitted_usage:
            return ()
        self._emitted_usage = self._usage
        return (wire.read_usage(self._usage),)

    def _take_news(self) -> bool:
        """Decode the newest of the usages that wait, and drop the others. Whether there was one."""
        waiting, self._news = self._news, []
        for raw in reversed(waiting):
            if isinstance(update := read_json(raw), dict):
                self._usage = merge_usage(self._usage, update)
                return True
        return False

    # how it ends

    def _completed(self) -> bool:
        if self._blocked:
            return True
        return bool(self._choices) and all(choice.ended for choice in self._choices.values())

    def _stop_reason(self) -> StopReason | None:
        first = self._choices.get(0) or next(iter(self._choices.values()), None)
        return (first.stop if first else None) or self._blocked

    def _end(self) -> Iterator[events.ResponseEvent]:
        self._over = True
        yield from self._new_usage()
        for choice in self._choices.values():
            yield from choice.end()
        yield events.Status(events.ResponseStatus.COMPLETED, stop_reason=self._stop_reason())

    def _fail(self, failure: Failure, stop: StopReason | None = None) -> Events:
        return [*self._new_usage(), *super()._fail(failure, stop)]

    # not a frame of the protocol

    def _take_garbage(self, frame: SseFrame) -> Events:
        data = frame.data
        if data == DONE:  # some proxies end every protocol like this
            return ()
        begins = frame.event == STRAY and data.lstrip().startswith((b"{", b"[")) and read_repaired(data) is None
        return self._keep_bare(data) if begins and not garbage_failure(frame) else super()._take_garbage(frame)

    def _keep_bare(self, data: bytes) -> Events:
        """Keep JSON without ``data:`` that is not whole yet; it may hold empty lines, so it is read at the end."""
        self._is_careful = True
        self._bare.append(data)
        self._bare_size += len(data)
        return self._fail(TOO_LARGE) if self._bare_size > MAX_FRAME else ()

    def _take_rest(self) -> Iterator[events.ResponseEvent]:
        if self._bare:
            frame = SseFrame(b"\n".join(self._bare), STRAY)
            raw = read_repaired(frame.data)
            self._broken = self._broken or raw is None
            yield from self._take_raw(raw, frame)

    def _take_raw(self, raw: Json, frame: SseFrame) -> Iterator[events.ResponseEvent]:
        """JSON that fits no Struct as it stands: an error, a list of frames, or something new."""
        for one in raw if isinstance(raw, list) else [raw]:
            if self._over or one is None:
                return
            failure = stream_failure(frame.event, one)
            if failure:
                yield from self._fail(failure)
            else:
                yield from self._take_object(one)

    def _take_object(self, raw: Json) -> Iterator[events.ResponseEvent]:
        if not isinstance(raw, dict):
            yield events.Opaque("chunk", raw)
            return
        chunk, rest = read_loosely(raw, wire.WireChunk)
        if not (chunk.candidates or chunk.prompt_feedback or chunk.usage_metadata):
            yield from self._take(chunk, msgspec.json.encode(raw))
            return
        yield from self._start(chunk)
        if rest:
            yield events.Opaque("chunk", rest)
        yield from self._take(chunk, None)


def _name(value: object) -> str | None:
    return str(value) if value else None
