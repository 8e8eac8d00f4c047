"""What programs want, at every service, and recorded answers sent on: held against the official types and the rules.

An *intent* is a conversation, tools and settings. A *target* is a model at a service: the type that the official
package has for the body, in which unknown members are forbidden, and rules that the service has beside it, written
here from its pages and errors. An intent is sent in a form that keeps both, or refused with what to do. Faults that
are planted into the bodies must be found.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.messages import (
    Audio,
    CachePoint,
    Conversation,
    Document,
    Grammar,
    Image,
    JsonObject,
    Message,
    OutputFormat,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.providers import (
    PROVIDERS,
    Anthropic,
    Bedrock,
    Gemini,
    GeminiInteractions,
    Ollama,
    OpenAIChat,
    OpenAIResponses,
    Options,
    ToolChoice,
)
from rxworker.providers.service import Service
from rxworker.state.response import fold_response, message_of
from tests.decoded import decoded
from tests.over_recordings import FOLDERS, RECORDINGS, SUFFIXES
from tests.providers.test_sdk_types import from_sdk, problems

# --- intents

PNG = Image(data="iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
PDF = Document("application/pdf", "JVBERi0xLjQKJcOkw7zDtsOf", title="Report")
NOTE = Document("text/plain", "cGxhaW4=", title="Note")
SCHEMA: JsonObject = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
LOOK = ToolMeta("look", "Looks.", SCHEMA)
NOW = ToolMeta("now", "", {"type": "object", "properties": {}})
ASK = Message.user("hi")
CALL, OTHER = ToolCall("call_1", "look", {"at": "a"}), ToolCall("call_2", "now", {})
SEEN, TIME = ToolResult("call_1", "seen", name="look"), ToolResult("call_2", "noon", name="now")


def said(*content: Any, **named: Any) -> Message:
    return Message("assistant", content, **named)


def loop(result: ToolResult | Message, *after: Message, call: ToolCall = CALL) -> tuple[Message, ...]:
    return ASK, said(call), result if isinstance(result, Message) else Message.user(result), *after


POINTS = (Message.user("long", CachePoint("1h"), "b"), Message.user(CachePoint()))
CONVERSATIONS: dict[str, tuple[Message, ...]] = {
    "text": (ASK,),
    "two messages": (ASK, Message.user("and?")),
    "an answer": (ASK, said(Text("a"), Text("b")), Message.user("c")),
    "an empty answer": (ASK, said(Text("")), Message.user("c")),
    "system in the middle": (ASK, said(Text("a")), Message.system("Be brief."), Message.user("c")),
    "a picture": (Message.user("see", PNG),),
    "a picture by its address": (Message.user("see", Image("image/png", url="https://h/i.png")),),
    "a document": (Message.user("read", PDF),),
    "a document alone": (Message.user(PDF),),
    "a document by its address": (Message.user("read", Document(url="https://h/d.pdf")),),
    "a document with a context": (Message.user("read", replace(NOTE, citations=True, context="c")),),
    "a picture by its file id": (Message.user("see", Image(file_id="f")),),
    "a document by its file id": (Message.user("read", Document(file_id="f", title="t")),),
    "speech": (Message.user("hear", Audio(data="AAAA")),),
    "cache points": POINTS,
    "two documents of one name": (Message.user("read", PDF, PDF),),
    "a text as a document": (Message.user("read", NOTE),),
    "a call": loop(SEEN),
    "calls": (ASK, said(Text("I look."), CALL, OTHER), Message.user(TIME, SEEN)),
    "calls in turns": (*loop(SEEN), said(CALL), Message.user(SEEN), said(OTHER), Message.user(TIME)),
    "a call without arguments": loop(TIME, call=OTHER),
    "arguments that are no object": loop(SEEN, call=ToolCall("call_1", "look", '{"at": "a')),
    "a long id": loop(ToolResult("x" * 100, "seen", name="look"), call=ToolCall("x" * 100, "look", {"at": "a"})),
    "an odd id": loop(ToolResult("f.look:0", "seen", name="look"), call=ToolCall("f.look:0", "look", {"at": "a"})),
    "an error": loop(ToolResult("call_1", "", is_error=True, name="look")),
    "an empty result": loop(ToolResult("call_1", "", name="look")),
    "a picture in a result": loop(ToolResult("call_1", (Text("see"), PNG), name="look")),
    "a document in a result": loop(ToolResult("call_1", (PDF, PDF), name="look")),
    "a picture that is none in a result": loop(ToolResult("call_1", (Image("image/heic", "AAAA"),), name="look")),
    "steering": loop(SEEN, Message.user("Stop.")),
    "steering in one message": loop(Message.user(SEEN, Text("Stop."))),
    "steering and an answer": loop(SEEN, Message.user("Stop."), said(Text("Yes.")), Message.user("Go on.")),
    "another service": (
        ASK,
        said(
            Thinking("Hm.", "sealed", {"x": 1}),
            ServerToolCall("s", "search", {}, {"type": "y"}),
            ServerToolResult("s", "found", {"type": "z"}),
            Text("yes", ({"odd": 1},)),
            Refusal("no"),
            CALL,
            provider="somebody",
        ),
        Message.user(SEEN),
    ),
    "thinking alone": (ASK, said(Thinking("Hm.", "sealed"), provider="somebody"), Message.user("and?")),
    "a tool that has gone": loop(ToolResult("c", "x", name="gone"), call=ToolCall("c", "gone", {})),
}
ODD: dict[str, JsonObject] = {
    "anyOf at the top": {"anyOf": [SCHEMA, {"type": "object", "properties": {"by": {"type": "integer"}}}]},
    "allOf at the top": {"type": "object", "allOf": [SCHEMA]},
    "an empty schema": {},
    "no properties": {"type": "object"},
    "odd names": {"type": "object", "properties": {"$filter": {"type": "string"}, "Account Number": {}, "a[b]": {}}},
    "references": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}},
    "types": {"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {"const": 1}}},
}
FORM = OutputFormat({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, "answer")
SETTINGS: dict[str, Options] = {
    "numbers": Options(max_tokens=4000, temperature=0.5),
    "stops": Options(stop_sequences=("x",)),
    "one call": Options(tool_choice=ToolChoice("tool", "look")),
    "any call": Options(tool_choice=ToolChoice("any"), parallel_tool_calls=False),
    "a required call and thinking": Options(tool_choice=ToolChoice("required"), thinking="low"),
    "no call": Options(tool_choice=ToolChoice("none")),
    "no thinking": Options(thinking=0),
    "much thinking": Options(tool_choice=ToolChoice("auto"), parallel_tool_calls=True, thinking="high"),
    "little thinking": Options(thinking="low"),
    "a budget": Options(thinking=2048),
    "a form": Options(output=FORM),
    "caching": Options(cache="auto"),
    "parts of the cache": Options(cache=("tools", "system")),
    "a version": Options(temperature=0.5, headers={"anthropic-version": "2026-10-21"}),
}


# Tools with all that a tool may have beside its schema.
HINTED = (
    LOOK,
    NOW,
    ToolMeta(
        "add",
        "Adds.",
        {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        strict=True,
        cache_control=CachePoint("1h"),
        allowed_callers=("direct", "code_execution_20260521"),
        input_examples=({"n": 1},),
    ),
    ToolMeta("run", "Runs.", SCHEMA, defer_loading=True, format="text"),
)


class Intent(Struct, frozen=True):
    messages: tuple[Message, ...] = (ASK,)
    tools: tuple[ToolMeta, ...] = (LOOK, NOW)
    options: Options = Options()


INTENTS: dict[str, Intent] = {
    **{name: Intent(messages) for name, messages in CONVERSATIONS.items()},
    **{name: Intent(loop(SEEN), (LOOK, ToolMeta("odd", "Odd.", schema))) for name, schema in ODD.items()},
    "a digit first": Intent(loop(SEEN), (LOOK, ToolMeta("7zip", "Packs.", SCHEMA))),
    "a long description": Intent(tools=(ToolMeta("look", "Looks. " * 400, SCHEMA),)),
    "strict": Intent(tools=(ToolMeta("look", "Looks.", SCHEMA, strict=True),)),
    "hints": Intent(loop(SEEN), HINTED),
    "hints and cache points": Intent(POINTS, HINTED, Options(cache=("tools", "system"))),
    "a grammar": Intent(tools=(ToolMeta("look", "", SCHEMA, format=Grammar("[0-9]+", "regex")),)),
    "without tools": Intent(tools=()),
    "a sampling parameter and none": Intent(options=Options(temperature=0.5, thinking=0)),
    "a form without tools": Intent(tools=(), options=Options(output=FORM)),
    **{name: Intent(loop(SEEN), options=options) for name, options in SETTINGS.items()},
}

# --- rules

Check = Callable[[Any], Iterator[str]]
Ids = Callable[[Any], Iterable[str]]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
VARIANTS = {"anyOf", "allOf", "oneOf"}


def of_schema(schema: Any, *, needs_properties: bool = False) -> Iterator[str]:
    if schema.get("type") != "object" or VARIANTS & schema.keys() or (needs_properties and "properties" not in schema):
        yield "a schema of a tool"


def of_arguments(schema: Any) -> Iterator[str]:
    yield from of_schema(schema)
    if not all(KEY.fullmatch(name) for name in schema.get("properties", {})):
        yield "a name of an argument"


def of_turns(messages: Any, calls: Ids, results: Ids) -> Iterator[str]:
    """The roles alternate, and the message behind one with calls has their results and no other."""
    roles = [message["role"] for message in messages]
    if roles[0] != "user" or any(a == b for a, b in pairwise(roles)):
        yield "the order of roles"
    wanted: Counter[str] = Counter()
    for message in messages:
        if message["role"] == "user" and Counter(results(message["content"])) != wanted:
            yield "calls and results"
        wanted = Counter(calls(message["content"]))
    if wanted:
        yield "calls and results"


def of_items(items: Any, call_id: str, result: str) -> Iterator[str]:
    """Each result stands behind its call, and each call has one."""
    waiting: list[str] = []
    for item in items:
        if item.get("type") == "function_call":
            waiting.append(item[call_id])
        elif item.get("type") == result:
            if item["call_id"] not in waiting:
                yield "a result without its call"
            else:
                waiting.remove(item["call_id"])
    if waiting:
        yield "a call without its result"


def of_chat(body: Any) -> Iterator[str]:
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield "a result without its call"
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield "a call without its result"
        calls = message.get("tool_calls", [])
        waiting = [call["id"] for call in calls]
        if len({*waiting}) < len(waiting):
            yield "two calls of one id"
        if message["role"] == "assistant" and not calls and not message.get("content") and not message.get("refusal"):
            yield "an answer without content"
        if message["role"] == "user" and not message["content"]:
            yield "a message without content"
    if waiting:
        yield "a call without its result"
    for tool in body.get("tools", ()):
        schema, name = tool["function"]["parameters"], tool["function"]["name"]
        if not NAME.fullmatch(name) or len(tool["function"].get("description", "")) > 1024:
            yield "a name or a description of a tool"
        yield from of_schema(schema, needs_properties=True)


def of_mistral(body: Any) -> Iterator[str]:
    roles = [message["role"] for message in body["messages"]]
    if ("tool", "user") in pairwise(roles):
        yield "a message of the user's after a result"
    for message in body["messages"]:
        ids = [call["id"] for call in message.get("tool_calls", ())] + [message.get("tool_call_id", "a" * 9)]
        if not all(re.fullmatch("[a-zA-Z0-9]{9}", one) for one in ids):
            yield "an id of a call"
    yield from without_files(body)


def without_files(body: Any) -> Iterator[str]:
    if '"file_data"' in json.dumps(body["messages"]):  # an id is one that the application has of the service
        yield "a document as a file"


def of_groq(body: Any) -> Iterator[str]:
    if "response_format" in body and "tools" in body:
        yield "a form beside tools"
    yield from without_files(body)


def of_kimi(body: Any) -> Iterator[str]:
    if any(m.get("tool_calls") and not m.get("reasoning_content") for m in body["messages"]):
        yield "thinking is missing"


def of_messages(body: Any) -> Iterator[str]:
    yield from of_turns(
        body["messages"],
        lambda blocks: (block["id"] for block in blocks if block["type"] == "tool_use"),
        lambda blocks: (block["tool_use_id"] for block in blocks if block["type"] == "tool_result"),
    )
    for message in body["messages"]:
        kinds = [block["type"] for block in message["content"]]
        if not kinds:
            yield "a message without content"
        if "tool_result" in kinds[kinds.count("tool_result") :]:
            yield "a result behind something else"
        if any(block["type"] == "text" and not block["text"].strip() for block in message["content"]):
            yield "an empty text"
    if json.dumps(body).count('"cache_control"') > 4:
        yield "marks of the cache"
    for tool in body.get("tools", ()):
        yield from of_arguments(tool["input_schema"])


def of_claude_4(body: Any) -> Iterator[str]:
    thinks = body.get("thinking", {}).get("type") in ("enabled", "adaptive")
    if thinks and body.get("tool_choice", {}).get("type") in ("any", "tool"):
        yield "a forced call while it thinks"
    if {"temperature", "top_p"} <= body.keys() or (thinks and "temperature" in body):
        yield "sampling parameters"


def of_converse(body: Any) -> Iterator[str]:
    messages = body["messages"]
    yield from of_turns(
        messages,
        # one with a type is run by the service
        lambda blocks: (b["toolUse"]["toolUseId"] for b in blocks if "toolUse" in b and "type" not in b["toolUse"]),
        lambda blocks: (b["toolResult"]["toolUseId"] for b in blocks if "toolResult" in b),
    )
    names = re.findall(r'"format": "\w+", "name": "(.*?)"', json.dumps(messages))
    if len({*names}) < len(names):
        yield "two documents of one name"
    for message in messages:
        kinds = [next(iter(block)) for block in message["content"]]
        if "document" in kinds and "text" not in kinds:
            yield "a document without a text"
    for tool in body.get("toolConfig", {}).get("tools", ()):
        yield from of_arguments(tool.get("toolSpec", {}).get("inputSchema", {}).get("json", {"type": "object"}))


def of_responses(body: Any) -> Iterator[str]:
    yield from of_items(body["input"], "call_id", "function_call_output")
    for item in body["input"]:
        if item.get("type") == "function_call" and len(item["call_id"]) > 64:
            yield "an id of a call"
        elif item.get("role") == "user" and not item["content"]:
            yield "a message without content"
    for tool in body.get("tools", ()):  # one with a format has no parameters
        yield from of_schema(tool.get("parameters", {"type": "object", "properties": {}}), needs_properties=True)


def of_gemini(body: Any) -> Iterator[str]:
    contents = body["contents"]
    if any(a["role"] == b["role"] for a, b in pairwise(contents)):
        yield "the order of roles"
    calls: list[str] = []
    for content in contents:
        if not content["parts"]:
            yield "a message without content"
        found = [part["functionResponse"]["name"] for part in content["parts"] if "functionResponse" in part]
        if content["role"] == "user" and found != calls:
            yield "calls and results"
        calls = [part["functionCall"]["name"] for part in content["parts"] if "functionCall" in part]
    if calls:
        yield "calls and results"
    for tool in body.get("tools", ()):
        for declared in tool.get("functionDeclarations", ()):
            if not re.match("[a-zA-Z_]", declared["name"]):
                yield "a name of a tool"


def of_gemini_2_5(body: Any) -> Iterator[str]:
    if "tools" in body and "responseJsonSchema" in body.get("generationConfig", {}):
        yield "a form beside tools"


def of_gemini_3(body: Any) -> Iterator[str]:
    for content in body["contents"]:
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and "thoughtSignature" not in calls[0]:
            yield "a call without a signature"


def of_steps(body: Any) -> Iterator[str]:
    yield from of_items(body["input"], "id", "function_result")


def of_ollama(body: Any) -> Iterator[str]:
    waiting = 0
    for message in body["messages"]:
        if message["role"] == "tool":
            waiting -= 1
        elif waiting:
            yield "calls and results"
        waiting += len(message.get("tool_calls", ()))
    if waiting:
        yield "calls and results"
    if "format" in body and "tools" in body:
        yield "a form beside tools"


# --- the types of the official packages


def typed(module: str, name: str, *known: str) -> Check:
    """A ``TypedDict``, but for members whose problems end so: of a service that is compatible, or of older models."""

    def check(body: Any) -> Iterator[str]:
        found = problems(body, from_sdk(module, name))
        return (problem for problem in found if not any(re.search(pattern, problem) for pattern in known))

    return check


@cache
def converse_shape() -> Any:
    session: Any = pytest.importorskip("botocore.session", reason="the package botocore is not installed")
    return session.get_session().get_service_model("bedrock-runtime").operation_model("ConverseStream").input_shape


def typed_converse(body: Any) -> Iterator[str]:
    validate: Any = pytest.importorskip("botocore.validate", reason="the package botocore is not installed")
    report = validate.ParamValidator().validate({"modelId": "m", **body}, converse_shape())
    found = str(report.generate_report())
    yield from [found] if found else []


# https://ai.google.dev/api/generate-content#request-body
GEMINI_MEMBERS = {
    *("contents", "tools", "toolConfig", "safetySettings", "systemInstruction"),
    *("generationConfig", "cachedContent"),
}


def typed_gemini(body: Any) -> Iterator[str]:
    yield from (f"{member}: unknown" for member in body.keys() - GEMINI_MEMBERS)
    models = {"contents": ("Content", True), "tools": ("Tool", True), "generationConfig": ("GenerationConfig", False)}
    for member, (name, several) in models.items():
        for one in body.get(member, ()) if several else [body.get(member, {})]:
            try:
                from_sdk("google.genai.types", name).model_validate(one)
            except ValueError as error:
                yield str(error)


def typed_ollama(body: Any) -> Iterator[str]:
    image, message = from_sdk("ollama", "Image"), from_sdk("ollama", "Message")
    messages = [
        message(**{**one, "images": [image(value=data) for data in one.get("images", ())] or None})
        for one in body["messages"]
    ]
    passed: Any = from_sdk("ollama._types", "ChatRequest")(**{**body, "messages": messages})
    passed = passed.model_dump(exclude_none=True)
    for one in (passed, body := copy.deepcopy(body)):  # the package leaves out what it does not read of a schema
        for tool in one.get("tools", ()):
            tool["function"]["parameters"] = {}
    if passed != body:
        yield "an unknown member"


OLDER = r"\$\.(temperature|top_p): unknown"
STABLE = typed(
    "anthropic.types.message_create_params", "MessageCreateParamsStreaming", OLDER, "'file'|file_id|block_binding"
)
MESSAGES = typed("anthropic.types.beta.message_create_params", "MessageCreateParamsStreaming", OLDER)
CHAT = "openai.types.chat.completion_create_params", "CompletionCreateParamsStreaming"
# What compatible services have beside it.
THEIRS = (
    r"(reasoning_content|reasoning|reasoning_details|extra_content|thinking|reasoning_split|tool_stream): unknown",
    r"\.top_p: unknown",
    "document_url",
    "cache_control",
)
RESPONSES = typed("openai.types.responses.response_create_params", "ResponseCreateParamsStreaming")
STEPS = typed("google.genai._gaos.types.interactions.createmodelinteraction", "CreateModelInteractionParam", r"top_p")


class Target(Struct, frozen=True):
    service: Service
    checks: tuple[Check, ...]


def chat(model: str, url: str, *checks: Check) -> Target:
    own = typed(*CHAT, *(THEIRS if "openai.com" not in url else ()))
    return Target(OpenAIChat(model, api_key="k", base_url=url), (own, of_chat, *checks))


def claude(model: str, *checks: Check, url: str | None = None) -> Target:
    return Target(Anthropic(model, api_key="k", base_url=url), (STABLE, MESSAGES, of_messages, *checks))


TARGETS: dict[str, Target] = {
    "claude": claude("claude-opus-5-5"),
    "claude 4.6": claude("claude-opus-4-6", of_claude_4),
    "claude 4.5": claude("claude-haiku-4-5", of_claude_4),
    "minimax by messages": claude("MiniMax-M3", url="https://api.minimax.io/anthropic"),
    "bedrock": Target(
        Bedrock("anthropic.claude-haiku-4-5", api_key="k", region="us-east-1"), (typed_converse, of_converse)
    ),
    "nova": Target(Bedrock("amazon.nova-pro-v1:0", api_key="k", region="us-east-1"), (typed_converse, of_converse)),
    "chat": chat("gpt-5.1", "https://api.openai.com"),
    "older chat": chat("gpt-4.1", "https://api.openai.com"),
    "mistral": chat("mistral-large-2512", "https://api.mistral.ai", of_mistral),
    "groq": chat("openai/gpt-oss-120b", "https://api.groq.com", of_groq),
    "deepseek": chat("deepseek-v4-pro", "https://api.deepseek.com", without_files),
    "kimi": chat("kimi-k2.6", "https://api.moonshot.ai", of_kimi),
    "glm": chat("glm-5.3", "https://api.z.ai"),
    "openrouter": chat("anthropic/claude-opus-5.5", "https://openrouter.ai"),
    "own server": chat("m", "http://127.0.0.1:8000"),
    "responses": Target(OpenAIResponses("gpt-6.2-sol", api_key="k"), (RESPONSES, of_responses)),
    "gemini": Target(Gemini("gemini-3.8-flash", api_key="k"), (typed_gemini, of_gemini, of_gemini_3)),
    "gemini 2.5": Target(Gemini("gemini-2.5-flash", api_key="k"), (typed_gemini, of_gemini, of_gemini_2_5)),
    "interactions": Target(GeminiInteractions("gemini-3.8-flash", api_key="k"), (STEPS, of_steps)),
    "ollama": Target(Ollama("qwen3"), (typed_ollama, of_ollama)),
}


def body_at(target: Target, intent: Intent) -> Any:
    """The body; ``None`` where the request is refused with what to do."""
    try:
        request = target.service.request(Conversation(intent.messages, "S"), intent.tools, intent.options)
    except (ConfigurationError, LocalProtocolError) as error:
        if not re.search(r"[:;,] ", str(error)):  # what to do comes after the reason
            raise
        return None
    return msgspec.json.decode(request.body)


def found_in(target: Target, body: Any) -> list[str]:
    return [problem for check in target.checks for problem in check(body)]


@pytest.mark.parametrize("name", TARGETS)
def test_each_intent_keeps_the_types_and_the_rules_of_each_service(name: str) -> None:
    target, found, sent = TARGETS[name], dict[str, list[str]](), 0
    for what, intent in INTENTS.items():
        body = body_at(target, intent)
        sent += body is not None
        if body is not None and (wrong := found_in(target, body)):
            found[what] = wrong
    assert found == {}
    assert sent >= 0.8 * len(INTENTS)


def test_there_are_enough_intents_and_targets() -> None:
    assert (len(INTENTS) >= 50, len(TARGETS) >= 20) == (True, True)


# --- recorded answers


@cache
def recorded() -> dict[str, Message]:
    found: dict[str, Message] = {}
    for name, make in PROVIDERS.items():
        for path in sorted((RECORDINGS / FOLDERS.get(name, name)).glob("*")):
            if path.suffix not in SUFFIXES:
                continue
            provider = make("m", api_key="k")
            state = fold_response(decoded(provider, path.read_bytes()))
            answer = message_of(state, name, provider.service)
            if answer is not None:
                found[f"{name}/{path.stem}"] = answer
    return found


# What the newest types do not name, and the services have sent themselves.
SENT_BY_SERVICES = re.compile(r"none of|unknown|missing|not <class")


@pytest.mark.product(4)
@pytest.mark.parametrize("name", TARGETS)
def test_recorded_answers_keep_the_rules_wherever_they_are_sent_on(name: str) -> None:
    if not RECORDINGS.exists():
        pytest.skip(f"no recordings: {RECORDINGS} is absent")
    target, found = TARGETS[name], dict[str, list[str]]()
    for what, answer in recorded().items():
        results = tuple(ToolResult(call.id, "ok", name=call.name) for call in answer.tool_calls)
        messages = (ASK, answer, Message.user(*results) if results else Message.user("and?"))
        body = body_at(target, Intent(messages))
        if body is None:
            found[what] = ["refused"]
            continue
        own = what.partition("/")[0] == target.service.name
        wrong = found_in(target, body)
        wrong = [problem for problem in wrong if not (own and SENT_BY_SERVICES.search(problem))]
        if own and target.service.name == "anthropic":  # whose beta protocol names all of it
            wrong += MESSAGES(body)
        if wrong:
            found[what] = wrong
    assert found == {}


# --- planted faults


def listed(body: Any) -> list[Any]:
    return body.get("messages") or body.get("contents") or body["input"]


def drop_results(body: Any) -> None:
    """The last message, step or item, which answers the call."""
    listed(body).pop()


def drop_call(body: Any) -> None:
    listed(body).pop(-2)


def add_member(body: Any) -> None:
    body["odd_member"] = 1


def add_member_within(body: Any) -> None:
    listed(body)[-1]["odd_member"] = 1


FAULTS = (drop_results, drop_call, add_member, add_member_within)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", TARGETS)
def test_a_fault_that_is_planted_is_found(name: str, fault: Callable[[Any], None]) -> None:
    target = TARGETS[name]
    body = body_at(target, INTENTS["a call"])
    assert found_in(target, body) == []
    broken = copy.deepcopy(body)
    fault(broken)
    assert found_in(target, broken) != []
