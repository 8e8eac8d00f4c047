"""The part of the shared replay server that ours is built on. The server itself lies with the harness."""

import asyncio

class Replay(asyncio.Protocol):
    t: asyncio.Transport

    def plain(self, code: bytes, body: bytes) -> None: ...
    def answer(self, path: str, body: bytes) -> None: ...
