"""What tools give, as each service takes it: each service times each odd thing, by the rules that it documents.

`refusing` is a service of our own making: it reads the body of a request and refuses what the real one refuses.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import msgspec
import pytest

from rxworker import Finished, Worker, tool
from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.events import (
    BlockStart,
    BlockStop,
    BlockType,
    InputJsonDelta,
    Opaque,
    Record,
    ResponseEvent,
    ToolUseMetadata,
)
from rxworker.log import MemoryLog
from rxworker.log.format import records_of
from rxworker.messages import (
    Audio,
    Conversation,
    Document,
    Grammar,
    Image,
    JsonObject,
    Message,
    OpaqueBlock,
    Text,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.messages.content import Content, ResultBlock
from rxworker.providers import PROVIDERS, Options, Provider, ToolChoice
from rxworker.providers.base import Renamed
from rxworker.providers.fit import FittedTools, OwnNames, fit_tools
from rxworker.providers.takes import LEFT_OUT, TAKES, Takes
from rxworker.state import fold_run
from rxworker.testing import Call, ReplayServer, Reply, ServedResponse, call, lint, say
from rxworker.testing.server import AnswerLike, Received
from rxworker.testing.wire.gemini_interactions import gemini_interactions_frames
from rxworker.tools import ToolContext
from rxworker.transport import Client, Retry

REST = bytes(range(64))
BYTES = {
    "image/png": b"\x89PNG\r\n\x1a\n" + REST,
    "image/jpeg": b"\xff\xd8\xff\xe0" + REST,
    "image/gif": b"GIF89a" + REST,
    "image/webp": b"RIFF\x20\0\0\0WEBPVP8 " + REST,
    "image/heic": b"\0\0\0\x18ftypheic\0\0\0\0" + REST,
    "image/heif": b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic" + REST,
    "image/avif": b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf" + REST,
    "image/bmp": b"BM\x46\0\0\0\0\0\0\0" + REST,
    "image/tiff": b"II*\0" + REST,
    "image/svg+xml": b'<?xml version="1.0"?><!-- drawn -->\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    "unknown": b"<!doctype html><title>404</title>",
}
DATA = {kind: b64encode(held).decode() for kind, held in BYTES.items()}
# Each picture with what it truly is.
PICTURES: dict[str, tuple[Image, str]] = {
    **{f"{kind} under its name": (Image(kind, data), kind) for kind, data in DATA.items()},
    "a jpeg under the name of a png": (Image(data=DATA["image/jpeg"]), "image/jpeg"),
    "a webp under the name of a jpeg": (Image("image/jpeg", DATA["image/webp"]), "image/webp"),
    "a heic under the name of a jpeg": (Image("image/jpeg", DATA["image/heic"]), "image/heic"),
    "a jpeg under another name of it": (Image("image/jpg", DATA["image/jpeg"]), "image/jpeg"),
    "a png under a name with a parameter": (Image("IMAGE/PNG; q=1", DATA["image/png"]), "image/png"),
    "a png in lines": (Image(data="\n".join((DATA["image/png"][:60], DATA["image/png"][60:]))), "image/png"),
    "a gif in an address": (Image(url=f"data:image/png;base64,{DATA['image/gif']}"), "image/gif"),
    "an svg in an address": (Image(url="data:image/svg+xml,%3Csvg%20width='9'/%3E"), "image/svg+xml"),
    "an error page under the name of a png": (Image(data=DATA["unknown"]), "unknown"),
    "a png in the letters of addresses": (Image(data=DATA["image/png"].replace("/", "_")), "image/png"),
    "a jpeg without padding": (Image(data=DATA["image/jpeg"].rstrip("=")), "image/jpeg"),
    "a png that is not whole": (Image(data=DATA["image/png"] + "A"), "half"),
    "a png in an address in capitals": (Image(url=f"DATA:image/png;base64,{DATA['image/png']}"), "image/png"),
    "a gif of few bytes": (Image(data="R0lGODlh"), "image/gif"),
    "few bytes of nothing": (Image(data="AAAA"), "unknown"),
    "nothing": (Image(data=""), "nothing"),
    "nothing in an address": (Image(url="data:image/png;base64,"), "nothing"),
}
USUAL = {"image/png", "image/jpeg", "image/gif", "image/webp"}
GOOGLE = {"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}
TAKEN = {
    "anthropic": USUAL,
    "bedrock": USUAL,
    "gemini": GOOGLE,
    "gemini_interactions": {*GOOGLE, "image/gif", "image/bmp", "image/tiff"},
    "ollama": {"image/png", "image/jpeg", "image/webp"},
    "openai_chat": USUAL,
    "openai_responses": USUAL,
}


def parts_of(body: Any) -> Iterator[dict[str, Any]]:
    """Every object in a body."""
    inner: list[Any] = []
    match body:
        case {**members}:
            yield members
            inner = [*members.values()]
        case [*inner]:
            pass
        case _:
            pass
    for part in inner:
        yield from parts_of(part)


def pictures_of(body: Any) -> Iterator[tuple[str | None, str]]:
    """The media type and the data of every picture in the body of a request, in any of the protocols."""
    for part in parts_of(body):
        match part:
            case {"type": "image", "source": {"media_type": kind, "data": data}}:
                yield kind, data
            case {"image": {"format": kind, "source": {"bytes": data}}}:
                yield f"image/{kind}", data
            case {"inlineData": {"mimeType": kind, "data": data}}:
                yield kind, data
            case {"type": "image", "mime_type": kind, "data": data}:
                yield kind, data
            case {"images": [*several]}:
                yield from ((None, data) for data in several)
            case {"image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
                head, _, data = url.partition(",")
                yield head.removeprefix("data:").removesuffix(";base64"), data
            case _:
                pass


def refused_picture(service: str, body: Any) -> str | None:
    """Why a service refuses a picture in a request: it looks at the bytes and at the name."""
    for named, data in pictures_of(body):
        decoded = b64decode("".join(data.split()), validate=True)
        true = next((kind for kind, held in BYTES.items() if decoded == held), "nothing")
        true = "image/gif" if decoded == b"GIF89a" else true
        if true not in TAKEN[service] or named not in (None, true):
            return f"{service} refuses a picture of {true} named {named}"
    return None


def provider_of(service: str, base_url: str | None = None) -> Provider:
    model = "gemini-3.5-flash" if service == "gemini" else "a-model"
    return PROVIDERS[service](model, api_key="k", base_url=base_url)


def body_of(
    service: str, *messages: Message, tools: Sequence[ToolMeta] = (), tool_choice: ToolChoice | None = None
) -> Any:
    options = Options(tool_choice=tool_choice)
    return msgspec.json.decode(provider_of(service).request(Conversation(messages), tools, options).body)


def answered(*content: ResultBlock) -> tuple[Message, ...]:
    return (
        Message.user("look"),
        Message.assistant(ToolCall("c1", "look", {})),
        Message.user(ToolResult("c1", content, name="look")),
    )


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("service", PROVIDERS)
def test_a_picture_of_a_tool_is_sent_as_what_it_is_or_as_a_text(service: str, name: str) -> None:
    picture, true = PICTURES[name]
    body = body_of(service, *answered(Text("see"), picture))
    assert refused_picture(service, body) is None
    notes = [text for part in parts_of(body) for text in part.values() if "left out of this result" in str(text)]
    if true in TAKEN[service]:
        assert len(list(pictures_of(body))) == 1
        assert not notes
    else:
        assert not list(pictures_of(body))
        assert notes


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("service", PROVIDERS)
def test_a_picture_of_the_user_is_sent_as_what_it_is_or_raises(service: str, name: str) -> None:
    picture, true = PICTURES[name]
    if true in TAKEN[service]:
        body = body_of(service, Message.user("see", picture))
        assert refused_picture(service, body) is None
        assert len(list(pictures_of(body))) == 1
    else:
        reason = {"nothing": "neither data", "half": "not whole"}.get(true, re.escape(f"of type {true}, only"))
        with pytest.raises(LocalProtocolError, match=reason):
            body_of(service, Message.user("see", picture))


@pytest.mark.parametrize("service", PROVIDERS)
def test_the_address_of_a_picture_is_sent_unchanged(service: str) -> None:
    address = "s3://bucket/a.png" if service == "bedrock" else "https://h/a.png"
    assert address in str(body_of(service, *answered(Image(url=address))))


def test_a_text_in_place_of_a_part_states_the_reason_and_no_remedy() -> None:
    content = (Image("image/heic", DATA["image/heic"]), Document(data="AA"))
    [*_, heic, pdf] = body_of("ollama", *answered(*content))["messages"][-1]["content"].split("\n")
    assert heic == "[left out of this result: Ollama takes no picture of type image/heic, only png, jpeg and webp]"
    assert pdf == "[left out of this result: Ollama takes no document of type application/pdf]"


OFFICE = "application/vnd.openxmlformats-officedocument"
WORD, SHEET = f"{OFFICE}.wordprocessingml.document", f"{OFFICE}.spreadsheetml.sheet"
KINDS = ("application/pdf", WORD, SHEET, "application/zip", "text/csv", "text/plain", "text/x-go", "video/mp4")
# What each takes as a document beside text, and the text that it takes as a document.
DOCUMENTS = {
    "anthropic": {"application/pdf"},
    "bedrock": {"application/pdf", WORD, SHEET, "text/csv"},
    "gemini": {"application/pdf", "text/csv", "video/mp4"},
    "gemini_interactions": {"application/pdf", "text/csv", "video/mp4"},
    "ollama": set[str](),
    "openai_chat": {"application/pdf"},
    "openai_responses": {"application/pdf", WORD, SHEET},
    "https://api.deepseek.com": set[str](),
    "https://api.groq.com/openai/v1": set[str](),
    "https://api.mistral.ai/v1": {"application/pdf", WORD},
}
PAGE = b64encode(b"a page of it").decode()
SHORT = {"pdf": "application/pdf", "docx": WORD, "xlsx": SHEET, "csv": "text/csv", "txt": "text/plain"}


def documents_of(body: Any) -> Iterator[str]:
    """The media type of every document in the body of a request, in any of the protocols."""
    for part in parts_of(body):
        match part:
            case {"type": "document", "source": {"type": "base64", "media_type": kind, "data": _}}:
                yield kind
            case {"type": "document", "source": {"type": "text", "media_type": kind, "data": text}}:
                assert (kind, text) == ("text/plain", "a page of it")
            case {"format": kind, "name": str(), "source": _}:
                yield SHORT[kind]
            case {"inlineData": {"mimeType": kind, "data": _}} | {"mime_type": kind, "data": _}:
                yield kind
            case {"file_data": str(url)} | {"document_url": str(url)}:
                yield url.removeprefix("data:").partition(";")[0]
            case _:
                pass


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("service", DOCUMENTS)
def test_a_document_is_sent_as_its_service_takes_it_or_is_left_out_alone(service: str, kind: str) -> None:
    chat = service if service in PROVIDERS else "openai_chat"
    provider = provider_of(chat, None if service == chat else service)

    def body(*messages: Message) -> Any:
        return msgspec.json.decode(provider.request(Conversation(messages), (), Options()).body)

    document = Document(kind, PAGE, title="Report")
    in_result = body(*answered(Text("see"), document))
    sent, is_text = [*documents_of(in_result)], kind.startswith("text/")
    if kind in DOCUMENTS[service]:
        assert sent == [kind]
    elif is_text:
        assert sent in ([], ["text/plain"])
        assert sent or "a page of it" in str(in_result)
    else:
        assert sent == []
        assert f"left out of this result: {TAKES[chat].name} takes no document of type {kind}]" in str(in_result)
        with pytest.raises(LocalProtocolError, match="send its text as Text"):
            body(Message.user("see", document))
        return
    assert [*documents_of(body(Message.user("see", document)))] == sent


EITHER: JsonObject = {
    "anyOf": [
        {"properties": {"id": {"type": "integer"}, "kind": {"const": "a"}}, "required": ["id", "kind"]},
        {"type": "object", "properties": {"name": {}, "kind": {"const": "b"}}, "required": ["kind", "name"]},
    ]
}
SCHEMAS: dict[str, JsonObject] = {
    "anyOf at the top": EITHER,
    "oneOf beside properties": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {}},
        "required": [],
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "allOf with variants within it": {"allOf": [{"properties": {"a": {}}, "required": ["a"]}, EITHER, True]},
    "a const and an enum at the top": {"type": "object", "const": {}, "enum": [{}], "not": {"required": ["a"]}},
    "no properties": {"type": "object"},
    "nothing": {},
    "no type": {"properties": {"a": {}}},
    "an empty list of PHP": {"type": "object", "properties": [], "required": None, "anyOf": None},
    "a type that is a list": {"type": ["object", "null"], "properties": {"a": {}}},
    "names of arguments": {
        "type": "object",
        "properties": {
            "$filter": {"type": "object", "properties": {"$gt": {"type": "integer"}}},
            "filter[id]": {"description": "Of the filter."},
            "Account Number": {"title": "The account"},
            "Account_Number": {},
            "\u540d\u524d": True,
            "\u5730\u5740": {},
            "x" * 80: {},
            "x" * 64: {},
            "": {},
            "usual.name-1": {},
        },
        "required": ["$filter", "usual.name-1"],
    },
}
NAMES = ("7zip", "_7zip", "-7zip", "7" * 64, "usual")
TEXT = "word " * 1000


def keys_of(schema: Any) -> list[str]:
    """The names of the arguments, of all variants."""
    variants = [one for key in ("allOf", "anyOf", "oneOf") for one in schema.get(key) or () if one is not True]
    return [*dict.fromkeys([*schema.get("properties", ()), *(key for one in variants for key in keys_of(one))])]


class Odd:
    """A tool with a schema of any kind, which keeps what it is called with."""

    def __init__(self, schema: JsonObject, name: str = "odd", description: str = "An odd tool.") -> None:
        self.meta = ToolMeta(name, description, schema)
        self.calls: list[Any] = []

    async def execute(self, input_json: str | bytes, _: ToolContext, /) -> str:
        self.calls.append(msgspec.json.decode(input_json))
        return "done"


ALL = (*(Odd(schema, f"odd{n}") for n, schema in enumerate(SCHEMAS.values())), *(Odd({}, name) for name in NAMES))
METAS = (*(odd.meta for odd in ALL), ToolMeta("long", TEXT, {"type": "object", "description": "Short."}))
KEYS = {odd.meta.name: keys_of(odd.meta.input_schema) or ["usual"] for odd in ALL}


def tools_of(service: str, body: Any) -> dict[str, tuple[JsonObject, str]]:
    """The schema and the description of each tool in the body of a request, by the name that is sent."""
    given = body["toolConfig"]["tools"] if service == "bedrock" else body["tools"]
    if service == "gemini":
        [group] = given
        given = group["functionDeclarations"]
    flat = [tool.get("toolSpec") or tool.get("function") or tool for tool in given]
    schemas = [one.get("input_schema") or one.get("parameters") or one.get("parametersJsonSchema") for one in flat]
    schemas = [schema or one.get("inputSchema", {}).get("json") for one, schema in zip(flat, schemas, strict=True)]
    return {one["name"]: (schema or {}, one.get("description", "")) for one, schema in zip(flat, schemas, strict=True)}


def calls_of(body: Any) -> Iterator[tuple[str, Any]]:
    """The name and the arguments of every call in the body of a request, in any of the protocols."""
    for part in parts_of([body.get(key) for key in ("messages", "contents", "input")]):
        match part:
            case {"type": "tool_use", "name": name, "input": given} | {"toolUse": {"name": name, "input": given}}:
                yield name, given
            case {"functionCall": {"name": name, "args": given}}:
                yield name, given
            case {"type": "function_call", "name": name, "arguments": given}:
                yield name, given
            case {"function": {"name": name, "arguments": given}}:
                yield name, given
            case _:
                pass


LETTERS = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
GOOGLE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")


def refused_tool(service: str, body: Any) -> str | None:
    """Why a service refuses a tool of a request. A call that no tool fits would confuse the model: refused, too."""
    known = tools_of(service, body)
    for name, (schema, text) in known.items():
        top = {*schema}
        if not isinstance(schema.get("properties", {}), dict):
            return f"{name}: properties: Input should be an object"
        if service in ("anthropic", "bedrock"):
            if schema.get("type") != "object":
                return f"{name}: input_schema.type: Field required"
            if top & {"oneOf", "allOf", "anyOf"}:
                return f"{name}: input_schema does not support oneOf, allOf, or anyOf at the top level"
            if not all(map(LETTERS.fullmatch, keys_of(schema))):
                return f"{name}: Property keys should match pattern"
        if service.startswith("openai"):
            if schema.get("type") != "object" or top & {"oneOf", "anyOf", "allOf", "enum", "const", "not"}:
                return f"{name}: schema must have type 'object' and not have 'oneOf' ..."
            if "properties" not in schema:
                return f"{name}: object schema missing properties"
        if service == "openai_chat" and len(text) > 1024:
            return f"{name}: string too long. Expected a string with maximum length 1024"
        if service.startswith("gemini") and not GOOGLE_NAME.fullmatch(name):
            return f"{name}: Invalid function name. Must start with a letter or an underscore."
        needed: Any = schema.get("required") or ()
        if not {*needed} <= {*keys_of(schema)}:
            return f"{name}: {needed} required and not described"
    for name, given in calls_of(body):
        arguments = msgspec.json.decode(given) if isinstance(given, str) else given
        if name not in known or not {*arguments} <= {*keys_of(known[name][0]), "usual"}:
            return f"a call of {name} with {[*arguments]}, which no tool has"
    return None


def earlier_calls(*metas: ToolMeta) -> list[Message]:
    """A call of each tool under its own names, and its result."""
    calls = [ToolCall(f"c{n}", one.name, dict.fromkeys(KEYS.get(one.name, ()), 1)) for n, one in enumerate(metas)]
    results = [ToolResult(one.id, "done", name=one.name) for one in calls]
    return [Message.user("go"), Message.assistant(*calls), Message.user(*results)]


@pytest.mark.parametrize("meta", METAS, ids=[*SCHEMAS, *(f"the name {name:.9}" for name in NAMES), "a long text"])
@pytest.mark.parametrize("service", PROVIDERS)
def test_an_odd_tool_is_sent_as_its_service_takes_it(service: str, meta: ToolMeta) -> None:
    before = msgspec.json.encode(meta)
    body = body_of(service, *earlier_calls(meta), tools=(meta,))
    assert refused_tool(service, body) is None
    assert msgspec.json.encode(meta) == before
    [(schema, text)] = tools_of(service, body).values()
    described = f"{text} {schema.get('description', '')}".split()
    assert described[: len(meta.description.split())] == meta.description.split()


@pytest.mark.parametrize("service", PROVIDERS)
def test_all_odd_tools_at_once_keep_names_of_their_own(service: str) -> None:
    choice = ToolChoice("tool", "7zip") if service.startswith("gemini") else None
    body = body_of(service, *earlier_calls(*METAS), tools=METAS, tool_choice=choice)
    assert refused_tool(service, body) is None
    assert len(tools_of(service, body)) == len(METAS)
    [long] = [schema for name, (schema, _) in tools_of(service, body).items() if name == "odd9"]
    assert len(keys_of(long)) == len(KEYS["odd9"])
    if service.startswith("gemini"):
        assert "'7zip'" not in str(body)


@pytest.mark.parametrize("service", PROVIDERS)
def test_the_tools_of_a_worker_are_fitted_once(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[object] = []

    def counted(tools: Sequence[ToolMeta], takes: Takes) -> FittedTools:
        fitted.append(takes)
        return fit_tools(tools, takes)

    monkeypatch.setattr("rxworker.providers.service.fit_tools", counted)
    provider = provider_of(service)
    bodies = [provider.request(Conversation((Message.user("go"),)), METAS, Options()).body for _ in range(3)]
    assert (len(fitted), len({*bodies})) == (1, 1)
    provider.request(Conversation((Message.user("go"),)), METAS[1:], Options())
    assert len(fitted) == 2


def test_a_tool_that_its_service_takes_is_sent_unchanged() -> None:
    usual = (Odd({"type": "object", "properties": {"a": {"anyOf": [{}, {"const": 1}]}}}).meta,)
    for takes in TAKES.values():
        fitted = fit_tools(usual, takes)
        assert fitted.tools[0] is usual[0]
        assert not fitted.sent


def test_variants_become_one_object_that_requires_what_all_of_them_require() -> None:
    fitted = fit_tools(METAS, TAKES["openai_chat"]).tools
    schemas = dict(zip(SCHEMAS, [one.input_schema for one in fitted], strict=False))
    merged = schemas["anyOf at the top"]
    assert merged["required"] == ["kind"]
    assert merged["properties"] == {
        "id": {"type": "integer"},
        "kind": {"anyOf": [{"const": "a"}, {"const": "b"}]},
        "name": {},
    }
    assert schemas["allOf with variants within it"]["required"] == ["a", "kind"]
    assert schemas["oneOf beside properties"]["properties"] == {"a": {"type": "string"}, "b": {}}
    assert not schemas["oneOf beside properties"].get("required")


@pytest.mark.parametrize("service", sorted({*PROVIDERS} - {"ollama"}))
def test_a_call_of_a_tool_that_is_not_there_has_a_name_that_its_service_takes(service: str) -> None:
    """A model may call any name, and the call is part of each later request."""
    names = ["functions.look", "functions look", "look<|channel|>commentary", "", "x" * 80, "x" * 81]
    answer = Message("assistant", tuple(ToolCall(f"c{n}", name, {}) for n, name in enumerate(names)), service)
    results = Message.user(*[ToolResult(f"c{n}", "no such tool", name=name) for n, name in enumerate(names)])
    body = body_of(service, Message.user("go"), answer, results, tools=[ToolMeta("look", "", {"type": "object"})])
    sent = [name for name, _ in calls_of(body)]
    assert len({*sent, "look"}) == len(names) + 1
    for name in [*sent, *(part["name"] for part in parts_of(body) if "name" in part)]:
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", name)


@pytest.mark.parametrize("service", ["gemini", "gemini_interactions"])
def test_calls_of_a_tool_that_was_removed_have_a_name_that_its_service_takes(service: str) -> None:
    removed = [Odd({}, name).meta for name in NAMES]
    messages = [Message.user("go"), *earlier_calls(*removed), Message.user("and?")]
    first, again = (body_of(service, *messages, tools=[Odd({}, "other").meta]) for _ in range(2))
    names = [name for name, _ in calls_of(first)]
    assert all(map(GOOGLE_NAME.fullmatch, names))
    assert len({*names}) == len(NAMES)
    assert names == [name for name, _ in calls_of(again)]
    answers = [part["name"] for part in parts_of(first) if "response" in part or part.get("type") == "function_result"]
    assert answers == names


@pytest.mark.parametrize("service", ["gemini", "gemini_interactions"])
def test_what_an_application_adds_to_a_tool_goes_to_the_tool_by_its_own_name(service: str) -> None:
    more: JsonObject = {"name": "7zip", "behavior": "NON_BLOCKING"}
    given: JsonObject = {"functionDeclarations": [more]} if service == "gemini" else more
    asked, options = Conversation((Message.user("go"),)), Options(extra={"tools": [given]})
    made = provider_of(service).request(asked, (Odd({}, "7zip").meta,), options)
    named = [part for part in parts_of(msgspec.json.decode(made.body)) if "zip" in str(part.get("name"))]
    assert [(one["name"], one["behavior"]) for one in named] == [("_7zip", "NON_BLOCKING")]


@pytest.mark.parametrize("service", ["gemini", "gemini_interactions"])
def test_an_error_about_a_tool_has_its_own_name(service: str) -> None:
    grammar = msgspec.structs.replace(Odd({}, "7zip").meta, format=Grammar("[0-9]+", "regex"))
    with pytest.raises(ConfigurationError, match=r"tool '7zip' has a grammar"):
        body_of(service, Message.user("go"), tools=[grammar])


def test_a_long_description_may_begin_with_blanks() -> None:
    meta = ToolMeta("look", " " * 1024 + "Look.", {"type": "object", "properties": {}})
    [sent] = fit_tools([meta], TAKES["openai_chat"]).tools
    assert (sent.description, sent.input_schema["description"]) == ("", "Look.")


class Unnamed:
    """A decoder of a call whose stop does not name its tool, as one of an application may be."""

    def feed(self, _: bytes, /) -> list[ResponseEvent]:
        start = BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("1", "look_1"))
        return [start, InputJsonDelta(0, '{"a_1":'), InputJsonDelta(0, "2}"), BlockStop(0, BlockType.TOOL_USE)]

    def finish(self) -> list[ResponseEvent]:
        return []


def test_a_stop_that_does_not_name_its_tool_loses_no_arguments() -> None:
    decoder = OwnNames(Unnamed, {"look_1": Renamed("look at", {"a_1": "a 1"})})
    start, arguments, stop = decoder.feed(b"")
    assert isinstance(start, BlockStart)
    assert start.metadata == ToolUseMetadata("1", "look at")
    assert arguments == InputJsonDelta(0, '{"a_1":2}')
    assert stop == BlockStop(0, BlockType.TOOL_USE)


def test_examples_of_a_call_have_the_names_that_are_sent() -> None:
    tool_meta = ToolMeta("find", "", {"type": "object", "properties": {"$id": {}}}, input_examples=({"$id": 1},))
    assert fit_tools([tool_meta], TAKES["anthropic"]).tools[0].input_examples == ({"_id": 1},)


PATHS = {
    "/messages": "anthropic",
    "/converse-stream": "bedrock",
    ":streamGenerateContent": "gemini",
    "/interactions": "gemini_interactions",
    "/api/chat": "ollama",
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
}


def refusing(*answers: AnswerLike | None) -> Any:
    """A service of any protocol that gives these answers, and then `ok`, but refuses what the real one refuses.

    `None` is an answer that calls every tool, with all of its arguments, under the names that were sent.
    """
    numbers = count()

    def answer(received: Received) -> AnswerLike:
        path, body = received.path.partition("?")[0], received.body
        service = next(name for end, name in PATHS.items() if path.endswith(end))
        has_tools = isinstance(body, dict) and ("tools" in body or "toolConfig" in body)
        if reason := refused_picture(service, body) or (refused_tool(service, body) if has_tools else None):
            return ServedResponse.from_json({"error": {"message": reason}, "message": reason}, status=400)
        number = next(numbers)
        given = answers[number] if number < len(answers) else say("ok")
        return given if given is not None else calls_of_all(service, body)

    return answer


def calls_of_all(service: str, body: Any) -> Reply:
    called = {name: keys_of(schema) or ["usual"] for name, (schema, _) in tools_of(service, body).items()}
    return Reply(tool_calls=tuple(Call(name, {key: [key, 1] for key in keys}) for name, keys in called.items()))


@pytest.mark.parametrize("service", PROVIDERS)
async def test_a_picture_of_a_tool_that_is_refused_ends_no_run_of_its_session(service: str) -> None:
    @tool
    def look() -> list[Image]:
        """Look."""
        return [picture for picture, _ in PICTURES.values()]

    async with ReplayServer(refusing(call("look"))) as server, MemoryLog() as log:
        worker = Worker(provider_of(service, server.base_url), tools=[look], log=log)
        assert (await worker.run("look")).text == "ok"
        run = worker.run("again")
        assert (await run).text == "ok"
        entries = [entry async for entry in log.read(run.id)]
        kept = fold_run(list(records_of(entries, run.id))).conversation  # what another process finds
        for other in PROVIDERS:
            after = Worker(provider_of(other, server.base_url), tools=[look], conversation=kept)
            result = await after.run("and now?")
            assert isinstance(result, Finished), other
            assert result.text == "ok"


GIVEN = (
    Image("image/heic", DATA["image/heic"]),
    Document(WORD, PAGE),
    Audio("audio/ogg", PAGE),
    OpaqueBlock("shell_call_output", {"output": []}),
    Image(url="https://h/a.png"),
)


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: type(given).__name__)
@pytest.mark.parametrize("service", PROVIDERS)
async def test_what_the_user_gave_to_another_service_ends_no_run_after_a_change(service: str, given: Content) -> None:
    asked = Message("user", (Text("see"), given))
    answer = Message.assistant("I see.")
    async with ReplayServer(["ok"]) as server:
        provider, is_taken = provider_of(service, server.base_url), True
        try:
            provider.request(Conversation((asked,)), (), Options())
        except LocalProtocolError:
            is_taken = False
        worker = Worker(provider, conversation=Conversation((asked, answer)))
        run = worker.run("and?")
        records: list[Record] = []
        run.subscribe(records.append)
        assert (await run).text == "ok"
        [request] = server.requests
    told = [one.event for one in records if isinstance(one.event, Opaque) and one.event.kind == LEFT_OUT]
    assert (len(told), "left out of this message" in str(request.body)) == (int(not is_taken), not is_taken)


@pytest.mark.parametrize("service", PROVIDERS)
async def test_watchers_and_the_log_know_once_of_what_is_left_out(
    service: str, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    def look() -> list[Image | Document]:
        """Look."""
        return [Image(data=DATA["image/png"]), Image("image/svg+xml", DATA["image/svg+xml"]), Document("a/b", PAGE)]

    async with ReplayServer(refusing(call("look"), call("look"))) as server, MemoryLog() as log:
        worker = Worker(provider_of(service, server.base_url), tools=[look], log=log)
        run = worker.run("look twice")
        records: list[Record] = []
        run.subscribe(records.append)
        assert (await run).text == "ok"
        assert lint(records) == []
        events = [entry.event for entry in records_of([entry async for entry in log.read(run.id)], run.id)]
        for seen in ([record.event for record in records], events):
            told: list[Any] = [one.raw for one in seen if isinstance(one, Opaque) and one.kind == LEFT_OUT]
            assert [one["type"] for one in told] == ["Image", "Document"] * 2
            assert all(f"{TAKES[service].name} takes no" in one["reason"] for one in told)
        assert len(caplog.records) == 4
        records.clear()
        again = worker.run("again")
        again.subscribe(records.append)
        assert (await again).text == "ok"
        assert not [one for one in records if isinstance(one.event, Opaque)]
        assert len(caplog.records) == 4


@pytest.mark.parametrize("service", PROVIDERS)
async def test_odd_tools_are_called_under_their_own_names_and_end_no_run_of_their_session(service: str) -> None:
    odd = [Odd(one.meta.input_schema and {**one.meta.input_schema, "type": "object"}, one.meta.name) for one in ALL]
    async with ReplayServer(refusing(None)) as server, MemoryLog() as log:
        worker = Worker(provider_of(service, server.base_url), tools=odd, log=log)
        run = worker.run("go")
        records: list[Record] = []
        run.subscribe(records.append)
        assert (await run).text == "ok"
        assert lint(records) == []
        blocks = [record.event for record in records if isinstance(record.event, BlockStart | BlockStop)]
        begun = [one.metadata.name for one in blocks if isinstance(one.metadata, ToolUseMetadata)]
        assert begun.count("7zip") == 2
        assert {*begun} == {*KEYS}
        for one in odd:
            [given] = one.calls
            assert {*given} == {*KEYS[one.meta.name]}
        assert (await worker.run("again")).text == "ok"
        entries = [entry async for entry in log.read(run.id)]
        kept = fold_run(list(records_of(entries, run.id))).conversation  # what another process finds
        named = {call.name: call.input for message in kept.messages for call in message.tool_calls}
        assert named == {one.meta.name: one.calls[0] for one in odd}
        for other in PROVIDERS:
            after = Worker(provider_of(other, server.base_url), tools=odd, conversation=kept)
            assert (await after.run("and now?")).text == "ok", other


async def test_a_response_in_the_background_is_taken_up_again_where_a_tool_has_another_name() -> None:
    odd = Odd({}, "7zip")
    frames = gemini_interactions_frames(call("_7zip", usual=1), is_background=True)
    cuts = [ServedResponse.from_frames(frames, cut_after=n) for n in range(3, len(frames) - 1)]
    answers = [*cuts, ServedResponse.from_frames(frames)]
    async with ReplayServer([*answers, say("ok")]) as server:
        client = Client(provider_of("gemini_interactions", server.base_url), retry=Retry(len(cuts), first=0))
        worker = Worker(client, tools=[odd], options=Options(extra={"background": True}))
        assert (await worker.run("go")).text == "ok"
        assert [received.method for received in server.requests] == ["POST", *["GET" for _ in cuts], "POST"]
    assert odd.calls == [{"usual": 1}]


async def test_arguments_that_are_not_whole_have_no_effect_on_what_follows() -> None:
    answers: list[AnswerLike] = [ServedResponse.from_reply(call("odd", _id=1), cut_after=4), call("odd", _id=2)]
    odd = Odd({"type": "object", "properties": {"$id": {}}})
    async with ReplayServer(refusing(*answers)) as server:
        worker = Worker(provider_of("anthropic", server.base_url), tools=[odd], response_retry=Retry(first=0))
        assert (await worker.run("go")).text == "ok"
    assert odd.calls == [{"$id": 2}]
