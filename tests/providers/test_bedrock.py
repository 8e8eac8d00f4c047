"""Bedrock: requests as the official client sends and validates them, and what its streams become."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rxworker.errors import ConfigurationError, LocalProtocolError, TruncatedError
from rxworker.events import BlockStop, Error, InputJsonDelta, Opaque, ResponseEvent, Status, TextDelta
from rxworker.framing.event_stream import EventStreamMessage
from rxworker.messages import (
    Audio,
    CachePoint,
    Conversation,
    Document,
    Image,
    JsonObject,
    Message,
    OutputFormat,
    StopKind,
    Text,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.providers import AnthropicBedrock, Bedrock, Options, ToolChoice
from rxworker.providers.base import Request
from rxworker.providers.bedrock import BedrockDecoder
from rxworker.providers.bedrock.encode import encode
from rxworker.providers.bedrock.provider import InvokeDecoder
from rxworker.providers.models import model_info
from rxworker.testing.wire.bedrock import event_message
from rxworker.transport import Client, Retry
from rxworker.views import summarise
from tests.over_recordings import RECORDINGS

botocore: Any = pytest.importorskip("botocore.session")

CLAUDE = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
LOOK = ToolMeta("look", "Look at it.", {"type": "object", "properties": {"at": {"type": "string"}}})
PNG = Image(data=base64.b64encode(b"\x89PNG\r\n\x1a\n").decode())


def session() -> Any:
    made = botocore.Session()
    made.set_credentials("AKIDEXAMPLE", "wJalrXUtnFEMI", "session-token")
    return made


def validated(body: Any) -> Any:
    """The body, which the official client's own validator accepts: types, required members and names."""
    from botocore.validate import ParamValidator

    model = session().get_service_model("bedrock-runtime")
    shape = model.operation_model("ConverseStream").input_shape
    validator: Any = ParamValidator()
    report = validator.validate({"modelId": "m", **body}, shape)
    assert not report.has_errors(), report.generate_report()
    return body


def encoded(*messages: Message, tools: tuple[ToolMeta, ...] = (), model: str = CLAUDE, **options: Any) -> Any:
    request = Request(Conversation(messages), tools, Options(**options))
    body = encode(model, request, model_info(model))
    return validated(msgspec.json.decode(msgspec.json.encode(body)))


def user(*content: Any) -> Message:
    return Message("user", content)


def answer(*content: Any, provider: str = "bedrock") -> Message:
    return Message("assistant", content, provider=provider)


CALL = ToolCall("tooluse_1", "look", {"at": "sky"})
RESULT = ToolResult("tooluse_1", "blue")


@pytest.mark.parametrize(
    ("block", "content"),
    [
        (Text("Hi"), {"text": "Hi"}),
        (PNG, {"image": {"format": "png", "source": {"bytes": PNG.data}}}),
        (
            Image(url="s3://bucket/a.png"),
            {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://bucket/a.png"}}}},
        ),
        (
            Document(data="AAAA", title="Report_2026.pdf"),
            {"document": {"format": "pdf", "name": "Report 2026 pdf", "source": {"bytes": "AAAA"}}},
        ),
        (Audio(data="AAAA"), {"audio": {"format": "wav", "source": {"bytes": "AAAA"}}}),
        (CachePoint(), {"cachePoint": {"type": "default"}}),
        (CachePoint(ttl="1h"), {"cachePoint": {"type": "default", "ttl": "1h"}}),
    ],
)
def test_a_block_of_the_user_becomes_one_of_the_protocol(block: Any, content: JsonObject) -> None:
    assert encoded(user(Text("See:"), block))["messages"][0]["content"][1:] == [content]


def test_a_tool_loop_is_sent_back_with_sealed_thinking_and_results_first() -> None:
    thinking = Thinking("Need the sky.", signature="sig")
    body = encoded(
        Message.user("Look."),
        answer(thinking, Text("Well."), CALL),
        user(Text("And?"), RESULT, ToolResult("tooluse_2", "no", is_error=True)),
        tools=(LOOK,),
    )
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Need the sky.", "signature": "sig"}}},
                {"text": "Well."},
                {"toolUse": {"toolUseId": "tooluse_1", "name": "look", "input": {"at": "sky"}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": "blue"}]}},
                {"toolResult": {"toolUseId": "tooluse_2", "content": [{"text": "no"}], "status": "error"}},
                {"text": "And?"},
            ],
        },
    ]


