"""A conversation to the body of a generateContent request, and back again what an answer carried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rxworker.events import Usage
from rxworker.messages import (
    Conversation,
    Document,
    Image,
    JsonObject,
    Message,
    OpaqueBlock,
    OutputFormat,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.providers import Gemini, Options, ToolChoice
from rxworker.providers.content import with_schema
from rxworker.providers.takes import made_id
from rxworker.state.response import fold_response, message_of
from tests.decoded import decoded

RECORDINGS = Path(__file__).parents[3] / "shared" / "recordings" / "gemini"
STREAMS = sorted(RECORDINGS.glob("*.sse"))
recorded = pytest.mark.skipif(not STREAMS, reason=f"no recordings: {RECORDINGS} is absent")
LOOK = ToolMeta("look", "Looks.", {"type": "object", "properties": {}})
EMPTY: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}
TEXT_ONLY: JsonObject = {"generationConfig": {"responseModalities": ["TEXT"]}}


def encode(
    conversation: Conversation, *tools: ToolMeta, options: Options | None = None, model: str = "gemini-2.5-flash"
) -> dict[str, Any]:
    provider = Gemini(model, api_key="k")
    return msgspec.json.decode(provider.request(conversation, tools, options or Options()).body)


def said(*messages: Message, system: str | None = None) -> Conversation:
    return Conversation(messages, system)


def own(*content: Any) -> Message:
    return Message("assistant", content, provider="gemini")


def parts(message: Message, model: str = "gemini-2.5-flash") -> Any:
    return encode(said(message), model=model)["contents"][0]["parts"]


def fold(path: Path) -> Message | None:
    return message_of(fold_response(decoded("gemini", path.read_bytes())), "gemini")


# --- whole bodies


def ask(text: str, system: str | None = None) -> Conversation:
    return said(Message.user(text), system=system)


@recorded
@pytest.mark.parametrize(
    ("name", "conversation", "tools", "options"),
    [
        ("text-long", ask("Tell me a short story about a cat."), (), Options()),
        ("text-vertex", ask("Create a poem about Open Telemetry."), (), Options()),
        (
            "finish-unexpected-tool-call",
            ask("Use the get_file tool now to retrieve a audio file, then describe what you received."),
            (ToolMeta("get_file", "", EMPTY),),
            Options(extra=TEXT_ONLY),
        ),
        (
            "server-code-execution",
            ask(
                "what is 65465-6544 * 65464-6+1.02255",
                "Be concise and always use Python to do calculations no matter how small.",
            ),
            (),
            Options(extra={**TEXT_ONLY, "tools": [{"codeExecution": {}}]}),
        ),
        (
            "server-google-search",
            ask("What is the weather in San Francisco today?", "You are a helpful chatbot."),
            (),
            Options(extra={"generationConfig": {}, "tools": [{"googleSearch": {}}]}),
        ),
        (
            "thinking-vertex-3-flash",
            ask(
                "If a magic mirror shows your future self, but only if you ask a question it "
                "cannot answer truthfully, what question do you ask to see your future, and what "
                "would the mirror reveal about the answer it gives?"
            ),
            (),
            Options(thinking="medium"),
        ),
    ],
)
def test_a_recorded_request_is_made_again(
    name: str, conversation: Conversation, tools: tuple[ToolMeta, ...], options: Options
) -> None:
    expected = json.loads((RECORDINGS / f"{name}.request.json").read_text())
    model = "gemini-3-flash-preview" if "3-flash" in name else "gemini-2.5-flash"
    assert encode(conversation, *tools, options=options, model=model) == expected


def test_settings_have_gemini_names() -> None:
    options = Options(
        max_tokens=5,
        temperature=0.5,
        stop_sequences=("END",),
        thinking=1024,
        tool_choice=ToolChoice("tool", "look"),
        parallel_tool_calls=False,
        output=OutputFormat(EMPTY),
        extra={
            "safetySettings": [],
            "generationConfig": {"seed": 1, "thinkingConfig": {"includeThoughts": False}},
            "toolConfig": {"functionCallingConfig": {"streamFunctionCallArguments": True}},
            "tools": [{"googleSearch": {}}],
        },
    )
    body = encode(ask("hi"), LOOK, options=options)
    assert body == {
        # Until Gemini 3, no form of the answer beside tools: the model reads it.
        "systemInstruction": {"role": "user", "parts": [{"text": with_schema(None, EMPTY)}]},
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {
            "maxOutputTokens": 5,
            "temperature": 0.5,
            "stopSequences": ["END"],
            "thinkingConfig": {"includeThoughts": False, "thinkingBudget": 1024},
            "seed": 1,
        },
        "toolConfig": {
            "functionCallingConfig": {
                "mode": "ANY",
                "allowedFunctionNames": ["look"],
                "streamFunctionCallArguments": True,
            }
        },
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "look",
                        "description": "Looks.",
                        "parametersJsonSchema": {"type": "object", "properties": {}},
                    }
                ]
            },
            {"googleSearch": {}},
        ],
        "safetySettings": [],
    }


@pytest.mark.parametrize(
    ("choice", "mode"), [(ToolChoice(), "AUTO"), (ToolChoice("any"), "ANY"), (ToolChoice("none"), "NONE")]
)
def test_each_choice_has_its_mode(choice: ToolChoice, mode: str) -> None:
    body = encode(ask("hi"), LOOK, options=Options(tool_choice=choice))
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": mode}}
    assert "toolConfig" not in encode(ask("hi"), options=Options(tool_choice=choice))


@pytest.mark.parametrize(
    ("model", "thinking", "config"),
    [
        ("gemini-2.5-flash", 2048, {"includeThoughts": True, "thinkingBudget": 2048}),
        ("gemini-2.5-flash", "adaptive", {"includeThoughts": True, "thinkingBudget": -1}),
        ("gemini-3.6-flash", "adaptive", {"includeThoughts": True}),
    ],
)
def test_thinking_is_a_budget_or_a_level(model: str, thinking: int | str, config: dict[str, Any]) -> None:
    body = encode(ask("hi"), options=Options(thinking=thinking), model=model)
    assert body["generationConfig"]["thinkingConfig"] == config


# --- contents


def test_what_leads_is_the_instruction_and_later_system_messages_are_the_users() -> None:
    body = encode(said(Message.system("B"), Message.user("hi"), Message.system("C"), system="A"))
    assert body["systemInstruction"] == {"role": "user", "parts": [{"text": "A\n\nB"}]}
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}, {"text": "C"}]}]


def test_results_stand_first_one_for_each_call_in_the_order_of_the_calls() -> None:
    made = made_id()
    calls = own(ToolCall("g1", "look", {"at": "sky"}), ToolCall(made, "hear", "{}"))
    body = encode(
        said(
            Message.user("hi"),
            calls,
            Message.user("by the way", ToolResult(made, "", is_error=True)),
            Message.user(ToolResult("g1", "blue"), "and"),
        )
    )
    assert body["contents"][1] == {
        "role": "model",
        "parts": [
            {"functionCall": {"id": "g1", "name": "look", "args": {"at": "sky"}}},
            {"functionCall": {"name": "hear", "args": {}}},
        ],
    }
    failed = {"error": "The tool failed and gave no reason."}
    assert body["contents"][2:] == [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "g1", "name": "look", "response": {"output": "blue"}}},
                {"functionResponse": {"name": "hear", "response": failed}},
                {"text": "by the way"},
                {"text": "and"},
            ],
        }
    ]


def test_the_results_of_an_id_that_comes_twice_go_to_their_calls() -> None:
    one = Message.assistant(ToolCall("x", "look", {}))
    two = Message.assistant(ToolCall("x", "hear", {}))
    answer = Message.user(ToolResult("x", "ok"))
    contents = encode(said(one, answer, two, answer))["contents"]
    names = [content["parts"][0]["functionResponse"]["name"] for content in contents[1::2]]
    assert names == ["look", "hear"]


def test_a_result_without_a_call_goes_by_its_own_name() -> None:
    body = encode(said(Message.user(ToolResult("x", "ok", name="look"))))
    answer = {"name": "look", "response": {"output": "ok"}}
    assert body["contents"][0]["parts"] == [{"functionResponse": answer}]


def test_pictures_of_results_follow_all_results() -> None:
    seen = ToolResult("1", (Text("a sky"), Image(data="iVBORw0KGgo=")), name="look")
    paper = ToolResult("2", (Document(data="BB", title="p.pdf"),), name="read")
    calls = own(ToolCall("1", "look", {}), ToolCall("2", "read", {}))
    contents = encode(said(calls, Message.user(seen, paper)))["contents"]
    shown = contents[1]["parts"]
    assert [next(iter(part)) for part in shown[:2]] == ["functionResponse"] * 2
    assert shown[0]["functionResponse"]["response"] == {"output": "a sky"}
    assert shown[1]["functionResponse"]["response"]["output"]
    assert shown[2:] == [
        {"text": "From the result of look:"},
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        {"text": "From the result of read:"},
        {"text": "p.pdf:"},
        {"inlineData": {"mimeType": "application/pdf", "data": "BB"}},
    ]


def test_since_gemini_3_the_bytes_of_a_result_stand_in_it() -> None:
    content = (
        Text("a sky"),
        Image(data="iVBORw0KGgo="),
        Document(data="Qg==", title="p.pdf"),
        Image(url="https://h/i.png"),
        Document("audio/wav", "Qw=="),
    )
    calls = own(ToolCall("1", "look", {}))
    results = Message.user(ToolResult("1", content, name="look"))
    body = encode(said(calls, results), model="gemini-3-pro")
    answer, label, picture, sound = body["contents"][1]["parts"]
    assert answer["functionResponse"] == {
        "id": "1",
        "name": "look",
        "response": {"output": "a sky"},
        "parts": [
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
            {"inlineData": {"mimeType": "application/pdf", "displayName": "p.pdf", "data": "Qg=="}},
        ],
    }
    assert label == {"text": "From the result of look:"}
    assert picture == {"fileData": {"mimeType": "image/png", "fileUri": "https://h/i.png"}}
    assert sound == {"inlineData": {"mimeType": "audio/wav", "data": "Qw=="}}
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    for one in body["contents"]:
        types.Content.model_validate(one)


def test_media_go_as_bytes_or_by_their_address() -> None:
    message = Message.user(
        Image("image/jpeg", url="https://h/a.jpg"), Image(data="iVBORw0KGgo="), Document("text/plain", "Qg==")
    )
    assert parts(message) == [
        {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://h/a.jpg"}},
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        {"inlineData": {"mimeType": "text/plain", "data": "Qg=="}},
    ]


def test_nothing_empty_is_sent() -> None:
    body = encode(said(Message.user(""), own(Thinking(""), Text("")), Message.user("hi")))
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]


# --- what is sent back


def test_a_text_that_was_changed_has_lost_its_seals() -> None:
    echo: JsonObject = {"length": 5, "seals": [[3, 5, "S"]]}
    assert parts(own(Text("Hello", (), echo))) == [{"text": "Hel"}, {"text": "lo", "thoughtSignature": "S"}]
    assert parts(own(Text("Hello there", (), echo))) == [{"text": "Hello there"}]
    assert parts(own(Text("Hello", (), {"seals": "odd", "length": 5}))) == [{"text": "Hello"}]
    assert parts(own(Text("Hello", (), {"seals": ["odd"], "length": 5}))) == [{"text": "Hello"}]


def test_what_gemini_made_itself_goes_back_whole() -> None:
    picture: JsonObject = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}, "thoughtSignature": "S"}
    code: JsonObject = {"executableCode": {"code": "1"}}
    ran: JsonObject = {"codeExecutionResult": {"output": "1"}}
    seal: JsonObject = {"text": "", "thoughtSignature": "T"}
    message = own(
        Thinking("hm", None, {"length": 2, "seals": [[0, 2, "R"]]}),
        ServerToolCall("1", "executableCode", {}, code),
        ServerToolResult("1", "codeExecutionResult", ran),
        Image(echo=picture),
        OpaqueBlock("thoughtSignature", seal),
    )
    thought = {"text": "hm", "thought": True, "thoughtSignature": "R"}
    assert parts(message) == [thought, code, ran, picture, seal]


@pytest.mark.parametrize(
    ("model", "sealed"), [("gemini-2.5-pro", False), ("gemini-3-pro-preview", True), ("models/gemini-3.1-flash", True)]
)
def test_the_first_call_from_elsewhere_is_let_pass_where_seals_are_demanded(model: str, sealed: bool) -> None:
    foreign = Message.assistant("so", ToolCall("1", "look", {}), ToolCall("2", "look", {}))
    made = parts(foreign, model)
    assert [part.get("thoughtSignature") for part in made] == [
        None,
        "skip_thought_signature_validator" if sealed else None,
        None,
    ]
    mine = own(ToolCall("1", "look", {}, {"thoughtSignature": "S"}), ToolCall("2", "look", {}))
    assert [p.get("thoughtSignature") for p in parts(mine, model)] == ["S", None]


# --- there and back


def received(path: Path) -> list[dict[str, Any]]:
    """The parts of a recording as they must go back: what has no seal joined, what is empty left out."""
    made: list[dict[str, Any]] = []
    for frame in path.read_bytes().replace(b"\r\n", b"\n").split(b"\n\n"):
        if not frame.startswith(b"data: "):
            continue
        for candidate in json.loads(frame[6:]).get("candidates", ()):
            for part in candidate.get("content", {}).get("parts", ()):
                last = made[-1] if made else {}
                rest = {k: v for k, v in part.items() if k != "text"}
                if "functionCall" in part:
                    part.setdefault("functionCall", {}).setdefault("args", {})
                if "text" not in part or "thoughtSignature" in part:
                    made.append(part)
                elif "text" in last and rest == {k: v for k, v in last.items() if k != "text"}:
                    last["text"] += part["text"]
                elif part["text"]:
                    made.append(part)
    return made


WHOLE = [
    "citations",
    "server-code-execution",
    "server-google-search",
    "server-tool-parts-gemini3",
    "text-long",
    "thinking-2.5-pro",
    "thinking-vertex-3-flash",
    "tool-finish-message",
    "tool-parallel-one-chunk",
    "tool-signature-gemini3",
    "tool-single",
    "tool-thought-parts-gemini3",
]


@recorded
@pytest.mark.parametrize("name", WHOLE)
def test_an_answer_goes_back_part_by_part_as_it_came(name: str) -> None:
    path = RECORDINGS / f"{name}.sse"
    message = fold(path)
    assert message is not None
    stored = msgspec.json.decode(msgspec.json.encode(message), type=Message)
    assert parts(stored) == received(path)


@recorded
def test_streamed_calls_go_back_whole_with_the_seal_on_the_first() -> None:
    path = RECORDINGS / "toolargs-streamed-parallel.sse"
    message = fold(path)
    assert message is not None
    results = [ToolResult(call.id, f"{n}", name=call.name) for n, call in enumerate(message.tool_calls)]
    body = encode(said(Message.user("go"), message, Message.user(*reversed(results))))
    _, model, user = body["contents"]
    assert model["parts"][0]["thought"] is True
    calls = model["parts"][1:]
    assert [part["functionCall"] for part in calls] == [
        {"name": "read_theme", "args": {}},
        {"name": "read_screen", "args": {"id": "A"}},
        {"name": "read_screen", "args": {"id": "B"}},
        {"name": "read_screen", "args": {"id": "C"}},
    ]
    assert [len(part.get("thoughtSignature", "")) for part in calls] == [1060, 0, 0, 0]
    assert [part["functionResponse"] for part in user["parts"]] == [
        {"name": name, "response": {"output": str(n)}} for n, name in enumerate(["read_theme", *["read_screen"] * 3])
    ]


@recorded
@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_every_recorded_answer_can_be_sent_back(path: Path) -> None:
    """The official SDK reads what goes back; nothing is left that it does not know."""
    types = pytest.importorskip("google.genai.types", reason="google-genai is not installed")
    message = fold(path)
    conversation = said(Message.user("hi"), *([message] if message else []), Message.user("on"))
    body = encode(conversation, LOOK, options=Options(thinking=100, temperature=1.0))
    for content in body["contents"]:
        types.Content.model_validate(content)
    for tool in body["tools"]:
        types.Tool.model_validate(tool)
    types.GenerationConfig.model_validate(body["generationConfig"])


def test_usage_of_an_unknown_shape_is_not_usage() -> None:
    counts = Gemini("m").counts(Usage(raw={"promptTokenCount": True}))
    assert counts.input_tokens is None
