"""The shared replay server, which here speaks Gemini's and Ollama's protocols, too.

    python tests/bench/replay.py      prints "PORT <n>" and serves 127.0.0.1 until killed

The shared harness knows Anthropic's protocol and the two of OpenAI's. The others follow the same plan: the same texts,
an event by the HTTP chunk or as many as it says, all in one write, each body rendered once. They have no tools and no
pace. What real servers write anew in each frame is anew in each frame: a count of tokens, a time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence

# These two lie with the harness, which has to be found by PYTHONPATH.
import fixtures  # pyright: ignore[reportMissingModuleSource]
import server  # pyright: ignore[reportMissingModuleSource]

READ = 34
"""Tokens of the prompt."""

HEAD = "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"


def gemini_events(deltas: Sequence[str]) -> Iterator[str]:
    """Frames as Google's servers write them: line ends of two bytes, blanks, and running totals."""
    for count, delta in enumerate(deltas, 1):
        text = json.dumps(delta, ensure_ascii=False)
        ended = ',"finishReason": "STOP"' if count == len(deltas) else ""
        yield (
            f'data: {{"candidates": [{{"content": {{"parts": [{{"text": {text}}}],"role": "model"}}{ended},'
            f'"index": 0}}],"usageMetadata": {{"promptTokenCount": {READ},"candidatesTokenCount": {count},'
            f'"totalTokenCount": {READ + count},"promptTokensDetails": [{{"modality": "TEXT","tokenCount": {READ}}}]}},'
            '"modelVersion": "gemini-2.5-flash","responseId": "beHBaJfEMIi-qtsP3769-Q8"}\r\n\r\n'
        )


def ollama_events(deltas: Sequence[str]) -> Iterator[str]:
    """Lines, each with the time it was written at."""
    head = '{"model":"llama3.2","created_at":"2026-01-01T00:'
    for place, delta in enumerate((*deltas, "")):
        seconds, rest = divmod(place * 32_437 + 12_874, 1_000_000)
        at = f"{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}Z"
        text = json.dumps(delta, ensure_ascii=False)
        ended = (
            f'"done_reason":"stop","done":true,"total_duration":1897385625,"load_duration":1631208,'
            f'"prompt_eval_count":{READ},"prompt_eval_duration":313560000,"eval_count":{len(deltas)},'
            '"eval_duration":1577990000'
        )
        end = '"done":false' if place < len(deltas) else ended
        yield f'{head}{at}","message":{{"role":"assistant","content":{text}}},{end}}}\n'


OURS: dict[str, tuple[str, Callable[[Sequence[str]], Iterator[str]]]] = {
    ":streamGenerateContent": ("text/event-stream", gemini_events),
    "/api/chat": ("application/x-ndjson", ollama_events),
}
"""By the end of the path: the type of the answer, and the events of some texts."""


def rendered(end: str, n: int, size: int) -> bytes:
    """A whole answer to a path with this end: so many texts, so many events by the HTTP chunk."""
    kind, events_of = OURS[end]
    events = [event.encode() for event in events_of(fixtures.text_deltas(n))]
    pieces = [b"".join(events[at : at + size]) for at in range(0, len(events), size)]
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    return b"".join([HEAD.format(kind=kind).encode(), *chunks, b"0\r\n\r\n"])


class Replay(server.Replay):
    """One connection."""

    bodies: dict[tuple[str, int, int], bytes] = {}  # noqa: RUF012 - all connections share them

    def answer(self, path: str, body: bytes) -> None:
        """What the plan in the request asks for."""
        end = next((end for end in OURS if path.endswith(end)), None)
        if end is None:
            super().answer(path, body)
            return
        plan = fixtures.parse_plan(body)
        if plan["pace"] or plan["tools"] or not plan["chunk"]:
            self.plain(b"400 Bad Request", b'{"error": "neither pace nor tools here"}')
            return
        key = end, plan["n"], plan["chunk"]
        if key not in self.bodies:
            self.bodies[key] = rendered(*key)
        self.t.write(self.bodies[key])


async def main() -> None:
    """Serve."""
    loop = asyncio.get_running_loop()
    serving = await loop.create_server(Replay, "127.0.0.1", 0, backlog=1024)
    print("PORT", serving.sockets[0].getsockname()[1], flush=True)
    await serving.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
