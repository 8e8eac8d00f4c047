"""The floor for Gemini and Ollama, which the shared one does not know: aiohttp, a split and msgspec, written by hand.

It does what the shared floor does for its protocols, and no more: one read, one split, a Struct for each event with the
fields that are needed, and a call for each text.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

# The harness; it lies beside the shared clients.
import _common as c  # pyright: ignore[reportMissingModuleSource]
import aiohttp
import msgspec
from msgspec import Struct

MODELS = {"gemini": "gemini-2.5-flash", "ollama": "llama3.2"}

OnDelta = Callable[[str], None]


class GPart(Struct):
    text: str = ""
    thought: bool = False


class GContent(Struct):
    parts: list[GPart] = []


class GCandidate(Struct):
    content: GContent | None = None


class GChunk(Struct):
    candidates: list[GCandidate] = []


class OMessage(Struct):
    content: str = ""


class OLine(Struct):
    message: OMessage


decode_chunk = msgspec.json.Decoder(GChunk).decode
decode_line = msgspec.json.Decoder(OLine).decode


class Floor(c.Peer):
    """The peer."""

    name = "own_floor"
    packages = ("aiohttp", "msgspec")
    variants = {"default": dict.fromkeys(MODELS, ("stream",))}  # noqa: RUF012 - what the harness reads
    repeat = 25

    async def open(self) -> None:
        """Make the session."""
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
        )

    async def close(self) -> None:
        """Close the connections."""
        await self.session.close()

    async def stream(self, prompt: str, on_delta: OnDelta) -> None:
        """One response, delta by delta."""
        await (self._gemini if self.api == "gemini" else self._ollama)(prompt, on_delta)

    async def _pieces(self, path: str, body: object, end: bytes) -> AsyncIterator[list[bytes]]:
        """What stands between the ends, in lists, one for each read."""
        headers = {"content-type": "application/json"}
        data = msgspec.json.encode(body)
        async with self.session.post(self.base_url + path, data=data, headers=headers) as answer:
            assert answer.status == 200, answer.status
            tail = b""
            async for chunk in answer.content.iter_any():
                parts = (tail + chunk if tail else chunk).split(end)
                tail = parts.pop()
                yield parts

    async def _gemini(self, prompt: str, on_delta: OnDelta) -> None:
        path = f"/v1beta/models/{self.model}:streamGenerateContent?alt=sse"
        body = {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
        async for frames in self._pieces(path, body, b"\r\n\r\n"):
            for frame in frames:
                for candidate in decode_chunk(frame[6:]).candidates:
                    if candidate.content:
                        for part in candidate.content.parts:
                            if part.text and not part.thought:
                                on_delta(part.text)

    async def _ollama(self, prompt: str, on_delta: OnDelta) -> None:
        body = {"model": self.model, "messages": [{"role": "user", "content": prompt}]}
        async for lines in self._pieces("/api/chat", body, b"\n"):
            for line in lines:
                if text := decode_line(line).message.content:
                    on_delta(text)


if __name__ == "__main__":
    c.MODELS.update(MODELS)
    c.run(Floor)
