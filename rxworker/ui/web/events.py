"""A run as server-sent events, in the native format."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from aiohttp import web

from rxworker.hub import Watch
from rxworker.protocols import SSE_HEADERS, end_frame, read_last_event_id, record_frame, retry_frame
from rxworker.ui.web.entry import RunEntry
from rxworker.ui.web.keys import STATE
from rxworker.ui.web.watching import batches_of, watch_run

RETRY = 1000
"""Milliseconds after which a client connects again."""


async def get_events(request: web.Request) -> web.StreamResponse:
    """The records of a run behind the last one that the client has; 204 when nothing comes any more."""
    state = request.config_dict[STATE]
    entry = state.runs_of(request).find(request.match_info["id"])
    asked = request.headers.get("Last-Event-ID") or request.query.get("after")
    after = read_last_event_id(asked)
    if entry.run.done() and after >= entry.run.last_seq:
        return web.Response(status=204)
    with state.places.take(entry):
        watch = watch_run(entry, after, name=f"events {request.remote or ''}".strip())
        return await state.streams.send(request, sse_events(entry, watch), SSE_HEADERS)


async def sse_events(entry: RunEntry, watch: Watch) -> AsyncGenerator[bytes, None]:
    """The frames of a run, to its end."""
    yield retry_frame(RETRY)
    async with aclosing(batches_of(entry, watch)) as batches:
        async for batch in batches:
            yield b"".join([record_frame(record, entry.encode) for record in batch])
    yield entry.hide(end_frame(entry.status, entry.reason))


__all__ = ["get_events", "sse_events"]
