"""Explicit caches of Gemini: when one is created, what is sent with it, and what happens where it is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as ops

from rxworker.errors import ConfigurationError, HttpStatusError, RxWorkerError, TransportError
from rxworker.messages import Conversation, Json, Message, ToolMeta
from rxworker.providers import Gemini, HttpRequest, OpenAIChat, Options, ToolChoice
from rxworker.providers.base import Provider
from rxworker.providers.models import MODELS
from rxworker.transport import Client, GeminiCacheTransport, Retry

SYSTEM = "Be careful. " * 2_000  # 24,000 bytes: about 6,000 tokens
LOOK = ToolMeta("look", "Look. " * 100, {"type": "object"})
FLASH = Gemini("gemini-3.8-flash", api_key="key-0123456789")


class Google:
    """A service with caches, which answers a request only with what it needs.

    The tools and the system text, or a cache of them.
    """

    def __init__(self) -> None:
        self.caches: dict[str, Any] = {}
        self.sent: list[HttpRequest] = []
        self.refusal: Exception | None = None
        self.lost = 403
        self.creating = asyncio.Event()
        self.gate: reactivex.Subject[bytes] | None = None

    def send(self, request: HttpRequest) -> Observable[bytes]:
        self.sent.append(request)
        body = json.loads(request.body)
        if request.url.partition("?")[0].endswith("/cachedContents"):
            if self.refusal is not None:
                return reactivex.throw(self.refusal)
            self.creating.set()
            name = f"cachedContents/{len(self.sent)}"
            self.caches[name] = body
            made = reactivex.of(b'{"name": "', f'{name}", "model": "m"}}'.encode())
            return made if self.gate is None else reactivex.concat(self.gate, made)
        name = body.get("cachedContent")
        if name is None:
            return reactivex.of(b"whole")
        if name not in self.caches:
            return reactivex.throw(status_error(self.lost, request.url))
        # https://ai.google.dev/gemini-api/docs/generate-content/caching: these must not be sent beside a cache
        assert body.keys().isdisjoint({"systemInstruction", "tools", "toolConfig"})
        assert body["contents"]
        return reactivex.of(b"cached")

    def paths(self) -> list[str]:
        return [request.url.rpartition("/")[2].partition("?")[0] for request in self.sent]


@pytest.fixture
def google() -> Google:
    return Google()


def status_error(status: int, url: str = "") -> HttpStatusError:
    return HttpStatusError(f"answered {status}", status=status, headers={}, body=b"{}", url=url)


def asked(*texts: str, system: str = SYSTEM, provider: Provider = FLASH, **options: Any) -> HttpRequest:
    roles = [Message.user, Message.assistant]
    messages = tuple(roles[at % 2](text) for at, text in enumerate(texts))
    return provider.request(Conversation(messages, system), (LOOK,), Options(**options))


async def answers(transport: GeminiCacheTransport, *requests: HttpRequest) -> list[str]:
    return [(await transport.send(each).pipe(ops.to_list()))[0].decode() for each in requests]


async def test_a_beginning_that_comes_again_gets_a_cache_which_later_requests_use(google: Google) -> None:
    transport = GeminiCacheTransport(google, ttl=600)
    several = [asked(text) for text in ("one", "two", "three")]
    assert await answers(transport, *several) == ["whole", "cached", "cached"]
    stream = "gemini-3.8-flash:streamGenerateContent"
    assert google.paths() == [stream, "cachedContents", stream, stream]
    whole, made, used, _ = (json.loads(each.body) for each in google.sent)
    assert made.pop("model") == "models/gemini-3.8-flash"
    assert made.pop("ttl") == "600s"
    assert used.pop("cachedContent") in google.caches
    assert {**made, **used} == json.loads(several[1].body)
    assert made == {name: whole[name] for name in made}
    assert google.sent[1].headers["x-goog-api-key"] == "key-0123456789"
    assert google.sent[1].headers["accept"] == "application/json"


LONG = "A document. " * 2_000
TOO_SHORT = "Be careful. " * 100
Rows = dict[str, tuple[list[HttpRequest], list[str]]]
ROWS: Rows = {
    "too short": ([asked(text, system=TOO_SHORT) for text in "ab"], ["whole", "whole"]),
    "less than half of the request": ([asked("x" * 60_000)] * 2, ["whole", "whole"]),
    "another beginning": ([asked("a"), asked("a", system=SYSTEM + ".")], ["whole", "whole"]),
    "another choice of tools": ([asked("a"), asked("a", tool_choice=ToolChoice("none"))], ["whole", "whole"]),
    "another key": ([asked("a"), asked("a", provider=Gemini("gemini-3.8-flash", api_key="other"))], ["whole", "whole"]),
    "another model": (
        [asked("a"), asked("a", provider=Gemini("gemini-3.6-flash", api_key="key-0123456789"))],
        ["whole", "whole"],
    ),
    "a cache of its own": ([asked("a"), asked("a", extra={"cachedContent": "cachedContents/mine"})], ["whole", "lost"]),
    "a model without explicit caches": (
        [asked("a", provider=Gemini("gemini-4-argon", api_key="k"))] * 2,
        ["whole", "whole"],
    ),
    "another protocol": ([asked("a", provider=OpenAIChat("gpt-5.4", api_key="k"))] * 2, ["whole", "whole"]),
    "a long first message": ([asked(LONG, "yes", "b"), asked(LONG, "yes", "b", "yes", "c")], ["whole", "cached"]),
    "other settings do not matter": ([asked("a"), asked("b", max_tokens=5, temperature=0.5)], ["whole", "cached"]),
    "no system text, but a long message": ([asked(LONG, "yes", text, system="") for text in "bc"], ["whole", "cached"]),
}


@pytest.mark.parametrize("name", ROWS)
async def test_a_cache_is_made_where_it_pays(name: str) -> None:
    requests, expected = ROWS[name]
    google = Google()
    transport = GeminiCacheTransport(google)
    found: list[str] = []
    for each in requests:
        try:
            found += await answers(transport, each)
        except HttpStatusError:
            found.append("lost")
    assert found == expected
    assert len(google.caches) == expected.count("cached")


async def test_a_long_first_message_is_in_the_cache_and_not_sent(google: Google) -> None:
    requests = [asked(LONG, "yes", "b"), asked(LONG, "yes", "b", "yes", "c")]
    await answers(GeminiCacheTransport(google), *requests)
    (made,) = google.caches.values()
    assert [each["role"] for each in made["contents"]] == ["user"]
    rest = json.loads(google.sent[-1].body)["contents"]
    assert made["contents"] + rest == json.loads(requests[1].body)["contents"]


@pytest.mark.parametrize("status", [400, 403, 404, 410])
async def test_a_request_whose_cache_is_lost_is_sent_whole_and_the_cache_made_again(
    status: int, google: Google
) -> None:
    google.lost = status
    transport = GeminiCacheTransport(google)
    one = asked("a")
    assert await answers(transport, one, one) == ["whole", "cached"]
    google.caches.clear()
    assert await answers(transport, one, one, one) == ["whole", "whole", "cached"]
    assert google.sent[4].body == one.body


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_another_failure_is_that_of_the_request(status: int, google: Google) -> None:
    google.lost = status
    transport = GeminiCacheTransport(google)
    await answers(transport, asked("a"), asked("a"))
    google.caches.clear()
    sent = len(google.sent)
    with pytest.raises(HttpStatusError) as caught:
        await answers(transport, asked("a"))
    assert caught.value.status == status
    assert len(google.sent) == sent + 1


@pytest.mark.parametrize("error", [status_error(400), status_error(429), TransportError("cut")])
async def test_where_no_cache_can_be_created_the_whole_request_is_sent(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not tried with each request, but again after the lifetime."""
    google, now = Google(), [0.0]
    google.refusal = error
    transport = GeminiCacheTransport(google, ttl=300, clock=lambda: now[0])
    one = asked("a")
    assert await answers(transport, *[one] * 4) == ["whole"] * 4
    assert google.paths().count("cachedContents") == 1
    assert "no cache was created" in caplog.text
    google.refusal, now[0] = None, 300.0
    assert await answers(transport, one, one) == ["whole", "cached"]


