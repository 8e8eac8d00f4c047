"""Requests beside those of the official clients: provider, host and intent.

Each row of `HOSTS` is one provider at one host, and the client of the service that its pages name, given what a program
has to type. Each row of `INTENTS` is what a program wants, once in our words and once in those of each protocol. Both
send; method, address, headers and body are equal, but for the differences that a row names. A new host, model or
setting is a row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import pytest
from msgspec import Struct

from rxworker.messages import Conversation, Image, Message, OutputFormat, ToolCall, ToolMeta, ToolResult
from rxworker.providers import (
    Anthropic,
    AnthropicBedrock,
    AnthropicVertex,
    Gemini,
    ModelInfo,
    Ollama,
    OpenAIChat,
    OpenAIResponses,
    Options,
    Provider,
    ToolChoice,
)
from tests.late import Late

anthropic = Late("anthropic")
openai = Late("openai")
genai = Late("google.genai")
ollama: Any = pytest.importorskip("ollama")
httpx2: Any = pytest.importorskip("httpx2")
google: Any = pytest.importorskip("google.oauth2.credentials")
httpx: Any = pytest.importorskip("httpx")
pytest.importorskip("botocore")  # for the signatures of the client of Anthropic at Bedrock

KEY = "key-0123456789"
TOKEN = "header.payload.signature"
VERSION = "2023-06-01"


def token() -> str:
    return TOKEN


class Sent(NamedTuple):
    """A request, as far as it is compared."""

    method: str
    address: str
    query: dict[str, str]
    headers: dict[str, str]
    body: dict[str, Any]


COMPARED = (
    "authorization",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "anthropic-version",
    "anthropic-beta",
    "content-type",
)


def sent(method: str, url: str, headers: Mapping[str, str], body: bytes) -> Sent:
    parts = urlsplit(url)
    compared = {name: headers[name] for name in COMPARED if name in headers}
    address = f"{parts.scheme}://{parts.netloc}{unquote(parts.path)}"  # escapes differ
    return Sent(method, address, dict(parse_qsl(parts.query)), compared, json.loads(body))


# --- what a program wants

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"at": {"type": "string"}},
    "required": ["at"],
    "additionalProperties": False,
}
ARGUMENTS = {name: SCHEMA[name] for name in ("type", "properties", "required")}
LOOK = ToolMeta("look", "Look at it.", ARGUMENTS)
PNG = "iVBORw0KGgo="


class Intent(Struct):
    """What a program wants: our words, and the arguments of each protocol's client beside `BASE`."""

    ours: tuple[Conversation, tuple[ToolMeta, ...], Options]
    chat: dict[str, Any] = {}
    responses: dict[str, Any] = {}
    messages: dict[str, Any] = {}
    gemini: dict[str, Any] = {}  # of its config, but for ``contents``
    ollama: dict[str, Any] = {}


def asked(
    *content: Any, system: str | None = None, tools: tuple[ToolMeta, ...] = (), **options: Any
) -> tuple[Conversation, tuple[ToolMeta, ...], Options]:
    messages = content or (Message.user("Hi"),)
    return Conversation(tuple(messages), system), tools, Options(**options)


CALLED = (
    Message.user("Hi"),
    Message.assistant(ToolCall("call_0001", "look", {"at": "sky"})),
    Message.user(ToolResult("call_0001", "blue")),
)
FUNCTION = {"name": "look", "description": "Look at it.", "parameters": ARGUMENTS}
DECLARED = {"name": "look", "description": "Look at it.", "parametersJsonSchema": ARGUMENTS}
TOOLS: dict[str, dict[str, Any]] = {
    "chat": {"tools": [{"type": "function", "function": FUNCTION}]},
    "responses": {"tools": [{"type": "function", "strict": False, **FUNCTION}]},
    "messages": {"tools": [{"name": "look", "description": "Look at it.", "input_schema": ARGUMENTS}]},
    "gemini": {"tools": [{"functionDeclarations": [DECLARED]}]},
    "ollama": {"tools": [{"type": "function", "function": FUNCTION}]},
}


