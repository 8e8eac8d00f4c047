"""What real services answer when they refuse, served over HTTP: an error that says who, what, and what to do."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from reactivex import operators as ops

from rxworker.errors import ProviderError
from rxworker.providers import PROVIDERS, Provider
from rxworker.testing import ReplayServer, ServedResponse
from rxworker.transport import Client, Retry

RECORDED = Path(__file__).parents[3] / "shared" / "recordings" / "http_errors.jsonl"
MakeProvider = Callable[[str], Provider]


def recorded() -> list[Any]:
    if not RECORDED.exists():
        absent = pytest.mark.skip(reason=f"no recordings: {RECORDED} is absent")
        return [pytest.param({}, marks=absent)]
    rows = [json.loads(line) for line in RECORDED.read_text().splitlines() if line.strip()]
    ours = [row for row in rows if row["provider"] in PROVIDERS]
    return [pytest.param(row, id=f"{n}-{row['host']}-{row['status']}") for n, row in enumerate(ours)]


def headers_of(row: Mapping[str, Any]) -> dict[str, str]:
    """The recorded headers, each of which is the text of a list."""
    kept = {name: ast.literal_eval(value)[0] for name, value in row["headers"].items()}
    return {name: value for name, value in kept.items() if "<" not in value}


async def refusal_of(provider: Provider) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await Client(provider, retry=Retry(retries=0)).stream("hi").pipe(ops.to_list())
    return caught.value


@pytest.mark.parametrize("row", recorded())
async def test_a_recorded_refusal_has_the_message_and_the_remedy(row: Mapping[str, Any]) -> None:
    headers = headers_of(row)
    answer = ServedResponse.from_status(row["status"], headers=headers, body=row["body"].encode())
    async with ReplayServer([answer]) as server:
        make: Any = PROVIDERS[row["provider"]]
        error = await refusal_of(make("a-model", base_url=server.base_url, api_key="sk-ours-123"))
    body = json.loads(row["body"])
    said = body.get("error", body)
    words = said if isinstance(said, str) else said.get("message") or said.get("detail")
    assert (error.status, error.retryable) == (row["status"], row["status"] == 429)
    assert error.kind != "unknown"
    assert f"{row['provider']} answered with HTTP {row['status']}" in str(error)
    assert words.split(".")[0].split(":")[0][:40] in str(error)
    assert " - " in str(error)  # what to do
    request_id = headers.get("request-id") or headers.get("x-request-id")
    if request_id:
        assert error.request_id == request_id
        assert request_id in str(error)
    assert "sk-" not in str(error)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (ServedResponse.from_html(status=502), "HTTP 502: 502 Bad Gateway"),
        (ServedResponse.from_html("<h1>Log in</h1>", status=200), "HTTP 200 and no stream: Log in"),
        (ServedResponse.from_json({"error": "no"}), "HTTP 200 and no stream: no"),
        (ServedResponse.from_json({"choices": []}), "HTTP 200 and no stream"),
        (ServedResponse.from_status(301, headers={"location": "https://x.invalid/"}), "HTTP 301"),
        (ServedResponse.from_status(500), "HTTP 500: the answer was empty"),
        (ServedResponse.from_status(418, body=b"\xff\xfe\x00"), "HTTP 418"),
        (ServedResponse.from_frames([b"{}"], "image/png"), "HTTP 200 and no stream"),
    ],
)
async def test_an_answer_that_is_not_a_stream_is_explained(
    make_provider: MakeProvider, answer: ServedResponse, says: str
) -> None:
    async with ReplayServer([answer]) as server:
        provider = make_provider(server.base_url)
        error = await refusal_of(provider)
    assert f"{provider.name} answered with {says}" in str(error)


async def test_garbage_is_an_error_of_the_providers(make_provider: MakeProvider) -> None:
    body = [b"data: {]\n\n", b"data: more\n\n"]
    async with ReplayServer([ServedResponse.from_frames(body)]) as server:
        error = await refusal_of(make_provider(server.base_url))
    assert "JSON that cannot be read" in str(error)
    assert error.retryable
