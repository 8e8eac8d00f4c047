"""A sixth protocol, added as its page describes, keeps the promises that the five keep."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import operators as ops

from rxworker.cli import main
from rxworker.errors import ConfigurationError, ProviderError, TruncatedError
from rxworker.events import Error, Opaque, ResponseStatus, Status
from rxworker.messages import Conversation, Message, StopKind, Thinking, ToolMeta
from rxworker.providers import PROVIDERS, Options, Provider
from rxworker.testing import ReplayServer, ServedResponse
from rxworker.transport import Client, Retry
from rxworker.views import summarise
from tests.decoded import cut, decoded

EXAMPLE = Path(__file__).parents[2] / "examples" / "provider" / "parrot.py"
ASK = Conversation((Message.user("hi"),), "Be brief.")
LINES: list[dict[str, Any]] = [
    {"say": "日本 "},
    {"say": "look"},
    {"do": {"id": "d1", "name": "look", "with": {"at": "sky"}}},
    {"do": {"id": "d2", "name": "now"}},
    {"end": "ok", "spent": [12, 7]},
]
NDJSON = "application/x-ndjson"


def body(*lines: Any) -> bytes:
    texts = (one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in lines)
    return "".join(text + "\n" for text in texts).encode()


WHOLE = body(*LINES)


@pytest.fixture(scope="module")
def page() -> Iterator[ModuleType]:
    """What the example defines."""
    module = ModuleType("the_sixth_provider")
    sys.modules[module.__name__] = module
    exec(compile(EXAMPLE.read_text(encoding="utf-8"), str(EXAMPLE), "exec", dont_inherit=True), module.__dict__)
    yield module
    del sys.modules[module.__name__]


@pytest.fixture(scope="module")
def parrot(page: ModuleType) -> Provider:
    provider: Provider = page.Parrot("grey", api_key="a-parrots-key")
    return provider


def test_it_decodes_what_was_sent(parrot: Provider) -> None:
    summary = summarise(decoded(parrot, WHOLE))
    assert summary.text == "日本 look"
    assert [(c.id, c.name, c.input) for c in summary.tool_calls] == [("d1", "look", {"at": "sky"}), ("d2", "now", {})]
    assert summary.stop_reason is not None
    assert (summary.stop_reason.kind, summary.stop_reason.raw) == (StopKind.TOOL_USE, "ok")
    assert summary.usage is not None
    counts = parrot.counts(summary.usage)
    assert (counts.input_tokens, counts.output_tokens) == (12, 7)


@pytest.mark.parametrize(
    ("raw", "kind"), [("ok", StopKind.END_TURN), ("full", StopKind.MAX_TOKENS), ("new", StopKind.OTHER)]
)
def test_each_reason_has_its_normal_form(parrot: Provider, raw: str, kind: StopKind) -> None:
    stop = summarise(decoded(parrot, body({"say": "a"}, {"end": raw}))).stop_reason
    assert stop is not None
    assert (stop.kind, stop.raw) == (kind, raw)


def test_byte_by_byte_it_emits_the_same(parrot: Provider) -> None:
    assert decoded(parrot, *cut(WHOLE)) == decoded(parrot, WHOLE)


@given(st.lists(st.integers(0, len(WHOLE)), max_size=20), st.integers(0, len(WHOLE)))
@settings(deadline=None, max_examples=50)
def test_under_any_cut_it_emits_the_same_and_ends_in_order(parrot: Provider, cuts: list[int], end: int) -> None:
    edges = [0, *sorted(cuts), len(WHOLE)]
    pieces = [WHOLE[a:b] for a, b in itertools.pairwise(edges)]
    assert decoded(parrot, *pieces) == decoded(parrot, WHOLE)
    early = decoded(parrot, WHOLE[:end])
    assert [type(event) for event in early].count(Error) == (early[-1] == Status(ResponseStatus.FAILED))


@pytest.mark.parametrize("strange", [{"mood": "good"}, {"say": 7}, [1], {"do": {"id": "d"}}, "squawk"])
def test_what_it_does_not_know_travels_on(parrot: Provider, strange: Any) -> None:
    events = decoded(parrot, body({"say": "a"}, strange, {"say": "b"}, {"end": "ok"}))
    assert [event.raw for event in events if isinstance(event, Opaque)] == [strange]
    assert summarise(events).text == "ab"


@pytest.mark.parametrize(
    ("lines", "code", "kind"),
    [
        ([{"say": "a"}, {"oops": {"message": "no", "code": "overloaded"}}], "overloaded", "overloaded"),
        ([{"oops": "no"}, {"oops": "again"}], None, "unknown"),
        ([{"say": "a"}, '{"say": "b', {"end": "ok"}], "bad_json", "server"),
        ([{"say": "a"}], "truncated", "truncated"),
        ([], "truncated", "truncated"),
    ],
)
def test_what_goes_wrong_is_reported_once(parrot: Provider, lines: list[Any], code: str | None, kind: str) -> None:
    events = decoded(parrot, body(*lines))
    errors = [event for event in events if isinstance(event, Error)]
    assert [(error.code, error.kind) for error in errors] == [(code, kind)]


def test_a_request_holds_the_conversation_and_the_key(parrot: Provider) -> None:
    foreign = Message("assistant", (Thinking("hm", "sig"),), provider="anthropic")
    tools = (ToolMeta("look", "", {"type": "object"}),)
    options = Options(max_tokens=5, extra={"pitch": "high"}, headers={"X-Cage": "1"})
    request = parrot.request(ASK.add(foreign), tools, options)
    assert request.url == "https://parrot.example.com/v1/say"
    assert request.headers["authorization"] == "Bearer a-parrots-key"
    assert request.headers["x-cage"] == "1"
    assert "a-parrots-key" not in repr(request)
    assert json.loads(request.body) == {
        "model": "grey",
        "turns": [{"who": "app", "say": "Be brief."}, {"who": "you", "say": "hi"}],
        "tools": [{"name": "look", "takes": {"type": "object"}}],
        "most": 5,
        "pitch": "high",
    }


def test_without_a_key_the_error_names_the_remedy(page: ModuleType) -> None:
    with pytest.raises(ConfigurationError, match="PARROT_API_KEY"):
        page.Parrot("grey").request(ASK, (), Options())


def test_an_answer_that_is_not_a_stream_is_explained(parrot: Provider) -> None:
    error = parrot.error(429, {"retry-after": "2"}, b'{"error": "a-parrots-key asks too often"}')
    assert (error.kind, error.retryable, error.retry_after) == ("rate_limit", True, 2.0)
    assert "a-parrots-key" not in error.message


async def test_it_answers_over_http(page: ModuleType) -> None:
    answers = [
        ServedResponse.from_frames([WHOLE], NDJSON, chunk=3),
        ServedResponse.from_frames([WHOLE], NDJSON, cut_at=30),
        ServedResponse.from_status(401, body={"error": "who are you?"}),
    ]
    async with ReplayServer(answers) as server:
        client = Client(page.Parrot("grey", base_url=server.base_url), retry=Retry(0))
        events = await client.stream(ASK).pipe(ops.to_list())
        assert summarise(events).text == "日本 look"
        with pytest.raises(Exception, match=r"broke|was cut") as broken:
            await client.stream(ASK).pipe(ops.to_list())
        with pytest.raises(ProviderError, match="who are you") as refused:
            await client.stream(ASK).pipe(ops.to_list())
    assert not isinstance(broken.value, TruncatedError)
    assert refused.value.kind == "authentication"


def test_the_command_line_finds_it_by_its_row(
    page: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PROVIDERS, "parrot", page.Parrot)
    path = tmp_path / "answer.ndjson"
    path.write_bytes(WHOLE)
    assert main(["decode", "parrot", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "日本 look"