def with_tools(**more: dict[str, Any]) -> dict[str, Any]:
    return {protocol: tools | more.get(protocol, {}) for protocol, tools in TOOLS.items()}


def turn(role: str, content: Any, **members: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **members}


def geminis(role: str, *parts: Any) -> dict[str, Any]:
    """A turn of Gemini's."""
    return {"role": role, "parts": [*parts]}


HELLO = turn("user", "Hi")
# A call and its result in each protocol; Gemini's says that the call is of another model.
LOOKS = {"name": "look", "arguments": '{"at":"sky"}'}
CHAT_CALL = {"id": "call_0001", "type": "function", "function": LOOKS}
RESPONSES_CALL = {"type": "function_call", "call_id": "call_0001", **LOOKS}
CLAUDES_CALL = {"type": "tool_use", "id": "call_0001", "name": "look", "input": {"at": "sky"}}
CLAUDES_RESULT = {"type": "tool_result", "tool_use_id": "call_0001", "content": "blue"}
GEMINIS_CALL = {
    "functionCall": {"name": "look", "args": {"at": "sky"}},
    "thoughtSignature": "skip_thought_signature_validator",
}
GEMINIS_RESULT = {"functionResponse": {"name": "look", "response": {"output": "blue"}}}
OLLAMAS_CALL = {"function": {"name": "look", "arguments": {"at": "sky"}}}
# A picture in each protocol.
PNG_URL = f"data:image/png;base64,{PNG}"
CHAT_PICTURE = {"type": "image_url", "image_url": {"url": PNG_URL}}
RESPONSES_PICTURE = {"type": "input_image", "image_url": PNG_URL, "detail": "auto"}
CLAUDES_PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
GEMINIS_PICTURE = {"inlineData": {"mimeType": "image/png", "data": PNG}}

INTENTS: dict[str, Intent] = {
    "text": Intent(asked()),
    "system": Intent(
        asked(system="Be brief."),
        chat={"messages": [turn("system", "Be brief."), HELLO]},
        responses={"instructions": "Be brief."},
        messages={"system": "Be brief."},
        gemini={"system_instruction": geminis("user", {"text": "Be brief."})},
        ollama={"messages": [turn("system", "Be brief."), HELLO]},
    ),
    "tools": Intent(asked(tools=(LOOK,)), **with_tools()),
    "result": Intent(
        asked(*CALLED, tools=(LOOK,)),
        **with_tools(
            chat={
                "messages": [
                    HELLO,
                    turn("assistant", None, tool_calls=[CHAT_CALL]),
                    turn("tool", "blue", tool_call_id="call_0001"),
                ]
            },
            responses={
                "input": [
                    HELLO,
                    RESPONSES_CALL,
                    {"type": "function_call_output", "call_id": "call_0001", "output": "blue"},
                ]
            },
            messages={"messages": [HELLO, turn("assistant", [CLAUDES_CALL]), turn("user", [CLAUDES_RESULT])]},
            gemini={
                "contents": [
                    geminis("user", {"text": "Hi"}),
                    geminis("model", GEMINIS_CALL),
                    geminis("user", GEMINIS_RESULT),
                ]
            },
            ollama={
                "messages": [
                    HELLO,
                    turn("assistant", "", tool_calls=[OLLAMAS_CALL]),
                    turn("tool", "blue", tool_name="look"),
                ]
            },
        ),
    ),
    "image": Intent(
        asked(Message.user("See:", Image(data=PNG))),
        chat={"messages": [turn("user", [{"type": "text", "text": "See:"}, CHAT_PICTURE])]},
        responses={"input": [turn("user", [{"type": "input_text", "text": "See:"}, RESPONSES_PICTURE])]},
        messages={"messages": [turn("user", [{"type": "text", "text": "See:"}, CLAUDES_PICTURE])]},
        gemini={"contents": [geminis("user", {"text": "See:"}, GEMINIS_PICTURE)]},
        ollama={"messages": [turn("user", "See:", images=[PNG])]},
    ),
    "limit": Intent(
        asked(max_tokens=100),
        chat={"max_tokens": 100},
        responses={"max_output_tokens": 100},
        messages={"max_tokens": 100},
        gemini={"max_output_tokens": 100},
        ollama={"options": {"num_predict": 100}},
    ),
    "stop": Intent(
        asked(stop_sequences=("END",)),
        chat={"stop": ["END"]},
        messages={"stop_sequences": ["END"]},
        gemini={"stop_sequences": ["END"]},
        ollama={"options": {"stop": ["END"]}},
    ),
    "choice of one": Intent(
        asked(tools=(LOOK,), tool_choice=ToolChoice("tool", "look")),
        **with_tools(
            chat={"tool_choice": {"type": "function", "function": {"name": "look"}}},
            responses={"tool_choice": {"type": "function", "name": "look"}},
            messages={"tool_choice": {"type": "tool", "name": "look"}},
            gemini={"tool_config": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}}},
        ),
    ),
    "choice of any": Intent(
        asked(tools=(LOOK,), tool_choice=ToolChoice("any")),
        **with_tools(
            chat={"tool_choice": "required"},
            responses={"tool_choice": "required"},
            messages={"tool_choice": {"type": "any"}},
            gemini={"tool_config": {"functionCallingConfig": {"mode": "ANY"}}},
        ),
    ),
    "output": Intent(
        asked(output=OutputFormat(SCHEMA, "place")),
        chat={
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "place", "schema": SCHEMA, "strict": True},
            }
        },
        responses={"text": {"format": {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True}}},
        messages={"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        gemini={"response_mime_type": "application/json", "response_json_schema": SCHEMA},
        ollama={"format": SCHEMA},
    ),
    "thinking": Intent(
        asked(thinking="low"),
        chat={"reasoning_effort": "low"},
        responses={"reasoning": {"effort": "low"}},
        messages={"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
        gemini={"thinking_config": {"includeThoughts": True, "thinkingLevel": "low"}},
        ollama={"think": "low"},
    ),
}

