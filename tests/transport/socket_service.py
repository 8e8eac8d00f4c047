"""The Responses protocol as a service speaks it over WebSockets and HTTP, for the tests.

Scripted, with faults, and it keeps what it understood.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from rxworker.messages import Json
from rxworker.testing import Reply, openai_responses_frames
from rxworker.transport import close_session

GONE = "previous_response_not_found"
FULL = "websocket_connection_limit_reached"


def error(code: str, status: int | None = 400, **members: Json) -> dict[str, Any]:
    """An error in place of a response."""
    known = {} if status is None else {"status": status}
    inner = {"type": "invalid_request_error", "code": code, "message": f"it failed: {code}"}
    return {"type": "error", **known, "error": inner, **members}


@dataclass
class Cut:
    """A response that breaks off after so many events."""

    reply: Reply
    after: int
    reason: bytes = b""


@dataclass
class Service:
    """One service.

    Each request takes the next step of the script, except those that are refused for the cache or as a warm-up.

    Attributes:
        script: Replies; errors, as events; responses that are cut.
        forgets: Whether it has lost every response that a request names.
        lost: The events that report it.
        handshake: The status of each handshake, where it is refused.
        created: The events that came over sockets.
        understood: The input of each response, with what the service had of it.
        opened: The sockets.
        closed: How many sockets were closed by the client, or broke.
        posts: The bodies that came over HTTP.
        taken: Bytes that came, of events and bodies.
        headers: Of the last handshake.
        address: Where it is.
        serve: Serves sockets in its place.
    """

    script: Sequence[Reply | Cut | dict[str, Any]]
    forgets: bool = False
    lost: Sequence[dict[str, Any]] = (error(GONE),)
    handshake: int | None = None
    created: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    understood: list[list[Json]] = field(default_factory=list[list[Json]])
    opened: list[web.WebSocketResponse] = field(default_factory=list[web.WebSocketResponse])
    closed: int = 0
    posts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    taken: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    address: str = ""
    serve: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None

    def __post_init__(self) -> None:
        self._steps = iter(self.script)
        self._number = 0

    def _next(self, whole: list[Json]) -> tuple[list[bytes], int, bytes]:
        """The events of the next response, after how many it breaks off, and why."""
        self.understood.append(whole)
        step = next(self._steps)
        self._number += isinstance(step, Reply)
        if isinstance(step, dict):
            return [msgspec.json.encode(step)], 1, b""
        reply = step.reply if isinstance(step, Cut) else step
        frames = openai_responses_frames(reply, number=self._number + isinstance(step, Cut))
        events = [frame.partition(b"data: ")[2].strip() for frame in frames]
        if isinstance(step, Cut):
            return events, step.after, step.reason
        return events, len(events), b""

    async def post(self, request: web.Request) -> web.StreamResponse:
        """HTTP."""
        body = await request.read()
        self.taken += len(body)
        self.posts.append(msgspec.json.decode(body))
        events, end, _ = self._next(self.posts[-1]["input"])
        first = msgspec.json.decode(events[0])
        if first["type"] == "error" and "status" in first:
            shown = {name: str(value) for name, value in first.get("headers", {}).items()}
            return web.json_response({"error": first["error"]}, status=first["status"], headers=shown)
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        for event in events[:end]:
            await answer.write(b"data: %b\n\n" % event)
        if end < len(events) and request.transport is not None:
            request.transport.close()
        return answer

    async def socket(self, request: web.Request) -> web.StreamResponse:
        """A WebSocket."""
        self.headers = {name.lower(): value for name, value in request.headers.items()}
        if self.handshake is not None:
            self.opened.append(web.WebSocketResponse())
            return web.Response(status=self.handshake, headers={"location": "/v1/elsewhere"})
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        self.opened.append(socket)
        held: dict[str, list[Json]] = {}
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                break
            self.taken += len(message.data)
            event = msgspec.json.decode(message.data, type=dict[str, Any])
            self.created.append(event)
            assert event["type"] == "response.create"
            assert "stream" not in event
            assert "background" not in event
            before = event.get("previous_response_id")
            if before is not None and (self.forgets or before not in held):
                for one in self.lost:
                    await socket.send_bytes(msgspec.json.encode(one))
                continue
            whole = [*held.get(before, []), *event["input"]] if before else event["input"]
            if event.get("generate") is False:
                response = {"id": "resp_warm", "status": "completed"}
                for kind in ("response.created", "response.completed"):
                    await socket.send_json({"type": kind, "response": response})
                held = {"resp_warm": whole}
                continue
            events, end, reason = self._next(whole)
            for one in events[:end]:
                await socket.send_str(one.decode())
            if end < len(events):
                await socket.close(code=1011, message=reason)
                break
            last = msgspec.json.decode(events[-1], type=dict[str, Any]).get("response", {})
            held = {last.get("id", ""): [*whole, *last.get("output", [])]}
        self.closed += 1
        return socket


@asynccontextmanager
async def serving(service: Service) -> AsyncGenerator[Service]:
    """Run a service."""
    app = web.Application(client_max_size=2**30)
    app.router.add_get("/v1/responses", service.serve or service.socket)
    app.router.add_post("/v1/responses", service.post)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    service.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield service
    finally:
        await close_session()
        await runner.cleanup()
