"""Bytes of the generateContent stream to events, with frames that are alike read in one go.

The plain definition is `rxworker.framing.Chain` of the two machines; ``tests/providers/test_gemini_stream.py`` holds them equal.

Theory of operation. Of a long text nearly every frame adds to it and tells higher totals. When the last frame that was read the plain way has
done that and nothing else, its `Form` is learned, and as long as frames fit it without a break they are not read one by one: their texts
and totals become a row (see `Counted`). Whatever else comes goes the plain way, and a form is learned anew. The more often
that was for nothing, the longer it is until the next time.
"""

from __future__ import annotations

from collections.abc import Sequence

from rxworker.events import ResponseEvent, TextDelta, ThinkingDelta, Usage
from rxworker.events.deltas import FEW, Counted, Deltas, Told
from rxworker.framing import Chain, SseDecoder, SseFrame
from rxworker.messages import JsonObject
from rxworker.providers.gemini.decode import GeminiDecoder
from rxworker.providers.gemini.form import Form, Values, learn
from rxworker.providers.gemini.usage import Totals, read_usage

WINDOW = 64 * 1024
"""So many bytes are cut up at once."""

SHORT_WAIT = 1024
LONG_WAIT = 16 * 1024
"""So many bytes are read the plain way before a form is learned: at first, and where that has been for nothing."""

WORTH_IT = 16
"""So many frames have to fit a form that has been learned, for the next one to be learned soon."""

LONGEST_REST = 4 * 1024
"""So many bytes of a frame that is not whole are kept until it is."""

CRLF, LF = b"\r\n\r\n", b"\n\n"