# What a request of ours always has, and a program of the official client has to write.
BASE: dict[str, dict[str, Any]] = {
    "chat": {"messages": [HELLO], "stream": True, "stream_options": {"include_usage": True}},
    "responses": {"input": [HELLO], "stream": True, "store": False, "include": ["reasoning.encrypted_content"]},
    "messages": {"messages": [HELLO], "stream": True, "max_tokens": 8192},
    "gemini": {"contents": [geminis("user", {"text": "Hi"})]},
    "ollama": {"messages": [HELLO], "stream": True},
}


# --- the hosts

Send = Callable[[Any, dict[str, Any]], Any]
SEND: dict[str, Send] = {
    "chat": lambda client, words: client.chat.completions.create(**words),
    "responses": lambda client, words: client.responses.create(**words),
    "messages": lambda client, words: client.messages.create(**words),
    "gemini": lambda client, words: [
        *client.models.generate_content_stream(model=words.pop("model"), contents=words.pop("contents"), config=words)
    ],
    "ollama": lambda client, words: [*client.chat(**words)],
}


class Host(Struct):
    """A provider at a host.

    Attributes:
        protocol: The words that its client has, a key of `BASE`.
        ours: Our provider.
        client: Makes the official client.
        words: What a program writes otherwise at this host, by intent or for all (``*``); ``None`` leaves an argument
            out.
        headers: Ours where they differ from those of the client; ``None``: only the client has it.
        body: Members of ours that differ.
    """

    protocol: str
    ours: Provider
    client: Callable[..., Any]
    words: dict[str, dict[str, Any]] = {}
    headers: dict[str, str | None] = {}
    body: dict[str, Any] = {}


def chat(base: str, path: str, **named: Any) -> Host:
    """A host that speaks Chat Completions. The path is a part of what a program gives to the official client."""
    ours = OpenAIChat("m", api_key=KEY, base_url=base, info=ModelInfo())  # hosts are compared
    return Host("chat", ours, partial(openai.OpenAI, api_key=KEY, base_url=base + path), **named)


def claude(ours: Any, client: Callable[..., Any], **named: Any) -> Host:
    # The decoder reads the events of this version; the client has a newer one.
    named.setdefault("headers", {"anthropic-version": VERSION})
    return Host("messages", ours, client, **named)