async def test_a_cache_is_not_used_when_it_is_about_to_end() -> None:
    google, now = Google(), [0.0]
    transport = GeminiCacheTransport(google, ttl=300, clock=lambda: now[0])
    one = asked("a")
    for at, expected in ((0, "whole"), (1, "cached"), (290, "cached"), (296, "whole")):
        now[0] = at
        assert await answers(transport, one) == [expected], at
    assert await answers(transport, one) == ["cached"]
    assert len(google.caches) == 2


async def test_of_two_requests_at_once_one_creates_the_cache(google: Google) -> None:
    transport = GeminiCacheTransport(google)
    await answers(transport, asked("a"))
    google.gate = reactivex.Subject()
    first = asyncio.ensure_future(answers(transport, asked("b")))
    await google.creating.wait()
    assert await answers(transport, asked("c")) == ["whole"]
    google.gate.on_completed()
    assert await first == ["cached"]
    assert len(google.caches) == 1


async def test_a_request_that_is_disposed_while_its_cache_is_created_is_not_sent(google: Google) -> None:
    transport = GeminiCacheTransport(google)
    await answers(transport, asked("a"))
    google.gate = reactivex.Subject()
    got: list[bytes] = []
    following = transport.send(asked("b")).subscribe(got.append)
    await google.creating.wait()
    following.dispose()
    await asyncio.sleep(0)
    google.gate.on_completed()
    assert await answers(transport, asked("c")) == ["whole"]
    assert got == []
    assert len(google.sent) == 3