class GeminiStream(Chain[bytes, SseFrame, ResponseEvent]):
    r"""A decoder from bytes to events.

    Args:
        decoder: Frames to events.

    >>> stream = GeminiStream(GeminiDecoder())
    >>> frame = b'data: {"candidates": [{"content": {"parts": [{"text": "%s"}]}}]}\r\n\r\n'
    >>> [event.text for event in stream.feed(b"".join(frame % word for word in (b"a", b"b", b"c")))[2:]]
    ['a', 'b', 'c']
    """

    def __init__(self, decoder: GeminiDecoder) -> None:
        framing = SseDecoder(stray=True)
        super().__init__(framing, decoder)
        self._framing = framing
        self._decoder = decoder
        self._form: Form | None = None
        self._like: TextDelta | ThinkingDelta = TextDelta(0, "")
        self._totals: list[int] = []
        self._end = CRLF
        self._rest = b""  # of a frame that may fit the form
        self._wait = SHORT_WAIT
        self._plain = 0  # bytes read the plain way since a form was learned
        self._fitting = 0  # frames that have fitted it

    def feed(self, data: bytes, /) -> Sequence[ResponseEvent]:
        """Take the next bytes; return what they completed."""
        events: list[ResponseEvent] = []
        for row in self.feed_rows(data):
            if isinstance(row, Deltas | Counted):
                events.extend(row)
            else:
                events.append(row)
        return events

    def feed_rows(self, data: bytes, /) -> list[Told[ResponseEvent]]:
        """The same, with deltas that have been read together as one thing."""
        made: list[Told[ResponseEvent]] = []
        data, self._rest, place = self._rest + data, b"", 0
        limit = self._framing.limit
        if limit is not None and len(data) > limit:  # each frame is measured
            self._form = None
            return [*super().feed(data)]
        while place < len(data):
            if self._form is not None:
                stop = data.rfind(self._end, place, place + WINDOW)
                if stop < 0 and _has_only_begun(data[place:]):
                    self._rest = data[place:]
                    break
                end = self._take_form(self._form, data, place, stop, made)
                if end > place:
                    place = end
                    continue
                self._form = None
            place = self._take_plain(data, place, made)
        return made

    def finish(self) -> Sequence[ResponseEvent]:
        """The bytes ended."""
        rest, self._rest, self._form = self._rest, b"", None
        return [*super().feed(rest), *super().finish()]

    def _take_form(
        self, form: Form, data: bytes, place: int, stop: int, made: list[Told[ResponseEvent]]
    ) -> int:
        """Take the frames that fit; where they end."""
        if stop <= place:
            return place
        frames = data[place:stop].split(self._end)
        if len(frames) == 1:
            only = form.only(frames[0], self._totals)
            if only is None:
                return place
            made += self._events_of(form, *only)
            return stop + len(self._end)
        values = form.read(frames, self._totals)
        if values is None:
            return place
        count = len(values.texts)
        row = self._row_of(form, values)
        if count < FEW:
            made.extend(row)
        else:
            made.append(row)
        return place + values.size + count * len(self._end)

    def _events_of(self, form: Form, text: str, totals: list[int]) -> Sequence[ResponseEvent]:
        self._note(form, [text], totals)
        like = self._like
        delta = type(like)(like.index, text, like.choice)
        return (delta, read_usage(self._decoder.usage)) if form.names else (delta,)

    def _row_of(self, form: Form, values: Values) -> Deltas[ResponseEvent] | Counted[ResponseEvent]:
        usage = self._decoder.usage
        self._note(form, values.texts, [row[-1] for row in values.totals])
        deltas: Deltas[ResponseEvent] = Deltas(self._like, values.texts)
        return Counted(deltas, Totals(usage, form.names, values.totals)) if form.names else deltas

    def _note(self, form: Form, texts: list[str], totals: list[int]) -> None:
        """Frames have fitted."""
        self._fitting += len(texts)
        if self._fitting >= WORTH_IT:
            self._wait = SHORT_WAIT
        self._totals = totals
        self._decoder.go_on(self._like, texts, dict(zip(form.names, totals, strict=True)))

    def _take_plain(self, data: bytes, place: int, made: list[Told[ResponseEvent]]) -> int:
        """Read some frames the plain way, and learn from the last of them; where they end."""
        if data.find(self._end, place, place + WINDOW) < 0:
            self._end = LF if self._end == CRLF else CRLF
        end = self._end
        last = data.rfind(end, place, place + self._wait)
        if last < 0:
            last = data.find(end, place)
        if last < 0:
            made += super().feed(data[place:])
            return len(data)
        begin = data.rfind(end, place, last)
        begin = place if begin < 0 else begin + len(end)
        if begin > place:
            made += super().feed(data[place:begin])
        is_whole = self._framing.is_clear
        before = self._decoder.usage
        stop = last + len(end)
        events = super().feed(data[begin:stop])
        made += events
        self._plain += stop - place
        if is_whole and self._framing.is_clear and 2 * self._plain >= self._wait:
            self._learn(data[begin:last], events, before)
        return stop

    def _learn(self, frame: bytes, events: Sequence[ResponseEvent], before: JsonObject) -> None:
        """Learn from a frame, if others like it are to be expected."""
        match events:
            case [(TextDelta() | ThinkingDelta()) as delta]:
                after = before
            case [(TextDelta() | ThinkingDelta()) as delta, Usage()]:
                after = self._decoder.usage
            case _:
                return
        self._plain = self._fitting = 0
        self._wait = min(2 * self._wait, LONG_WAIT)
        changed = {name: total for name, total in after.items() if before.get(name) != total}
        if self._decoder.goes_on(delta):
            self._form = learn(frame, changed)
        self._like = delta
        names = self._form.names if self._form else ()
        self._totals = [n for name in names if isinstance(n := changed[name], int)]


def _has_only_begun(rest: bytes) -> bool:
    """Whether this may become a frame of a form. What has a line end in it may be whole, by another line end than the usual one."""
    return len(rest) < LONGEST_REST and b"\n" not in rest and b"\r" not in rest


__all__ = ["GeminiStream"]
