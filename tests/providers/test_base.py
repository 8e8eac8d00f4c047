"""No secret is shown: not in a repr, not by rich, not in a message."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from io import StringIO
from pprint import pformat
from typing import Any

import pytest
from rich.console import Console
from rich.pretty import pretty_repr
from rich.traceback import Traceback

from rxworker import Worker
from rxworker.errors import ConfigurationError
from rxworker.messages import Conversation, Message
from rxworker.providers import Anthropic, Gemini, Ollama, OpenAIChat, OpenAIResponses, Options
from rxworker.providers.base import HttpRequest, Request, hidden, hidden_url, is_secret
from rxworker.testing import ScriptedModel
from rxworker.transport import Client, HttpTransport

SECRET = "sk-very-secret-1"
ASKED = Conversation((Message.user("hi"),))
HEADERS = {
    "Authorization": f"Bearer {SECRET}",
    "X-API-KEY": SECRET,
    "cookie": SECRET,
    "Proxy-Authorization": SECRET,
    "X-Goog-Api-Key": SECRET,
    "x-amz-security-token": SECRET,
    "X-My-Token": SECRET,
    "x-plain": "plain",
}
EXTRA: Any = {
    "mcp_servers": [{"url": "https://a", "authorization_token": SECRET}],
    "tools": [{"type": "mcp", "headers": {"Authorization": SECRET}}],
    "max_output_tokens": 5,
    "plain": "shown",
}


def options() -> Options:
    return Options(max_tokens=7, headers=HEADERS, extra=EXTRA)


def providers() -> list[Any]:
    url = f"https://example.com/v1?key={SECRET}&alt=sse"
    return [
        Anthropic("m", api_key=SECRET, base_url=url),
        OpenAIChat("m", api_key=SECRET, base_url=url, headers=HEADERS),
        OpenAIResponses("m", api_key=SECRET, base_url=url, headers=HEADERS),
        Gemini("m", api_key=SECRET),
        Ollama("m", api_key=SECRET, base_url=url),
    ]


def things() -> dict[str, Any]:
    made: dict[str, Any] = {
        "options": options(),
        "request": Request(Conversation(), (), options()),
        "http request": HttpRequest(f"https://me:{SECRET}@a/v1?api_key={SECRET}", HEADERS, b"{}"),
        "transport": HttpTransport(),
        "worker": Worker(ScriptedModel(["hi"]), options=options()),
    }
    for provider in providers():
        name = type(provider).__name__
        made[name] = provider
        made[f"client of {name}"] = Client(provider)
        made[f"worker of {name}"] = Worker(provider, options=options())
        made[f"request of {name}"] = provider.request(ASKED, (), options())
    return made


SHOWN: dict[str, Callable[[Any], str]] = {
    "repr": repr,
    "str": str,
    "pprint": pformat,
    "rich": pretty_repr,
    "format": lambda thing: f"{thing} {thing!r} {[thing]!r}",
}


@pytest.mark.parametrize("how", list(SHOWN))
@pytest.mark.parametrize("name", list(things()))
def test_nothing_shows_a_secret(name: str, how: str) -> None:
    assert SECRET not in SHOWN[how](things()[name])


def test_what_is_not_a_secret_is_shown() -> None:
    text = repr(options())
    assert "'x-plain': 'plain'" in text
    assert "max_tokens=7" in text
    assert "'max_output_tokens': 5" in text
    assert "'plain': 'shown'" in text
    assert repr(Options()) == "Options()"
    assert repr(Options(stop_sequences=("a",))) == "Options(stop_sequences=('a',))"
    assert hidden_url("https://a/v1?alt=sse") == "https://a/v1?alt=sse"


def test_what_hides_changes_nothing() -> None:
    given = options()
    repr(given)
    assert given.headers == HEADERS
    assert given.extra == EXTRA
    assert hidden({"max_tokens": 5, "api_key": "k"}) == {"max_tokens": 5, "api_key": "***"}


@pytest.mark.parametrize("name", ["authorization", "AUTHORIZATION", "X-Api-Key", "Set-Cookie"])
def test_a_secret_is_known_by_its_name_in_any_case(name: str) -> None:
    assert is_secret(name)


def test_settings_of_the_wrong_kind_are_refused_without_showing_a_secret() -> None:
    wrong: Any = {"headers": HEADERS}
    with pytest.raises(ConfigurationError) as raised:
        Worker(ScriptedModel(["hi"]), options=wrong)
    assert SECRET not in "".join(traceback.format_exception(raised.value))


def test_a_traceback_with_the_local_variables_of_a_request_shows_no_header() -> None:
    request = Request(Conversation(), (), options())

    def fail(asked: Request) -> None:
        raise ValueError(asked.options.max_tokens)

    try:
        fail(request)
    except ValueError as error:
        shown = Traceback.from_exception(ValueError, error, error.__traceback__, show_locals=True)
        out = StringIO()
        Console(file=out, width=200).print(shown)
        assert SECRET not in out.getvalue()
        assert "max_tokens=7" in out.getvalue()