def compatible(base: str, path: str) -> Host:
    client = partial(anthropic.Anthropic, api_key=KEY, base_url=base + path)
    return claude(Anthropic("m", api_key=KEY, base_url=base), client)


OBJECT_ALONE = f"Answer with JSON that conforms to this JSON schema: {msgspec.json.encode(SCHEMA).decode()}"
NO_SCHEMAS: dict[str, dict[str, Any]] = {
    "output": {"response_format": {"type": "json_object"}, "messages": [turn("system", OBJECT_ALONE), HELLO]}
}
NEWER = {"limit": {"max_tokens": None, "max_completion_tokens": 100}}
# https://docs.z.ai/guides/capabilities/stream-tool
STREAMED: dict[str, dict[str, Any]] = {
    name: {"extra_body": {"tool_stream": True}} for name, intent in INTENTS.items() if intent.ours[1]
}
GLM = NO_SCHEMAS | STREAMED
# An answer with calls needs the member, also where another model made it.
REASONED: dict[str, Any] = json.loads(json.dumps({"messages": INTENTS["result"].chat["messages"]}))
REASONED["messages"][1]["reasoning_content"] = ""
KIMI: dict[str, Any] = json.loads(json.dumps(REASONED))
KIMI["messages"][1]["reasoning_content"] = " "  # an empty text counts as none there

AZURE, MANTLE = "https://me.openai.azure.com", "https://bedrock-mantle.us-east-1.api.aws"
AZURE_KEY: dict[str, str | None] = {"authorization": None, "api-key": KEY}
CLAUDE_KEY = {"anthropic-version": VERSION, "authorization": None, "x-api-key": KEY}