async def test_at_vertex_a_cache_is_in_the_place_of_the_model(google: Google) -> None:
    vertex = Gemini("gemini-3.8-flash", project="mine", location="us-east1", access_token="t")
    await answers(GeminiCacheTransport(google), *[asked("a", provider=vertex)] * 2)
    place = "projects/mine/locations/us-east1"
    assert google.sent[1].url.endswith(f"/v1/{place}/cachedContents")
    model = json.loads(google.sent[1].body)["model"]
    assert model == f"{place}/publishers/google/models/gemini-3.8-flash"


async def test_a_client_works_as_without_it() -> None:
    """With a key from a function, which is added before the transport has the request."""

    async def key() -> str:
        return "late-key"

    google = Google()
    provider = Gemini("gemini-3.8-flash", api_key=key)
    client = Client(provider, transport=GeminiCacheTransport(google), retry=Retry(retries=0))
    for text in ("a", "b"):
        conversation = Conversation((Message.user(text),), SYSTEM)
        with pytest.raises(RxWorkerError):  # the answers of this service are not events
            await client.stream(conversation).pipe(ops.to_list())
    assert [each.headers["x-goog-api-key"] for each in google.sent] == ["late-key"] * 3
    assert "late-key" not in repr(client.transport)


def test_each_model_with_explicit_caches_has_a_least_length() -> None:
    rows = [row for row in MODELS if row.caching == "explicit"]
    assert rows
    assert all(row.cache_least and row.vendor == "gemini" for row in rows)


@pytest.mark.parametrize("ttl", [0, 5, -1, True, "300s"])
def test_a_lifetime_that_cannot_be_right_is_refused(ttl: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"GeminiCacheTransport\(ttl\)"):
        GeminiCacheTransport(ttl=ttl)


def sent_by_sdk(create: Callable[[Any, Any], None]) -> tuple[str, Json]:
    """What the official client sends, caught before it leaves."""
    genai: Any = pytest.importorskip("google.genai", reason="google-genai is not installed")
    client = genai.Client(api_key="key-0123456789", http_options={"api_version": "v1beta"})
    caught: list[tuple[str, Json]] = []

    class CaughtError(Exception):
        pass

    def request(request: Any, *_: Any, **__: Any) -> None:
        caught.append((request.url, request.data))
        raise CaughtError

    client._api_client._request = request
    with pytest.raises(CaughtError):
        create(client, genai.types)
    return caught[0]


async def test_the_official_client_creates_the_same_cache(google: Google) -> None:
    await answers(GeminiCacheTransport(google, ttl=300), *[asked(LONG, "yes", "b")] * 2)
    ours = google.sent[1]

    def create(client: Any, types: Any) -> None:
        function = {"name": "look", "description": LOOK.description, "parameters_json_schema": LOOK.input_schema}
        config = types.CreateCachedContentConfig(
            ttl="300s",
            system_instruction=SYSTEM,
            tools=[types.Tool(function_declarations=[function])],
            contents=[types.Content(role="user", parts=[types.Part(text=LONG)])],
        )
        client.caches.create(model="gemini-3.8-flash", config=config)

    url, body = sent_by_sdk(create)
    assert ours.url == url
    known: Any = json.loads(ours.body)
    made: Any = body
    # The client leaves a function of a cache in the words of Python.
    (theirs,) = made["tools"][0]["functionDeclarations"]
    theirs["parametersJsonSchema"] = theirs.pop("parameters_json_schema")
    assert made == known