def test_an_answer_of_which_nothing_is_left_does_not_separate_texts_of_the_user() -> None:
    nothing = answer(Thinking("Hm."), Text(" "), provider="openai")
    body = encoded(Message.user("a"), nothing, Message.user("b"))
    assert body["messages"] == [{"role": "user", "content": [{"text": "a"}, {"text": "b"}]}]


def test_settings_become_those_of_the_protocol() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    body = encoded(
        Message.system("Be brief."),
        Message.user("Hi"),
        tools=(LOOK,),
        max_tokens=10,
        temperature=0.5,
        stop_sequences=("END",),
        tool_choice=ToolChoice("tool", "look"),
        thinking=2000,
        output=OutputFormat(schema, "answer"),
        cache=("tools", "system"),
    )
    assert body["system"] == [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}]
    assert body["inferenceConfig"] == {"maxTokens": 10, "temperature": 0.5, "stopSequences": ["END"]}
    assert body["toolConfig"] == {
        "tools": [
            {"toolSpec": {"name": "look", "description": "Look at it.", "inputSchema": {"json": LOOK.input_schema}}},
            {"cachePoint": {"type": "default"}},
        ],
        "toolChoice": {"tool": {"name": "look"}},
    }
    assert body["additionalModelRequestFields"] == {"thinking": {"type": "enabled", "budget_tokens": 2000}}
    described = body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert described["name"] == "answer"
    assert json.loads(described["schema"])["additionalProperties"] is False


@pytest.mark.parametrize(
    ("model", "thinking", "fields"),
    [
        ("openai.gpt-oss-120b-1:0", "low", {"reasoning_effort": "low"}),
        ("amazon.nova-2-lite-v1:0", "high", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}),
        ("amazon.nova-2-lite-v1:0", 0, {"reasoningConfig": {"type": "disabled"}}),
        (CLAUDE, 0, {"thinking": {"type": "disabled"}}),
    ],
)
def test_thinking_is_sent_in_the_words_of_the_family(model: str, thinking: int | str, fields: JsonObject) -> None:
    assert encoded(Message.user("Hi"), model=model, thinking=thinking)["additionalModelRequestFields"] == fields