HOSTS: dict[str, Host] = {
    "OpenAI": chat("https://api.openai.com", "/v1", words=NEWER),
    "DeepSeek": chat("https://api.deepseek.com", "/v1", words={**NO_SCHEMAS, "result": REASONED}),
    "Kimi": chat("https://api.moonshot.ai", "/v1", words={"result": KIMI, **NEWER}),
    "Kimi for coding": chat("https://api.kimi.com", "/coding/v1", words={"result": KIMI, **NEWER}),
    "GLM": chat("https://api.z.ai", "/api/paas/v4/", words=GLM),
    "GLM in China": chat("https://open.bigmodel.cn", "/api/paas/v4", words=GLM),
    "MiniMax": chat(
        "https://api.minimax.io",
        "/v1",
        # https://platform.minimax.io/docs/api-reference/text-openai-api
        words={"*": {"extra_body": {"reasoning_split": True}}, **NEWER},
    ),
    "Qwen": chat("https://dashscope-intl.aliyuncs.com", "/compatible-mode/v1"),
    "xAI": chat("https://api.x.ai", "/v1"),
    "Mistral": chat(
        "https://api.mistral.ai",
        "/v1",
        words={
            "*": {"stream_options": None},
            "result": json.loads(
                json.dumps({"messages": INTENTS["result"].chat["messages"]}).replace("call_0001", "76c75faa4")
            ),
        },
    ),
    "Groq": chat("https://api.groq.com", "/openai/v1"),
    "Together": chat("https://api.together.xyz", "/v1"),
    "Cerebras": chat("https://api.cerebras.ai", "/v1", words=NEWER),
    "OpenRouter": chat("https://openrouter.ai", "/api/v1"),
    "SiliconFlow": chat("https://api.siliconflow.com", "/v1"),
    "Gemini by chat": chat("https://generativelanguage.googleapis.com", "/v1beta/openai/"),
    "Bedrock mantle": chat(MANTLE, "/openai/v1", words=NEWER),
    "Azure with a key": chat(AZURE, "/openai/v1", words=NEWER, headers=AZURE_KEY),
    "Azure with a token": Host(
        "chat",
        OpenAIChat("m", api_key=TOKEN, base_url=AZURE),
        partial(openai.OpenAI, api_key=TOKEN, base_url=f"{AZURE}/openai/v1"),
        words=NEWER,
    ),
    "Azure deployments": Host(
        "chat",
        OpenAIChat("m", api_key=KEY, base_url=f"{AZURE}/openai/deployments/m?api-version=2026-01-01"),
        partial(openai.AzureOpenAI, api_key=KEY, azure_endpoint=AZURE, api_version="2026-01-01"),
        words=NEWER,
    ),
    "vLLM": chat("http://127.0.0.1:8000", "/v1"),
    "SGLang": chat("http://127.0.0.1:30000", "/v1"),
    "llama.cpp": chat("http://127.0.0.1:8080", "/v1"),
    "LM Studio": chat("http://127.0.0.1:1234", "/v1"),
    "LiteLLM": chat("http://127.0.0.1:4000", "/v1"),
    "Responses": Host("responses", OpenAIResponses("gpt-5", api_key=KEY), partial(openai.OpenAI, api_key=KEY)),
    "Responses at Azure": Host(
        "responses",
        OpenAIResponses("gpt-5", api_key=KEY, base_url=AZURE),
        partial(openai.OpenAI, api_key=KEY, base_url=f"{AZURE}/openai/v1"),
        headers=AZURE_KEY,
    ),
    "Responses at Bedrock mantle": Host(
        "responses",
        OpenAIResponses("gpt-5", api_key=KEY, base_url=MANTLE),
        partial(openai.BedrockOpenAI, api_key=KEY, aws_region="us-east-1"),
    ),
    "Claude": claude(
        Anthropic("claude-haiku-5-5", api_key=KEY), partial(anthropic.Anthropic, api_key=KEY), headers=CLAUDE_KEY
    ),
    "Claude that takes a budget": claude(
        Anthropic("claude-haiku-4-5", api_key=KEY),
        partial(anthropic.Anthropic, api_key=KEY),
        headers=CLAUDE_KEY,
        words={
            "thinking": {
                "thinking": {"type": "enabled", "budget_tokens": 2048},
                "output_config": None,
                "max_tokens": 8192 + 2048,
            }
        },
    ),
    "Claude with a token": claude(
        Anthropic("claude-haiku-5-5", headers={"authorization": f"Bearer {KEY}"}),
        partial(anthropic.Anthropic, auth_token=KEY),
    ),
    "Claude at Azure": claude(
        Anthropic("m", api_key=KEY, base_url="https://me.services.ai.azure.com"),
        partial(anthropic.AnthropicFoundry, resource="me", api_key=KEY),
    ),
    "Claude at Azure with a token": claude(
        Anthropic("m", api_key=TOKEN, base_url="https://me.services.ai.azure.com"),
        partial(anthropic.AnthropicFoundry, resource="me", azure_ad_token_provider=token),
    ),
    "Claude at Bedrock mantle": claude(
        Anthropic("m", api_key=KEY, base_url=MANTLE),
        partial(anthropic.AnthropicBedrockMantle, api_key=KEY, aws_region="us-east-1"),
    ),
    "Claude at Bedrock": claude(
        AnthropicBedrock("us.anthropic.claude-haiku-5-5-v1:0", region="us-east-1", api_key=KEY),
        partial(anthropic.AnthropicBedrock, api_key=KEY, aws_region="us-east-1"),
        headers={},
        body={"anthropic_version": "bedrock-2023-05-31"},
    ),
    **{
        f"Claude at Vertex, {location}": claude(
            AnthropicVertex("claude-haiku-5-5@20261001", project="mine", location=location, access_token=KEY),
            partial(anthropic.AnthropicVertex, project_id="mine", region=location, access_token=KEY),
            headers={},
            body={"anthropic_version": "vertex-2023-10-16"},
        )
        for location in ("us-east5", "global", "eu")
    },
    "DeepSeek by Messages": compatible("https://api.deepseek.com", "/anthropic"),
    "Kimi by Messages": compatible("https://api.moonshot.ai", "/anthropic"),
    "GLM by Messages": compatible("https://api.z.ai", "/api/anthropic"),
    "MiniMax by Messages": compatible("https://api.minimax.io", "/anthropic"),
    "Qwen by Messages": compatible("https://dashscope-intl.aliyuncs.com", "/apps/anthropic"),
    "OpenRouter by Messages": compatible("https://openrouter.ai", "/api"),
    "Gemini": Host(
        "gemini",
        Gemini("gemini-3-pro", api_key=KEY),
        partial(genai.Client, api_key=KEY, http_options={"api_version": "v1beta"}),
    ),
    **{
        f"Gemini at Vertex, {location}": Host(
            "gemini",
            Gemini("gemini-3-pro", project="mine", location=location, access_token=KEY),
            partial(
                genai.Client,
                vertexai=True,
                project="mine",
                location=location,
                credentials=google.Credentials(token=KEY),
                http_options={"api_version": "v1"},
            ),
        )
        for location in ("europe-west4", "global", "us")
    },
    "Ollama": Host("ollama", Ollama("m"), partial(ollama.Client, "http://localhost:11434")),
}


