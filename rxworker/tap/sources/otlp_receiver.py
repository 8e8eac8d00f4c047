"""A receiver of OTLP over HTTP: traces, and logs with the content of their spans.

Theory of operation. Spans come as they end, in any order and in several requests. They are held by trace, until the
root of the trace has come and nothing more of it for a moment, or nothing for long.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web
from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.messages.json import is_list, is_object
from rxworker.tap.sources.otlp import Span
from rxworker.tap.sources.values import object_of
from rxworker.transport.listening import host_name, is_loopback

if TYPE_CHECKING:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

IDS = ("traceId", "spanId", "parentSpanId")
ERROR = 2
"""The code of a status that is an error."""


def spans_of(given: ExportTraceServiceRequest) -> Iterator[Span]:
    """The spans of a request. One without ids has none here, too."""
    for resource in given.resource_spans:
        service = str(_attributes(resource.resource.attributes).get("service.name", ""))
        for span in [span for scope in resource.scope_spans for span in scope.spans]:
            is_whole = len(span.trace_id) == 16 and len(span.span_id) == 8
            yield Span(
                span.trace_id.hex(),
                span.span_id.hex() if is_whole else "",
                span.parent_span_id.hex(),
                span.name,
                span.start_time_unix_nano / 1e9,
                span.end_time_unix_nano / 1e9,
                _attributes(span.attributes),
                span.status.message if span.status.code == ERROR else None,
                service,
            )


def logged_of(given: ExportLogsServiceRequest) -> Iterator[tuple[str, str, dict[str, object]]]:
    """What a request logs of spans: their traces, their ids, and the attributes."""
    scopes = [scope for resource in given.resource_logs for scope in resource.scope_logs]
    for record in [record for scope in scopes for record in scope.log_records]:
        if record.trace_id and record.span_id:
            body = _value(record.body)
            yield record.trace_id.hex(), record.span_id.hex(), {**object_of(body), **_attributes(record.attributes)}


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, object]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return None if kind is None else getattr(value, kind)


def with_bytes(value: Any) -> Any:
    """JSON of OTLP, whose ids are hexadecimal, as the JSON of protobuf, whose bytes are base64.

    >>> with_bytes({"spans": [{"spanId": "00ff"}]})
    {'spans': [{'spanId': 'AP8='}]}
    """
    if is_list(value):
        return [with_bytes(each) for each in value]
    if not is_object(value):
        return value
    members = {name: with_bytes(each) for name, each in value.items()}
    ids = {name: bytes.fromhex(members[name]) for name in IDS if isinstance(members.get(name), str)}
    return {**members, **{name: base64.b64encode(each).decode() for name, each in ids.items()}}


PROTOBUF, JSON = "application/x-protobuf", "application/json"
MAX_BODY = 64 * 1024 * 1024


class _Trace:
    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.logged: dict[str, dict[str, object]] = {}
        self.timer: asyncio.TimerHandle | None = None


class OTLPReceiver:
    """Receives what programs export with OTLP over HTTP, as protobuf and as JSON: the source of a tap with `OTLP`.

    A program sets ``OTEL_EXPORTER_OTLP_ENDPOINT`` to its address, and ``OTEL_EXPORTER_OTLP_HEADERS`` to
    ``authorization=Bearer%20...`` where there is a token. Metrics are accepted and dropped. Its items are traces. Needs
    the extra ``tap``.

    Args:
        host: The address to listen on. One that other machines can reach requires a token.
        port: The port; 0: any that is free.
        token: What a request needs as its ``Authorization: Bearer``.
        settle: Seconds without another span after which a trace whose root has come is whole.
        quiet: Seconds after which any other is.
        max_spans: How many spans are held; more are refused until there is room, and sent again by their program.

    Attributes:
        url: The address.

    Raises:
        ConfigurationError: Other machines can reach the address, and there is no token; or it is in use.
        ImportError: The extra is not installed.

    Example:
        >>> async def main() -> None:
        ...     async with OTLPReceiver(port=0) as receiver:
        ...         print(receiver.url.startswith("http://127.0.0.1:"))
        >>> asyncio.run(main())
        True
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 4318,
        *,
        token: str | None = None,
        settle: float = 1.0,
        quiet: float = 30.0,
        max_spans: int = 100_000,
    ) -> None:
        if token is None and not is_loopback(host):
            what = f"other machines can reach {host}"
            raise ConfigurationError(f"{what}: give the receiver a token, or listen on 127.0.0.1")
        try:
            from google.protobuf import json_format
            from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
            from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
        except ImportError as error:
            raise ImportError(
                f"to receive OTLP needs the package opentelemetry-proto ({error}): "
                "pip install '/path/to/the/checkout[tap]'",
                name="opentelemetry.proto",
            ) from error
        self.url = ""
        self._requests: dict[str, Any] = {
            "traces": trace_service_pb2.ExportTraceServiceRequest,
            "logs": logs_service_pb2.ExportLogsServiceRequest,
        }
        self._partial: Any = trace_service_pb2.ExportTraceServiceResponse
        self._json: Any = json_format
        self._address = host, port
        self._bearer = None if token is None else f"Bearer {token}".encode()
        self._settle, self._quiet, self._room = settle, quiet, max_spans
        self._traces: dict[str, _Trace] = {}
        self._whole: asyncio.Queue[tuple[Span, ...] | None] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        """Listen."""
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_post("/v1/{signal:traces|logs|metrics}", self._handle)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        host, port = self._address
        try:
            await web.TCPSite(self._runner, host, port).start()
        except (OSError, OverflowError) as error:
            await self.__aexit__()  # so that a tap of this source ends, too
            raise ConfigurationError(f"cannot listen on {host} port {port}: {error}") from error
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop. Traces that are not whole are given as they are."""
        await self._runner.cleanup()
        for trace in [*self._traces]:
            self._flush(trace)
        self._whole.put_nowait(None)

    async def __aiter__(self) -> AsyncGenerator[tuple[Span, ...], None]:
        """The traces, until it is closed."""
        while (trace := await self._whole.get()) is not None:
            self._room += len(trace)
            yield trace

    async def _handle(self, request: web.Request) -> web.Response:
        kind, signal = request.content_type, request.match_info["signal"]
        if self._bearer is None:
            if not is_loopback(host_name(request.host) or ""):
                return _refused(kind, 403, "this host name is not allowed")
        elif not hmac.compare_digest(request.headers.get("Authorization", "").encode(), self._bearer):
            return _refused(kind, 401, "this needs the token: send Authorization: Bearer ...")
        if kind not in (PROTOBUF, JSON):
            return _refused(kind, 415, f"send {PROTOBUF} or {JSON}")
        data = await request.read()
        body = b"{}" if kind == JSON else b""
        if signal == "metrics":
            return web.Response(body=body, content_type=kind)
        given = self._requests[signal]()
        try:
            if kind == JSON:
                self._json.ParseDict(with_bytes(json.loads(data)), given, ignore_unknown_fields=True)
            else:
                given.ParseFromString(data)
        except Exception as error:  # of protobuf's own kinds, or of JSON's
            return _refused(kind, 400, f"this is not OTLP: {type(error).__name__}")
        if self._room <= 0:
            return _refused(kind, 503, "too many spans are held", {"Retry-After": "5"})
        if signal == "logs":
            self._take_logs(given)
        elif refused := self._take_spans(given):
            what = {"rejected_spans": refused, "error_message": "a span without its ids"}
            answer = self._partial(partial_success=what)
            body = self._json.MessageToJson(answer).encode() if kind == JSON else answer.SerializeToString()
        return web.Response(body=body, content_type=kind)

    def _take_spans(self, given: Any) -> int:
        """Take spans; how many cannot be."""
        spans = [*spans_of(given)]
        for span in spans:
            if span.id:
                self._traces.setdefault(span.trace, _Trace()).spans.append(span)
                self._room -= 1
        for trace in {span.trace for span in spans if span.id}:
            self._wait(trace)
        return sum(not span.id for span in spans)

    def _take_logs(self, given: Any) -> None:
        """Take the content of spans that is sent beside them."""
        for trace, span, content in logged_of(given):
            logged = self._traces.setdefault(trace, _Trace()).logged
            self._room -= span not in logged
            logged.setdefault(span, {}).update(content)
            self._wait(trace)

    def _wait(self, trace: str) -> None:
        held = self._traces[trace]
        if held.timer is not None:
            held.timer.cancel()
        wait = self._settle if any(not span.parent for span in held.spans) else self._quiet
        held.timer = asyncio.get_running_loop().call_later(wait, self._flush, trace)

    def _flush(self, trace: str) -> None:
        held = self._traces.pop(trace)
        self._room += len(held.logged)
        if held.timer is not None:
            held.timer.cancel()
        if held.spans:
            logged = held.logged
            spans = [replace(s, attributes={**logged.get(s.id, {}), **s.attributes}) for s in held.spans]
            self._whole.put_nowait(tuple(spans))


def _refused(kind: str, status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """An answer with a ``google.rpc.Status``, of which the message is the field 2."""
    is_json = kind != PROTOBUF
    body = json.dumps({"message": message}).encode() if is_json else bytes((0x12, len(message))) + message.encode()
    return web.Response(body=body, status=status, content_type=JSON if is_json else PROTOBUF, headers=headers)
