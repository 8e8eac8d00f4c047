"""What is sent back of an answer, held against the types with which the official packages describe it.

A field that a service does not know, or a value that it does not take, is found here. ``test_harness.py`` holds what
programs want against the same types. The packages are not a dependency of ours: without them the tests are skipped.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from functools import cache
from typing import Any

import httpx
import msgspec
import pydantic
import pytest

from rxworker.messages import Conversation, Message, ToolMeta
from rxworker.providers import GeminiInteractions, HttpRequest, Options, ToolChoice
from rxworker.providers.base import OutputFormat
from rxworker.testing import call, say, think
from rxworker.testing.wire.gemini_interactions import gemini_interactions_frames
from tests.decoded import answer_of, decoded

WRONG_TAG = " is none of "


PLAIN = (str, int, float, bool, bytes)
LISTS = (list, collections.abc.Iterable, collections.abc.Sequence)
MAPPINGS = (dict, collections.abc.Mapping)


# --- the types, walked through


def problems(value: Any, hint: Any, at: str = "$") -> list[str]:
    """What about a JSON value does not fit a type. A member that a ``TypedDict`` does not name does not fit."""
    hint = getattr(hint, "__value__", hint)  # an alias that has a name
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if hint in (Any, object):
        return []
    if origin in (typing.Required, typing.NotRequired, typing.Annotated):
        return problems(value, inside[0], at)
    if origin is typing.Literal:
        return [] if value in inside else [f"{at}: {value!r}{WRONG_TAG}{inside}"]
    if origin in (typing.Union, types.UnionType):
        return _of_union(value, inside, at)
    if origin in LISTS:
        return _of_list(value, inside[0], at)
    if origin in MAPPINGS:
        return _of_members(value, dict.fromkeys(value, inside[1]), (), at) if _is(value) else [at]
    if hasattr(hint, "__required_keys__"):
        return _of_typed_dict(value, hint, at)
    return [] if _is_plain(value, hint) else [f"{at}: {value!r} is not {hint}"]


def _is(value: Any) -> bool:
    return isinstance(value, dict)


def _of_union(value: Any, branches: tuple[Any, ...], at: str) -> list[str]:
    several: list[list[str]] = []
    for branch in branches:
        several.append(problems(value, branch, at))
        if not several[-1]:
            return []
    return min(several, key=_weight)  # the branch that comes closest tells what is wrong


def _weight(found: list[str]) -> tuple[int, int]:
    # A tag that does not fit tells of a wrong branch, and so does a problem that does not lie deep.
    depths = (one.partition(":")[0].count(".") for one in found)
    return (sum(WRONG_TAG in one for one in found), -max(depths, default=99))


def _of_list(value: Any, inside: Any, at: str) -> list[str]:
    if not isinstance(value, list):
        return [f"{at}: no list"]
    rows = enumerate(typing.cast("list[Any]", value))
    return [problem for n, one in rows for problem in problems(one, inside, f"{at}[{n}]")]


@cache
def hints_of(hint: Any) -> dict[str, Any]:
    """The types of the members of a ``TypedDict``."""
    return typing.get_type_hints(hint, include_extras=True)


def _of_typed_dict(value: Any, hint: Any, at: str) -> list[str]:
    if not _is(value):
        return [f"{at}: no object"]
    hints = hints_of(hint)
    needed = [name for name, one in hints.items() if _is_needed(name, one, hint)]
    return _of_members(value, hints, needed, at)


def _is_needed(name: str, hint: Any, of: Any) -> bool:
    origin = typing.get_origin(hint)
    return origin is typing.Required or (name in of.__required_keys__ and origin is not typing.NotRequired)


def _of_members(value: Any, hints: dict[str, Any], needed: Any, at: str) -> list[str]:
    found = [f"{at}.{name}: missing" for name in needed if name not in value]
    for name, member in value.items():
        if name in hints:
            found += problems(member, hints[name], f"{at}.{name}")
        else:
            found.append(f"{at}.{name}: unknown")
    return found


def _is_plain(value: Any, hint: Any) -> bool:
    if hint is type(None):
        return value is None
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return hint in PLAIN and type(value) is hint


# --- what is sent back


ASK = Message.user("hi")


def from_sdk(module: str, name: str) -> Any:
    """A type of an official package, or a skipped test."""
    package = module.partition(".")[0]
    found: Any = pytest.importorskip(module, reason=f"the package {package} is not installed")
    return getattr(found, name)


# --- the walk itself


class Named(typing.TypedDict, total=False):
    kind: typing.Required[typing.Literal["a"]]
    items: collections.abc.Iterable[int]
    free: dict[str, object]


class Other(typing.TypedDict):
    kind: typing.Literal["b"]
    text: str | None


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"kind": "a"}, []),
        ({"kind": "a", "items": [1, 2], "free": {"x": [None]}}, []),
        ({"kind": "b", "text": None}, []),
        ({"kind": "a", "odd": 1}, ["$.odd: unknown"]),
        ({"items": []}, ["$.kind: missing"]),
        ({"kind": "a", "items": [1, "x"]}, ["$.items[1]: 'x' is not <class 'int'>"]),
        ({"kind": "a", "items": [True]}, ["$.items[0]: True is not <class 'int'>"]),
        ({"kind": "b"}, ["$.text: missing"]),
        ({"kind": "b", "text": 1}, ["$.text: 1 is not <class 'str'>"]),
        ({"kind": "c"}, ["$.kind: 'c' is none of ('a',)"]),
    ],
)
def test_the_walk_finds_what_does_not_fit(value: Any, found: list[str]) -> None:
    assert problems(value, Named | Other) == found


def test_interactions_know_all_that_is_sent_back() -> None:
    """The steps that an answer came as, as this package reads them."""
    module = "google.genai._gaos.types.interactions"
    hint = from_sdk(f"{module}.createmodelinteraction", "CreateModelInteractionParam")
    event = from_sdk(f"{module}.interactionsseevent", "InteractionSSEEvent")
    read = pydantic.TypeAdapter[Any](event).validate_json
    reply = think("Hm.", "AAAA") + say("I look.") + call("look", at="sky")
    frames = gemini_interactions_frames(reply, is_background=True)
    for frame in frames:
        data = frame.partition(b"data: ")[2]
        assert data.startswith(b"[DONE]") or not getattr(read(data), "is_unknown", False)
    provider = GeminiInteractions("gemini-3.5-flash", api_key="k")
    answer = answer_of(decoded(provider, *frames), provider.name)
    body = msgspec.json.decode(provider.request(Conversation((ASK, answer), "S"), (), Options()).body)
    assert [step["type"] for step in body["input"]] == ["user_input", "thought", "model_output", "function_call"]
    assert problems(body, hint) == []


def test_interactions_are_requested_as_the_official_client_does() -> None:
    """The same call, its resumption and its cancel, at the developer API.

    The method, the address, the key and the body.
    """
    genai = pytest.importorskip("google.genai", reason="the package google-genai is not installed")
    seen: list[tuple[object, ...]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        body = msgspec.json.decode(request.content) if request.content else None
        place, query = str(request.url).split("?")[0], dict(request.url.params)
        seen.append((request.method, place, query, request.headers["x-goog-api-key"], body))
        if request.url.path.endswith("/cancel"):
            return httpx.Response(200, json={"id": "v1_a", "status": "cancelled"})
        head = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=head, content=b"event: done\ndata: [DONE]\n\n")

    transport = httpx.Client(transport=httpx.MockTransport(answer))
    options: Any = {"api_version": "v1beta", "httpx_client": transport}
    interactions: Any = genai.Client(api_key="k", http_options=options).interactions
    schema: Any = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    text = {"type": "text", "text": "hi"}
    function = {"type": "function", "name": "now", "parameters": {"type": "object"}}
    made = interactions.create(
        model="gemini-3.5-flash",
        input=[{"type": "user_input", "content": [text]}],
        system_instruction="S",
        tools=[function],
        generation_config={
            "max_output_tokens": 5,
            "thinking_level": "low",
            "thinking_summaries": "auto",
            "tool_choice": {"allowed_tools": {"mode": "any", "tools": ["now"]}},
        },
        response_format={"type": "text", "mime_type": "application/json", "schema": schema},
        background=True,
        store=True,
        stream=True,
    )
    assert list(made) == []
    assert list(interactions.get(id="v1_a", stream=True, last_event_id="a==")) == []
    interactions.cancel(id="v1_a")

    provider = GeminiInteractions("gemini-3.5-flash", api_key="k")
    now = ToolMeta("now", "", {"type": "object"})
    sent = provider.request(
        Conversation((ASK,), "S"),
        (now,),
        Options(
            max_tokens=5,
            thinking="low",
            tool_choice=ToolChoice("tool", "now"),
            output=OutputFormat(schema),
            extra={"background": True},
        ),
    )
    decoder = provider.background_decoder()
    created = {"event_type": "interaction.created", "interaction": {"id": "v1_a"}}
    decoder.feed(b"data: " + msgspec.json.encode({**created, "event_id": "a=="}) + b"\n\n")
    ours = (sent, decoder.resume(sent), decoder.cancel(sent))
    assert [_shown(request) for request in ours if request] == seen


def _shown(request: HttpRequest) -> tuple[object, ...]:
    url = httpx.URL(request.url)
    body = msgspec.json.decode(request.body) if request.body else None
    key = request.headers["x-goog-api-key"]
    return request.method, request.url.split("?")[0], dict(url.params), key, body