def test_calls_of_tools_that_are_not_offered_any_more_are_declared() -> None:
    body = encoded(Message.user("Look."), answer(CALL), user(RESULT))
    assert body["toolConfig"]["tools"] == [{"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}]


def test_the_last_four_cache_points_are_sent() -> None:
    points = [block for n in range(5) for block in (Text(f"{n}"), CachePoint())]
    body = encoded(Message.system("S"), user(*points), cache=("system",))
    assert ["cachePoint" in block for block in body["messages"][0]["content"]] == [
        False,
        False,
        False,
        True,
        False,
        True,
        False,
        True,
    ]


def points_of(blocks: list[Any]) -> list[Any]:
    """The place and the lifetime of each cache point."""
    points = [(at, block.get("cachePoint")) for at, block in enumerate(blocks)]
    return [(at, point.get("ttl")) for at, point in points if point]


@pytest.mark.parametrize(
    ("options", "of_tools", "of_message"),
    [
        ({}, [(2, "1h"), (4, "1h"), (6, None), (8, None)], []),  # the last four
        ({"cache": ("tools", "system")}, [(3, "1h"), (5, None), (7, None)], []),
        ({"cache": "auto"}, [(5, None)], [(1, None)]),  # the others move with the messages
        ({"cache": "auto", "cache_ttl": "1h"}, [(5, "1h")], [(1, "1h")]),
    ],
)
def test_cache_points_of_tools_count_and_live_as_long_as_those_that_follow(
    options: Any, of_tools: Any, of_message: Any
) -> None:
    tools = [
        msgspec.structs.replace(LOOK, name=f"look_{at}", cache_control=CachePoint(ttl))
        for at, ttl in enumerate((None, None, "1h", None, None))
    ]
    said = user(Text("a"), CachePoint(options.get("cache_ttl")))
    body = encoded(Message.system("S"), said, tools=(*tools,), **options)
    assert points_of(body["toolConfig"]["tools"]) == of_tools
    assert points_of(body["messages"][0]["content"]) == of_message
    assert len(points_of(body["system"])) == (1 if options else 0)


def test_a_point_of_a_tool_lives_as_long_as_one_of_a_message() -> None:
    tool = msgspec.structs.replace(LOOK, cache_control=CachePoint())
    body = encoded(user(Text("a"), CachePoint("1h")), tools=(tool,))
    assert points_of(body["toolConfig"]["tools"]) == [(1, "1h")]


def test_no_call_is_refused_where_the_history_has_calls() -> None:
    """The service takes such a history with tools alone, and has no word for using none of them."""
    none = ToolChoice("none")
    assert "toolConfig" not in encoded(Message.user("Hi"), tools=(LOOK,), tool_choice=none)
    with pytest.raises(ConfigurationError, match="use AnthropicBedrock"):
        encoded(Message.user("Look."), answer(CALL), user(RESULT), tools=(LOOK,), tool_choice=none)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (Image(url="https://example.com/a.png"), "takes no web address of a Image: use Image.from_file"),
        (Image(media_type="image/tiff", data="SUkqAA=="), "takes no picture of type image/tiff"),
        (Document(file_id="file_1"), "takes no file id for Document"),
        (Audio(), "Audio has no data"),
    ],
)
def test_content_that_bedrock_does_not_take_is_refused(block: Any, message: str) -> None:
    with pytest.raises(LocalProtocolError, match=message):
        encoded(user(block))


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("meta.llama4-v1:0", {"thinking": "low"}, "cannot be sent to 'meta.llama4-v1:0'"),
        ("openai.gpt-oss-20b-1:0", {"thinking": 2000}, "cannot be sent"),
        (CLAUDE, {"parallel_tool_calls": False}, "use AnthropicBedrock"),
    ],
)
def test_settings_that_cannot_be_sent_are_refused(model: str, options: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        encoded(Message.user("Hi"), tools=(LOOK,), model=model, **options)


# the request beside that of the official client


class Captured(BaseHTTPRequestHandler):
    """Keeps what comes, and answers with a recording."""

    seen: list[tuple[str, dict[str, str], Any]]
    body: bytes

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.seen.append((self.path, headers, json.loads(data)))
        self.send_response(200)
        self.send_header("content-type", "application/vnd.amazon.eventstream")
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@pytest.fixture
def capture() -> Iterator[tuple[str, list[tuple[str, dict[str, str], Any]]]]:
    """The address of a server, and what it has received."""
    seen: list[tuple[str, dict[str, str], Any]] = []
    handler = type("Handler", (Captured,), {"seen": seen, "body": event_message("messageStart", {"role": "assistant"})})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", seen
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_request_is_what_the_official_client_sends(
    capture: tuple[str, list[tuple[str, dict[str, str], Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, seen = capture
    client = session().create_client("bedrock-runtime", region_name="us-east-1", endpoint_url=address)
    answer = client.converse_stream(
        modelId=CLAUDE, messages=[{"role": "user", "content": [{"text": "Hi"}]}], inferenceConfig={"maxTokens": 10}
    )
    answer["stream"].close()
    client.close()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-token")
    provider = Bedrock(CLAUDE, region="us-east-1", base_url=address)
    request = provider.request(Conversation((Message.user("Hi"),)), (), Options(max_tokens=10))
    assert request.authorize is not None
    signed: Any = request.authorize(request)
    ((path, headers, body),) = seen
    assert signed.url == address + path
    assert json.loads(signed.body) == body
    for name in ("x-amz-security-token", "content-type"):
        assert signed.headers[name] == headers[name]
    theirs, ours = (one["authorization"].split("/") for one in (headers, signed.headers))
    assert ours[0] == theirs[0] == "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE"
    assert ours[2:4] == theirs[2:4] == ["us-east-1", "bedrock"]


@pytest.mark.parametrize("address", [None, "{}/model/m%3a0/it's%20x/converse-stream?a=%2B+b"])
async def test_a_signature_is_of_what_arrives(
    address: str | None, capture: tuple[str, list[tuple[str, dict[str, str], Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service signs the path as it came, so an address must not be written another way on its way."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    base_url, seen = capture
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    place: Any = {"address": address.format(base_url)} if address else {"base_url": base_url}
    provider = Bedrock(CLAUDE, region="us-east-1", **place)
    asked = Request(Conversation((Message.user("Hi"),)), options=Options(max_tokens=10))
    with pytest.raises(TruncatedError):
        await Client(provider, retry=Retry(retries=0)).stream(asked)
    ((path, headers, body),) = seen
    new_auth: Any = SigV4Auth
    auth = new_auth(Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI"), "bedrock", "us-east-1")
    authorization = headers["authorization"]
    names = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    signed = {name: headers[name] for name in names}
    data = msgspec.json.encode(body)
    received: Any = AWSRequest("POST", f"{base_url}{path}", signed, data)
    received.context["timestamp"] = headers["x-amz-date"]
    text = auth.string_to_sign(received, auth.canonical_request(received))
    assert authorization.endswith("Signature=" + auth.signature(text, received))


def test_a_key_is_sent_as_a_bearer_token_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-secret")
    provider = Bedrock("m", region="eu-west-1")
    request = provider.request(Conversation(), (), Options())
    assert request.headers["authorization"] == "Bearer bedrock-api-key-secret"
    assert "secret" not in f"{request!r} {provider!r}"
    assert provider.error(403, {}, b'{"message": "key bedrock-api-key-secret"}').message.count("***")


@pytest.mark.parametrize("region", [None, "nowhere"])
def test_a_region_that_is_missing_or_none_is_refused(region: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    with pytest.raises(ConfigurationError, match="region"):
        Bedrock("m", region=region, api_key="k").request(Conversation(), (), Options())


def test_the_region_of_an_arn_is_used() -> None:
    arn = "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.amazon.nova-lite-v1:0"
    url = Bedrock(arn, api_key="k").request(Conversation(), (), Options()).url
    assert url.startswith("https://bedrock-runtime.eu-central-1.amazonaws.com/model/arn%3Aaws%3A")


def test_a_profile_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    request = Bedrock("m", region="us-east-1", profile="absent").request(Conversation(), (), Options())
    assert request.authorize is not None
    with pytest.raises(ConfigurationError, match="absent"):
        request.authorize(request)


def test_a_role_that_is_refused_is_an_error_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.exceptions import ClientError

    def refuse(_: object) -> None:
        refused = {"Error": {"Code": "AccessDenied", "Message": "not authorized"}}
        raise ClientError(refused, "AssumeRole")

    monkeypatch.setattr(botocore.Session, "get_credentials", refuse)
    request = Bedrock("m", region="us-east-1").request(Conversation(), (), Options())
    assert request.authorize is not None
    with pytest.raises(ConfigurationError, match=r"cannot be used.*AssumeRole.*not authorized"):
        request.authorize(request)


@pytest.mark.parametrize(
    ("status", "name", "body", "kind", "retryable"),
    [
        (429, "ThrottlingException", {"message": "Too many requests"}, "rate_limit", True),
        (400, "ValidationException", {"message": "Input is too long for requested model."}, "context_length", False),
        (400, "ValidationException", {"message": "The provided model identifier is invalid."}, "not_found", False),
        (403, "AccessDeniedException", {"Message": "You don't have access"}, "permission", False),
        (503, "ServiceUnavailableException", {"message": "Try again"}, "overloaded", True),
    ],
)
def test_an_error_has_the_code_of_its_header(
    status: int, name: str, body: JsonObject, kind: str, retryable: bool
) -> None:
    headers = {"x-amzn-ErrorType": f"{name}:http://internal.amazon.com/", "x-amzn-RequestId": "r-1"}
    error = Bedrock("m", api_key="k").error(status, headers, json.dumps(body).encode())
    assert (error.code, error.kind, error.retryable, error.request_id) == (name, kind, retryable, "r-1")
    assert next(iter(body.values())) in error.message  # type: ignore[operator]


# streams


def decoded(*events: tuple[str, object]) -> list[ResponseEvent]:
    decoder = BedrockDecoder()
    found: list[ResponseEvent] = []
    for event, payload in events:
        found += decoder.feed(EventStreamMessage({":event-type": event}, msgspec.json.encode(payload)))
    return [*found, *decoder.finish()]


TEXT = ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hi"}})
STOP = ("messageStop", {"stopReason": "end_turn"})


def test_a_stream_without_metadata_is_complete_and_one_without_a_stop_reason_is_truncated() -> None:
    assert summarise(decoded(TEXT, STOP)).stop_reason is not None
    assert not summarise(decoded(TEXT, STOP)).truncated
    assert summarise(decoded(TEXT)).truncated


def test_an_exception_in_the_stream_ends_the_response() -> None:
    decoder = BedrockDecoder()
    decoder.feed(EventStreamMessage({":event-type": TEXT[0]}, msgspec.json.encode(TEXT[1])))
    body = {"message": "No.", "originalMessage": "Because."}
    headers = {":message-type": "exception", ":exception-type": "throttlingException"}
    events = decoder.feed(EventStreamMessage(headers, msgspec.json.encode(body)))
    (error,) = [event for event in events if isinstance(event, Error)]
    assert (error.code, error.message, error.kind) == ("throttlingException", "No.: Because.", "rate_limit")
    assert error.retryable
    assert decoder.finish() == ()


def test_a_call_that_the_length_limit_cut_does_not_run() -> None:
    start = {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t", "name": "look"}}}
    piece = {"contentBlockIndex": 0, "delta": {"toolUse": {"input": '{"a'}}}
    summary = summarise(
        decoded(
            ("contentBlockStart", start), ("contentBlockDelta", piece), ("messageStop", {"stopReason": "max_tokens"})
        )
    )
    assert [call.aborted for call in summary.tool_calls] == [True]
    assert summary.stop_reason is not None
    assert summary.stop_reason.kind is StopKind.MAX_TOKENS


def test_what_is_new_in_a_stream_travels_on() -> None:
    events = decoded(
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"hologram": {"x": 1}}}),
        ("brandNew", {"y": 2}),
        TEXT,
        STOP,
    )
    kinds = [event.kind for event in events if isinstance(event, Opaque)]
    assert kinds == ["contentBlockDelta", "brandNew"]
    assert any(isinstance(event, TextDelta) for event in events)


def test_thinking_that_is_sealed_as_a_whole_comes_back_as_it_was() -> None:
    halves = [base64.b64encode(half).decode() for half in (b"abcd", b"efgh1")]
    events = decoded(
        *[
            ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"redactedContent": half}}})
            for half in halves
        ],
        ("contentBlockStop", {"contentBlockIndex": 0}),
        STOP,
    )
    (stop,) = [event for event in events if isinstance(event, BlockStop)]
    assert stop.echo == {"reasoningContent": {"redactedContent": base64.b64encode(b"abcdefgh1").decode()}}
    body = encoded(Message.user("Hi"), answer(Thinking("", echo=stop.echo), Text("Hm.")), Message.user("?"))
    assert body["messages"][1]["content"][0] == stop.echo


def anthropic_invocations() -> list[Path]:
    files = sorted((RECORDINGS / "bedrock" / "invoke").glob("*.eventstream"))
    return [path for path in files if b"content_block" in _inner(path)]


def _inner(path: Path) -> bytes:
    from rxworker.framing import EventStreamDecoder

    messages = EventStreamDecoder().feed(path.read_bytes())
    return b"".join(base64.b64decode(json.loads(one.payload)["bytes"]) + b"\n" for one in messages)


@pytest.mark.skipif(not RECORDINGS.exists(), reason=f"no recordings: {RECORDINGS} is absent")
def test_claude_by_invoke_is_decoded_as_anthropics_own_stream() -> None:
    files = anthropic_invocations()
    assert files
    for path in files:
        data, decoder = path.read_bytes(), AnthropicBedrock("m", api_key="k").decoder()
        events = [event for at in range(len(data)) for event in decoder.feed(data[at : at + 1])]
        summary = summarise([*events, *decoder.finish()])
        parts = [json.loads(line) for line in _inner(path).splitlines()]
        deltas = [part["delta"] for part in parts if part["type"] == "content_block_delta"]
        assert summary.text == "".join(delta.get("text", "") for delta in deltas)
        pieces = "".join(event.text for event in events if isinstance(event, InputJsonDelta))
        assert pieces == "".join(delta.get("partial_json", "") for delta in deltas)
        assert isinstance(events[-1], Status)
        assert not summary.truncated


@pytest.mark.parametrize("payload", [{"bytes": "no base64!"}, {"bytes": 3}, {"p": "abc"}, [1], "text"])
def test_a_message_by_invoke_that_carries_no_bytes_is_kept_as_something_unknown(payload: object) -> None:
    decoder = InvokeDecoder()
    events = decoder.feed(EventStreamMessage({":event-type": "chunk"}, msgspec.json.encode(payload)))
    assert [type(event) for event in events] == [Opaque]
    assert summarise([*events, *decoder.finish()]).truncated


def test_a_request_by_invoke_names_its_version_and_betas_in_the_body() -> None:
    provider = AnthropicBedrock("anthropic.claude-3-haiku-20240307-v1:0", region="us-east-1", api_key="k")
    options = Options(headers={"anthropic-beta": "a, b"})
    request = provider.request(Conversation((Message.user("Hi"),)), (LOOK,), options)
    body = json.loads(request.body)
    assert body["anthropic_version"] == "bedrock-2023-05-31"
    assert body["anthropic_beta"] == ["a", "b"]
    assert "model" not in body
    assert "stream" not in body
    assert body["tools"][0]["name"] == "look"


@pytest.mark.parametrize("end", ["a", "_", "."])
def test_long_ids_that_differ_stay_different(end: str) -> None:
    """Bedrock takes 64 letters; a call and its result have the same id still."""
    ids = ["x" * 64 + end + last for last in ("1", "2")]
    calls = Message.assistant(*(ToolCall(one, "look", {}) for one in ids))
    results = Message("user", tuple(ToolResult(one, "seen") for one in ids))
    body = encoded(Message.user("hi"), calls, results, tools=(LOOK,))
    _, called, answered = body["messages"]
    sent = [block["toolUse"]["toolUseId"] for block in called["content"]]
    assert len(set(sent)) == 2
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", one) for one in sent)
    assert [block["toolResult"]["toolUseId"] for block in answered["content"] if "toolResult" in block] == sent