def canonical(value: Any) -> Any:
    """The body without the freedom that the protocols leave.

    A text alone is a list of one, and what is empty or ``null`` is left out. Google takes the names of members and the
    words of a level in both forms (https://protobuf.dev/programming-guides/json/).
    """
    if isinstance(value, list):
        return [canonical(one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    known = {name: canonical(one) for name, one in cast("dict[str, Any]", value).items()}
    members = {SNAKE.get(name, name): one for name, one in known.items() if one or one is False}
    for name in ("content", "system"):
        if isinstance(members.get(name), str):
            members[name] = [{"type": "text", "text": members[name]}]
    if isinstance(level := members.get("thinkingLevel"), str):
        members["thinkingLevel"] = level.lower()
    return members


SNAKE = {
    "allowed_function_names": "allowedFunctionNames",
    "include_thoughts": "includeThoughts",
    "mime_type": "mimeType",
    "parameters_json_schema": "parametersJsonSchema",
    "thinking_level": "thinkingLevel",
}


def carried(client: Callable[..., Any], http: Any, transport: Any) -> Any:
    return client(http_client=http)


def carried_for_google(client: Any, http: Any, transport: Any) -> Any:
    return client(http_options={**client.keywords["http_options"], "httpx_client": http})


def carried_for_ollama(client: Callable[..., Any], http: Any, transport: Any) -> Any:
    return client(transport=transport)


CARRIED_BY = {"gemini": carried_for_google, "ollama": carried_for_ollama}


def by_client(host: Host, several: Mapping[str, dict[str, Any]]) -> dict[str, Sent]:
    """What the official client sends for each intent."""
    seen: list[Sent] = []
    library = httpx if host.protocol in ("gemini", "ollama") else httpx2

    def answer(request: Any) -> Any:
        seen.append(sent(request.method, str(request.url), request.headers, request.content))
        return library.Response(200, headers={"content-type": "text/event-stream"}, content=b"")

    transport = library.MockTransport(answer)
    with library.Client(transport=transport) as http:
        client = CARRIED_BY.get(host.protocol, carried)(host.client, http, transport)
        for words in several.values():
            SEND[host.protocol](client, {"model": host.ours.model} | words)
    return dict(zip(several, seen, strict=True))


def words_of(host: Host, intent: str) -> dict[str, Any]:
    """What a program of the official client writes."""
    words = BASE[host.protocol] | getattr(INTENTS[intent], host.protocol)
    words |= host.words.get("*", {}) | host.words.get(intent, {})
    return {word: value for word, value in words.items() if value is not None}


@pytest.mark.parametrize("name", HOSTS)
def test_requests_are_those_of_the_official_client(name: str) -> None:
    host = HOSTS[name]
    differences: dict[str, tuple[Sent, Sent]] = {}
    for intent, theirs in by_client(host, {one: words_of(host, one) for one in INTENTS}).items():
        request = host.ours.request(*INTENTS[intent].ours)
        ours = sent(request.method, request.url, request.headers, request.body)
        ours = ours._replace(body=canonical(ours.body))
        headers = {k: v for k, v in {**theirs.headers, **host.headers}.items() if v is not None}
        expected = theirs._replace(headers=headers, body=canonical(theirs.body | host.body))
        if ours != expected:
            differences[intent] = (ours, expected)
    assert not differences
