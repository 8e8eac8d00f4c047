"""Writing an answer onto a connection, with its faults."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import web

from rxworker.testing.answer import Answer
from rxworker.testing.pieces import ending, pieces


async def play(
    answer: Answer, frames: Sequence[bytes], request: web.BaseRequest
) -> web.StreamResponse | None:
    """Answer a request.

    Args:
        answer: What to answer, and with which faults.
        frames: Its body.
        request: Who asked.

    Returns:
        The complete answer; ``None``: the connection was closed on purpose.
    """
    await asyncio.sleep(answer.delay)
    if answer.drop:
        return None
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    await response.prepare(request)
    for piece in pieces(answer, frames):
        await asyncio.sleep(answer.pace)
        await response.write(piece)
    match ending(answer):
        case "cut":
            return None
        case "stall":
            await asyncio.Event().wait()  # until the client goes away, which cancels it
        case "end":
            await response.write_eof()
    return response


__all__ = ["play"]
