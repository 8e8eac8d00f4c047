"""The messages of OTLP: requests of exporters as spans, and as the content that is logged of them. Pure."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from rxworker.messages.json import is_list, is_object
from rxworker.tap.sources.spans import Span
from rxworker.tap.sources.values import object_of

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
